"""The roaming field as published, topologies with vehicles, and the replay of a movement file."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from emulation.errors import ScenarioError
from emulation.mobility import movement_file
from emulation.scenario.connectivity import partitions
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.topo import Topo
from testbed.app import app
from tests.connectivity import connected_pairs, connected_share
from topologies.catalog import make_scenario, topology_names, topology_parameters

VEHICLES = ["freeway", "manhattan"]


def scenario_of(topology: str, seed: int = 1, duration: float = 60.0, **values: Any) -> Scenario:
    return make_scenario(topology, "broker-gpsr-map", seed=seed, duration=duration, settings=values)


@pytest.mark.parametrize(
    ("topology", "topics", "publishers", "subscribers", "size"),
    [("freeway", 2, 1, 9, 512), ("manhattan", 6, 2, 5, 1024)],
)
def test_defaults_are_the_papers_table(
    topology: str, topics: int, publishers: int, subscribers: int, size: int
) -> None:
    scenario = scenario_of(topology, duration=900.0)
    assert len(scenario.nodes) == 60
    assert scenario.radio.range == 250.0
    wanted = Counter(o.filter[0][2] for o in scenario.workload if o.action == "subscribe")
    names = sorted(str(topic).partition("-")[0] for topic in wanted)
    assert names == [f"topic{n + 1}" for n in range(topics)]
    assert set(wanted.values()) == {subscribers}
    events = [o for o in scenario.workload if o.action == "publish"]
    assert {o.size for o in events} == {size}
    sources = Counter((o.node, o.event["topic"]) for o in events)
    assert len(sources) == topics * publishers
    assert all(88 <= number <= 90 for number in sources.values())  # each 10 s for 889 s


PUBLISHED = {"nodes": "200", "side": "2000", "speed": "2"}
"""Of `roaming_field`: 200 dispatchers, 2 km, 2 m/s."""


def test_the_roaming_field_is_as_published() -> None:
    def made(**settings: str) -> Scenario:
        return make_scenario(
            "roaming_field", "flooding", seed=1, duration=300.0, settings={**settings, "topics": 0}
        )

    scenario = made(**PUBLISHED)
    assert len(scenario.nodes) == 200
    assert scenario.area == (0.0, 0.0, 2000.0, 2000.0)
    assert scenario.radio.range == 250.0
    for node in scenario.nodes:
        for one, other in itertools.pairwise(node.waypoints):
            way = math.hypot(other.x - one.x, other.y - one.y)
            assert way == pytest.approx(2.0 * (other.time - one.time), rel=1e-6)
            assert (np.array((other.x, other.y)) >= 0.0).all()
            assert (np.array((other.x, other.y)) <= 2000.0).all()
    defaults = made(nodes="200")
    assert defaults.nodes == scenario.nodes
    assert defaults.radio == scenario.radio


def test_how_connected_the_roaming_field_stays() -> None:
    """What the topology's docstring says, by fewer seeds."""
    pairs: dict[int, list[float]] = {0: [], 60: [], 450: [], 1800: []}
    for seed in range(1, 13):
        scenario = make_scenario(
            "roaming_field",
            "flooding",
            seed=seed,
            duration=1800.0,
            settings={**PUBLISHED, "topics": 0},
        )
        trace = scenario.trace()
        for time, found in pairs.items():
            sizes = partitions(scenario.radio, trace.positions(float(time)))
            found.append(sum(size * (size - 1) for size in sizes) / (200 * 199))
    assert pairs[0] == [1.0] * 12
    assert np.mean(pairs[60]) == pytest.approx(0.997, abs=0.01)
    assert np.mean(pairs[450]) == pytest.approx(0.966, abs=0.03)
    assert np.mean(pairs[1800]) == pytest.approx(0.982, abs=0.03)


@pytest.mark.parametrize("topology", VEHICLES)
def test_vehicles_are_mostly_connected(topology: str) -> None:
    shares = [connected_pairs(scenario_of(topology, seed=seed), samples=5) for seed in (1, 2, 3)]
    assert sum(shares) / 3 > 0.9


@pytest.mark.parametrize(
    ("topology", "values", "void"),
    [
        ("freeway", {"one_way": "true"}, 0.56),
        ("manhattan", {"margin": "450"}, 0.58),
        ("manhattan", {"blocks": "1"}, 0.54),
        ("manhattan", {}, 0.0),
    ],
)
def test_how_much_of_the_map_is_void(topology: str, values: dict[str, Any], void: float) -> None:
    """What the topologies' docstrings say of their maps: topics hash uniformly to the area."""
    scenario = scenario_of(topology, waypoint_spacing="5", **values)
    x0, y0, x1, y1 = scenario.area
    streets = np.array(scenario.road_map)
    positions = np.random.default_rng(1).uniform((x0, y0), (x1, y1), (2000, 2))
    gaps = np.concatenate(
        [np.hypot(*(part[:, None] - streets).transpose(2, 0, 1)).min(axis=1)
         for part in np.split(positions, 20)]
    )  # fmt: skip
    assert (gaps > 125.0).mean() == pytest.approx(void, abs=0.035)
    shares = [connected_pairs(scenario_of(topology, seed=seed, **values), 5) for seed in (1, 2, 3)]
    assert sum(shares) / 3 > 0.85


@pytest.mark.parametrize("topology", VEHICLES)
def test_all_nodes_have_the_road_map(topology: str) -> None:
    scenario = scenario_of(topology)
    x0, y0, x1, y1 = scenario.area
    waypoints = np.array(scenario.environment().waypoints)
    assert ((waypoints >= (x0, y0)) & (waypoints <= (x1, y1))).all()
    for moment in (0.0, 17.3, 60.0):  # vehicles are on the roads of the map
        positions = scenario.trace().positions(moment)
        gaps = np.hypot(*(positions[:, None] - waypoints).transpose(2, 0, 1)).min(axis=1)
        assert gaps.max() < 25 + 10  # half the spacing, lanes aside
    assert Scenario.model_validate_json(scenario.model_dump_json()) == scenario
    sparse = scenario_of(topology, waypoint_spacing="1000")
    assert 0 < len(sparse.road_map) < len(scenario.road_map)


@pytest.mark.parametrize("topology", VEHICLES)
def test_the_seed_decides(topology: str) -> None:
    one, again, other = (scenario_of(topology, seed=seed).nodes for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("topology", VEHICLES)
def test_speed_zero_stands_still(topology: str) -> None:
    scenario = scenario_of(topology, speed="0")
    first, last = (scenario.trace().positions(moment) for moment in (0.0, 60.0))
    assert (first == last).all()


@pytest.mark.parametrize(
    ("topology", "values", "told"),
    [
        ("freeway", {"roads": "20", "lanes": "8", "side": "200"}, "lower roads or lanes"),
        ("manhattan", {"blocks": "100", "side": "500"}, "lower blocks or raise side"),
        ("manhattan", {"lanes": "8", "blocks": "10"}, "lower lanes or margin"),
        ("manhattan", {"margin": "-1"}, "margin: -1 is below 0"),
        ("manhattan", {"slowest": "2"}, "slowest"),
        ("freeway", {"waypoint_spacing": "0"}, "waypoint_spacing"),
        ("movement_trace", {}, "--set file=FILE"),
        ("contact_trace", {}, "--set file=FILE"),
        ("contact_trace", {"file": "/nonexistent/c"}, "cannot read /nonexistent/c"),
        ("movement_trace", {"file": "/nonexistent/m.tcl"}, "cannot read /nonexistent/m.tcl"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    topology: str, values: dict[str, Any], told: str
) -> None:
    with pytest.raises(ScenarioError, match=told) as error:
        scenario_of(topology, **values)
    assert "\n" not in str(error.value)


class Town(Topo):
    """Vehicles in Mininet-WiFi's words."""

    def build(self, **parameters: object) -> None:
        self.setMobilityModel(str(parameters["model"]), max_x=500, max_y=500, max_v=10, blocks=2)
        self.addStation("car1", position="100,90")
        self.addStation("car2", position="400,300")


@pytest.mark.parametrize("model", ["Freeway", "Manhattan"])
def test_stations_with_positions_start_at_the_nearest_lane(model: str) -> None:
    scenario = Town(1, 30.0, {"model": model}).scenario(ProtocolSpec(name="flooding"))
    assert scenario.area == (0, 0, 500, 500)
    assert scenario.road_map
    starts = scenario.trace().positions(0.0)
    distances = np.hypot(*(starts - [(100, 90), (400, 300)]).T)
    assert (distances < (200 if model == "Freeway" else 130)).all()
    assert (scenario.trace().positions(30.0) != starts).any(axis=1).all()


def test_mobility_models_are_known_by_name() -> None:
    topo = Topo(1, 10.0, {})
    with pytest.raises(ScenarioError, match="RandomWayPoint, Freeway, Manhattan"):
        topo.setMobilityModel("Teleport")
    with pytest.raises(ScenarioError, match="minimum speed"):
        topo.setMobilityModel("Freeway", min_v=3, max_v=2, max_x=500, max_y=500)
    with pytest.raises(ScenarioError, match="mobility model before"):
        topo.addStations(3)


def test_random_waypoints_are_what_they_always_were() -> None:
    """Runs that were made with a seed can be made again."""
    settings = {"nodes": "50", "pause": "3"}
    nodes = make_scenario(
        "roaming_field", "flooding", seed=3, duration=40.0, settings=settings
    ).nodes
    assert nodes[0].waypoints[0] == pytest.approx((0.0, 606.9117426543775, 700.4003116615537))
    assert nodes[0].waypoints[1] == pytest.approx(
        (298.25392333115843, 565.8863727074236, 105.3049158211643)
    )
    assert nodes[-1].waypoints[-1] == pytest.approx(
        (337.31936105221246, 291.0808964817786, 414.15619923918035)
    )


def test_pairs_of_a_network_in_parts() -> None:
    topo = Topo(1, 10.0, {})
    topo.radio = topo.radio.model_copy(update={"range": 50.0})
    for number, x in enumerate((0, 40, 80, 500, 540), start=1):
        topo.addStation(f"sta{number}", position=(x, 0))
    assert partitions(topo.radio, list(topo._stations.values())) == [3, 2]
    scenario = topo.scenario(ProtocolSpec(name="flooding"))
    assert connected_pairs(scenario) == (3 * 2 + 2 * 1) / (5 * 4)
    assert connected_share(scenario) == 0.0


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "topology", sorted(set(topology_names()) - {"movement_trace", "contact_trace"})
)
def test_an_exported_trace_can_be_replayed(topology: str, tmp_path: Path) -> None:
    out = tmp_path / "m.tcl"
    fewer = ["--nodes", "12"] if topology in {*VEHICLES, "roaming_field"} else []
    code, said = run("export-trace", topology, *fewer, "--duration", "30", "--out", str(out))
    assert code == 0, said
    original = make_scenario(
        topology,
        "flooding",
        seed=1,
        duration=30.0,
        settings={"nodes": 12} if fewer else {},
    )
    again = make_scenario(
        "movement_trace",
        "flooding",
        seed=5,
        duration=30.0,
        settings={"file": str(out), "range": "300"},
    )
    assert [node.id for node in again.nodes] == [node.id for node in original.nodes]
    for moment in np.linspace(0, 30, 41):
        np.testing.assert_allclose(
            again.trace().positions(moment), original.trace().positions(moment), atol=1e-6
        )
    x0, y0, x1, y1 = again.area
    assert original.area[0] <= x0 < x1 <= original.area[2]
    assert original.area[1] <= y0 < y1 <= original.area[3]
    assert again.workload
    assert f"# {topology}, seed 1, 30 s" in out.read_text()


def test_a_part_of_a_file_can_be_replayed(tmp_path: Path) -> None:
    out = tmp_path / "m.tcl"
    assert run("export-trace", "manhattan", "--duration", "20", "--out", str(out))[0] == 0
    values = {"file": str(out), "nodes": 10, "topics": "0"}
    scenario = make_scenario("movement_trace", "flooding", seed=1, duration=20.0, settings=values)
    assert len(scenario.nodes) == 10
    assert [node.waypoints for node in scenario.nodes] == movement_file.trajectories(out)[:10]


def test_export_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    code, said = run("export-trace", "freeway", "--out", str(tmp_path / "no" / "m.tcl"))
    assert (code, "cannot write" in said) == (1, True)
    code, _ = run("export-trace", "moon", "--out", str(tmp_path / "m.tcl"))
    assert code == 2


@pytest.mark.parametrize("topology", [*VEHICLES, "movement_trace"])
def test_parameters_have_units(topology: str) -> None:
    assert all(parameter.help for parameter in topology_parameters(topology))

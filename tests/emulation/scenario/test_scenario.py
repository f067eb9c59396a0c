import json
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from emulation.errors import ScenarioError
from emulation.mobility.trajectory import Trace, Waypoint
from emulation.radio.spec import RadioSpec
from emulation.scenario.access_point import AccessPointSpec, AssociationSpec
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.workloads.base import Operation
from topologies.catalog import make_scenario

coordinate = st.floats(-1e5, 1e5)


@st.composite
def trajectories(draw: st.DrawFn) -> tuple[Waypoint, ...]:
    gaps = draw(st.lists(st.floats(0.01, 50), min_size=1, max_size=5))
    times = np.cumsum([0.0, *gaps[1:]])
    return tuple(Waypoint(float(t), draw(coordinate), draw(coordinate)) for t in times)


def scenario(**changes: object) -> Scenario:
    values: dict[str, object] = {
        "topology": "two",
        "protocol": ProtocolSpec(name="flooding", parameters={"jitter": 0.01}),
        "seed": 7,
        "duration": 20.0,
        "area": (0.0, 0.0, 100.0, 100.0),
        "radio": RadioSpec(range=50.0),
        "nodes": (
            NodeSpec(id=1, name="sta1", waypoints=(Waypoint(0, 1, 2), Waypoint(10, 5, 5))),
            NodeSpec(id=2, name="sta2", waypoints=(Waypoint(0, 9, 9),)),
        ),
        "workload": (
            Operation(
                time=1, node=1, action="subscribe", subscription=1, filter=(("a", ">", 1.5),)
            ),
            Operation(time=3, node=2, action="publish", sequence=1, event={"a": 2, "b": "x"}),
        ),
    }
    return Scenario.model_validate(values | changes)


def test_json_round_trip(tmp_path: Path) -> None:
    original = scenario()
    original.save(tmp_path / "scenario.json")
    assert Scenario.load(tmp_path / "scenario.json") == original


@given(st.lists(trajectories(), min_size=1, max_size=4))
def test_trajectories_survive_json(tracks: list[tuple[Waypoint, ...]]) -> None:
    nodes = tuple(
        NodeSpec(id=number, name=f"n{number}", waypoints=track)
        for number, track in enumerate(tracks, start=1)
    )
    original = scenario(nodes=nodes, workload=())
    assert Scenario.model_validate_json(original.model_dump_json()) == original


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"format": 99}'])
def test_a_file_that_is_no_scenario_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text)
    with pytest.raises(ScenarioError) as error:
        Scenario.load(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        Scenario.load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": ()},
        {"duration": 0},
        {"seed": -1},
        {"workload": (Operation(time=1, node=99, action="publish", sequence=1),)},
        {
            "workload": tuple(
                Operation(time=time, node=1, action="publish", sequence=1) for time in (1, 2)
            )
        },
        {
            "nodes": (
                NodeSpec(id=1, name="a", waypoints=(Waypoint(0, 0, 0),)),
                NodeSpec(id=1, name="b", waypoints=(Waypoint(0, 0, 0),)),
            )
        },
    ],
)
def test_inconsistent_scenarios_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"validation error"):
        scenario(**changes)


def test_addresses_follow_from_the_id() -> None:
    node = NodeSpec(id=258, name="sta258", waypoints=(Waypoint(0, 0, 0),))
    assert (node.address, node.mac, node.interface) == (
        "10.0.1.2",
        "02:00:00:00:01:02",
        "sta258-wlan0",
    )


def test_trace_interpolates_and_holds_at_both_ends() -> None:
    trace = Trace(
        [(Waypoint(2, 0, 0), Waypoint(4, 10, 20), Waypoint(6, 10, 20)), (Waypoint(0, 7, 8),)]
    )
    assert trace.moving
    assert trace.positions(0).tolist() == [[0, 0], [7, 8]]
    assert trace.positions(3).tolist() == [[5, 10], [7, 8]]
    assert trace.positions(99).tolist() == [[10, 20], [7, 8]]
    assert trace.velocity(0, 3) == (5, 10)
    assert trace.velocity(0, 5) == (0, 0)
    assert trace.velocity(0, 1) == trace.velocity(0, 99) == trace.velocity(1, 3) == (0, 0)


@given(trajectories(), st.floats(0, 200))
def test_trace_stays_within_the_box_of_its_waypoints(
    track: tuple[Waypoint, ...], time: float
) -> None:
    x, y = Trace([track]).positions(time)[0]
    assert min(p.x for p in track) - 1e-6 <= x <= max(p.x for p in track) + 1e-6
    assert min(p.y for p in track) - 1e-6 <= y <= max(p.y for p in track) + 1e-6


@given(st.lists(trajectories(), min_size=1, max_size=6), st.lists(st.floats(-10, 300), min_size=1))
def test_positions_are_numpys_interpolation(
    tracks: list[tuple[Waypoint, ...]], times: list[float]
) -> None:
    """Whatever the order of times: what is remembered between them is not seen."""
    trace = Trace(tracks)
    times += [point.time for track in tracks for point in track]
    for time in times:
        expected = [
            [np.interp(time, *np.array(track)[:, [0, axis]].T) for axis in (1, 2)]
            for track in tracks
        ]
        np.testing.assert_allclose(trace.positions(time), expected, rtol=1e-12, atol=1e-9)
        assert (Trace(tracks).positions(time) == trace.positions(time)).all()
        for node in range(len(tracks)):
            assert trace.position(node, time) == tuple(trace.positions(time)[node])


@given(trajectories(), st.floats(0, 200))
def test_velocity_is_how_the_position_changes(track: tuple[Waypoint, ...], time: float) -> None:
    trace = Trace([track])
    step = 1e-4
    ends = [point.time for point in track]
    if any(time - step <= end <= time + 2 * step for end in ends):
        return
    (x0, y0), (x1, y1) = trace.position(0, time), trace.position(0, time + step)
    assert trace.velocity(0, time) == pytest.approx(
        ((x1 - x0) / step, (y1 - y0) / step), rel=1e-4, abs=1e-3
    )


def test_a_node_jumps_if_two_waypoints_have_one_time() -> None:
    trace = Trace([(Waypoint(0, 0, 0), Waypoint(5, 10, 0), Waypoint(5, 90, 0), Waypoint(7, 90, 4))])
    assert trace.position(0, 4.5) == (9, 0)
    assert trace.positions(5).tolist() == [[90, 0]]
    assert trace.velocity(0, 5) == (0, 2)
    assert trace.positions(4.5).tolist() == [[9, 0]]


def test_the_road_map_is_part_of_the_environment_and_of_the_file(tmp_path: Path) -> None:
    assert scenario().environment().waypoints == ()
    mapped = scenario(road_map=((0.0, 1.0), (2.5, 3.0)))
    assert mapped.environment().waypoints == ((0.0, 1.0), (2.5, 3.0))
    mapped.save(tmp_path / "scenario.json")
    assert Scenario.load(tmp_path / "scenario.json") == mapped
    with pytest.raises(ValueError, match="road_map"):
        scenario(road_map=((0.0, float("nan")),))


def test_thousands_of_nodes_are_evaluated_together() -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.uniform(1, 20, (3000, 40)), axis=1)
    tracks = [
        tuple(Waypoint(float(t), float(x), float(y)) for t, x, y in zip(*columns, strict=True))
        for columns in zip(times, *rng.uniform(0, 5000, (2, 3000, 40)), strict=True)
    ]
    trace = Trace(tracks)
    trace.positions(0.0)
    began = process_time()
    for moment in np.arange(0, 100, 1.0):
        trace.positions(moment)
    together = process_time() - began
    began = process_time()
    columns = [np.array(track) for track in tracks]
    expected = [[np.interp(99.0, c[:, 0], c[:, axis]) for axis in (1, 2)] for c in columns]
    each = process_time() - began
    np.testing.assert_allclose(trace.positions(99.0), expected, atol=1e-9)
    assert together / 100 < each / 5


def mesh(**changes: object) -> Scenario:
    stands = (Waypoint(0, 0, 0),)
    parts: dict[str, object] = {
        "nodes": (
            NodeSpec(id=1, name="br1", waypoints=stands, device="eth0"),
            NodeSpec(id=2, name="sta1", waypoints=stands),
        ),
        "access_points": (AccessPointSpec(id=1, name="ap1", position=(0, 0), broker=1),),
        "mesh_radio": RadioSpec(range=420),
        "association": AssociationSpec(hysteresis_db=3, scan_interval=0.5),
        "workload": (),
    }
    return scenario(**(parts | changes))


def test_a_scenario_with_access_points_survives_the_round_trip(tmp_path: Path) -> None:
    before = mesh()
    before.save(tmp_path / "s.json")
    assert Scenario.load(tmp_path / "s.json") == before
    broker, station = before.nodes
    assert (broker.interface, station.interface) == ("br1-eth0", "sta1-wlan0")
    assert before.stations == (station,)
    (point,) = before.access_points
    addresses = {point.bssid, point.mesh_mac, broker.mac, station.mac}
    assert len(addresses) == 4
    assert [point.port(each) for each in ("wlan0", "mesh0", "eth0")] == [
        "ap1-wlan0",
        "ap1-mesh0",
        "ap1-eth0",
    ]


def test_scenarios_from_before_access_points_load(tmp_path: Path) -> None:
    old = scenario()
    content = old.model_dump(mode="json")
    for key in ("access_points", "mesh_radio", "association"):
        del content[key]
    for node in content["nodes"]:
        del node["device"]
    (tmp_path / "old.json").write_text(json.dumps(content))
    assert Scenario.load(tmp_path / "old.json") == old


def _point(number: int = 1, broker: int = 1, name: str = "ap1") -> AccessPointSpec:
    return AccessPointSpec(id=number, name=name, position=(0, 0), broker=broker)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mesh_radio": None}, "access points and a mesh_radio go together"),
        ({"access_points": ()}, "access points and a mesh_radio go together"),
        ({"access_points": (), "mesh_radio": None}, "needs a broker of its own"),
        ({"access_points": (_point(broker=2),)}, "needs a broker of its own"),
        ({"access_points": (_point(broker=9),)}, "needs a broker of its own"),
        ({"access_points": (_point(), _point(2, name="ap2"))}, "needs a broker of its own"),
        ({"access_points": (_point(), _point(name="ap2"))}, "two access points share an id"),
        ({"access_points": (_point(name="sta1"),)}, "share a name"),
        (
            {
                "nodes": (
                    NodeSpec(
                        id=1,
                        name="br1",
                        device="eth0",
                        waypoints=(Waypoint(0, 0, 0), Waypoint(1, 1, 0)),
                    ),
                )
            },
            "br1 is wired to an access point and cannot move",
        ),
    ],
)
def test_access_points_that_do_not_fit_are_refused_in_one_line(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        mesh(**changes)
    content = mesh().model_dump(mode="json") | TypeAdapter(dict[str, Any]).dump_python(
        changes, mode="json"
    )
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(ScenarioError, match=message) as caught:
        Scenario.load(tmp_path / "s.json")
    assert "\n" not in str(caught.value)


def test_a_scenario_that_is_no_text_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_bytes(b'{"topology": "\xff"}')
    with pytest.raises(ScenarioError, match="is not a scenario: scenario: not JSON"):
        Scenario.load(path)


def test_a_scenario_up_to_a_time_is_what_was_done_until_then() -> None:
    scenario = make_scenario(
        "roaming_field",
        "flooding",
        seed=1,
        duration=60,
        settings={"faults": "crash sta1 at 5 for 30; crash sta2 at 40"},
    )
    early = scenario.until(20.0)
    assert early.duration == 20.0
    assert [fault.start for fault in early.faults] == [5.0]
    assert early.workload == tuple(done for done in scenario.workload if done.time <= 20.0)
    assert 0 < len(early.workload) < len(scenario.workload)
    assert scenario.until(60.0) is scenario

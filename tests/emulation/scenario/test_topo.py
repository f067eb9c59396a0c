import math
import random
from typing import Any

import pytest

from emulation.errors import ScenarioError
from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.radio.medium import Medium
from emulation.radio.spec import (
    PROPAGATION_MODELS,
    Friis,
    LogDistance,
    Propagation,
    RadioSpec,
    Shadowing,
    TwoRayGround,
    UnitDisk,
)
from emulation.scenario.connectivity import connected
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.topo import Topo
from tests.connectivity import connected_share
from tests.pages import example
from topologies.catalog import make_scenario, topology_names, topology_parameters


def roaming(**settings: object) -> Scenario:
    return make_scenario("roaming_field", "flooding", seed=3, duration=40.0, settings=settings)


class Pair(Topo):
    """Two stations."""

    def build(self, **_parameters: object) -> None:
        self.addStation("sta1", position="10,20,0")
        self.addStation("sta2", position=(30, 20))
        self.setPropagationModel("logNormalShadowing", exp=3.5, variance=6)


def test_a_topology_in_mininet_wifis_words() -> None:
    scenario = Pair(seed=1, duration=10.0).scenario(ProtocolSpec(name="flooding"))
    assert scenario.topology == "test_topo", "the name of its file"
    assert [(n.id, n.name) for n in scenario.nodes] == [(1, "sta1"), (2, "sta2")]
    assert scenario.trace().positions(5).tolist() == [[10, 20], [30, 20]]
    assert scenario.area == (10, 19.5, 30, 20.5)
    assert scenario.radio.propagation == Shadowing(exponent=3.5, sigma_db=6)


def test_a_topology_may_say_what_fails() -> None:
    class Failing(Pair):
        def build(self, **_parameters: object) -> None:
            super().build()
            self.addFault("crash sta2 at 3 for 4")

    scenario = Failing(seed=1, duration=10.0).scenario(ProtocolSpec(name="flooding"))
    (fault,) = scenario.faults
    assert (fault.kind, fault.nodes, fault.start, fault.end) == ("crash", ("sta2",), 3.0, 7.0)


@pytest.mark.parametrize(
    ("model", "spec"),
    [
        ("twoRayGround", TwoRayGround(antenna_height=2.5)),
        ("friis", Friis(system_loss_db=1.5)),
        ("logDistance", LogDistance(exponent=3.5)),
        ("logNormalShadowing", Shadowing(exponent=3.5, sigma_db=6)),
        ("unitDisk", UnitDisk()),
    ],
)
def test_every_propagation_model_takes_what_it_needs(model: str, spec: Propagation) -> None:
    topo = Topo(1, 1.0, {})
    topo.setPropagationModel(model, exp=3.5, sL=1.5, variance=6, antennaHeight=2.5)
    assert topo.radio.propagation == spec
    assert len(PROPAGATION_MODELS) == 5


def test_keywords_that_no_mobility_model_takes_are_refused() -> None:
    topo = Topo(1, 1.0, {})
    with pytest.raises(ScenarioError, match="RandomWayPoint takes no 'beta'; it takes pause"):
        topo.setMobilityModel("RandomWayPoint", beta=0.5)
    # What one of the models takes may stand in a call for another, as in Mininet-WiFi.
    topo.setMobilityModel("RandomWayPoint", lanes=3, pause=2)
    assert topo.mobility == RandomWaypoint((0, 0, 100, 100), 1, 1, pause=2)


@pytest.mark.parametrize("position", ["10", "a,b", (), "nan,5", (1, 2, 3, 4)])
def test_a_position_that_is_none_is_refused(position: str) -> None:
    topo = Topo(1, 1.0, {})
    with pytest.raises(ScenarioError, match="x,y"):
        topo.addStation("sta1", position=position)


def test_a_station_outside_the_area_is_refused() -> None:
    topo = Topo(1, 1.0, {})
    topo.setMobilityModel("RandomWayPoint", min_x=-50, max_x=200, max_y=100)
    topo.addStation("sta1", position="-50,100")
    topo.scenario(ProtocolSpec(name="georendezvous"))
    topo.addStation("sta2", position="201,10")
    why = r"sta2 starts at 201,10, outside the area -50,0 to 200,100 m: move it inside, or widen"
    with pytest.raises(ScenarioError, match=why):
        topo.scenario(ProtocolSpec(name="georendezvous"))


def test_wrong_words_are_refused_with_the_right_ones() -> None:
    topo = Topo(1, 1.0, {})
    topo.addStation("sta1", position="0,0")
    with pytest.raises(ScenarioError, match="two stations"):
        topo.addStation("sta1", position="1,1")
    with pytest.raises(ScenarioError, match="twoRayGround"):
        topo.setPropagationModel("nakagami")
    with pytest.raises(ScenarioError, match="RandomWayPoint"):
        topo.setMobilityModel("Teleport")
    with pytest.raises(ScenarioError, match="no stations"):
        Topo(1, 1.0, {}).scenario(ProtocolSpec(name="flooding"))


class Mesh(Topo):
    """Two access points and a station between them."""

    def build(self, **_parameters: object) -> None:
        self.addAccessPoint("ap1", ssid="left", position="0,0,0")
        self.addStation("sta1", position="100,0")
        self.addHost("h1")
        self.addHost("h2")
        self.addLink("h1", "ap1")
        self.addAccessPoint("ap2", position=(250, 0))
        self.addLink("ap2", "h2")


def test_access_points_in_mininet_wifis_words() -> None:
    scenario = Mesh(seed=1, duration=10.0).scenario(ProtocolSpec(name="flooding"))
    assert [(n.id, n.interface) for n in scenario.nodes] == [
        (1, "sta1-wlan0"),
        (2, "h1-eth0"),
        (3, "h2-eth0"),
    ]
    first, second = scenario.access_points
    assert (first.name, first.ssid, first.broker, first.position) == ("ap1", "left", 2, (0, 0))
    assert (second.name, second.ssid, second.broker) == ("ap2", "mesh", 3)
    # Brokers stand where their access points do.
    assert scenario.trace().positions(5).tolist() == [[100, 0], [0, 0], [250, 0]]
    assert scenario.area == (0, -0.5, 250, 0.5)


def test_access_points_and_links_that_do_not_fit_are_refused() -> None:
    flooding = ProtocolSpec(name="flooding")
    topo = Mesh(1, 1.0, {})
    for pair in (("sta1", "ap1"), ("h1", "h2"), ("ap1", "ap2"), ("h9", "ap1")):
        with pytest.raises(ScenarioError, match="from a host to an access point"):
            topo.addLink(*pair)
    for pair in (("h1", "ap2"), ("h1", "ap1")):
        with pytest.raises(ScenarioError, match="one link each"):
            topo.addLink(*pair)
    with pytest.raises(ScenarioError, match="two hosts are called ap1"):
        topo.addHost("ap1")
    with pytest.raises(ScenarioError, match="two access points are called sta1"):
        topo.addAccessPoint("sta1")
    topo.addHost("h3")
    with pytest.raises(ScenarioError, match="h3 has no link to an access point"):
        topo.scenario(flooding)
    topo = Mesh(1, 1.0, {})
    topo.addAccessPoint("ap3")
    with pytest.raises(ScenarioError, match="ap3 has no link to a host"):
        topo.scenario(flooding)


@pytest.mark.parametrize("side", [3, 5])
def test_mesh_radios_reach_the_eight_cells_around_and_no_other(side: int) -> None:
    scenario = make_scenario(
        "mesh_grid", "flooding", seed=1, duration=30.0, settings={"side": side}
    )
    assert scenario.mesh_radio is not None
    points = [point.position for point in scenario.access_points]
    medium = Medium(scenario.mesh_radio, len(points), random.Random(1))
    medium.set_positions(points)
    for index, (x, y) in enumerate(points):
        near = {i for i, p in enumerate(points) if 0 < math.dist(p, (x, y)) < 1.5 * 250}
        good = {link.neighbour for link in medium.links(index) if link.loss < 0.01}
        fair = {link.neighbour for link in medium.links(index) if link.loss < 0.9}
        assert good == near == fair


def test_clients_of_a_mesh_are_the_stations() -> None:
    scenario = make_scenario("mesh_grid", "flooding", seed=1, duration=30.0, settings={"nodes": 5})
    stations = {node.id for node in scenario.stations}
    assert len(stations) == 5
    assert {operation.node for operation in scenario.workload} <= stations
    assert len(scenario.access_points) == len(scenario.nodes) - 5 == 9


def test_roaming_field_keeps_the_published_density_and_is_connected() -> None:
    scenario = roaming(nodes=50)
    x0, y0, x1, y1 = scenario.area
    assert 50 / ((x1 - x0) * (y1 - y0)) == pytest.approx(200 / 2000**2)
    assert scenario.radio.range == 250
    assert connected_share(scenario, samples=1) == 1.0
    trace = scenario.trace()
    assert trace.moving
    for index in range(50):
        assert math.hypot(*trace.velocity(index, 5.0)) == pytest.approx(2.0)


def test_the_seed_decides_everything() -> None:
    assert roaming() == roaming()
    other = make_scenario("roaming_field", "flooding", seed=4, duration=40.0, settings={})
    assert other.nodes != roaming().nodes
    assert other.workload != roaming().workload


def test_connected_share_notices_a_partition() -> None:
    radio = RadioSpec(range=50.0)
    assert connected(radio, [(0, 0), (40, 0), (80, 0)])
    assert not connected(radio, [(0, 0), (40, 0), (91, 0)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warp": "9"}, "no parameter 'warp'; roaming_field has"),
        ({"nodes": "1"}, "nodes"),
        ({"nodes": "many"}, "nodes"),
        ({"speed": "-1"}, "speed"),
        ({"speed": "nan"}, "speed"),
        ({"standard": "ax"}, "standard"),
        ({"side": "50000"}, "disconnected"),
        ({"subscribers": "500"}, "raise nodes"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as error:
        roaming(**settings)
    assert "\n" not in str(error.value)


def test_unknown_names_are_refused_with_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match=r"there are: .*roaming_field"):
        make_scenario("moon", "flooding", seed=1, duration=30.0, settings={})
    with pytest.raises(ScenarioError, match=r"there are: .*flooding"):
        make_scenario("roaming_field", "smoke", seed=1, duration=30.0, settings={})


@pytest.mark.parametrize("name", topology_names())
def test_every_topology_describes_its_parameters(name: str) -> None:
    assert topology_parameters(name)
    assert all(parameter.help for parameter in topology_parameters(name))


def test_the_topology_in_the_page_is_one() -> None:
    module: dict[str, Any] = {}
    exec(example("topology"), module)  # the reader's own file would say the same
    line = module["Line"](1, 30.0, {"nodes": 4}).scenario(ProtocolSpec(name="flooding"))
    assert [node.name for node in line.nodes] == ["sta1", "sta2", "sta3", "sta4"]
    assert line.workload
    assert connected_share(line) == 1.0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"standard": "a"}, "radio: standard: must be one of 'b', 'g' or 'n', not 'a'"),
        ({"mode": "managed"}, "radio: mode: .*, not 'managed'"),
        ({"range": -5.0}, "radio: range: must be above 0, not -5"),
        ({"range": math.nan}, "radio: range: .*finite number"),
    ],
)
def test_a_radio_that_cannot_be_is_refused_when_it_is_chosen(
    given: dict[str, Any], told: str
) -> None:
    class Odd(Topo):
        def build(self, **_parameters: object) -> None:
            self.setRadio(**{"range": 250.0} | given)

    with pytest.raises(ScenarioError, match=told):
        Odd(seed=1, duration=10.0).scenario(ProtocolSpec(name="flooding"))


def test_a_propagation_model_that_cannot_be_is_refused() -> None:
    class Odd(Topo):
        def build(self, **_parameters: object) -> None:
            self.setPropagationModel("logDistance", exp=0.5)

    with pytest.raises(
        ScenarioError, match=r"radio: propagation.*exponent: must be 1 or more, not 0\.5"
    ):
        Odd(seed=1, duration=10.0).scenario(ProtocolSpec(name="flooding"))


def test_a_square_of_less_than_a_metre_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"side 0\.01 m is no field: use 1 m or more, or 0"):
        roaming(side=0.01)

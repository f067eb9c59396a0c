import math
import re
from typing import Any

import pytest

from emulation.catalog import make_scenario, topology_names, topology_parameters
from emulation.processes import PROJECT
from emulation.radio.spec import Shadowing
from emulation.scenario import ProtocolSpec, Scenario, ScenarioError
from emulation.topo import Topo, connected_share


def roaming(**settings: object) -> Scenario:
    return make_scenario("roaming_field", "flooding", seed=3, duration=40.0, settings=settings)


class Pair(Topo):
    """Two stations."""

    def build(self, **_parameters: object) -> None:
        self.addStation("sta1", position="10,20,0")
        self.addStation("sta2", position=(30, 20))
        self.setPropagationModel("logNormalShadowing", exp=3.5, variance=6)


def test_a_topology_in_mininet_wifis_words() -> None:
    scenario = Pair(seed=1, duration=10.0, parameters={}).scenario(ProtocolSpec(name="flooding"))
    assert scenario.topology == "pair"
    assert [(n.id, n.name) for n in scenario.nodes] == [(1, "sta1"), (2, "sta2")]
    assert scenario.trace().positions(5).tolist() == [[10, 20], [30, 20]]
    assert scenario.area == (10, 19.5, 30, 20.5)
    assert scenario.radio.propagation == Shadowing(exponent=3.5, sigma_db=6)


@pytest.mark.parametrize("position", ["10", "a,b", ()])
def test_a_position_that_is_none_is_refused(position: str) -> None:
    topo = Topo(1, 1.0, {})
    with pytest.raises(ScenarioError, match="x,y"):
        topo.addStation("sta1", position=position)


def test_wrong_words_are_refused_with_the_right_ones() -> None:
    topo = Topo(1, 1.0, {})
    topo.addStation("sta1", position="0,0")
    with pytest.raises(ScenarioError, match="two stations"):
        topo.addStation("sta1", position="1,1")
    with pytest.raises(ScenarioError, match="twoRayGround"):
        topo.setPropagationModel("nakagami")
    with pytest.raises(ScenarioError, match="RandomWayPoint"):
        topo.setMobilityModel("GaussMarkov")
    with pytest.raises(ScenarioError, match="no stations"):
        Topo(1, 1.0, {}).scenario(ProtocolSpec(name="flooding"))


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
    topo = Topo(1, 10.0, {})
    topo.radio = topo.radio.model_copy(update={"range": 50.0})
    assert topo.connected([(0, 0), (40, 0), (80, 0)])
    assert not topo.connected([(0, 0), (40, 0), (91, 0)])


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


def test_the_topology_in_the_readme_is_one() -> None:
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    module: dict[str, Any] = {}
    exec(code, module)  # the reader's own file would say the same
    line = module["Line"](1, 30.0, {"nodes": 4}).scenario(ProtocolSpec(name="flooding"))
    assert [node.name for node in line.nodes] == ["sta1", "sta2", "sta3", "sta4"]
    assert line.workload
    assert connected_share(line) == 1.0

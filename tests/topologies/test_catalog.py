from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import topologies
from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario
from tests.pages import example
from topologies.catalog import make_scenario, topology_class


def make(protocol: str, **settings: Any) -> Scenario:
    settings = {"nodes": 6, "side": 300, **settings}
    return make_scenario("roaming_field", protocol, seed=1, duration=30, settings=settings)


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a topology `row`, the one of the page."""
    file = tmp_path / "row.py"
    file.write_text(example("topology"), encoding="utf-8")
    monkeypatch.setattr(topologies, "__path__", [*topologies.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, "topologies.row", None)
    monkeypatch.delitem(sys.modules, "topologies.row")
    return file


@pytest.mark.usefixtures("row")
def test_a_scenario_names_its_topology_as_commands_do() -> None:
    assert topology_class("row").__name__ == "Line"
    scenario = make_scenario("row", "flooding", seed=1, duration=20.0, settings={})
    assert scenario.topology == "row"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("(Topo)", "(Topo", ".py cannot be loaded: SyntaxError: "),
        (
            "high=50)] = 5",
            "high=50)]",
            ".py cannot be loaded: TypeError: Line.build: nodes",
        ),
        ("(Topo)", "", ".py has no subclass of Topo: add one"),
    ],
)
def test_a_topology_that_cannot_be_loaded_says_why_in_a_line(
    row: Path, old: str, new: str, why: str
) -> None:
    row.write_text(row.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(ScenarioError, match=f"^topologies/row{why}"):
        topology_class("row")


def test_a_setting_goes_to_the_topology_or_to_the_protocol() -> None:
    scenario = make("rendezvous-gpsr", list_wait="2.5", speed="3")
    assert scenario.protocol.parameters["list_wait"] == 2.5
    assert scenario.protocol.parameters["proximity"] == 0.5
    assert scenario.topology_parameters["speed"] == 3.0


@pytest.mark.parametrize("protocol", ["broker-gpsr-map", "rendezvous-gpsr-map"])
def test_a_protocol_that_needs_a_map_says_so_if_there_is_none(protocol: str) -> None:
    with pytest.raises(
        ScenarioError, match=f"^{protocol} needs a road map: the topologies freeway and"
    ):
        make(protocol)


@pytest.mark.parametrize(
    ("protocol", "settings", "message"),
    [
        ("brokergpsr", {}, r"no protocol 'brokergpsr' \(did you mean broker-gpsr\?\); there are: "),
        ("flooding", {"proximity": 1}, "no parameter 'proximity'; roaming_field has"),
        ("broker-gpsr", {"proximity": 2}, "proximity: 2 is above 1"),
    ],
)
def test_what_does_not_exist_is_refused(
    protocol: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        make(protocol, **settings)


def test_a_workload_without_topics_is_refused_where_topics_lead_to_subscribers() -> None:
    with pytest.raises(ScenarioError, match=r"^broker-aodv finds subscribers by topic: g"):
        make("broker-aodv", workload="stock")


@pytest.mark.parametrize("protocol", ["semantic-overlay", "mirinae"])
def test_a_workload_that_a_protocol_has_no_place_for_is_refused(protocol: str) -> None:
    settings: dict[str, object] = {"nodes": 20}
    with pytest.raises(ScenarioError, match=r"event space: give it stock .*--workload stock"):
        make_scenario("roaming_field", protocol, seed=1, duration=40.0, settings=settings)
    settings["workload"] = "stock"
    assert make_scenario("roaming_field", protocol, seed=1, duration=40.0, settings=settings)

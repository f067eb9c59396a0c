from __future__ import annotations

from typing import Any

import pytest

from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario
from topologies.catalog import make_scenario


def make(protocol: str, **settings: Any) -> Scenario:
    settings = {"nodes": 6, "side": 300, **settings}
    return make_scenario("roaming_field", protocol, seed=1, duration=30, settings=settings)


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


@pytest.mark.parametrize("protocol", ["semantic-overlay", "mirinae"])
def test_a_workload_that_a_protocol_has_no_place_for_is_refused(protocol: str) -> None:
    settings: dict[str, object] = {"nodes": 20}
    with pytest.raises(ScenarioError, match=r"event space: give it stock .*--workload stock"):
        make_scenario("roaming_field", protocol, seed=1, duration=40.0, settings=settings)
    settings["workload"] = "stock"
    assert make_scenario("roaming_field", protocol, seed=1, duration=40.0, settings=settings)

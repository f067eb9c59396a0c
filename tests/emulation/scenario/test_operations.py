"""What no client can request, or no protocol serve, is refused before a run."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping
from typing import Annotated, Any, Final

import pytest

from emulation.errors import ScenarioError
from emulation.scenario.operations import check_operations
from emulation.scenario.scenario import ProtocolSpec
from emulation.scenario.settings import ScenarioParameters
from emulation.scenario.topo import Topo
from emulation.workloads.base import Operation, Workload
from nodeapp.events import MAX_EVENT
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Route
from nodeapp.pubsub.registry import SYSTEMS
from topologies.roaming_field import RoamingField

PUBLISH: Final[dict[str, Any]] = {"action": "publish", "sequence": 1, "event": {"topic": "a"}}
SUBSCRIBE: Final[dict[str, Any]] = {"action": "subscribe", "subscription": 1}
LIMIT = f"a datagram holds {MAX_EVENT}"


@pytest.mark.parametrize(
    ("protocol", "fields", "why"),
    [
        ("flooding", PUBLISH | {"event": {"a": [1]}}, r"\[1\] is not a number, a boolean or a t"),
        ("flooding", PUBLISH | {"event": {"topic": 2**63}}, "does not fit 64 bits"),
        ("flooding", PUBLISH | {"event": {"a b": 1}}, "'a b' is not an attribute name"),
        ("flooding", PUBLISH | {"event": {"topic": "a" * MAX_EVENT}}, LIMIT),
        ("flooding", PUBLISH | {"policy": (("a", "~", 1),)}, "no operator '~'"),
        ("flooding", SUBSCRIBE | {"filter": (("a", "~", 1),)}, "no operator '~'; there are: ="),
        ("flooding", SUBSCRIBE | {"filter": (("a", "=", [1]),)}, "is not a number"),
        ("flooding", SUBSCRIBE | {"client_attributes": {"a": None}}, "None is not a number"),
        ("flooding", {"action": "advertise"}, "needs a topic"),
        ("flooding", {"action": "advertise", "event": {"topic": "a" * 70_000}}, "a datagram holds"),
        ("flooding", {"action": "navigate"}, "needs an event with x, y, speed, pause, remaining"),
        ("flooding", {"action": "navigate", "event": dict.fromkeys(Route._fields, "1")}, "numbers"),
        ("broker-aodv", PUBLISH | {"event": {"topic": 5}}, "give events a topic"),
        ("broker-aodv", SUBSCRIBE, "give filters a topic"),
    ],
)
def test_what_cannot_be_performed_is_refused(
    protocol: str, fields: Mapping[str, Any], why: str
) -> None:
    fine = [
        Operation(time=1.0, node=2, **PUBLISH),
        Operation(time=1.0, node=2, **SUBSCRIBE, filter=(("topic", "=", "a"),)),
        Operation(time=1.5, node=2, action="advertise", event={"topic": "a"}),
        Operation(time=2.0, node=2, action="unsubscribe", subscription=1),
    ]
    spec, service = ProtocolSpec(name=protocol), SYSTEMS[protocol].service
    check_operations(fine, spec, service)
    with pytest.raises(ScenarioError, match=why) as error:
        check_operations([*fine, Operation(time=2.5, node=3, **fields)], spec, service)
    if protocol == "flooding":
        assert str(error.value).startswith(f"node 3, {fields['action']} at 2.5 s: ")


@dataclasses.dataclass(frozen=True)
class _Odd(Workload):
    """Publishes an event twice, with other values for some of its fields."""

    fields: Mapping[str, Any]

    def operations(
        self, nodes: Mapping[int, str], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        first: dict[str, Any] = {"time": 1.0, "node": 1, **PUBLISH}
        return Operation(**first), Operation(**{**first, **self.fields})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "^scenario: node 1 publishes number 1 twice: number the events"),
        ({"node": 99}, "^scenario: the workload names node 99, which does not exist"),
        ({"time": -1.0}, "^operation: time: must be 0 or more, not -1"),
        ({"sequence": 2**32}, "^operation: sequence: must be 4.* or less"),
    ],
)
def test_numbers_of_a_workload_are_refused_in_a_line(fields: Mapping[str, Any], why: str) -> None:
    settings = ScenarioParameters("roaming_field", RoamingField, "flooding").typed({"nodes": 6})
    with pytest.raises(ScenarioError, match=why):
        dataclasses.replace(settings, workload=_Odd(fields)).scenario(1, 20.0)


def test_a_parameter_cannot_have_the_name_of_one_that_all_scenarios_have() -> None:
    class Sealed(Topo):
        def build(  # type: ignore[override]  # the parameters are the point
            self, auth: Annotated[str, Param("who may send")] = "all"
        ) -> None:
            """Add nothing: parameters come first."""

    with pytest.raises(ScenarioError, match=r"^sealed: rename the parameter auth, "):
        ScenarioParameters("sealed", Sealed, "flooding")

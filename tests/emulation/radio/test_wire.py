"""Hosts on a switch: the medium, and topologies and scenarios with it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from emulation.errors import ScenarioError
from emulation.radio.wire import BROADCAST, WireMedium, WireSpec
from emulation.scenario.scenario import Scenario
from topologies.catalog import make_scenario


def test_a_frame_takes_both_cables() -> None:
    medium = WireMedium(WireSpec(delays=(0.01, 0.02, 0.04)))
    assert medium.next_event() == float("inf")
    assert medium.transmit(1.0, 0, 2, 100, "slow")
    assert medium.transmit(1.0, 0, 1, 100, "fast")
    assert medium.transmit(1.0, 1, BROADCAST, 100, "all")
    assert medium.next_delivery(1.02) is None
    arrived = medium.advance(2.0)
    assert [(each.frame, each.receivers) for each in arrived] == [
        ("fast", [1]),
        ("all", [0]),
        ("slow", [2]),
        ("all", [2]),
    ]
    assert arrived[0].time == pytest.approx(1.03)
    assert medium.counters.totals()["received"] == 4


def test_a_cable_can_be_pulled() -> None:
    medium = WireMedium(WireSpec(delays=(0.0, 0.0)))
    medium.fail(1)
    assert not medium.transmit(0.0, 1, 0, 100, "from")
    assert medium.transmit(0.0, 0, 1, 100, "to")
    assert medium.advance(1.0) == []
    medium.heal(1)
    medium.fail(0, 1)
    medium.transmit(1.0, 0, 1, 100, "cut")
    medium.heal(0, 1)
    medium.transmit(1.0, 0, 1, 100, "there")
    assert [each.frame for each in medium.advance(1.0)] == ["there"]


def scenario(**settings: object) -> Scenario:
    return make_scenario(
        "stock_peers", "semantic-overlay", seed=4, duration=30, settings={"nodes": 12, **settings}
    )


def test_delays_are_drawn_from_the_seed() -> None:
    made = scenario(delay_low=10, delay_high=20)
    assert made.wire is not None
    assert made.wire.delays == scenario(delay_low=10, delay_high=20).wire.delays  # type: ignore[union-attr]
    assert all(0.010 <= delay <= 0.020 for delay in made.wire.delays)
    assert len(set(made.wire.delays)) == 12
    assert made.environment().wired
    assert made.environment().nodes == 12
    assert not made.stations
    assert {each.node for each in made.workload} == set(range(1, 13))
    assert Scenario.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"delay_low": 50}, "lower it"),
        ({"space": "price"}, "name:low:high:cells"),
        ({"bootstrap": "13"}, "there is no node 13: name one from 1 to 12"),
        ({"bootstrap": "one"}, "no list of node ids"),
        ({"faults": "radio 2 of them at 10 for 5"}, "use crash, disturb, stranger, clock alone"),
        ({"hashes": 0}, "below 1"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, object], hint: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(**settings)
    assert hint in str(refused.value)


def test_peers_that_crash_are_faults_of_hosts() -> None:
    (fault,) = scenario(faults="crash 25% at 10").faults
    assert len(fault.nodes) == 3
    assert all(name.startswith("h") for name in fault.nodes)


def test_a_cable_without_delay_is_the_shortest() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        WireSpec(delays=(-0.01, 0.0))


@pytest.mark.parametrize(
    "fault", [{"kind": "jam", "position": (0, 0)}, {"kind": "partition", "line": (0, 0, 1, 0)}]
)
def test_a_scenario_file_cannot_jam_cables(fault: dict[str, object]) -> None:
    scenario = make_scenario("stock_peers", "flooding", seed=1, duration=30.0, settings={})
    data = scenario.model_dump() | {"faults": [{"start": 1.0, **fault}]}
    with pytest.raises(ValidationError, match="use crash, disturb, stranger, clock alone"):
        Scenario.model_validate(data)

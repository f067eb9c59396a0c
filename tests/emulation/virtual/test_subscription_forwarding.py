"""Subscription forwarding over the virtual clock's radio."""

from __future__ import annotations

from collections import Counter

import pytest

from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.events import Filter
from nodeapp.kinds import ClientKind
from nodeapp.predicates import Predicate
from nodeapp.wire import decode
from topologies.catalog import make_scenario


class Deliveries(NullRecorder):
    """Counts how often each client was told of each event."""

    def __init__(self) -> None:
        self.told: Counter[tuple[int, int, int]] = Counter()

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        frame = decode(datagram)
        if to_client and frame.kind == ClientKind.NOTIFY:
            self.told[station + 1, frame.publisher, frame.sequence] += 1


def wanted(scenario: Scenario) -> set[tuple[int, int, int]]:
    """Return (subscriber, publisher, sequence number) of what should arrive."""
    subscriptions = [
        (o.node, o.time, Filter(tuple(Predicate(*predicate) for predicate in o.filter)))
        for o in scenario.workload
        if o.action == "subscribe"
    ]
    return {
        (node, o.node, o.sequence)
        for o in scenario.workload
        if o.action == "publish"
        for node, since, filter in subscriptions
        if since < o.time and filter.matches(o.event)
    }


@pytest.mark.parametrize(("speed", "least"), [(0, 1.0), (2, 0.9)])
def test_delivery_is_complete_while_nobody_moves_and_high_when_they_do(
    speed: float, least: float
) -> None:
    settings = {"nodes": 20, "speed": speed, "link_feedback": True}
    scenario = make_scenario(
        "roaming_field", "subscription-forwarding", seed=3, duration=60, settings=settings
    )
    recorder = Deliveries()
    simulation = Simulation(scenario, recorder)
    simulation.run()
    assert not simulation.problems
    counters: Counter[str] = Counter()
    for node in simulation.nodes:
        counters += node.service.counters
    assert counters["malformed"] == counters["unexpected kind"] == 0
    expected = wanted(scenario)
    assert len(expected) > 50
    assert set(recorder.told.values()) == {1}
    delivered = len(expected & recorder.told.keys()) / len(expected)
    assert delivered >= least

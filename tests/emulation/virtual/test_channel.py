"""Both channels of the virtual clock keep to what `Channel` promises the simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emulation.radio.medium import BROADCAST
from emulation.scenario.scenario import Scenario
from emulation.virtual.adhoc import AdHocChannel
from emulation.virtual.channel import Carried, Channel, Message
from emulation.virtual.clock import Clock
from emulation.virtual.mesh import MeshChannel
from emulation.virtual.recording import NullRecorder
from nodeapp.kinds import CommonKind, Kind
from nodeapp.wire import Frame
from tests.emulation.mesh_lab import cells
from topologies.catalog import make_scenario


class World:
    """A channel, and what it has handed to nodes: (time, nodes, message)."""

    def __init__(self, scenario: Scenario, make: Callable[[World, Scenario], Channel]) -> None:
        self.scenario = scenario
        self.clock = Clock()
        self.handed: list[tuple[float, list[int], Message]] = []
        self.given_up: list[tuple[int, int]] = []
        self.channel = make(self, scenario)
        self.channel.set_positions(scenario.trace().positions(0.0))

    def hand(self, time: float, receivers: list[int], carried: Carried) -> None:
        self.handed.append((time, list(receivers), carried[0]))

    def unacknowledged(self, time: float, source: int, to: int, carried: Carried) -> bool:
        self.given_up.append((source, to))
        return False

    def send(self, source: int, to: int, kind: Kind = CommonKind.EVENT) -> Message:
        datagram = Frame(kind, self.scenario.nodes[source].id, body=bytes(50)).encode()
        message = Message(self.scenario.nodes[source].id, datagram, 1)
        size = 42 + len(datagram)
        self.channel.transmit(self.clock.now, source, to, size, (message, 0, None))
        return message

    def run(self, until: float) -> None:
        while True:
            delivery = self.channel.next_delivery(min(self.clock.due(), until))
            if delivery is not None:
                self.clock.now = delivery.time
                self.channel.deliver(delivery)
            elif self.clock.due() <= until:
                self.clock.step()
            else:
                break
        self.clock.now = until


def adhoc(**radio: str) -> World:
    settings = {"nodes": 5, "side": 60, "speed": 0, "topics": 0, **radio}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=12, settings=settings)
    return World(scenario, lambda w, s: AdHocChannel(s, w.hand, w.unacknowledged))


def mesh(**radio: str) -> World:
    scenario = cells()
    changed = scenario.radio.model_copy(update=radio)
    scenario = scenario.model_copy(update={"radio": changed})
    return World(scenario, lambda w, s: MeshChannel(s, w.clock, NullRecorder(), w.hand))


BOTH = pytest.mark.parametrize("make", [adhoc, mesh])


@BOTH
def test_a_broadcast_reaches_others_in_order_of_time_and_never_its_sender(
    make: Callable[[], World],
) -> None:
    world = make()
    world.run(1.0)  # stations have an access point now
    message = world.send(0, BROADCAST)
    world.run(2.0)
    assert world.handed
    times = [time for time, _, _ in world.handed]
    assert times == sorted(times)
    assert 1.0 <= times[0] < times[-1] + 1e-9 < 1.1
    assert all(each is message for _, _, each in world.handed)
    assert 0 not in [node for _, nodes, _ in world.handed for node in nodes]


@BOTH
def test_nothing_arrives_before_its_time(make: Callable[[], World]) -> None:
    world = make()
    world.run(1.0)
    world.send(0, BROADCAST)
    assert world.channel.next_delivery(1.0) is None
    assert world.handed == []


@BOTH
def test_the_same_calls_give_the_same_deliveries(make: Callable[[], World]) -> None:
    seen = []
    for world in (make(), make()):
        world.run(1.0)
        for source in range(len(world.scenario.nodes)):
            world.send(source, BROADCAST)
            world.run(1.0 + 0.0005 * (source + 1))  # the next contends with this one
        world.run(2.0)
        seen.append([(time, nodes) for time, nodes, _ in world.handed])
    assert seen[0] == seen[1] != []


@BOTH
def test_counters_are_those_of_access_points(make: Callable[[], World]) -> None:
    world = make()
    exported = world.channel.exported()
    if world.scenario.access_points:
        assert exported is not None
        names = [each["name"] for each in exported["access_points"]]
        assert names == [point.name for point in world.scenario.access_points]
    else:
        assert exported is None


def test_only_without_access_points_nodes_overhear_each_other_and_take_packets_back() -> None:
    world = adhoc()
    overheard: list[tuple[list[int], Message]] = []

    def hand(time: float, listeners: list[int], carried: Carried) -> None:
        overheard.append((listeners, carried[0]))

    assert world.channel.listen(3, hand)
    first, *others = (world.send(0, to) for to in (1, 2, 1, 2))
    taken = world.channel.withdraw(0, 2)
    assert [message for message, _, _ in taken] == [others[0], others[2]]
    world.run(1.0)
    assert [(nodes, message) for _, nodes, message in world.handed] == [
        ([1], first),
        ([1], others[1]),
    ]
    assert overheard == [([3], first), ([3], others[1])]
    bridged = mesh()
    assert not bridged.channel.listen(1, hand)
    bridged.run(1.0)
    bridged.send(0, 1)
    assert bridged.channel.withdraw(0, 1) == []


def test_only_without_access_points_a_unicast_that_is_lost_is_told_of() -> None:
    world = adhoc()
    assert world.channel.reports_links
    assert not mesh().channel.reports_links
    far = world.scenario.trace().positions(0.0)
    far[1] += 100_000.0
    world.channel.set_positions(far)
    world.send(0, 1)
    world.send(0, 2)
    world.run(1.0)
    assert world.given_up == [(0, 1)]
    assert [nodes for _, nodes, _ in world.handed] == [[2]]


@BOTH
@pytest.mark.parametrize(("order", "turn"), [("fifo", 2), ("routing-first", 1)])
def test_routing_overtakes_events_if_the_queue_says_so(
    make: Callable[..., World], order: str, turn: int
) -> None:
    world = make(queue_order=order)
    world.run(1.0)  # stations have an access point now
    station = world.scenario.nodes.index(world.scenario.stations[0])
    sent = [
        world.send(station, BROADCAST, kind)
        for kind in (CommonKind.EVENT, CommonKind.EVENT, CommonKind.HELLO)
    ]
    world.run(2.0)
    arrived = list(dict.fromkeys(message for _, _, message in world.handed))
    assert arrived.index(sent[2]) == turn

"""The host under the virtual clock keeps to the contract of hosts; positions are a receiver's."""

from __future__ import annotations

import functools

import pytest

from emulation.mobility.trajectory import Waypoint
from emulation.radio.spec import RadioSpec, UnitDisk
from emulation.scenario.scenario import NodeSpec, ProtocolSpec, Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp import wire
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import Frame
from tests.nodeapp.host_contract import HostContract
from tests.nodeapp.host_contract import World as ContractWorld


def scenario(*trajectories: tuple[Waypoint, ...], duration: float = 1000.0) -> Scenario:
    nodes = tuple(
        NodeSpec(id=number, name=f"sta{number}", waypoints=waypoints)
        for number, waypoints in enumerate(trajectories, start=1)
    )
    return Scenario(
        topology="test",
        protocol=ProtocolSpec(name="flooding"),
        seed=1,
        duration=duration,
        area=(0, 0, 1000, 1000),
        radio=RadioSpec(range=250, propagation=UnitDisk(collisions=False)),
        nodes=nodes,
    )


class VirtualWorld(ContractWorld):
    def __init__(self) -> None:
        tracks = ((Waypoint(0, 100, 100),), (Waypoint(0, 200, 100),))
        self.simulation = Simulation(scenario(*tracks), NullRecorder())
        self.hosts = list(self.simulation.nodes)
        self.received = [[], []]
        self.told = [[], []]
        for index, host in enumerate(self.simulation.nodes):
            self._tap(index, host)
        self.simulation.run(0.0)

    def _tap(self, index: int, host: object) -> None:
        node = self.simulation.nodes[index]

        def receive(datagram: bytes, sender: int) -> None:
            self.received[index].append((datagram, sender))

        node.service.datagram_received = receive  # type: ignore[method-assign]
        node.service.receive = lambda frame, sender: receive(frame.encode(), sender)  # type: ignore[method-assign]
        node.clients._send = lambda client, datagram: self.told[index].append(wire.decode(datagram))

    def request(self, index: int, datagram: bytes) -> None:
        self.simulation.nodes[index].clients.datagram_received(datagram, ("127.0.0.1", 1))

    def pass_time(self, seconds: float) -> None:
        self.simulation.run(self.simulation.now + seconds)


@pytest.fixture
def world() -> VirtualWorld:
    return VirtualWorld()


class TestVirtualHost(HostContract):
    pass


def test_positions_are_fixes_carried_on_along_their_velocity() -> None:
    turn = (Waypoint(0, 0, 0), Waypoint(10, 100, 0), Waypoint(10, 100, 0), Waypoint(20, 100, 50))
    simulation = Simulation(scenario(turn), NullRecorder())
    (host,) = simulation.nodes
    simulation.run(5.13)
    assert host.position() == pytest.approx((51.3, 0, 10, 0))
    simulation.run(10.1)
    assert host.position() == pytest.approx((100, 0.5, 0, 5))
    simulation.run(30)
    assert host.position() == (100, 50, 0, 0)


def test_a_node_learns_of_a_turn_with_its_next_fix() -> None:
    turn = (Waypoint(0, 0, 0), Waypoint(5.1, 51, 0), Waypoint(10, 51, 49))
    simulation = Simulation(scenario(turn), NullRecorder())
    simulation.run(5.15)
    assert simulation.nodes[0].position() == pytest.approx((51.5, 0, 10, 0))
    simulation.run(5.25)
    assert simulation.nodes[0].position() == pytest.approx((51, 1.5, 0, 10))


def test_a_datagram_with_a_lost_fragment_is_lost() -> None:
    world = VirtualWorld()
    one = world.simulation.nodes[1]
    assert not one.complete("a", 0, 3)
    assert not one.complete("a", 2, 3)
    assert not one.complete("a", 2, 3)
    assert one.complete("a", 1, 3)
    for number in range(100):
        one.complete(number, 0, 2)
    assert not one.complete(0, 1, 2)  # given up meanwhile
    assert one.complete(99, 1, 2)


def test_malformed_datagrams_are_counted_by_the_service() -> None:
    simulation = Simulation(scenario((Waypoint(0, 0, 0),), (Waypoint(0, 10, 0),)), NullRecorder())
    simulation.nodes[0].send(wire.BROADCAST, b"no frame")
    simulation.nodes[0].send(wire.BROADCAST, Frame(ClientKind.SUBSCRIBE, 1).encode())
    simulation.run(1.0)
    assert simulation.nodes[1].service.counters["malformed"] == 1
    assert simulation.nodes[1].service.counters["unexpected kind"] == 1


def test_a_host_is_told_of_what_was_not_acknowledged_in_its_turn() -> None:
    tracks = ((Waypoint(0, 0, 0),), (Waypoint(0, 10, 0),), (Waypoint(0, 5000, 0),))
    simulation = Simulation(scenario(*tracks), NullRecorder())
    host = simulation.nodes[0]
    told: list[tuple[float, int, bytes]] = []
    order: list[str] = []

    def failed(to: int, datagram: bytes) -> None:
        told.append((host.now(), to, datagram))
        order.append("failed")
        host.send(2, b"again")

    assert host.watch_links(failed)
    host.send(2, b"near")
    host.send(3, b"far")
    host.send(3, bytes(3000))
    host.call_later(0.5, order.append, "later")
    simulation.run(1.0)
    assert [(to, datagram) for _, to, datagram in told] == [(3, b"far"), (3, bytes(3000))]
    assert order == ["failed", "failed", "later"]
    assert 0 < told[0][0] < told[1][0] < 0.5
    assert simulation.nodes[1].service.counters["malformed"] == 3


def test_a_defect_in_what_a_protocol_does_about_a_broken_link_is_its_own_nodes() -> None:
    tracks = ((Waypoint(0, 0, 0),), (Waypoint(0, 5000, 0),))
    blamed: list[str] = []
    simulation = Simulation(
        scenario(*tracks), NullRecorder(), failed=lambda name, error: blamed.append(name)
    )

    def failed(to: int, datagram: bytes) -> None:
        raise ZeroDivisionError

    simulation.nodes[0].watch_links(failed)
    simulation.nodes[0].send(2, b"far")
    simulation.run(1.0)
    assert blamed == ["sta1"]


def field(*points: tuple[float, float]) -> Simulation:
    return Simulation(scenario(*((Waypoint(0, x, y),) for x, y in points)), NullRecorder())


def test_a_promiscuous_node_hears_frames_for_others_whole_and_in_no_other_way() -> None:
    simulation = field((0, 0), (100, 0), (100, 100), (5000, 0), (0, 100))
    heard: dict[int, list[tuple[Frame, int]]] = {2: [], 3: []}

    def keep(index: int, frame: Frame, sender: int) -> None:
        heard[index].append((frame, sender))

    for index in heard:
        assert simulation.nodes[index].overhear(functools.partial(keep, index))
    frame = Frame(CommonKind.EVENT, 1, 2, 1, 1, ttl=3, body=bytes(100))
    simulation.nodes[0].send(2, frame.encode())
    simulation.nodes[0].send(2, b"no frame")
    simulation.nodes[0].send(2, frame._replace(body=bytes(3000)).encode())  # in fragments
    simulation.nodes[0].send(3, frame._replace(destination=3).encode())  # for the listener
    simulation.run(1.0)
    assert heard == {2: [(frame, 1)], 3: []}  # 3 is out of range, 4 did not ask
    assert [node.service.counters["malformed"] for node in simulation.nodes] == [0, 1, 0, 0, 0]


def test_a_defect_in_what_a_protocol_overhears_is_its_own_nodes() -> None:
    blamed: list[str] = []
    tracks = ((Waypoint(0, 0, 0),), (Waypoint(0, 10, 0),), (Waypoint(0, 20, 0),))
    simulation = Simulation(
        scenario(*tracks), NullRecorder(), failed=lambda name, error: blamed.append(name)
    )

    def fails(frame: Frame, sender: int) -> None:
        raise ZeroDivisionError

    simulation.nodes[2].overhear(fails)
    simulation.nodes[0].send(2, Frame(CommonKind.EVENT, 1, 2).encode())
    simulation.run(1.0)
    assert blamed == ["sta3"]


def test_a_node_takes_back_what_waits_for_a_neighbour() -> None:
    simulation = field((0, 0), (5000, 0), (10, 0))
    host, received = simulation.nodes[0], simulation.nodes[2].service
    back: list[bytes] = []
    order: list[bytes] = []

    def failed(to: int, datagram: bytes) -> None:
        order.append(datagram)
        back.extend(host.withdraw(to))

    assert host.withdraw(2) == []
    host.watch_links(failed)
    host.send(2, b"first")
    host.send(2, b"second")
    host.send(3, b"near")
    host.send(2, bytes(3000))
    host.send(2, b"third")
    assert host.withdraw(99) == []
    simulation.run(1.0)
    assert order == [b"first"]
    assert back == [b"second", bytes(3000), b"third"]
    assert received.counters["malformed"] == 1
    assert sum(simulation.medium.counters.sent) == simulation.medium.radio.retry_limit + 2

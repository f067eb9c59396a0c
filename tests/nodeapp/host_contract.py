"""What every host keeps to: the tests of `nodeapp.host.Host` that any implementation must pass.

A host's test module derives a class from `HostContract`, named Test..., and gives it a fixture
`world` that yields a `World`: nodes 1 and 2 in radio range of one another.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import pytest

from nodeapp import wire
from nodeapp.events import Event, Filter, Subscription
from nodeapp.host import Host
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.wire import BROADCAST, MAX_BODY, Frame


class World(abc.ABC):
    """Two hosts, and time that passes when it is asked to."""

    hosts: list[Host]
    received: list[list[tuple[bytes, int]]]
    """By host: (datagram, sender) that the service was given."""
    told: list[list[Frame]]
    """By host: the frames that its one client got."""

    @abc.abstractmethod
    def request(self, index: int, datagram: bytes) -> None:
        """Send a datagram from the client of a host to its client port."""

    @abc.abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let time pass by the hosts' clock."""

    def until(self, condition: Callable[[], object], limit: float = 5.0) -> None:
        """Let time pass until a condition holds; fails after `limit` seconds."""
        end = self.hosts[0].now() + limit
        while not condition():
            assert self.hosts[0].now() < end, "the condition does not come true"
            self.pass_time(0.01)


class HostContract:
    def test_nodes_have_their_ids_and_their_own_randomness(self, world: World) -> None:
        assert [host.node_id for host in world.hosts] == [1, 2]
        one, other = (host.rng.random() for host in world.hosts)
        assert one != other

    def test_time_passes(self, world: World) -> None:
        before = world.hosts[0].now()
        world.pass_time(0.05)
        assert world.hosts[0].now() - before >= 0.049

    def test_calls_come_in_order_of_time_and_not_before(self, world: World) -> None:
        host = world.hosts[0]
        start = host.now()
        called: list[tuple[str, float]] = []
        for delay, name in ((0.06, "c"), (0.02, "a"), (0.04, "b"), (0.0, "at once")):
            host.call_later(delay, lambda name: called.append((name, host.now() - start)), name)
        assert not called  # never from within call_later
        world.until(lambda: len(called) == 4)
        assert [name for name, _ in called] == ["at once", "a", "b", "c"]
        for (_, time), delay in zip(called, (0.0, 0.02, 0.04, 0.06), strict=True):
            assert time >= delay - 1e-3

    def test_cancelled_calls_do_not_come(self, world: World) -> None:
        host = world.hosts[0]
        called: list[str] = []
        timer = host.call_later(0.01, called.append, "cancelled")
        timer.cancel()
        timer.cancel()
        late = host.call_later(0.02, called.append, "late")
        world.until(lambda: called)
        late.cancel()
        assert called == ["late"]

    @pytest.mark.parametrize("to", [2, BROADCAST])
    def test_a_datagram_arrives_whole_with_its_sender(self, world: World, to: int) -> None:
        frame = Frame(CommonKind.EVENT, 1, to, 1, 1, ttl=3, body=bytes(range(256)))
        world.hosts[0].send(to, frame.encode())
        world.until(lambda: world.received[1])
        assert world.received[1] == [(frame.encode(), 1)]
        assert not world.received[0]  # nobody hears itself

    def test_the_largest_datagram_fits(self, world: World) -> None:
        datagram = Frame(CommonKind.EVENT, 2, 1, body=bytes(MAX_BODY)).encode()
        world.hosts[1].send(1, datagram)
        world.until(lambda: world.received[0])
        assert world.received[0] == [(datagram, 2)]

    def test_datagrams_keep_their_order(self, world: World) -> None:
        for number in range(100):
            world.hosts[0].send(2, bytes([number]))
        world.until(lambda: len(world.received[1]) == 100)
        assert [datagram[0] for datagram, _ in world.received[1]] == list(range(100))

    @pytest.mark.parametrize("to", [99, 0, BROADCAST - 1])
    def test_a_datagram_to_a_node_that_is_not_there_is_lost(self, world: World, to: int) -> None:
        world.hosts[0].send(to, b"lost")
        world.hosts[0].send(2, b"heard")
        world.until(lambda: world.received[1])
        assert world.received[1] == [(b"heard", 1)]

    def test_positions_are_finite_metres(self, world: World) -> None:
        for host in world.hosts:
            assert all(abs(value) < 1e9 for value in host.position())

    def test_clients_are_told_of_the_events_they_want(self, world: World) -> None:
        body = Subscription(Filter.parse(["traffic"])).encode()
        world.request(0, Frame(ClientKind.SUBSCRIBE, 5, 0, 0, 1, hops=0, body=body).encode())
        world.until(lambda: world.told[0])
        (ack,) = world.told[0]
        assert (ack.kind, ack.originator, ack.destination) == (
            ClientKind.ACK,
            5,
            ClientKind.SUBSCRIBE,
        )
        assert wire.decode_body(ack.body) is None
        host = world.hosts[0]
        host.notify(Event(2, 1, {"topic": "weather"}), 3)
        host.notify(Event(2, 2, {"topic": "traffic"}), 3)
        world.until(lambda: len(world.told[0]) > 1)
        notice = world.told[0][1]
        assert notice.kind == ClientKind.NOTIFY
        assert (notice.publisher, notice.sequence, notice.hops) == (2, 2, 3)
        assert not world.told[1]

"""A small deterministic network for protocol tests: virtual clock, ideal unit-disk links.

Every frame arrives at each node in range after `LATENCY`; there is no loss unless a test asks for
it.  Each node has the node app's client table, with one client.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nodeapp import wire
from nodeapp.client_port import Address, ClientTable
from nodeapp.events import Event, Filter, Subscription, parse_attributes
from nodeapp.host import Host, Position
from nodeapp.kinds import ClientKind, Kind
from nodeapp.pubsub import registry
from nodeapp.pubsub.base import Environment, Service
from nodeapp.wire import BROADCAST, Frame

LATENCY = 0.001
CLIENT: Address = ("client", 1)

AS_PUBLISHED: dict[str, Any] = {
    "link_feedback": True,
    "withdraw_queue": True,
    "piggyback": True,
    "promiscuous": True,
    "replanarize": "neighbours",
    "prediction": False,
    "beyond_range": True,
}
"""GPSR's own parameters as its authors have them."""


class SimTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def create_service(
    protocol: str, host: Host, values: Mapping[str, object], environment: Environment
) -> Service:
    """Return a service with parameters that `values` have, the others as they are by default."""
    return registry.create(protocol, host, registry.typed(protocol, values), environment)


class SimNetwork:
    def __init__(
        self, radio_range: float = 250.0, *, loss: float = 0.0, seed: int = 0, side: float = 1000.0
    ) -> None:
        self.environment = Environment((0.0, 0.0, side, side), radio_range)
        self.nodes: dict[int, SimHost] = {}
        self.time = 0.0
        self.seed = seed
        self.sent: list[tuple[float, int, int, bytes]] = []
        """(time, sender, receiver, datagram) of every transmission."""
        self._loss = loss
        self._rng = random.Random(seed)
        self._queue: list[tuple[float, int, SimTimer, Callable[..., object], tuple[Any, ...]]] = []
        self._number = itertools.count()
        self._static: dict[tuple[int, int], bool] = {}
        """Whether two nodes that do not move hear each other."""

    def add(
        self,
        trajectory: tuple[float, float] | Callable[[float], Position],
        protocol: str,
        parameters: Mapping[str, object] | None = None,
    ) -> SimHost:
        """Add a node at a point, or moving (position by time), and start it."""
        host = SimHost(self, len(self.nodes) + 1, trajectory)
        host.service = create_service(protocol, host, parameters or {}, self.environment)
        host.clients = ClientTable(host, host.service, host.to_client, dict)
        self.nodes[host.node_id] = host
        host.clients.start()
        host.service.start()
        return host

    def schedule(self, delay: float, callback: Callable[..., object], *args: Any) -> SimTimer:
        timer = SimTimer()
        entry = (self.time + delay, next(self._number), timer, callback, args)
        heapq.heappush(self._queue, entry)
        return timer

    def run(self, duration: float) -> None:
        """Let `duration` seconds pass."""
        end = self.time + duration
        while self._queue and self._queue[0][0] <= end:
            self.time, _, timer, callback, args = heapq.heappop(self._queue)
            if not timer.cancelled:
                callback(*args)
        self.time = end

    def in_range(self, one: SimHost, other: SimHost) -> bool:
        if one.moves or other.moves:
            return self._near(one, other)
        pair = (one.node_id, other.node_id)
        found = self._static.get(pair)
        if found is None:
            found = self._static[pair] = self._near(one, other)
        return found

    def _near(self, one: SimHost, other: SimHost) -> bool:
        a, b = one.position(), other.position()
        return math.hypot(a.x - b.x, a.y - b.y) <= self.environment.radio_range

    def transmit(self, sender: SimHost, to: int, datagram: bytes) -> None:
        if sender.failed:
            return
        self.sent.append((self.time, sender.node_id, to, datagram))
        receivers = self.nodes.values() if to == BROADCAST else [self.nodes.get(to, sender)]
        for receiver in receivers:
            if receiver is not sender and self.in_range(sender, receiver) and not receiver.failed:
                if self._loss and self._rng.random() < self._loss:
                    continue
                self.schedule(LATENCY, receiver.hear, datagram, sender.node_id)
            elif to != BROADCAST and sender.link_failed is not None:
                self.schedule(LATENCY, sender.link_failed, to, datagram)
        others = () if to == BROADCAST else self.nodes.values()
        for other in others:
            if other.overheard is None or other in (sender, self.nodes.get(to)):
                continue
            if self.in_range(sender, other):
                self.schedule(LATENCY, other.overhear_now, datagram, sender.node_id)

    def frames(self, kind: Kind, since: float = 0.0) -> list[Frame]:
        frames = [wire.decode(datagram) for time, _, _, datagram in self.sent if time >= since]
        return [frame for frame in frames if frame.kind == kind]

    def connected(self) -> bool:
        """Return whether there is a path between any two nodes now."""
        nodes = list(self.nodes.values())
        reached = {nodes[0].node_id}
        waiting = [nodes[0]]
        while waiting:
            one = waiting.pop()
            for other in nodes:
                if other.node_id not in reached and self.in_range(one, other):
                    reached.add(other.node_id)
                    waiting.append(other)
        return len(reached) == len(nodes)


class SimHost:
    """One node of the network: the `nodeapp.host.Host`, with one client for the tests."""

    service: Service
    clients: ClientTable

    def __init__(
        self,
        network: SimNetwork,
        node_id: int,
        trajectory: tuple[float, float] | Callable[[float], Position],
    ) -> None:
        self.network = network
        self.failed = False
        self.link_failed: Callable[[int, bytes], None] | None = None
        self.overheard: Callable[[Frame, int], None] | None = None
        self.replies: list[Frame] = []
        """All frames that the client got."""
        self.trajectory = trajectory
        self.moves = callable(trajectory)
        self._node_id = node_id
        self._rng = random.Random(f"{network.seed}/{node_id}")
        self._sequence = itertools.count(1)

    @property
    def node_id(self) -> int:
        return self._node_id

    @property
    def rng(self) -> random.Random:
        return self._rng

    def now(self) -> float:
        return self.network.time

    def position(self) -> Position:
        track = self.trajectory
        return track(self.now()) if callable(track) else Position(*track)

    def send(self, to: int, datagram: bytes) -> None:
        self.network.transmit(self, to, datagram)

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        self.link_failed = failed
        return True

    def withdraw(self, to: int) -> list[bytes]:
        return []  # nothing waits here

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        self.overheard = heard
        return True

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> SimTimer:
        return self.network.schedule(delay, callback, *args)

    def notify(self, event: Event, hops: int) -> None:
        self.clients.notify(event, hops)

    def hear(self, datagram: bytes, sender: int) -> None:
        if not self.failed:
            self.service.datagram_received(datagram, sender)

    def overhear_now(self, datagram: bytes, sender: int) -> None:
        if not self.failed and self.overheard is not None:
            self.overheard(wire.decode(datagram), sender)

    # The client.

    def to_client(self, client: Address, datagram: bytes) -> None:
        self.replies.append(wire.decode(datagram))

    def request(self, frame: Frame) -> Any:
        """Send a request and return what the node answers, decoded."""
        before = len(self.replies)
        self.clients.datagram_received(frame.encode(), CLIENT)
        answers = [
            r for r in self.replies[before:] if r.kind in (ClientKind.ACK, ClientKind.STATUS)
        ]
        assert len(answers) == 1
        assert answers[0].originator == frame.originator
        return wire.decode_body(answers[0].body)

    def subscribe(self, *words: str, number: int = 1, attributes: Iterable[str] = ()) -> str | None:
        """Subscribe, and return why it was refused, or None."""
        body = Subscription(Filter.parse(words), parse_attributes(attributes)).encode()
        answer = self.request(Frame(ClientKind.SUBSCRIBE, 7, 0, 0, number, hops=0, body=body))
        assert answer is None or isinstance(answer, str)
        return answer

    def unsubscribe(self, number: int = 1) -> str | None:
        answer = self.request(Frame(ClientKind.UNSUBSCRIBE, 8, 0, 0, number, hops=0))
        assert answer is None or isinstance(answer, str)
        return answer

    def advertise(self, topic: object) -> str | None:
        """Say that the client is going to publish; return why it was refused, or None."""
        body = wire.encode_body(topic)
        answer = self.request(Frame(ClientKind.ADVERTISE, 6, 0, hops=0, body=body))
        assert answer is None or isinstance(answer, str)
        return answer

    def publish(self, *words: str, policy: Iterable[str] = (), sequence: int = 0) -> str | None:
        """Publish an event with the next sequence number, or a given one."""
        allowed = Filter.parse(policy) if policy else None
        event = Event(
            self.node_id, sequence or next(self._sequence), parse_attributes(words), allowed
        )
        frame = Frame(ClientKind.PUBLISH, 9, 0, event.publisher, event.sequence, hops=0)
        answer = self.request(frame._replace(body=event.encode()))
        assert answer is None or isinstance(answer, str)
        return answer

    def notified(self) -> Counter[tuple[int, int]]:
        """Return how often the client got which event id."""
        return Counter(
            (frame.publisher, frame.sequence)
            for frame in self.replies
            if frame.kind == ClientKind.NOTIFY
        )


def random_points(count: int, rng: random.Random, side: float) -> list[tuple[float, float]]:
    return [(rng.uniform(0.0, side), rng.uniform(0.0, side)) for _ in range(count)]


def connected_network(
    count: int, protocol: str, *, seed: int, side: float = 1000.0, **parameters: object
) -> SimNetwork:
    """Return a network of nodes at random points that is connected."""
    rng = random.Random(seed)
    while True:
        network = SimNetwork(side=side, seed=seed)
        points = random_points(count, rng, side)
        for point in points:
            network.add(point, protocol, parameters)
        if network.connected():
            return network

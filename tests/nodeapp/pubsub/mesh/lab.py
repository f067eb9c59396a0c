"""A mesh for protocol tests: brokers on a grid, clients at the nearest one, slow messages.

Every message takes a random time, between the same two nodes in order; messages between a client
and its broker may be lost as well, and a client is away from all brokers when it changes from one
to another.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping

from nodeapp import wire
from nodeapp.client_port import ClientTable
from nodeapp.host import Position
from nodeapp.kinds import ClientKind, Kind
from nodeapp.pubsub.base import Environment, Route
from nodeapp.pubsub.mesh.services import MeshService
from nodeapp.wire import BROADCAST, Frame
from tests.nodeapp.network import SimHost, SimNetwork, create_service

CELL = 250.0


class MeshNetwork(SimNetwork):
    def __init__(
        self,
        side: int,
        protocol: str,
        parameters: Mapping[str, object] | None = None,
        *,
        seed: int = 0,
        slowest: float = 0.002,
        client_loss: float = 0.0,
        missing: tuple[int, ...] = (),
    ) -> None:
        super().__init__(seed=seed)
        self.protocol = protocol
        self.parameters = {"graph": "fixed", **(parameters or {})}
        self.slowest = slowest
        self.client_loss = client_loss
        self._arrived: dict[tuple[int, int], float] = {}
        brokers = tuple(
            (row * side + column + 1, (column + 0.5) * CELL, (row + 0.5) * CELL)
            for row in range(side)
            for column in range(side)
        )
        width = side * CELL
        self.environment = Environment(
            (0.0, 0.0, width, width), CELL, brokers=brokers, mesh_range=1.6 * CELL
        )
        self.brokers = {node: (x, y) for node, x, y in brokers}
        for node, x, y in brokers:
            self._add(node, (x, y))
            self.nodes[node].failed = node in missing
        self.start()

    def _add(self, node: int, where: tuple[float, float] | Callable[[float], Position]) -> SimHost:
        host = SimHost(self, node, where)
        host.service = create_service(self.protocol, host, self.parameters, self.environment)
        host.clients = ClientTable(host, host.service, host.to_client, dict)
        self.nodes[node] = host
        return host

    def start(self) -> None:
        for host in self.nodes.values():
            if not host.failed:
                host.service.start()

    def client(self, where: tuple[float, float] | Callable[[float], Position]) -> SimHost:
        host = self._add(len(self.nodes) + 1, where)
        host.service.start()
        return host

    def restart(self, host: SimHost, behind: float) -> SimHost:
        """Restart a client's machine, whose clock is `behind` seconds earlier then."""
        host.failed = True
        again = self._add(host.node_id, host.trajectory)
        again.now = lambda: self.time - behind  # type: ignore[method-assign]
        again.service.start()
        return again

    def service(self, node: int) -> MeshService:
        service = self.nodes[node].service
        assert isinstance(service, MeshService)
        return service

    def access(self, host: SimHost) -> int:
        """Return the broker at whose access point a client is: the nearest that is there."""
        x, y, _, _ = host.position()
        alive = [node for node in self.brokers if not self.nodes[node].failed]
        return min(alive, key=lambda node: math.dist((x, y), self.brokers[node]))

    def transmit(self, sender: SimHost, to: int, datagram: bytes) -> None:
        if sender.failed:
            return
        self.sent.append((self.time, sender.node_id, to, datagram))
        of_client = sender.node_id not in self.brokers
        if to == BROADCAST:
            assert of_client, "no beacons here"
            to = self.access(sender)
        receiver = self.nodes.get(to)
        if receiver is None or receiver.failed:
            return
        if of_client or to not in self.brokers:
            client, broker = (sender, to) if of_client else (receiver, sender.node_id)
            if self.access(client) != broker or self._rng.random() < self.client_loss:
                return
        else:
            near = math.dist(self.brokers[sender.node_id], self.brokers[to])
            assert near <= self.environment.mesh_range, "not a neighbour"
        key = sender.node_id, to
        earliest = self.time + self._rng.uniform(0.0001, self.slowest)
        due = self._arrived[key] = max(earliest, self._arrived.get(key, 0.0) + 1e-6)
        self.schedule(due - self.time, receiver.hear, datagram, sender.node_id)

    def counters(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for host in self.nodes.values():
            found.update(host.service.counters)
        return found

    def hops_of(self, kind: Kind, between_brokers: bool = True) -> int:
        """Return how often frames of a kind were sent between brokers, or to or from clients."""
        return sum(
            datagram[1] == kind
            and (sender in self.brokers and to in self.brokers) == between_brokers
            for _, sender, to, datagram in self.sent
        )


def navigate(host: SimHost, *route: float) -> str | None:
    """Tell a client where it is going; return why it was refused, or None."""
    body = wire.encode_body(list(map(float, Route(*route))))
    answer = host.request(Frame(ClientKind.NAVIGATE, 5, 0, hops=0, body=body))
    assert answer is None or isinstance(answer, str)
    return answer


class Walker:
    """A client that goes from point to point, and tells its node where before each leg."""

    def __init__(
        self, network: MeshNetwork, points: list[tuple[float, float]], speed: float
    ) -> None:
        self._points = points
        self._speed = speed
        self._network = network
        self._times = [0.0]
        for a, b in itertools.pairwise(points):
            self._times.append(self._times[-1] + max(math.dist(a, b) / speed, 1e-3))
        self._from = network.time
        self.host = network.client(self.position)

    @property
    def needs(self) -> float:
        return self._times[-1]

    def position(self, time: float) -> Position:
        time -= self._from
        for leg in range(len(self._points) - 1):
            begin, end = self._times[leg], self._times[leg + 1]
            if time < end:
                share = max(time - begin, 0.0) / (end - begin)
                (x, y), (dx, dy) = self._points[leg], self._points[leg + 1]
                vx, vy = (dx - x) / (end - begin), (dy - y) / (end - begin)
                return Position(x + share * (dx - x), y + share * (dy - y), vx, vy)
        return Position(*self._points[-1])

    def go(self, *, told: bool = True) -> None:
        """Tell the node of each leg when it begins."""
        self._from = self._network.time
        if told:
            for leg, time in enumerate(self._times[:-1]):
                x, y = self._points[leg + 1]
                self._network.schedule(time, navigate, self.host, x, y, self._speed, 0.0, 0.0)
            x, y = self._points[-1]
            self._network.schedule(self.needs, navigate, self.host, x, y, 0.0, 0.0, 0.0)


def random_walk(rng: random.Random, side: int, legs: int) -> list[tuple[float, float]]:
    width = side * CELL
    return [(rng.uniform(1, width - 1), rng.uniform(1, width - 1)) for _ in range(legs + 1)]

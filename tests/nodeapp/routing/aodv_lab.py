"""A graph of AODV routers under a virtual clock; links, losses and latencies are the test's."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nodeapp.host import Position
from nodeapp.kinds import CommonKind, Kind
from nodeapp.routing.aodv import Aodv, AodvParameters
from nodeapp.routing.aodv_table import AodvRoute, newer
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import BROADCAST, Frame, decode


class PendingCall:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class AodvStation:
    """The `nodeapp.host.Host` of one router."""

    def __init__(self, graph: Graph, node_id: int) -> None:
        self.graph = graph
        self.node_id = node_id
        self.rng = random.Random(f"{graph.seed}/{node_id}")
        self.counters: Counter[str] = Counter()
        self.arrived: list[Frame] = []
        self.unreachable: list[int] = []
        """Nodes that the router has found no way to."""
        self.queued: dict[int, list[bytes]] = {}
        """What waits in the interface queue, by neighbour, if a test says so."""
        self.link_failed: Callable[[int, bytes], None] | None = None
        self.router = Aodv(
            self,
            graph.parameters,
            self.counters,
            self.arrived.append,
            graph.replaces,
            self.unreachable.append,
        )

    def now(self) -> float:
        return self.graph.time

    def position(self) -> Position:
        raise AssertionError("AODV knows no positions")

    def send(self, to: int, datagram: bytes) -> None:
        self.graph.transmit(self, to, datagram)

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        self.link_failed = failed
        return True

    def withdraw(self, to: int) -> list[bytes]:
        waiting, self.queued[to] = self.queued.get(to, []), []
        return waiting

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        raise AssertionError("not asked for")

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> PendingCall:
        return self.graph.schedule(delay, self, callback, *args)

    def notify(self, event: Any, hops: int) -> None:
        raise AssertionError("routing knows no events")

    def hear(self, frame: Frame, sender: int) -> None:
        handler = self.router.handlers.get(frame.kind, self.router.receive)
        handler(frame, sender)

    def route(self, destination: int) -> AodvRoute | None:
        """Return the valid route to a destination."""
        return self.router.table.valid(destination, self.graph.time)


class Graph:
    """Stations 1 to `count`; a link (a, b) carries frames from a to b."""

    def __init__(
        self,
        count: int,
        links: Iterable[tuple[int, int]] = (),
        *,
        seed: int = 0,
        loss: float = 0.0,
        latency: float = 0.001,
        replaces: Callable[[Frame], Hashable] = lambda frame: None,
        **parameters: Any,
    ) -> None:
        self.seed = seed
        self.time = 0.0
        self.loss = loss
        self.parameters = AodvParameters(**parameters)
        self.replaces = replaces
        self.links: set[tuple[int, int]] = set()
        self.sent: list[tuple[float, int, int, Frame]] = []
        """(time, sender, receiver, frame) of every transmission."""
        self.after_event: Callable[[AodvStation], None] = lambda station: None
        self._latency = latency
        self._rng = random.Random(seed)
        self._number = itertools.count()
        self._queue: list[
            tuple[float, int, PendingCall, AodvStation, Callable[..., None], tuple[Any, ...]]
        ] = []
        for one, other in links:
            self.connect(one, other)
        self.stations = {node: AodvStation(self, node) for node in range(1, count + 1)}
        for station in self.stations.values():
            station.router.start()

    def connect(self, one: int, other: int) -> None:
        self.links |= {(one, other), (other, one)}

    def cut(self, one: int, other: int) -> None:
        self.links -= {(one, other), (other, one)}

    def schedule(
        self, delay: float, station: AodvStation, callback: Callable[..., None], *args: Any
    ) -> PendingCall:
        timer = PendingCall()
        entry = (self.time + delay, next(self._number), timer, station, callback, args)
        heapq.heappush(self._queue, entry)
        return timer

    def transmit(self, sender: AodvStation, to: int, datagram: bytes) -> None:
        frame = decode(datagram)
        self.sent.append((self.time, sender.node_id, to, frame))
        for receiver in self.stations if to == BROADCAST else (to,):
            linked = (sender.node_id, receiver) in self.links
            delay = self._latency * (0.5 + self._rng.random())
            if linked and not (self.loss and self._rng.random() < self.loss):
                station = self.stations[receiver]
                self.schedule(delay, station, station.hear, frame, sender.node_id)
            elif to != BROADCAST and sender.link_failed is not None:
                self.schedule(delay, sender, sender.link_failed, to, datagram)

    def run(self, duration: float) -> None:
        """Let `duration` seconds pass."""
        end = self.time + duration
        while self._queue and self._queue[0][0] <= end:
            self.time, _, timer, station, callback, args = heapq.heappop(self._queue)
            if not timer.cancelled:
                callback(*args)
                self.after_event(station)
        self.time = end

    def send(self, source: int, destination: int, sequence: int = 0) -> None:
        """Send a data frame."""
        frame = Frame(CommonKind.EVENT, source, destination, source, sequence, hops=0)
        self.stations[source].router.send(frame, (0.0, 0.0))
        self.after_event(self.stations[source])

    def frames(self, kind: Kind, since: float = 0.0) -> list[tuple[float, int, int, Frame]]:
        return [each for each in self.sent if each[3].kind == kind and each[0] >= since]

    def component(self, start: int) -> set[int]:
        """Return all that have a path to and from `start` over links of both directions."""
        reached, waiting = {start}, [start]
        while waiting:
            one = waiting.pop()
            for other in self.stations:
                both = {(one, other), (other, one)} <= self.links
                if both and other not in reached:
                    reached.add(other)
                    waiting.append(other)
        return reached

    # What holds at every moment.

    def check(self, station: AodvStation) -> None:
        """Check all routes of a station, and those of others over it.

        A net sequence number is a route's own, or one less while the route is not valid.  If
        every hop leads to a newer one, or to the same one and fewer hops, there is no loop.  An
        invalid route leads nowhere, and becomes valid with a newer number only, or with one hop.
        """
        now, me = self.time, station.node_id
        for destination in [node for node, _ in station.router.table.items()]:
            assert destination != me, "a route to the node itself"
            route = station.router.table.known(destination, now)
            if route is None:
                continue
            assert not (route.valid and route.repairable), "nothing to repair"
            assert route.valid or route.repairable or not route.precursors, "nobody to tell"
            if route.known:
                own = self.stations[destination].router.sequence
                assert not newer(net_sequence(route), own), "ahead of the destination"
            if route.valid:
                self._check_hop(station, destination, route)
                self._check_no_loop(me, destination)
        for other in self.stations.values():
            for destination, route in list(other.router.table.items()):
                if route.next_hop == me and route.valid and route.expires > now:
                    self._check_hop(other, destination, route)

    def _check_hop(self, station: AodvStation, destination: int, route: AodvRoute) -> None:
        if route.next_hop == destination:
            assert route.hops == 1
            return
        assert route.known, "only neighbours are routed to without a sequence number"
        following = self.stations[route.next_hop].router.table.known(destination, self.time)
        assert following is not None
        assert following.known, "a next hop without a sequence number"
        one, other = net_sequence(route), net_sequence(following)
        fewer = following.hops < route.hops or not following.valid
        improves = newer(other, one) or (one == other and fewer)
        assert improves, f"{station.node_id} to {destination}: no progress at {route.next_hop}"

    def _check_no_loop(self, start: int, destination: int) -> None:
        passed = {start}
        at = start
        while at != destination:
            route = self.stations[at].route(destination)
            if route is None:
                return
            at = route.next_hop
            assert at not in passed, f"a loop from {start} to {destination}"
            passed.add(at)


def net_sequence(route: AodvRoute) -> int:
    return route.sequence if route.valid else (route.sequence - 1) & 0xFFFFFFFF


def line(count: int) -> list[tuple[int, int]]:
    return [(node, node + 1) for node in range(1, count)]


def rings(graph: Graph, node: int, since: float = 0.0) -> list[tuple[float, int]]:
    """Return when a node sent requests, and their TTLs as an IP header has them."""
    return [
        (time, frame.ttl + 1)
        for time, sender, _, frame in graph.frames(AodvKind.ROUTE_REQUEST, since)
        if sender == node == frame.originator
    ]


def discovered(count: int = 4, **parameters: Any) -> Graph:
    """Return a line with a route from its first station to its last."""
    graph = Graph(count, line(count), **parameters)
    graph.send(1, count)
    graph.run(3.0)
    assert len(graph.stations[count].arrived) == 1
    return graph

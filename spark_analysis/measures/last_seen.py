"""Where an event was last seen on its way to a subscriber that missed it, and why it stopped there.

Its path is worked out from captures; faults, positions and the radio range are the scenario's; what
the air did to a frame is in the medium's log (`emulation.radio.losses`), if there is one.

The last hop.  In this order:

  * The subscriber's own node has it: the event stopped there.
  * Frames whose final destination is that node: the last of them that was sent or received.
  * Frames that are routed to another place, such as a broker, and to no other subscriber: the same.
  * A frame for a neighbour that never had the event: of several, that whose neighbour is nearest to
    the subscriber.
  * Broadcasts: of all nodes that had the event, the one from which the fewest hops lead to the
    subscriber in the graph of nodes within radio range when the event was published.  The next node
    on that path did not get it.

The cause there.  A node that sent the event on lost it on the way to the next: the node or the link
was down, it was out of range, or the log says what happened.  A node that did not send it on was
down, the run ended, the graph has no path from it to the subscriber (out of range), the node had
the subscription (no route), or it did not (subscription not known).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from scipy.spatial import cKDTree

from emulation.mobility.contacts import Contacts
from emulation.mobility.trajectory import Trace
from emulation.radio.losses import LossCause
from nodeapp.wire import ANY_NODE, BROADCAST
from spark_analysis.measures.measure import Version

VERSION: Final = Version(2, "b08ebf350f8a")

UNDER_WAY_NS: Final = 1_000_000_000
"""What stopped less than this before the end of the run may have been on its way."""
_CLOCKS_NS: Final = 5_000_000
"""By how much a log may be ahead of a capture."""
_FORGIVEN: Final = 1.02
"""Factor on the range: positions are updated only now and then."""


class Cause(StrEnum):
    """Why a delivery is missing."""

    NODE_DOWN = "node down"
    LINK_DOWN = "link down"
    DISTURBED = "disturbed"
    NOT_KNOWN = "subscription not known"
    NO_ROUTE = "no route"
    OUT_OF_RANGE = "out of range"
    RETRIES = "retries spent"
    COLLISION = "collision"
    NOISE = "noise"
    QUEUE = "queue full"
    TOO_LATE = "too late"
    ENDED = "end of the run"
    AIR = "lost on the air"


MEANING: Final[Mapping[Cause, str]] = {
    Cause.NODE_DOWN: "the node or its radio had failed",
    Cause.LINK_DOWN: "the link had failed, or a partition lay across it",
    Cause.DISTURBED: "a fault `disturb` took it between the two nodes, after it had arrived",
    Cause.NOT_KNOWN: "the node had the event and did not send it on: it had no such subscription",
    Cause.NO_ROUTE: "the node knew where to send it, or was on the way, and did not",
    Cause.OUT_OF_RANGE: "the next node was out of radio range, or no path of nodes in range led on",
    Cause.RETRIES: "a unicast was not acknowledged, however often it was sent",
    Cause.COLLISION: "another transmission overlapped the broadcast",
    Cause.NOISE: "bit errors in the broadcast, near the end of the range",
    Cause.QUEUE: "the sender's queue was full",
    Cause.TOO_LATE: "it came when the client was not subscribed any more",
    Cause.ENDED: "the run ended within a second",
    Cause.AIR: "sent, in range and not received, and no log of the medium says why",
}
_OF_LOG: Final[Mapping[str, Cause]] = {
    LossCause.COLLISION: Cause.COLLISION,
    LossCause.NOISE: Cause.NOISE,
    LossCause.DOWN: Cause.NODE_DOWN,
    LossCause.RETRIES: Cause.RETRIES,
    LossCause.UNREACHABLE: Cause.OUT_OF_RANGE,
    LossCause.QUEUE: Cause.QUEUE,
    LossCause.WITHDRAWN: Cause.NO_ROUTE,
}
_AT_DISTANCE: Final = (Cause.NOISE, Cause.RETRIES)
"""What the log says of a receiver that was out of range."""


class Hop(NamedTuple):
    """A captured frame of an event; `target` is the node it is sent to, None for all."""

    time_ns: int
    node: int
    sent: bool
    source: int
    target: int | None
    hops: int
    destination: int
    addressees: Collection[int] | None


class Loss(NamedTuple):
    """A row of the medium's log, of one event."""

    time_ns: int
    sender: int
    hops: int
    destination: int
    cause: str
    receivers: Collection[int]


class Lost(NamedTuple):
    """Where an event was last seen, when (Unix ns), the next node if there is one, and why."""

    node: int
    time_ns: int
    cause: Cause
    following: int | None = None


Span = tuple[int, int]
"""From, until, Unix ns; until is exclusive."""


@dataclass(eq=False)
class Conditions:
    """What the scenario of one run determines: times are Unix ns, nodes by id.

    `down` has node apps and radios that had failed, `cut` links that had failed, by pair in order,
    and `lines` partitions: x0, y0, x1, y1, metres, and when.
    """

    ids: Sequence[int]
    trace: Trace
    reach: float
    epoch_ns: int
    end_ns: int
    is_ad_hoc: bool
    """Whether a frame goes from radio to radio, with nothing in between."""
    down: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    crashed: Mapping[int, Sequence[Span]] = field(default_factory=dict)
    cut: Mapping[tuple[int, int], Sequence[Span]] = field(default_factory=dict)
    disturbed: Mapping[tuple[int, int], Sequence[Span]] = field(default_factory=dict)
    lines: Sequence[tuple[tuple[float, float, float, float], Span]] = ()
    known: Collection[tuple[int, int]] = frozenset()
    """Nodes that kept a subscription message, and whose it was."""
    spreads: bool = False
    """Whether nodes have to know of a subscription to send an event towards it."""
    spreads_to_publishers: bool = False
    contacts: Contacts | None = None
    """What decides who is in range, instead of positions."""

    @functools.cached_property
    def index(self) -> Mapping[int, int]:
        return {node: at for at, node in enumerate(self.ids)}

    def position(self, node: int, time_ns: int) -> tuple[float, float]:
        """Return where a node is, metres."""
        return self.trace.position(self.index[node], (time_ns - self.epoch_ns) / 1e9)

    def is_down(self, node: int, time_ns: int) -> bool:
        return _within(self.down.get(node, ()), time_ns)

    def is_cut(self, one: int, other: int, time_ns: int) -> bool:
        """Return whether the link between two nodes had failed on purpose."""
        if _of_pair(self.cut, one, other, time_ns):
            return True
        lines = [line for line, span in self.lines if _within((span,), time_ns)]
        if not lines:
            return False
        here, there = self.position(one, time_ns), self.position(other, time_ns)
        return any(_left(line, here) != _left(line, there) for line in lines)

    def is_disturbed(self, one: int, other: int, time_ns: int) -> bool:
        """Return whether packets between two nodes were dropped on purpose."""
        return _of_pair(self.disturbed, one, other, time_ns)

    def in_range(self, one: int, other: int, time_ns: int) -> bool:
        if self.contacts is not None:
            pair = sorted((self.index[one], self.index[other]))
            return tuple(pair) in self.contacts.at((time_ns - self.epoch_ns) / 1e9)
        here, there = self.position(one, time_ns), self.position(other, time_ns)
        return math.dist(here, there) <= self.reach * _FORGIVEN

    def graph(self, time_ns: int) -> Sequence[Sequence[int]]:
        """Return the neighbours of each node within range, by index."""
        still = not self.trace.moving and self.contacts is None
        return self._graph(self.epoch_ns if still else time_ns)

    @functools.lru_cache(maxsize=4)  # noqa: B019  it lives as long as a query
    def _graph(self, time_ns: int) -> Sequence[Sequence[int]]:
        if self.contacts is not None:
            graph: list[list[int]] = [[] for _ in self.ids]
            for one, other in sorted(self.contacts.at((time_ns - self.epoch_ns) / 1e9)):
                graph[one].append(other)
                graph[other].append(one)
            return graph
        points = self.trace.positions((time_ns - self.epoch_ns) / 1e9)
        return [
            sorted(near) for near in cKDTree(points).query_ball_point(points, self.reach).tolist()
        ]

    def way(
        self, to: int, sources: Collection[int], time_ns: int, *, faults: bool
    ) -> list[int] | None:
        """Return the shortest path from one of `sources` to a node, both included; None if none.

        With `faults`, it avoids nodes and links that had failed.
        """
        graph, ids = self.graph(time_ns), self.ids
        towards: dict[int, int] = {to: to}
        pending = deque([to])
        while pending:
            node = pending.popleft()
            if node in sources:
                way = [node]
                while way[-1] != to:
                    way.append(towards[way[-1]])
                return way
            for at in graph[self.index[node]]:
                other = ids[at]
                if other in towards or (
                    faults
                    and (
                        (other not in sources and self.is_down(other, time_ns))
                        or self.is_cut(node, other, time_ns)
                    )
                ):
                    continue
                towards[other] = node
                pending.append(other)
        return None


def _of_pair(
    spans: Mapping[tuple[int, int], Sequence[Span]], one: int, other: int, time_ns: int
) -> bool:
    return _within(spans.get((min(one, other), max(one, other)), ()), time_ns)


def _within(spans: Iterable[Span], time_ns: int) -> bool:
    return any(since <= time_ns < until for since, until in spans)


def _left(line: tuple[float, float, float, float], point: tuple[float, float]) -> bool:
    x0, y0, x1, y1 = line
    return (x1 - x0) * (point[1] - y0) - (y1 - y0) * (point[0] - x0) > 0


class EventTrace:
    """Finds out where one event was lost.

    `hops` are its captured frames in order of time: sent, or received by whom they are for.
    `receivers` are all nodes that it is due to; `log` is None if the medium kept none.
    """

    def __init__(
        self,
        conditions: Conditions,
        publisher: int,
        published_ns: int,
        receivers: Collection[int],
        hops: Sequence[Hop],
        log: Sequence[Loss] | None,
    ) -> None:
        self._around = conditions
        self._published = Hop(published_ns, publisher, False, publisher, None, 0, publisher, None)
        self._receivers = receivers
        self._hops = hops
        self._log = log
        self._holders: dict[int, Hop] = {publisher: self._published}
        """Nodes that had the event, with how it came first."""
        for hop in hops:
            crashed = _within(conditions.crashed.get(hop.node, ()), hop.time_ns)
            if not hop.sent and not crashed:
                self._holders.setdefault(hop.node, hop)

    def lost(self, receiver: int, until_ns: int) -> Lost:
        """Return where the event was lost for a node whose client is subscribed until then."""
        arrival = self._arrival(receiver)
        if arrival is not None:
            return self._at_subscriber(arrival, until_ns)
        direct = [hop for hop in self._hops if hop.destination == receiver]
        if direct:
            return self._end_of(direct, receiver)
        routed = any(
            hop.destination != BROADCAST and hop.target not in (None, hop.destination)
            for hop in self._hops
        )
        if routed:
            others = self._receivers
            rest = [hop for hop in self._hops if hop.destination not in others]
            if not rest:
                return self._not_sent_on(self._published, receiver)
            return self._end_of(rest, receiver)
        if not any(hop.sent for hop in self._hops):
            return self._from_log() or self._not_sent_on(self._published, receiver)
        return self._over_neighbours(receiver)

    def _arrival(self, receiver: int) -> Hop | None:
        """Return how the event came to a subscriber's node, unless that only forwarded it."""
        arrival = self._holders.get(receiver)
        if arrival is None or arrival is self._published:
            return arrival
        forwarded = {
            (hop.destination, hop.hops - 1)
            for hop in self._hops
            if hop.sent and hop.node == receiver
        }
        return next(
            (
                hop
                for hop in self._hops
                if hop.node == receiver
                and not hop.sent
                and hop.destination in (receiver, BROADCAST, ANY_NODE)
                and not (hop.destination == ANY_NODE and (ANY_NODE, hop.hops) in forwarded)
            ),
            None,
        )

    def _at_subscriber(self, arrival: Hop, until_ns: int) -> Lost:
        node, time_ns = arrival.node, arrival.time_ns
        cause = Cause.NOT_KNOWN
        if self._around.is_down(node, time_ns):
            cause = Cause.NODE_DOWN
        elif time_ns >= until_ns:
            cause = Cause.TOO_LATE
        elif self._ends(time_ns):
            cause = Cause.ENDED
        return Lost(node, time_ns, cause)

    def _end_of(self, hops: Sequence[Hop], receiver: int) -> Lost:
        """Return where a chain of frames ended."""
        last = max(hops, key=lambda hop: (hop.time_ns, hop.hops, not hop.sent))
        if last.sent:
            return self._on_the_way(last, receiver if last.target is None else last.target)
        if _within(self._around.crashed.get(last.node, ()), last.time_ns):
            return Lost(last.source, last.time_ns, Cause.NODE_DOWN, last.node)
        if last.destination in (ANY_NODE, last.node):
            return self._not_sent_on(last, receiver)
        return self._not_sent_on(last, receiver, on_the_way=True)

    def _not_sent_on(self, seen: Hop, receiver: int, *, on_the_way: bool = False) -> Lost:
        """Return why a node that had the event did not send it on, as a forwarder too."""
        node, time_ns, around = seen.node, seen.time_ns, self._around
        spreads = (
            around.spreads_to_publishers if seen is self._published else around.spreads
        ) and not on_the_way
        cause = Cause.NO_ROUTE
        if around.is_down(node, time_ns):
            cause = Cause.NODE_DOWN
        elif self._ends(time_ns):
            cause = Cause.ENDED
        elif around.is_ad_hoc and node != receiver and not self._way(receiver, {node}):
            return self._cut_off(receiver, {node: seen})
        elif spreads and (node, receiver) not in around.known:
            cause = Cause.NOT_KNOWN
        return Lost(node, time_ns, cause)

    def _way(self, to: int, sources: Collection[int], *, faults: bool = True) -> list[int] | None:
        return self._around.way(to, sources, self._published.time_ns, faults=faults)

    def _over_neighbours(self, receiver: int) -> Lost:
        """Return where an event that neighbours pass on was lost."""
        failed = [
            (hop, node)
            for hop in self._hops
            if hop.sent
            for node in ((hop.target,) if hop.target is not None else hop.addressees or ())
            if node is not None and node not in self._holders
        ]
        if failed:
            ways = {node: self._way(receiver, {node}, faults=False) for _, node in failed}
            last, node = min(failed, key=lambda pair: len(ways[pair[1]] or self._around.ids))
            return self._on_the_way(last, node)
        if not self._around.is_ad_hoc:
            return self._not_sent_on(list(self._holders.values())[-1], receiver)
        way = self._way(receiver, self._holders)
        if way is None:
            return self._cut_off(receiver, self._holders)
        node, following = way[:2]
        to_all = [
            hop
            for hop in self._hops
            if hop.sent and hop.node == node and hop.target is None and hop.addressees is None
        ]
        if to_all:
            return self._on_the_way(to_all[-1], following)
        return self._not_sent_on(self._holders[node], receiver)

    def _cut_off(self, receiver: int, holders: Mapping[int, Hop]) -> Lost:
        """Return where an event stopped for want of a path of nodes and links that are up."""
        time_ns, around = self._published.time_ns, self._around
        way = self._way(receiver, holders, faults=False)
        if way is None:
            there = around.position(receiver, time_ns)
            node = min(holders, key=lambda node: math.dist(around.position(node, time_ns), there))
            return Lost(node, holders[node].time_ns, Cause.OUT_OF_RANGE, receiver)
        broken = next(
            (
                Cause.NODE_DOWN if around.is_down(following, time_ns) else Cause.LINK_DOWN
                for node, following in itertools.pairwise(way)
                if around.is_down(following, time_ns) or around.is_cut(node, following, time_ns)
            ),
            Cause.NODE_DOWN,
        )
        return Lost(way[0], holders[way[0]].time_ns, broken, way[1])

    def _from_log(self) -> Lost | None:
        """Return the last loss of a fragmented message, which captures do not show, if known."""
        if not self._log:
            return None
        last = max(self._log, key=lambda loss: loss.time_ns)
        following = next(iter(last.receivers), None)
        return Lost(last.sender, last.time_ns, _OF_LOG[last.cause], following)

    def _ends(self, time_ns: int) -> bool:
        return time_ns >= self._around.end_ns - UNDER_WAY_NS

    def _on_the_way(self, hop: Hop, following: int) -> Lost:
        """Return why a frame that a node sent did not reach the next one."""
        time_ns = hop.time_ns
        return Lost(hop.node, time_ns, self._why(hop, following), following)

    def _why(self, hop: Hop, following: int) -> Cause:
        around, time_ns = self._around, hop.time_ns
        if around.is_down(following, time_ns) or around.is_down(hop.node, time_ns):
            return Cause.NODE_DOWN
        if around.is_ad_hoc and around.is_cut(hop.node, following, time_ns):
            return Cause.LINK_DOWN
        near = not around.is_ad_hoc or around.in_range(hop.node, following, time_ns)
        row = self._row(hop, following)
        if row is not None:
            cause = _OF_LOG[row.cause]
            return Cause.OUT_OF_RANGE if not near and cause in _AT_DISTANCE else cause
        if not near:
            return Cause.OUT_OF_RANGE
        if around.is_disturbed(hop.node, following, time_ns):
            return Cause.DISTURBED
        return Cause.ENDED if self._ends(time_ns) else Cause.AIR

    def _row(self, hop: Hop, following: int) -> Loss | None:
        """Return what the log says of a frame: the first row of its sender, or of any if none."""
        rows = [
            loss
            for loss in self._log or ()
            if (loss.hops, loss.destination) == (hop.hops, hop.destination)
            and loss.time_ns >= hop.time_ns - _CLOCKS_NS
            and (following in loss.receivers or not loss.receivers or not self._around.is_ad_hoc)
        ]
        rows.sort(key=lambda loss: (loss.sender != hop.node, loss.time_ns))
        return next(iter(rows), None)

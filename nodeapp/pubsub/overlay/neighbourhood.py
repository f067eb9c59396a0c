"""What a peer knows of others: descriptions, its table, who has chosen it, and its ring.

Links are bidirectional: a peer sends to those that it has chosen and to those that have chosen it.
It tells each that it chooses, and each that it no longer chooses.

Peers of one ring (equal identifiers and cells) know each other by lists that they pass round.  The
one that joined first is the primary peer, and has the links; the others keep descriptions of peers
only, and take over in the order in which they joined.  A list may be under way while a member
leaves or joins again, and tell of a membership that is over: of two memberships the later one
counts, one that its peer has ended counts no more, and lists of another ring never count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from nodeapp.host import Host, Timer
from nodeapp.kinds import Kind
from nodeapp.pubsub.overlay import messages
from nodeapp.pubsub.overlay.identifiers import covers
from nodeapp.pubsub.overlay.messages import Codec, Described, OverlayKind, OverlayRules, Ring
from nodeapp.pubsub.overlay.parameters import STATIC, OverlayParameters
from nodeapp.pubsub.overlay.tables import (
    BITS,
    OverlayTable,
    Peer,
    choose,
    covering_peers,
    uncovered,
)
from nodeapp.wire import Frame, WireError

MAX_KNOWN: Final = 8192
"""Most peers of which a peer keeps a description."""
REBUILD: Final = 0.2
"""Seconds from an announcement until the table is rebuilt, with all that came meanwhile."""
ANSWERS: Final = 1.0
"""The same for a peer that knows nobody yet."""

Send = Callable[[Kind, int, bytes], None]


class Neighbourhood:
    """That of one peer; `send(kind, to, body)` sends.

    `rebuilt()` is called when the table was made of all that is known, `took_over()` when this peer
    is primary because another one has gone to another ring.
    """

    def __init__(
        self,
        host: Host,
        parameters: OverlayParameters,
        counters: Counter[str],
        send: Send,
        rebuilt: Callable[[], None],
        took_over: Callable[[], None],
    ) -> None:
        self.me: Described | None = None
        self.known: dict[int, Described] = {}
        self.table = OverlayTable()
        self.notified: frozenset[int] = frozenset()
        """Peers that were told that this one has chosen them."""
        self.incoming: set[int] = set()
        self.ring: dict[int, int] = {}
        """Members of this peer's ring, itself among them: when each joined."""
        self.heard: dict[int, float] = {}
        """When a peer was last heard, seconds."""
        self.joining = False
        self.handlers: dict[int, Callable[[Frame], None]] = {
            OverlayKind.ANNOUNCE: self._announcement_received,
            OverlayKind.LINK: self._link_received,
            OverlayKind.RING: self._ring_received,
        }
        self.codec = Codec(OverlayRules(parameters.bits, parameters.hashes, parameters.space))
        self.node = host.node_id
        self.send = send
        self.counters = counters
        self._host = host
        self._parameters = parameters
        self._rebuilt = rebuilt
        self._took_over = took_over
        self._ring_key = b""
        self._ended: dict[int, int] = {}
        """When peers that have left had joined."""
        self._rebuild_at: Timer | None = None
        self._links: dict[int, Peer] | None = None

    def begin(self, me: Described) -> None:
        """Be a peer that others do not know yet."""
        self.me = me
        self.ring = {self.node: me.joined}
        self._ring_key = messages.ring_key(me.peer)
        self._links = None

    def end(self) -> None:
        """Cease to be a peer; descriptions of others stay."""
        self.table, self.notified, self.me, self.joining = OverlayTable(), frozenset(), None, False
        self.incoming.clear()
        self.ring.clear()
        self.heard.clear()
        self._links = None

    @property
    def is_primary(self) -> bool:
        """Whether this peer has the links of its ring."""
        return self.primary == self.node

    @property
    def primary(self) -> int:
        """The peer that has the links of this peer's ring; itself if there is no other."""
        return min(((at, node) for node, at in self.ring.items()), default=(0, self.node))[1]

    def links(self) -> dict[int, Peer]:
        """Return the peers that this one has links with, chosen and incoming, by node."""
        if self._links is None:
            known = self.known
            nodes = sorted(self.table.nodes | self.incoming)
            self._links = {node: known[node].peer for node in nodes if node in known}
        return self._links

    def everybody(self) -> set[int]:
        """Return all peers that this one exchanges heartbeats with."""
        return {*self.table.nodes, *self.incoming, *self.ring} - {self.node}

    # The table.

    def chosen(self) -> Iterator[Peer]:
        return (self.known[node].peer for node in self.table.nodes if node in self.known)

    def uncovered(self) -> int:
        """Return the bits of this peer's interests that its table does not cover."""
        assert self.me is not None
        return uncovered(self.me.peer, self.chosen())

    def choice(self) -> OverlayTable:
        """Return the table that Algorithms 1 and 2 make of all that is known."""
        assert self.me is not None
        parameters = self._parameters
        return choose(
            self.me.peer, self._candidates(), covering=parameters.covering, unit=parameters.cover
        )

    def _candidates(self) -> Iterable[Peer]:
        """Return the primary peers of all rings that this one knows, its own ring left out."""
        first: dict[tuple[int, frozenset[int]], Described] = {}
        for described in self.known.values():
            key = described.peer.identifier, described.peer.cells
            if key not in first or described.seniority < first[key].seniority:
                first[key] = described
        return (primary.peer for primary in first.values() if primary.peer.node not in self.ring)

    def prefer(self, table: OverlayTable) -> None:
        """Use this table, and tell nobody yet."""
        self.table = table
        self._links = None

    def adopt(self, table: OverlayTable) -> None:
        """Use this table: tell those that are new in it, and those that are no longer in it."""
        assert self.me is not None
        before, self.notified = self.notified, table.nodes
        self.prefer(table)
        for node in sorted(table.nodes - before):
            self.heard[node] = self._host.now()
            self.send(OverlayKind.LINK, node, self.codec.link(self.me, added=True))
        for node in sorted(before - table.nodes):
            self.send(OverlayKind.LINK, node, self.codec.link(self.me, added=False))

    def has_left(self, node: int, joined: int) -> bool:
        """Note the end of the membership that began then; return whether it is not over already."""
        if joined <= self._ended.get(node, -1):
            return False
        if node in self._ended or len(self._ended) < MAX_KNOWN:
            self._ended[node] = joined
        known = self.known.get(node)
        return self.ring.get(node, joined) <= joined and (known is None or known.joined <= joined)

    def forget(self, node: int) -> bool:
        """Go on without a peer; return whether this one had chosen it."""
        had = node in self.notified
        self.ring.pop(node, None)
        self.known.pop(node, None)
        self.incoming.discard(node)
        self.heard.pop(node, None)
        self.notified = self.notified - {node}
        self.prefer(_without(self.table, node))
        return had

    def note(self, described: Described) -> None:
        """Keep a description of another peer."""
        node = described.peer.node
        if node == self.node:
            return
        if node not in self.known and len(self.known) >= MAX_KNOWN:
            self.counters["descriptions not kept"] += 1
            return
        before = self.known.get(node)
        if described.joined <= self._ended.get(node, -1):
            return
        if before is not None and before.peer != described.peer:
            if described.joined < before.joined:
                return
            self.prefer(_without(self.table, node))  # it is another one now
            self.notified = self.notified - {node}
        self.known[node] = described
        self._links = None
        if self.me is None:
            return
        if self.me.peer.is_same(described.peer):
            self._add([(described.joined, node)])
        elif node in self.ring:
            was = self.is_primary
            del self.ring[node]
            if self.is_primary and not was:
                self._took_over()

    def learn(self, described: Described) -> None:
        """Take a new peer into the table if that covers what was not covered, or is nearer."""
        self.note(described)
        if self._parameters.discovery == STATIC:
            self.soon()
            return
        if self.me is None or self.joining or not self.is_primary:
            return
        me, peer = self.me.peer, described.peer
        if peer.node in self.table.nodes or peer.node in self.ring or not self._is_first(described):
            return
        covering, covered, neighbours = self.table
        other = peer.identifier != me.identifier
        if other and covers(peer.identifier, me.identifier):
            known = [self.known[node].peer for node in covering if node in self.known]
            nearest = covering_peers(me, [*known, peer], self._parameters.covering)
            self._take(self.table._replace(covering=tuple(coverer.node for coverer in nearest)))
        elif other and covers(me.identifier, peer.identifier):
            if self._adds(me, covered, peer):
                self._take(self.table._replace(covered=(*covered, peer.node)))
        elif self._adds(me, neighbours, peer):
            self._take(self.table._replace(neighbours=(*neighbours, peer.node)))

    def _take(self, table: OverlayTable) -> None:
        if table != self.table:
            self.adopt(table)

    def _is_first(self, described: Described) -> bool:
        """Return whether no senior peer of the same ring is among the links."""
        return not any(
            self.known[node].peer.is_same(described.peer)
            and self.known[node].seniority < described.seniority
            for node in self.links()
        )

    def _adds(self, me: Peer, nodes: Iterable[int], peer: Peer) -> bool:
        """Return whether a peer covers interests that these do not."""
        peers = [self.known[node].peer for node in nodes if node in self.known]
        if self._parameters.cover == BITS:
            return bool(uncovered(me, peers) & peer.identifier)
        uncovered_cells = set(me.cells).difference(*(peer.cells for peer in peers))
        return not uncovered_cells.isdisjoint(peer.cells)

    def soon(self) -> None:
        """Make the table of all that is known, after a while."""
        if self._rebuild_at is None:
            wait = REBUILD if self.known else ANSWERS
            self._rebuild_at = self._host.call_later(wait, self._rebuild)

    def _rebuild(self) -> None:
        self._rebuild_at = None
        if self.me is not None:
            self.adopt(self.choice() if self.is_primary else OverlayTable())
            self._rebuilt()

    def _announcement_received(self, frame: Frame) -> None:
        described = self.codec.read_announcement(frame.body)
        if isinstance(described, OverlayRules):
            self.counters["other rules"] += 1
            return
        _from(frame, described)
        self.learn(described)
        if self.me is not None and frame.originator in self.notified:
            self.send(OverlayKind.LINK, frame.originator, self.codec.link(self.me, added=True))

    def _link_received(self, frame: Frame) -> None:
        added, described = self.codec.read_link(frame.body)
        _from(frame, described)
        node = frame.originator
        self._links = None
        if not added:
            self.incoming.discard(node)
        elif self.me is not None:
            self.heard[node] = self._host.now()
            self.note(described)
            if node in self.known:
                self.incoming.add(node)
                self._links = None
            self.learn(described)

    # Rings.

    def my_ring(self) -> Ring:
        """Return this peer's ring."""
        return Ring(self._ring_key, [(at, node) for node, at in self.ring.items()])

    def merge(self, ring: Ring) -> None:
        """Take members from a list of this peer's ring; pass it on if there was a new one."""
        if ring.key == self._ring_key:
            self._add(ring.members)

    def _add(self, members: Iterable[tuple[int, int]]) -> None:
        if self.me is None:
            return
        new = {node: at for at, node in members if self._is_new(self.me.peer, node, at)}
        if not new:
            return
        was = self.is_primary
        self.ring |= new
        for node in new:
            self.heard[node] = self._host.now()
        body = messages.ring(self.my_ring())
        for node in self.ring:
            if node != self.node:
                self.send(OverlayKind.RING, node, body)
        if was and not self.is_primary and self.notified:
            self.adopt(OverlayTable())

    def _is_new(self, me: Peer, node: int, joined: int) -> bool:
        """Return whether a membership of this peer's ring is a later one than what is known."""
        if node == self.node or joined <= max(self.ring.get(node, -1), self._ended.get(node, -1)):
            return False
        known = self.known.get(node)
        if known is None or joined > known.joined:
            return True
        return joined == known.joined and me.is_same(known.peer)

    def _ring_received(self, frame: Frame) -> None:
        ring = messages.read_ring(frame.body)
        joined = {node: at for at, node in ring.members}.get(self.node)
        if joined is None:
            return
        if self.me is not None and ring.key == self._ring_key:
            self.merge(ring)
        elif self.me is None or joined < self.me.joined:  # it has not heard that this peer left
            (body,) = self.codec.leave(joined)
            self.send(OverlayKind.LEAVE, frame.originator, body)

    def successor(self) -> int | None:
        """Return the next peer of the ring, in order of joining; None if there is no other."""
        order = [node for _, node in sorted((at, node) for node, at in self.ring.items())]
        if len(order) < 2 or self.node not in order:
            return None
        return order[(order.index(self.node) + 1) % len(order)]


def _without(table: OverlayTable, node: int) -> OverlayTable:
    return OverlayTable(*(tuple(linked for linked in kind if linked != node) for kind in table))


def _from(frame: Frame, described: Described) -> None:
    """Raise `WireError` if a peer describes another one as itself."""
    if described.peer.node != frame.originator:
        raise WireError("a peer that says it is another")

"""Mirinae as far as it is described: the overlay with which the semantic overlay is compared.

Peers and identifiers are those of `nodeapp.pubsub.overlay.peer`; links and the paths of events are
those of `hypercube`.  Every peer tells all others of itself and chooses its links among all.

Peers come and go, and how Mirinae then keeps its links is assumed, after the semantic overlay.  One
that comes tells all, and asks them to tell of themselves, as it may have missed some; one whose
interests change tells all, and so does one that leaves.  Heartbeats go along links, to the peers
that one has chosen and to those that have chosen it.  Every peer is alone in the lowest subtree
that it shares with others, so these all have a link to it: whoever misses it first tells all, and
they choose their links again.  News of a failure is not believed while the peer is heard.  One that
hears that it counts as failed, or that has heard nobody for a while, tells all of itself again, and
asks them.  Heartbeats have a digest of all peers that their sender knows: one that differs from its
neighbour's for a heartbeat has missed news, and asks all who is there.

What is not known of it for certain: docs/overlay.md.  Source: docs/papers.md#mirinae.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final

from nodeapp import wire
from nodeapp.events import Event
from nodeapp.host import Host, Timer
from nodeapp.kinds import Kind
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.overlay import messages
from nodeapp.pubsub.overlay.base import OverlayService
from nodeapp.pubsub.overlay.hypercube import NODE_BITS, CubeDimension, dimensions, unique
from nodeapp.pubsub.overlay.identifiers import covers, identifier
from nodeapp.pubsub.overlay.messages import Codec, Described, OverlayKind, OverlayRules
from nodeapp.pubsub.overlay.parameters import BELIEVED, HeartbeatParameters
from nodeapp.pubsub.overlay.space import SpaceError
from nodeapp.pubsub.overlay.tables import Peer, with_shared
from nodeapp.wire import Frame, WireError

REBUILD: Final = 0.2
"""Seconds from an announcement until links are chosen: others come with it."""
ANSWERS: Final = 1.0
"""The same for a peer that has asked all to tell of themselves."""
LINGER: Final = 1.0
"""Seconds for which a peer that has left passes events on."""
MAX_KNOWN: Final = 8192


class Mirinae(OverlayService):
    """One peer of the hypercube."""

    Parameters = HeartbeatParameters

    def __init__(
        self, host: Host, environment: Environment, parameters: HeartbeatParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self._interval = parameters.heartbeat_interval
        self._timeout = parameters.heartbeat_timeout
        self._codec = Codec(OverlayRules(parameters.bits, parameters.hashes, parameters.space))
        self._me: Described | None = None
        self._others: dict[int, int] = {}
        """Unique ids of the other peers, by node."""
        self._links: list[CubeDimension] = []
        self._heard: dict[int, float] = {}
        """When a peer that this one has chosen was heard last."""
        self._incoming: dict[int, float] = {}
        """When a peer that has chosen this one was heard last."""
        self._entries: dict[int, int] = {}
        """When they entered, by their own clocks, milliseconds."""
        self._digests: dict[int, tuple[int, int]] = {}
        """By neighbour: its digest of all peers, and this peer's at that time."""
        self._cached_digest: int | None = None
        self._announced = self._last_heard = 0.0
        """When this peer told others of itself last, and when it heard anybody last."""
        self._rebuild_at: Timer | None = None
        self._lingers: Timer | None = None
        """Runs while this peer has left and still passes events on."""
        self._is_in = False
        self.takes = {
            OverlayKind.ANNOUNCE: self._announcement_received,
            OverlayKind.JOIN_QUERY: self._query_received,
            OverlayKind.HEARTBEAT: self._heartbeat_received,
            OverlayKind.LEAVE: self._leave_received,
            OverlayKind.PEER_FAILED: self._failure_received,
            OverlayKind.CUBE_EVENT: self._event_received,
        }

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        if not environment.nodes:
            return "mirinae needs to know all node ids: number the nodes from 1"
        return super().misfit(environment, parameters)

    def start(self) -> None:
        super().start()
        self.host.call_later(self.host.rng.uniform(0.0, self._interval), self._beat)

    def interests_changed(self, cells: frozenset[int]) -> None:
        if cells or self.waits:
            self._enter(cells)
        else:
            self._leave()

    def disseminate(self, event: Event) -> None:
        super().disseminate(event)
        if self._me is None:
            self._enter(frozenset())

    # Coming and going.

    def _enter(self, cells: frozenset[int]) -> None:
        if self._lingers is not None:
            self._lingers.cancel()
            self._lingers = None
        bits, hashes = self.parameters.bits, self.parameters.hashes
        mine = identifier(cells, bits, hashes)
        if self._me is None or self._me.peer.identifier != mine:
            peer = Peer(self.host.node_id, 0, mine, with_shared(cells))
            comes = self._me is None
            self._me = Described(peer, int(self.host.now() * 1000))
            if comes:
                self._last_heard = self.host.now()  # what it heard before does not count
                self._start_over(self._me)
            else:
                self._cached_digest = None
                self._tell_all(self._me, ask=False)
                self._soon()

    def _start_over(self, me: Described) -> None:
        """Ask all nodes who is there, and choose links among those that answer."""
        self._digests.clear()
        self._others.clear()
        self._entries.clear()
        self._cached_digest = None
        if self._rebuild_at is not None:  # too early for answers
            self._rebuild_at.cancel()
            self._rebuild_at = None
        self._tell_all(me, ask=True)
        self._soon(ANSWERS)

    def _tell_all(self, me: Described, *, ask: bool) -> None:
        """Tell all nodes of this peer, and maybe ask them to tell of themselves."""
        self._announced = self.host.now()
        kind, body = OverlayKind.ANNOUNCE, self._codec.announcement(me)
        if ask:
            kind, body = OverlayKind.JOIN_QUERY, self._codec.query(me.peer.identifier, (), me)
        self._send_all(kind, body)

    def _send_all(self, kind: Kind, body: bytes) -> None:
        for node in range(1, self.environment.nodes + 1):
            if node != self.host.node_id:
                self.send(kind, node, body)

    def _announcement_received(self, frame: Frame) -> None:
        described = self._codec.read_announcement(frame.body)
        if isinstance(described, OverlayRules):
            self.counters["other rules"] += 1
        else:
            self._know(frame, described)

    def _query_received(self, frame: Frame) -> None:
        query = self._codec.read_query(frame.body)
        if isinstance(query, OverlayRules):
            self.counters["other rules"] += 1
            return
        self._know(frame, query.asker)
        if self._me is not None:
            self.send(OverlayKind.ANNOUNCE, frame.originator, self._codec.announcement(self._me))

    def _know(self, frame: Frame, described: Described) -> None:
        peer = described.peer
        if peer.node != frame.originator:
            raise WireError("a peer that says it is another")
        if peer.node in self._others or len(self._others) < MAX_KNOWN:
            self._others[peer.node] = unique(peer.identifier, peer.node)
            self._entries[peer.node] = described.joined
            self._cached_digest = None
            self._soon()

    def _leave(self) -> None:
        if self._me is None:
            return
        (body,) = self._codec.leave(self._me.joined)
        self._send_all(OverlayKind.LEAVE, body)  # nodes that are no peers now know this one, too
        self._me, self._is_in = None, False
        # Events come until others have new links.
        self._lingers = self.host.call_later(LINGER, self._left)
        self._heard.clear()
        self._incoming.clear()
        self._digests.clear()

    def _left(self) -> None:
        self._lingers = None
        self._links = []

    def _leave_received(self, frame: Frame) -> None:
        self._codec.read_leave(frame.body)
        self._forget(frame.originator)

    def _forget(self, node: int) -> None:
        self._heard.pop(node, None)
        self._incoming.pop(node, None)
        self._entries.pop(node, None)
        self._cached_digest = None
        if self._others.pop(node, None) is not None:
            self._soon()

    # Failures.

    def _arrived(self, frame: Frame) -> None:
        now = self.host.now()
        if self._me is not None and self._last_heard < now - self._timeout:  # in reach again
            self._heard = dict.fromkeys(self._heard, now)
            self._tell_all(self._me, ask=True)
        self._last_heard = now
        if frame.originator in self._heard:
            self._heard[frame.originator] = now
        super()._arrived(frame)

    def _beat(self) -> None:
        self.host.call_later(self._interval, self._beat)
        oldest = self.host.now() - self._timeout
        silent = [node for node, heard in self._heard.items() if heard < oldest]
        if self._me is not None and max(self._last_heard, self._announced) < oldest:
            # It is this peer that is out of reach, or alone: those that do not answer now are gone.
            self._tell_all(self._me, ask=True)
            silent = []
        for node in silent:
            self.counters["failures found"] += 1
            body = messages.failed(node, ())
            # To the silent peer, too, as it may be there, and to nodes that are no peers now.
            self._send_all(OverlayKind.PEER_FAILED, body)
            self._forget(node)
        self._incoming = {node: at for node, at in self._incoming.items() if at >= oldest}
        body = messages.heartbeat(sorted(self._heard), sorted(self._incoming))
        digest = 0 if self._me is None else self._digest()
        for node in sorted({*self._heard, *self._incoming}):
            self.send(OverlayKind.HEARTBEAT, node, body, digest)

    def _digest(self) -> int:
        """Return a number that peers have in common if they know the same peers."""
        if self._cached_digest is None:
            assert self._me is not None
            known = {**self._entries, self.host.node_id: self._me.joined}
            packed = (struct.pack("!IQ", node, joined) for node, joined in sorted(known.items()))
            self._cached_digest = zlib.crc32(b"".join(packed))
        return self._cached_digest

    def _missed_news(self, node: int, theirs: int) -> bool:
        """Ask all who is there if a neighbour has known others for a heartbeat; return whether."""
        if node not in self._others:
            return False
        mine = self._digest()
        before, self._digests[node] = self._digests.get(node), (theirs, mine)
        lasts = theirs != mine and before == (theirs, mine)
        if not lasts or self._announced + self._interval > self.host.now():
            return False
        self.counters["news missed"] += 1
        assert self._me is not None
        self._start_over(self._me)
        return True

    def _heartbeat_received(self, frame: Frame) -> None:
        chosen, _ = messages.read_heartbeat(frame.body)
        node = frame.originator
        if self._me is None or self._missed_news(node, frame.sequence):
            return
        if self.host.node_id in chosen:
            self._incoming[node] = self.host.now()
        else:
            self._incoming.pop(node, None)
        if node not in self._others:
            self.send(OverlayKind.PEER_FAILED, node, messages.failed(node, ()))

    def _failure_received(self, frame: Frame) -> None:
        node, _ = messages.read_failed(frame.body)
        now = self.host.now()
        if node == self.host.node_id:
            if self._me is not None and self._announced + self._interval <= now:
                self.counters["counted as failed"] += 1
                self._tell_all(self._me, ask=True)
            return
        never = -self._timeout
        heard = max(self._heard.get(node, never), self._incoming.get(node, never))
        if now - heard > BELIEVED * self._interval:
            self._forget(node)
        else:
            self.counters["failures not believed"] += 1

    def _soon(self, wait: float = REBUILD) -> None:
        if self._rebuild_at is None:
            self._rebuild_at = self.host.call_later(wait, self._rebuild)

    def _rebuild(self) -> None:
        self._rebuild_at = None
        if self._me is None:
            return
        mine = unique(self._me.peer.identifier, self.host.node_id)
        self._links = dimensions(mine, self._others)
        now, before = self.host.now(), self._heard
        self._heard = {link.node: before.get(link.node, now) for link in self._links}
        if not self._is_in:
            self._is_in = True
            self.entered()

    def ready(self) -> bool:
        return self._is_in

    def launch(self, event: Event) -> None:
        self._pass_on(event, self.parameters.bits + NODE_BITS, 0)

    def _event_received(self, frame: Frame) -> None:
        match wire.decode_body(frame.body):
            case [int(level), bytes(body)]:
                event = Event.decode(frame.publisher, frame.sequence, body)
            case _:
                raise WireError("not an event on its way through a hypercube")
        if not self.seen.add(frame.publisher, frame.sequence, body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver_event(event, frame.hops)
        self._pass_on(event, level, frame.hops)

    def _pass_on(self, event: Event, below: int, hops: int) -> None:
        try:
            wanted, _ = self.event_identifier(event)
        except SpaceError:
            raise WireError("an event outside the space") from None
        for level, node, ones in self._links:
            if level < below and covers(ones, wanted):
                body = wire.encode_body([level, event.encode()])
                self.underlay.send(
                    Frame(
                        OverlayKind.CUBE_EVENT,
                        self.host.node_id,
                        node,
                        event.publisher,
                        event.sequence,
                        hops=hops,
                        body=body,
                    )
                )

    def status(self) -> dict[str, Any]:
        return {**super().status(), "overlay": {"links": len(self._links), "in": self._is_in}}

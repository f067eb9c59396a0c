"""A peer's membership of the overlay: entering and leaving it, and failures of others.

Theory of operation.  A peer enters with its interests: it joins by queries (`joining`), or, with
static discovery, tells every other of itself and makes its table of all, which is Algorithms 1 and
2 on the whole network, as the published static setting has them.  Whoever answers a query, or is
told of a link, takes the new peer into its own table if that covers what was not covered, or is a
nearer covering peer; earlier entries stay (`neighbourhood`).

A peer that leaves tells all that have a link with it, with the peers that it had chosen.
Heartbeats carry the sender's chosen and incoming links.  A peer that misses another's tells all
that had links with it; each drops it and asks for what it does not cover any more.  News of a
failure is not believed while the peer's own heartbeats come.

Source: docs/papers.md#semantic-overlay, section III-C; how it was read: docs/overlay.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nodeapp.host import Host
from nodeapp.pubsub.overlay import messages
from nodeapp.pubsub.overlay.identifiers import identifier
from nodeapp.pubsub.overlay.joining import Joining
from nodeapp.pubsub.overlay.messages import Described, OverlayKind
from nodeapp.pubsub.overlay.neighbourhood import Neighbourhood, Send
from nodeapp.pubsub.overlay.parameters import BELIEVED, STATIC, OverlayParameters
from nodeapp.pubsub.overlay.tables import Peer, with_shared
from nodeapp.wire import Frame


class OverlayMembership:
    """That of one peer; `entered()` is called once it is in, `nodes` is the number of nodes."""

    def __init__(
        self,
        host: Host,
        parameters: OverlayParameters,
        nodes: int,
        counters: Counter[str],
        send: Send,
        entered: Callable[[], None],
    ) -> None:
        self.is_in = False
        self.around = Neighbourhood(host, parameters, counters, send, self._is_in, self._took_over)
        self.joining = Joining(host, parameters, self.around, self._is_in, self.enter)
        self.handlers: dict[int, Callable[[Frame], None]] = {
            **self.around.handlers,
            **self.joining.handlers,
            OverlayKind.HEARTBEAT: self._heartbeat_received,
            OverlayKind.LEAVE: self._leave_received,
            OverlayKind.PEER_FAILED: self._failure_received,
        }
        self._host = host
        self._parameters = parameters
        self._nodes = nodes
        self._counters = counters
        self._send = send
        self._entered = entered
        self._links_of: dict[int, list[int]] = {}
        """By peer: its links, according to its last heartbeat."""
        self._last_joined = -1

    @property
    def trouble(self) -> str:
        """Why this peer is not in the overlay, and what to do; empty if nothing is wrong."""
        return self.joining.trouble

    def start(self) -> None:
        """Begin to send heartbeats."""
        first = self._host.rng.uniform(0.0, self._parameters.heartbeat_interval)
        self._host.call_later(first, self._beat)

    def enter(self, cells: frozenset[int]) -> None:
        """Join the overlay with an interest in these cells; leave it first if need be."""
        around, parameters = self.around, self._parameters
        if around.me is not None:
            if around.me.peer.cells == with_shared(cells):
                return
            self.leave()
        mine = identifier(cells, parameters.bits, parameters.hashes)
        peer = Peer(around.node, self._host.rng.getrandbits(64), mine, with_shared(cells))
        self._last_joined = max(int(self._host.now() * 1000), self._last_joined + 1)
        me = Described(peer, self._last_joined)
        around.begin(me)
        if parameters.discovery != STATIC:
            self.joining.begin()
            return
        body = around.codec.announcement(me)
        for node in range(1, self._nodes + 1):
            if node != around.node:
                self._send(OverlayKind.ANNOUNCE, node, body)
        around.soon()

    def leave(self) -> None:
        """Tell everybody who has a link with this peer, with the peers that it had chosen."""
        around = self.around
        if around.me is None:
            return
        known = around.known
        chosen = (known[node] for node in around.table.nodes if node in known)
        bodies = around.codec.leave(around.me.joined, chosen)
        for node in around.everybody():
            for body in bodies:
                self._send(OverlayKind.LEAVE, node, body)
        around.end()
        self.joining.stop()
        self.is_in = False

    def _is_in(self) -> None:
        if not self.is_in:
            self.is_in = True
            self._counters["joined"] += 1
            self._entered()

    # Failures.

    def heard(self, node: int) -> None:
        """Take note that a peer is there."""
        if node in self.around.heard:
            self.around.heard[node] = self._host.now()

    def _beat(self) -> None:
        around, parameters, now = self.around, self._parameters, self._host.now()
        self._host.call_later(parameters.heartbeat_interval, self._beat)
        if around.me is None:
            return
        everybody = sorted(around.everybody())
        oldest = now - parameters.heartbeat_timeout
        for node in everybody:
            if around.heard.setdefault(node, now) < oldest:
                self._counters["failures found"] += 1
                links = self._links_of.get(node, [])
                body = messages.failed(node, links)
                for other in {*links, *around.ring} - {around.node, node}:
                    self._send(OverlayKind.PEER_FAILED, other, body)
                self._lose(node)
        body = messages.heartbeat(sorted(around.table.nodes), sorted(around.incoming))
        for node in everybody:
            self._send(OverlayKind.HEARTBEAT, node, body)

    def _heartbeat_received(self, frame: Frame) -> None:
        chosen, incoming = messages.read_heartbeat(frame.body)
        node, around = frame.originator, self.around
        if around.me is None:
            self.joining.remember(node)
            return
        if not around.everybody():
            self.joining.remember(node)
            self.joining.again(around.me, [node])
            return
        if node in around.heard:
            self._links_of[node] = [*chosen, *incoming]
        if around.node in chosen and node not in around.incoming:
            # It knows this peer from before a restart: let it tell of itself.
            self._send(OverlayKind.ANNOUNCE, node, around.codec.announcement(around.me))

    def _leave_received(self, frame: Frame) -> None:
        joined, chosen = self.around.codec.read_leave(frame.body)
        for described in chosen:
            self.around.note(described)
        if self.around.has_left(frame.originator, joined):
            self._lose(frame.originator)

    def _failure_received(self, frame: Frame) -> None:
        node, _ = messages.read_failed(frame.body)
        silent = self._host.now() - self.around.heard.get(node, 0.0)
        late = silent > BELIEVED * self._parameters.heartbeat_interval
        if late and node in self.around.everybody():
            self._lose(node)
        else:
            self._counters["failures not believed"] += 1

    def _took_over(self) -> None:
        """Make links, now as the primary peer of the ring."""
        if self._parameters.discovery == STATIC:
            self.around.soon()
        else:
            self._counters["repairs"] += 1
            self.joining.again(self.around.me)

    def _lose(self, node: int) -> None:
        """Go on without a peer: repair the ring, the table, and what that covered."""
        around = self.around
        was_primary = around.is_primary
        had = around.forget(node)
        others = [other for other in self._links_of.pop(node, ()) if other not in around.ring]
        if around.me is None or around.joining:
            return
        if self._parameters.discovery == STATIC:
            around.soon()
        elif around.is_primary and (had or not was_primary):
            self._counters["repairs"] += 1
            self.joining.again(around.me, others)

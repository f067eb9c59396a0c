"""How a peer joins: queries for what its table does not cover yet, until all is covered.

A query goes to a bootstrap peer; each that gets it sends it on to the one of its links that is
nearest to what is wanted, and the one that has none nearer answers with itself and its links.  A
query that nobody answers may have been sent on to a peer that is gone: the bootstrap peer is asked
again, with the asker's own id among the visited peers, and then answers itself.  The
joining peer makes its table of those that it knows by now (`tables`) and asks again, the nearest
that it knows and has not asked, for the bits that its table does not cover yet, until all are
covered, `join_rounds` are over, or `join_patience` answers in a row covered no more.  Then it tells
those that it has chosen.  It comes back for what is not covered up to `requeries` times: peers that
cover it may have joined by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from nodeapp.host import Host, Timer
from nodeapp.parameters import ParameterError
from nodeapp.pubsub.overlay.identifiers import cell_bits, distance
from nodeapp.pubsub.overlay.messages import NO_RING, Described, JoinQuery, OverlayKind, OverlayRules
from nodeapp.pubsub.overlay.neighbourhood import Neighbourhood
from nodeapp.pubsub.overlay.parameters import OverlayParameters
from nodeapp.pubsub.overlay.tables import with_shared
from nodeapp.wire import Frame

MAX_VISITED: Final = 64
"""Peers that a join query may pass."""


class Joining:
    """That of one peer; `joined()` is called once it is in, `enter()` if it is asked before."""

    def __init__(
        self,
        host: Host,
        parameters: OverlayParameters,
        around: Neighbourhood,
        joined: Callable[[], None],
        enter: Callable[[frozenset[int]], None],
    ) -> None:
        self.trouble = ""
        """Why this peer is not in the overlay, and what to do; empty if nothing is wrong."""
        self.handlers: dict[int, Callable[[Frame], None]] = {
            OverlayKind.JOIN_QUERY: self._query_received,
            OverlayKind.JOIN_REPLY: self._reply_received,
        }
        self._host = host
        self._parameters = parameters
        self._around = around
        self._joined = joined
        self._enter = enter
        listed = bootstrap_nodes(parameters.bootstrap)
        self._bootstraps = [node for node in listed if node != host.node_id]
        self._serves = host.node_id in listed
        self._asked: set[int] = set()
        self._rounds = 0
        self._fruitless = 0
        self._left = 0
        """Bits that were not covered after the last answer."""
        self._requeries = 0
        self._waiting: Timer | None = None
        self._held: list[Frame] = []
        """Queries to answer when this peer, which joined because of them, is in."""

    def begin(self) -> None:
        """Look for others."""
        self.trouble = ""
        self._asked.clear()
        self._rounds = self._fruitless = self._left = self._requeries = 0
        self._around.joining = True
        if self._bootstraps:
            self._ask_bootstrap(1)
        else:
            self._finish()

    def remember(self, node: int) -> None:
        """Note a peer to ask, which knows this one from before a restart, if there is no other."""
        if not self._bootstraps:
            self._bootstraps = [node]

    def stop(self) -> None:
        """Stop waiting for answers."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def again(self, me: Described | None, others: Sequence[int] = ()) -> None:
        """Ask for what is not covered, if this is still that peer; one of `others` first."""
        around = self._around
        if me is None or around.me is not me or around.joining:
            return
        self.stop()
        self._rounds = self._fruitless = 0
        self._asked.clear()
        if others:
            around.joining = True
            self._query(others[0])
            self._waiting = self._host.call_later(self._parameters.query_timeout, self._unanswered)
        elif around.known:
            self._go_on()
        elif self._bootstraps:  # all that it knew have left
            self.begin()

    # Asking.

    def _ask_bootstrap(self, attempt: int) -> None:
        parameters, counters = self._parameters, self._around.counters
        self._around.joining = True
        if attempt > parameters.join_attempts:
            self._waiting = None
            if self._serves:  # the others are not there: it is the first
                self._finish()
                return
            self._around.joining = False
            asked = ", ".join(map(str, self._bootstraps))
            self.trouble = (
                f"this peer is not in the overlay: no answer from bootstrap peer {asked}: start "
                "it, or name another with bootstrap"
            )
            counters["no bootstrap peer"] += 1
            # Clients hear of it, and the peer goes on.
            pause = parameters.heartbeat_interval
            self._waiting = self._host.call_later(pause, self._ask_bootstrap, 1)
            return
        if attempt > 1:
            counters["bootstrap peers asked again"] += 1
        to = self._bootstraps[(attempt - 1) % len(self._bootstraps)]
        self._query(to, [self._host.node_id] if attempt > 1 else [])
        self._waiting = self._host.call_later(
            parameters.query_timeout, self._ask_bootstrap, attempt + 1
        )

    def _query(self, to: int, visited: Sequence[int] = ()) -> None:
        around = self._around
        assert around.me is not None
        self._rounds += 1
        around.counters["join queries"] += 1
        wanted = around.uncovered() or around.me.peer.identifier
        around.send(OverlayKind.JOIN_QUERY, to, around.codec.query(wanted, visited, around.me))

    def _reply_received(self, frame: Frame) -> None:
        around = self._around
        if not around.joining:
            around.counters["late replies"] += 1
            return
        reply = around.codec.read_reply(frame.body)
        if reply.refusal is not None:
            self.stop()
            around.joining = False
            self.trouble = f"this peer was not let into the overlay: {reply.refusal}"
            return
        self._asked.add(frame.originator)
        for described in reply.peers:
            around.note(described)
        around.merge(reply.ring)
        if reply.part == reply.parts - 1:
            self._go_on()

    def _unanswered(self) -> None:
        """Go on with what is known, or from the beginning."""
        if self._around.known or not self._bootstraps:
            self._go_on()
        else:
            self.begin()

    def _go_on(self) -> None:
        """Make a table of all that is known now; ask for what it does not cover."""
        around = self._around
        self.stop()
        around.joining = True
        if not around.is_primary or self._rounds >= self._parameters.join_rounds:
            self._finish()
            return
        around.prefer(around.choice())
        wanted = around.uncovered()
        left = wanted.bit_count()
        self._fruitless = self._fruitless + 1 if left == self._left else 0
        self._left = left
        patient = self._fruitless < self._parameters.join_patience
        nearest = self._nearest_unasked(wanted) if wanted and patient else None
        if nearest is None:
            self._finish()
            return
        self._asked.add(nearest)
        self._query(nearest)
        self._waiting = self._host.call_later(self._parameters.query_timeout, self._go_on)

    def _nearest_unasked(self, wanted: int) -> int | None:
        around = self._around
        assert around.me is not None
        mine, bits = around.me.peer.cells, self._parameters.bits
        left = [
            (distance(wanted, mine, peer.identifier, peer.cells, bits), node)
            for node, (peer, _) in around.known.items()
            if node not in self._asked
        ]
        return min(left)[1] if left else None

    def _finish(self) -> None:
        """Be in: tell those that it has chosen; come back for what is not covered."""
        around, parameters = self._around, self._parameters
        around.joining = False
        self.trouble = ""
        if around.is_primary:
            around.adopt(around.choice())
        self._joined()
        if around.uncovered() and self._requeries < parameters.requeries:
            self._requeries += 1
            self._host.call_later(parameters.requery_interval, self.again, around.me)
        held, self._held = self._held, []
        for frame in held:
            self._query_received(frame)

    # Being asked.

    def _query_received(self, frame: Frame) -> None:
        around = self._around
        query = around.codec.read_query(frame.body)
        if isinstance(query, OverlayRules):
            bits, hashes, space = around.codec.rules
            why = (
                f"this overlay has bits={bits} hashes={hashes} space={space}, not bits="
                f"{query.bits} hashes={query.hashes} space={query.space}: set them alike"
            )
            around.counters["refused to join"] += 1
            around.send(OverlayKind.JOIN_REPLY, frame.originator, around.codec.refusal(why))
            return
        asker = query.asker
        if asker.peer.node == around.node:
            return
        if around.me is None:
            if not self._serves:
                self._say_left(query.visited)
                return
            self._enter(frozenset())
            if around.joining and len(self._held) < MAX_VISITED:
                self._held.append(frame)
                return
        nearer = self._nearer(query)
        if nearer is not None:
            body = around.codec.query(query.wanted, [*query.visited, around.node], asker)
            around.send(OverlayKind.JOIN_QUERY, nearer, body)
            return
        self._answer(asker)

    def _say_left(self, visited: Sequence[int]) -> None:
        """Tell the peer that has sent a query on to this one, which has left, that it has."""
        if visited:
            around = self._around
            ended = max(int(self._host.now() * 1000) - 1, 0)  # the next membership begins later
            (body,) = around.codec.leave(ended)
            around.send(OverlayKind.LEAVE, visited[-1], body)

    def _nearer(self, query: JoinQuery) -> int | None:
        """Return the link that a query goes on to; None if this peer answers it."""
        around = self._around
        assert around.me is not None
        asked_again = query.asker.peer.node in query.visited
        if asked_again or len(query.visited) >= MAX_VISITED:
            return None
        bits, hashes = self._parameters.bits, self._parameters.hashes
        asker = query.asker.peer
        cells = asker.cells
        if query.wanted != asker.identifier:
            cells = with_shared(
                cell
                for cell in asker.cells
                if cell >= 0 and cell_bits(cell, bits, hashes) & query.wanted
            )
        been = {*query.visited, asker.node}
        mine = around.me.peer
        best, to = distance(query.wanted, cells, mine.identifier, mine.cells, bits), None
        for node, peer in around.links().items():
            if node not in been:
                far = distance(query.wanted, cells, peer.identifier, peer.cells, bits)
                if far < best:
                    best, to = far, node
        return to

    def _answer(self, asker: Described) -> None:
        around = self._around
        assert around.me is not None
        same = around.me.peer.is_same(asker.peer)
        described = [around.me, *(around.known[node] for node in around.links())]
        ring = NO_RING
        if same:
            around.note(asker)
            if not around.is_primary:  # it has descriptions, and no links
                described = [around.me, *around.known.values()]
            ring = around.my_ring()
        elif around.primary in around.known:  # the link is to be with that peer
            described.append(around.known[around.primary])
        for body in around.codec.replies(described, ring):
            around.send(OverlayKind.JOIN_REPLY, asker.peer.node, body)
        around.learn(asker)


def bootstrap_nodes(text: str) -> list[int]:
    """Return the nodes in a list like `1,2`.  Raises `ParameterError`."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise ParameterError(f"bootstrap: {text!r} is no list of node ids, as 1,2: write one")
    return [int(word) for word in words]

"""One link of the tree: keeps the table of each end as the other end wants it, over lossy frames.

Each direction is a session of numbered updates, one of which is under way at a time and sent again
until it is acknowledged.  An update is the difference between what the neighbour has acknowledged
and what it has to know now, so changes that come while one is under way go into the next together,
and those that cancel out are never sent.  Additions go before removals: nothing is withdrawn before
what takes its place is known.

A link that comes up begins a session, which tells everything.  What the neighbour has from an
earlier session holds until all of the new one is told, so that a link that was down for a moment
changes no table.  An end that cannot follow (it restarted, or has room again after its table was
full) asks for a new session, and so does one that is told nothing at all after the link came up.
Frames of an older session are ignored, unless they still come after `FORGOTTEN` and nothing of the
newest one does: then the neighbour has lost its clock, or somebody has invented a session in its
name.  An end that gets an acknowledgement of a session that it has not begun learns that its
neighbour believes what it never said, and begins a new one that tells everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from typing import Final, NamedTuple

from nodeapp.host import Host, Timer
from nodeapp.pubsub.messages import LIST_BYTES
from nodeapp.pubsub.patterns import PatternTable, TableFullError, covers, decode_pattern
from nodeapp.pubsub.table_messages import Acknowledgement, TableKind, Update, chunk
from nodeapp.wire import Frame

LONGEST_RETRY: Final = 16.0
"""The longest wait for an acknowledgement, in multiples of the first; waits double."""
PATIENCE: Final = 8.0
"""Multiples of the first wait: without an update for that long after the link came up, this end
asks for one."""
FORGOTTEN: Final = 2 * LONGEST_RETRY
"""Multiples of the first wait: an older session that is told for that long, while the newest is
not, is accepted."""
ANY_SESSION: Final = 0
"""In an acknowledgement: whichever session it is."""


class _UnderWay(NamedTuple):
    """The update that is not acknowledged yet."""

    update: Update
    datagram: bytes


class TableLink:
    """This node's end of one link.

    `broken` are the holders of entries that are kept though the link to them is down; `changed` is
    called when the neighbour changed the table.
    """

    def __init__(
        self,
        host: Host,
        neighbour: int,
        table: PatternTable,
        broken: Set[int],
        session: Callable[[], int],
        retry: float,
        counters: Counter[str],
        changed: Callable[[], None],
    ) -> None:
        self._host = host
        self._neighbour = neighbour
        self._table = table
        self._broken = broken
        self._new_session = session
        self._retry = retry
        self._counters = counters
        self._changed = changed
        # What this end tells.
        self._session = session()
        self._number = 0
        self._known: set[bytes] = set()
        self._under_way: _UnderWay | None = None
        self._timer: Timer | None = None
        self._told_at = -1
        # What it is told.
        self._their_session = -1
        self._expected = 0
        self._older_since: float | None = None
        self._stale: set[bytes] | None = None
        self._lacks = True
        """Whether a session is to be begun by the neighbour, as far as this end knows."""
        self.refused = False
        """Whether the table was full when the neighbour told of a pattern."""
        self._asking = host.call_later(PATIENCE * retry, self._ask, PATIENCE * retry)

    @property
    def heard_all(self) -> bool:
        """Whether the neighbour has told everything since the link came up."""
        return self._their_session >= 0 and self._stale is None

    def knows(self, pattern: bytes) -> bool:
        """Return whether the neighbour has acknowledged a pattern that covers this one."""
        return pattern in self._known or any(covers(known, pattern) for known in self._known)

    def close(self) -> None:
        """End: the link is down."""
        self._stop()
        self._asking.cancel()

    def tell(self) -> None:
        """Send the neighbour what it has to know and does not, unless an update is under way."""
        if self._under_way is not None or self._told_at == self._table.changes:
            return
        wanted = self._table.wanted_by(self._neighbour, self._broken, self._known)
        new, old = sorted(wanted - self._known), sorted(self._known - wanted)
        if not new and not old and self._number:
            self._told_at = self._table.changes
            return
        added = chunk(new, LIST_BYTES)
        room = LIST_BYTES - sum(map(len, added))
        removed = chunk(old, room, first=not added) if len(added) == len(new) else []
        last = len(added) == len(new) and len(removed) == len(old)
        if last:
            self._told_at = self._table.changes
        update = Update(self._session, self._number, last, added, removed)
        frame = Frame(
            TableKind.SUBSCRIPTION_UPDATE, self._host.node_id, self._neighbour, body=update.encode()
        )
        self._under_way = _UnderWay(update, frame.encode())
        self._send(self._retry)

    def _send(self, wait: float) -> None:
        assert self._under_way is not None
        self._timer = self._host.call_later(wait, self._again, wait)
        self._host.send(self._neighbour, self._under_way.datagram)

    def _again(self, wait: float) -> None:
        self._counters["updates repeated"] += 1
        self._send(min(2 * wait, LONGEST_RETRY * self._retry))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._under_way = None

    def acknowledged(self, ack: Acknowledgement) -> None:
        """Take the neighbour's acknowledgement."""
        invented = ack.session > self._session
        if ack.session < self._session and not (ack.again and ack.session == ANY_SESSION):
            self._counters["older session"] += 1
            return
        if invented:
            self._counters["session never begun"] += 1
        if ack.again or invented:
            self._stop()
            self._session = self._new_session()
            self._number = 0
            self._known = set()
        elif self._under_way is None or ack.number != self._number:
            return
        else:
            update = self._under_way.update
            self._stop()
            self._known |= set(update.added)
            self._known -= set(update.removed)
            self._number += 1
            if update.last:
                self.tell()
                return
        self._told_at = -1
        self.tell()

    def updated(self, update: Update) -> None:
        """Take the neighbour's update.  Raises `WireError` if it holds what is not a pattern."""
        now = self._host.now()
        older = update.session < self._their_session
        if older:
            since = self._older_since = now if self._older_since is None else self._older_since
            if now - since < FORGOTTEN * self._retry:
                self._counters["older session"] += 1
                return
        for pattern in update.added:
            decode_pattern(pattern)
        if older or update.session > self._their_session:
            if update.number:
                self._acknowledge(update, again=True)
                return
            self._their_session, self._expected = update.session, 0
            self._lacks = self.refused = False
            self._stale = self._table.held_by(self._neighbour)
        self._older_since = None
        if update.number == self._expected:
            self._expected += 1
            self._apply(update)
            self._acknowledge(update)
            self._changed()
        else:
            # The last one again, if its acknowledgement was lost.
            self._acknowledge(update, again=update.number != self._expected - 1)

    def _apply(self, update: Update) -> None:
        for pattern in update.added:
            if self._stale is not None:
                self._stale.discard(pattern)
            try:
                self._table.hold(pattern, self._neighbour)
            except TableFullError:
                self._counters["table full"] += 1
                self.refused = True
        removed = set(update.removed)
        if update.last and self._stale is not None:
            removed |= self._stale
            self._stale = None
        for pattern in removed:
            self._table.release(pattern, self._neighbour)

    def _acknowledge(self, update: Update, *, again: bool = False) -> None:
        self._reply(Acknowledgement(update.session, update.number, again))

    def _reply(self, ack: Acknowledgement) -> None:
        frame = Frame(
            TableKind.SUBSCRIPTION_ACK, self._host.node_id, self._neighbour, body=ack.encode()
        )
        self._host.send(self._neighbour, frame.encode())

    def _ask(self, wait: float) -> None:
        if self._lacks:
            self._counters["updates asked for"] += 1
            self._reply(Acknowledgement(max(self._their_session, ANY_SESSION), 0, again=True))
            wait = min(2 * wait, LONGEST_RETRY * self._retry)
            self._asking = self._host.call_later(wait, self._ask, wait)

    def ask_again(self) -> None:
        """Ask the neighbour for all it has to tell until it begins: there is room again."""
        self._lacks, self.refused = True, False
        self._asking.cancel()
        self._ask(self._retry)

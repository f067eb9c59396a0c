"""The links of a node over which subscriptions spread: its table, and what its neighbours hold.

Links begin and end as the graph that they follow says, a tree of all nodes or of brokers.  Over
each, `nodeapp.pubsub.table_link` keeps the tables of both ends in agreement.  The entries of a
link that has ended stay for a while, in which the graph is mended and a new link's spread, or go
at once; while they stay, no other neighbour is told of them.

Source: docs/papers.md#subscription-forwarding, docs/papers.md#reconfiguration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nodeapp.host import Host, Timer
from nodeapp.pubsub.messages import Stamps
from nodeapp.pubsub.patterns import LOCAL, PatternTable
from nodeapp.pubsub.table_link import TableLink
from nodeapp.pubsub.table_messages import TableKind, decode_acknowledgement, decode_update
from nodeapp.wire import Frame


class TableLinks:
    """A table of patterns, of at most `limit` entries, and the links that share it.

    An update is sent again after `retry` seconds.  The entries of a broken link stay for
    `break_delay` seconds; None: they go at once.
    """

    def __init__(
        self,
        host: Host,
        limit: int,
        retry: float,
        break_delay: float | None,
        counters: Counter[str],
    ) -> None:
        self.table = PatternTable(limit)
        self.links: dict[int, TableLink] = {}
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            TableKind.SUBSCRIPTION_UPDATE: self._update_received,
            TableKind.SUBSCRIPTION_ACK: self._ack_received,
        }
        self._host = host
        self._retry = retry
        self._break_delay = break_delay
        self._counters = counters
        self._stamps = Stamps()
        self._broken: dict[int, Timer] = {}
        self._users: Counter[bytes] = Counter()

    def hold(self, pattern: bytes) -> None:
        """Add a client's pattern.  Raises `TableFullError`, and `WireError` if it is not one."""
        self.table.hold(pattern, LOCAL)
        self._users[pattern] += 1
        if self._users[pattern] == 1:
            self._changed()

    def release(self, pattern: bytes) -> None:
        """Remove a client's pattern; it is unsubscribed if no other client here has it."""
        self._users[pattern] -= 1
        if self._users[pattern] <= 0:
            del self._users[pattern]
            self.table.release(pattern, LOCAL)
            self._changed()

    def link_up(self, neighbour: int) -> None:
        if neighbour in self._broken:
            self._broken[neighbour].cancel()  # the new session says which entries stay
        link = self.links[neighbour] = TableLink(
            self._host,
            neighbour,
            self.table,
            self._broken.keys(),
            lambda: self._stamps.next(self._host.now()),
            self._retry,
            self._counters,
            self._changed,
        )
        link.tell()

    def link_down(self, neighbour: int) -> None:
        self.links.pop(neighbour).close()
        if self._break_delay is None:
            self._withdraw(neighbour)
        else:
            later = self._host.call_later(self._break_delay, self._withdraw, neighbour)
            self._broken[neighbour] = later

    def _withdraw(self, neighbour: int) -> None:
        self._broken.pop(neighbour, None)
        for pattern in self.table.held_by(neighbour):
            self.table.release(pattern, neighbour)
        self._changed()

    def _changed(self) -> None:
        for link in self.links.values():
            link.tell()
            if link.refused and not self.table.full:
                link.ask_again()

    def _update_received(self, frame: Frame, sender: int) -> None:
        update = decode_update(frame.body)
        link = self.links.get(sender)
        if link is None:
            self._counters["not a link"] += 1  # yet: it is sent again
            return
        link.updated(update)
        if sender in self._broken and link.heard_all:
            del self._broken[sender]
            self.table.changes += 1  # what it holds is for all again
            self._changed()

    def _ack_received(self, frame: Frame, sender: int) -> None:
        ack = decode_acknowledgement(frame.body)
        link = self.links.get(sender)
        if link is None:
            self._counters["not a link"] += 1
        else:
            link.acknowledged(ack)

"""Subscriptions within a horizon: what nodes tell their neighbourhood, and the table of it.

The body of an INTERESTS frame is the CBOR array

    [stamp, part, parts, [subscription, ...]]

with a stamp that orders what one subscriber sends (`nodeapp.pubsub.messages.Stamps`), the index and
the number of the frames that its subscriptions take, and as byte strings the encoded subscriptions.
The first three have a fixed layout, and the rest does not change from one refresh to the next, so
copies and refreshes are recognised by their bytes and cost no decoding.

An entry of the table is (subscription of a subscriber, neighbour it came from, distance in hops).
Of the entries of one subscription, that with the latest stamp and, of these, with the least
distance names the neighbour that events for it go to; the others are spares for when that
neighbour is gone.  A node that passes a stamp on has it at a smaller distance, so paths do not
loop.  The first copy of a new stamp need not come by the shortest path: until there was time for
the others (`settling`), the entries of the stamp before count as much.  Both are known from routing
with destination sequence numbers (docs/papers.md#dsdv).
"""

from __future__ import annotations

import functools
import struct
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from typing import Final, NamedTuple

from nodeapp import wire
from nodeapp.events import Event, Subscription
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.messages import split_list
from nodeapp.wire import MAX_BODY, WireError

_HEAD: Final = struct.Struct(">BBQBHBH")
_HEADS: Final = (0x84, 0x1B, 0x19, 0x19)  # an array of 4, then 64 bits, 16 bits, 16 bits
MAX_PARTS: Final = 4096
"""Most frames that the subscriptions of one node take."""
MAX_BYTES: Final = 4 << 20
"""Most bytes of the encoded subscriptions in a table: entries alone do not bound its memory."""
MAX_SUBSCRIPTION: Final = MAX_BODY - _HEAD.size - 8
"""Bytes of a filter with the subscriber's attributes that fit one frame."""


class InterestKind(Kind):
    """Messages that tell a neighbourhood of subscriptions."""

    INTERESTS = 45, Role.DEMAND


class Head(NamedTuple):
    """The head of an INTERESTS body."""

    stamp: int
    part: int
    parts: int


def encode_interests(stamp: int, subscriptions: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bodies of the frames that carry a node's encoded subscriptions: one at least."""
    chunks = split_list(subscriptions, lambda subscription: len(subscription) + 5)
    array, bits64, first16, second16 = _HEADS
    parts = min(len(chunks), MAX_PARTS)
    for part, chunk in enumerate(chunks[:MAX_PARTS]):
        head = _HEAD.pack(array, bits64, stamp, first16, part, second16, parts)
        yield head + wire.encode_body(chunk)


@functools.lru_cache(maxsize=64)  # a simulator hands one frame to all who hear it
def decode_head(body: bytes) -> tuple[Head, bytes]:
    """Return the head of an INTERESTS body, and the encoded rest.  Raises `WireError`."""
    if len(body) < _HEAD.size:
        raise WireError("not the body of INTERESTS")
    array, bits64, stamp, first16, part, second16, parts = _HEAD.unpack_from(body)
    if (array, bits64, first16, second16) != _HEADS or not part < parts <= MAX_PARTS:
        raise WireError("not the body of INTERESTS")
    return Head(stamp, part, parts), body[_HEAD.size :]


def decode_items(items: bytes) -> dict[bytes, Subscription]:
    """Return the subscriptions in the rest of a body, by their encoding.  Raises `WireError`."""
    value = wire.decode_body(items)
    if not isinstance(value, list) or not all(isinstance(item, bytes) for item in value):
        raise WireError("not a list of subscriptions")
    return {item: Subscription.decode(item) for item in value}


class Way(NamedTuple):
    """How a subscription came: with which stamp, over how many hops, and when, seconds."""

    stamp: int
    distance: int
    heard: float


class InterestBatch:
    """One frame's worth of a subscriber's subscriptions, and the ways by which it came."""

    __slots__ = (
        "before",
        "heard",
        "items",
        "least",
        "origin",
        "parts",
        "patterns",
        "settled",
        "stamp",
        "ways",
    )

    def __init__(self, origin: int) -> None:
        self.origin = origin
        self.stamp = -1
        self.before = -1
        """The stamp before that one."""
        self.settled = 0.0
        """When the shortest path of `stamp` is known, seconds."""
        self.heard = 0.0
        """When it came last, seconds."""
        self.parts = 0
        self.least = 0
        """Hops of the shortest path by which `stamp` came."""
        self.items = b""
        self.patterns: tuple[bytes, ...] = ()
        self.ways: dict[int, Way] = {}
        """By neighbour."""

    @property
    def entries(self) -> int:
        """Entries that this takes in the table; without a subscription, one for each neighbour."""
        return max(1, len(self.patterns)) * len(self.ways)

    def rank(self, way: Way, now: float) -> tuple[int, int, int]:
        """Return a key that orders ways, the best first."""
        if way.stamp >= (self.stamp if now >= self.settled else self.before):
            return 0, way.distance, -way.stamp
        return 1, -way.stamp, way.distance


class InterestTable:
    """The subscriptions of other nodes that were heard in the last `timeout` seconds.

    Within `settling` seconds a stamp has come by all its paths.  The table holds at most `limit`
    entries; `counters` counts under "table full" what found no room.
    """

    def __init__(self, timeout: float, settling: float, limit: int, counters: Counter[str]) -> None:
        self._timeout = timeout
        self._settling = settling
        self._limit = limit
        self._counters = counters
        self._batches: dict[tuple[int, int], InterestBatch] = {}
        self._patterns: dict[bytes, tuple[Subscription, dict[tuple[int, int], InterestBatch]]] = {}
        self._entries = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._entries

    def entries(self) -> Iterator[tuple[bytes, int, int, int]]:
        """Yield (encoded subscription, subscriber, neighbour, distance in hops) of all."""
        for batch in self._batches.values():
            for pattern in batch.patterns:
                for neighbour, way in batch.ways.items():
                    yield pattern, batch.origin, neighbour, way.distance

    def store(self, origin: int, body: bytes, neighbour: int, distance: int, now: float) -> bool:
        """Take the subscriptions of `origin` that a neighbour sent, `distance` hops from it.

        Return whether they are news to pass on: a later stamp, or a shorter path.  Raises
        `WireError` if the body is malformed.
        """
        head, items = decode_head(body)
        key = origin, head.part
        batch = self._batches.get(key)
        if batch is not None and batch.heard + self._timeout <= now:
            self._forget(key)
            batch = None
        if batch is None or head.stamp > batch.stamp:
            return self._store_later(
                key, batch, head, items, Way(head.stamp, distance, now), neighbour
            )
        if head.stamp < batch.stamp:
            self._counters["older than known"] += 1
            return False
        known = batch.ways.get(neighbour)
        if known is None and not self._room(max(1, len(batch.patterns))):
            return False
        if known is None or known.stamp != head.stamp or distance < known.distance:
            batch.ways[neighbour] = Way(head.stamp, distance, now)
            batch.heard = now
        nearer = distance < batch.least
        if nearer:
            batch.least = distance
        return nearer

    def _store_later(
        self,
        key: tuple[int, int],
        batch: InterestBatch | None,
        head: Head,
        items: bytes,
        way: Way,
        neighbour: int,
    ) -> bool:
        """Take a stamp that is later than what is known; return whether there is room."""
        changed = batch is None or items != batch.items
        subscriptions = decode_items(items) if changed else {}
        if batch is None:
            before, after = 0, max(1, len(subscriptions))
        else:
            size = len(subscriptions) if changed else len(batch.patterns)
            before = batch.entries
            after = max(1, size) * (len(batch.ways) + (neighbour not in batch.ways))
        more = len(items) - (0 if batch is None else len(batch.items))
        if self._bytes + more > MAX_BYTES:
            self._counters["table full"] += 1
            return False
        if not self._room(after - before):
            return False
        if batch is None:
            batch = self._batches[key] = InterestBatch(key[0])
        if changed:
            self._replace(key, batch, items, subscriptions)
        for part in range(head.parts, batch.parts):
            if (batch.origin, part) in self._batches:
                self._forget((batch.origin, part))
        batch.before, batch.stamp = batch.stamp, head.stamp
        batch.settled = way.heard + self._settling
        batch.parts, batch.least = head.parts, way.distance
        batch.ways[neighbour], batch.heard = way, way.heard
        return True

    def _room(self, more: int) -> bool:
        """Count `more` entries if there is room for them; return whether there is."""
        if self._entries + more > self._limit:
            self._counters["table full"] += 1
            return False
        self._entries += more
        return True

    def _fresh(self, way: Way, now: float) -> bool:
        return way.heard + self._timeout > now

    def _replace(
        self,
        key: tuple[int, int],
        batch: InterestBatch,
        items: bytes,
        subscriptions: dict[bytes, Subscription],
    ) -> None:
        self._unlink(key, batch)
        self._bytes += len(items) - len(batch.items)
        batch.items, batch.patterns = items, tuple(subscriptions)
        for pattern, subscription in subscriptions.items():
            self._patterns.setdefault(pattern, (subscription, {}))[1][key] = batch

    def _unlink(self, key: tuple[int, int], batch: InterestBatch) -> None:
        for pattern in batch.patterns:
            users = self._patterns[pattern][1]
            del users[key]
            if not users:
                del self._patterns[pattern]

    def _forget(self, key: tuple[int, int]) -> None:
        batch = self._batches.pop(key)
        self._entries -= batch.entries
        self._bytes -= len(batch.items)
        self._unlink(key, batch)

    def expire(self, now: float) -> None:
        """Forget what was not refreshed in time."""
        for key, batch in list(self._batches.items()):
            gone = [node for node, way in batch.ways.items() if not self._fresh(way, now)]
            if len(gone) == len(batch.ways):
                self._forget(key)
            elif gone:
                before = batch.entries
                for node in gone:
                    del batch.ways[node]
                self._entries += batch.entries - before

    def neighbours(
        self, event: Event, links: Container[int], incoming: int, now: float
    ) -> set[int]:
        """Return the neighbours that an event goes to by the table: of `links`, not `incoming`.

        `incoming` is the neighbour that sent the event; 0 if it is this node's own.  Subscribers
        that are best reached over that neighbour are left to it.
        """
        matching = {
            key: batch
            for subscription, users in self._patterns.values()
            if subscription.accepts(event)
            for key, batch in users.items()
            if batch.origin != event.publisher  # it has the event
        }
        chosen = set()
        for batch in matching.values():
            best = min(
                (
                    (batch.rank(way, now), node)
                    for node, way in batch.ways.items()
                    if (node == incoming or node in links) and self._fresh(way, now)
                ),
                default=None,
            )
            if best is not None:
                chosen.add(best[1])
        chosen.discard(incoming)
        return chosen

"""What the nodes of a rendezvous cell share: who publishes a topic, and who subscribes to it.

The state of a rendezvous point is that of one topic and one replica number: its advertisers, its
subscriptions, and which publishers' events a subscriber has pruned here.  All of it is soft state:
what is not refreshed for `timeout` seconds is gone.  Of one issuer's messages the one that it sent
last counts (its stamp, `nodeapp.pubsub.messages`), in whatever order they come; what has timed out
orders nothing any more.

State travels between nodes of a cell, and to the next home cell, as entries: an advertiser, or a
subscription with what is pruned.  The body of CELL_STATE is the CBOR array of

    [topic, replica, node, stamp, age, x, y, subscription or null, [pruned publishers]]

x and y are binary64 and say where the node was, metres; `age` is how long ago it was heard,
milliseconds; null: an advertiser.  That of PRUNE is [[x, y, stamp], [topic, publisher]], and that
of DEMAND, which tells a publisher that a rendezvous cell has a subscription to its topic, is that
of an ADVERTISEMENT.

Source: docs/papers.md#georendezvous, sections 2.2 and 2.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple

from nodeapp import wire
from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.fields import LIMIT, is_whole, items_of
from nodeapp.pubsub.messages import (
    MAX_SUBSCRIPTION,
    MAX_TOPIC,
    decode_located,
    encode_located,
    is_refresh,
    split_list,
)
from nodeapp.wire import BROADCAST, MAX_BODY, WireError

MAX_ENTRIES: Final = 65_536
"""Most advertisers and subscriptions that a node stores, so that memory stays bounded."""
MAX_BYTES: Final = 4 << 20
"""Most bytes of their topics and subscriptions."""
MAX_PRUNED: Final = 1024
"""Most publishers that a subscriber can have pruned at one rendezvous point."""
MAX_REPLICAS: Final = 64

Key = tuple[str, int]
"""A rendezvous point: topic and replica number."""


class CellKind(Kind):
    """Messages between the nodes of rendezvous cells, and to and from publishers."""

    DEMAND = 50, Role.DEMAND
    PRUNE = 51
    CELL_STATE_REQUEST = 52
    CELL_STATE = 53


class Entry(NamedTuple):
    """What a node has said at a rendezvous point; an advertiser if `subscription` is None."""

    key: Key
    node: int
    stamp: int
    heard: float
    location: Point
    subscription: bytes | None
    pruned: frozenset[int] = frozenset()


class _Subscribed:
    """A subscription; `entry` is as it is told to others."""

    __slots__ = ("entry", "subscription")

    def __init__(self, entry: Entry, subscription: Subscription) -> None:
        self.entry = entry
        self.subscription = subscription


class RendezvousState:
    """The advertisers and subscriptions of all rendezvous points that a node knows."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._advertisers: dict[Key, dict[int, Entry]] = {}
        self._subscribed: dict[Key, dict[tuple[int, bytes], _Subscribed]] = {}
        self._size = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: Key) -> bool:
        return key in self._advertisers or key in self._subscribed

    def points(self) -> list[Key]:
        return list(dict.fromkeys((*self._advertisers, *self._subscribed)))

    def store(self, entry: Entry, *, explore: bool = False, taken: int = 0) -> bool:
        """Store or refresh an entry; return whether it was new or newer than what was known.

        What a subscription has pruned stays pruned, except for the publisher whose events are
        `taken`, or if it explores.  Raises `WireError` if the subscription is malformed or not to
        the topic.
        """
        if entry.subscription is None:
            advertisers = self._advertisers.get(entry.key, {})
            if not self._is_news(advertisers.get(entry.node), entry):
                return False
            if entry.node not in advertisers:
                self._count(entry, 1)
            advertisers[entry.node] = entry
            self._advertisers[entry.key] = advertisers
            return True
        subscribed = self._subscribed.get(entry.key, {})
        pair = entry.node, entry.subscription
        stored = subscribed.get(pair)
        if not self._is_news(None if stored is None else stored.entry, entry):
            return False
        if stored is None:
            subscribed[pair] = _Subscribed(entry, _decoded(entry.subscription, entry.key[0]))
            self._count(entry, 1)
            self._subscribed[entry.key] = subscribed
        else:
            pruned = frozenset[int]() if explore else stored.entry.pruned | entry.pruned
            stored.entry = entry._replace(pruned=pruned - {taken})
        return True

    def _is_news(self, known: Entry | None, entry: Entry) -> bool:
        if known is None:
            return self._size < MAX_ENTRIES and self._bytes + _weight(entry) <= MAX_BYTES
        return entry.stamp > known.stamp or known.heard + self._timeout <= entry.heard

    def _count(self, entry: Entry, change: int) -> None:
        self._size += change
        self._bytes += change * _weight(entry)

    def prune(self, key: Key, node: int, publisher: int, stamp: int) -> bool:
        """Keep a publisher's events from a subscriber; return whether it got them before."""
        changed = False
        for (subscriber, _), stored in self._subscribed.get(key, {}).items():
            entry = stored.entry
            if subscriber != node or stamp <= entry.stamp or len(entry.pruned) >= MAX_PRUNED:
                continue
            changed |= publisher not in entry.pruned
            stored.entry = entry._replace(stamp=stamp, pruned=entry.pruned | {publisher})
        return changed

    def advertisers(self, key: Key, now: float) -> list[Entry]:
        """Return the publishers of a rendezvous point."""
        known = self._advertisers.get(key, {})
        return [entry for entry in known.values() if entry.heard + self._timeout > now]

    def publishers(self, key: Key) -> Collection[int]:
        """Return who is known to advertise, lately or not."""
        return self._advertisers.get(key, {}).keys()

    def wants(self, key: Key, publisher: int, now: float) -> bool:
        """Return whether anybody takes a publisher's events from this rendezvous point."""
        return any(
            stored.entry.heard + self._timeout > now and publisher not in stored.entry.pruned
            for stored in self._subscribed.get(key, {}).values()
        )

    def takers(self, key: Key, event: Event, now: float) -> dict[int, Point]:
        """Return the locations of those that are to get an event, by node."""
        latest: dict[int, Entry] = {}
        for stored in self._subscribed.get(key, {}).values():
            entry = stored.entry
            if (
                entry.heard + self._timeout > now
                and event.publisher not in entry.pruned
                and stored.subscription.accepts(event)
            ):
                known = latest.get(entry.node)
                if known is None or known.stamp < entry.stamp:
                    latest[entry.node] = entry
        return {node: entry.location for node, entry in latest.items()}

    def entries(self, key: Key) -> Iterator[Entry]:
        """Yield what is known of a rendezvous point."""
        yield from self._advertisers.get(key, {}).values()
        for stored in self._subscribed.get(key, {}).values():
            yield stored.entry

    def expire(self, now: float) -> None:
        """Forget what was not refreshed in time."""
        if not self._size:
            return
        oldest = now - self._timeout
        for key in self.points():
            advertisers = self._advertisers.get(key, {})
            subscribed = self._subscribed.get(key, {})
            for node in [n for n, entry in advertisers.items() if entry.heard <= oldest]:
                self._count(advertisers.pop(node), -1)
            for pair in [pair for pair, old in subscribed.items() if old.entry.heard <= oldest]:
                self._count(subscribed.pop(pair).entry, -1)
            if not advertisers:
                self._advertisers.pop(key, None)
            if not subscribed:
                self._subscribed.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._advertisers.clear()
        self._subscribed.clear()
        self._size = self._bytes = 0


def _weight(entry: Entry) -> int:
    return len(entry.key[0]) + len(entry.subscription or b"")


def _decoded(encoded: bytes, topic: str) -> Subscription:
    if len(encoded) > MAX_SUBSCRIPTION:
        raise WireError("too long a filter")
    subscription = Subscription.decode(encoded)
    if subscription.filter.topic != topic:
        raise WireError("a filter of another topic")
    return subscription


def encode_prune(topic: str, publisher: int, location: Point, stamp: int) -> bytes:
    """Return the body of a PRUNE."""
    return encode_located(location, stamp, wire.encode_body([topic, publisher]))


def decode_prune(body: bytes) -> tuple[str, int, int]:
    """Return topic, publisher and stamp of a PRUNE.  Raises `WireError`."""
    _, stamp, item = decode_located(body)
    topic, publisher = items_of(wire.decode_body(item), 2, "a prune")
    if not _is_topic(topic) or not is_whole(publisher, 1, BROADCAST - 1):
        raise WireError("not a prune")
    return topic, publisher, stamp


def encode_state(entries: Iterable[Entry], now: float) -> Iterator[bytes]:
    """Yield the bodies of the frames that tell entries: none if there are none."""
    rows = [
        [
            entry.key[0],
            entry.key[1],
            entry.node,
            entry.stamp,
            round((now - entry.heard) * 1000),
            *entry.location,
            entry.subscription,
            sorted(entry.pruned)[: _room(entry)],
        ]
        for entry in entries
    ]
    for chunk in split_list(rows, lambda row: len(wire.encode_body(row))):
        if chunk:
            yield wire.encode_body(chunk)


def _room(entry: Entry) -> int:
    """Return how many pruned publishers fit a frame beside the rest; others are pruned again."""
    rest = len(entry.key[0].encode()) + len(entry.subscription or b"")
    return max(0, MAX_BODY - rest - 128) // 5


def decode_state(body: bytes, now: float) -> list[Entry]:
    """Return the entries that a CELL_STATE tells at time `now`.  Raises `WireError`."""
    rows = wire.decode_body(body)
    if not isinstance(rows, list):
        raise WireError("not the state of a cell")
    return [_entry(row, now) for row in rows]


def _entry(row: Any, now: float) -> Entry:
    what = "an entry of a cell's state"
    topic, replica, node, stamp, age, x, y, subscription, pruned = items_of(row, 9, what)
    if not _is_topic(topic) or not is_whole(replica, 0, MAX_REPLICAS - 1):
        raise WireError(f"not {what}")
    if not is_refresh(node, stamp, age, x, y):
        raise WireError(f"not {what}")
    if not (abs(x) < LIMIT and abs(y) < LIMIT):  # false for NaN too
        raise WireError("an entry from nowhere")
    if not (subscription is None or isinstance(subscription, bytes)):
        raise WireError(f"not {what}")
    if not isinstance(pruned, list) or len(pruned) > MAX_PRUNED:
        raise WireError(f"not {what}")
    if not all(is_whole(publisher, 1, BROADCAST - 1) for publisher in pruned):
        raise WireError(f"not {what}")
    heard = now - age / 1000
    key = topic, replica
    return Entry(key, node, stamp, heard, (x, y), subscription, frozenset(pruned))


def _is_topic(topic: Any) -> bool:
    return isinstance(topic, str) and len(topic.encode()) <= MAX_TOPIC

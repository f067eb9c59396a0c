"""Soft state of a decision point: who subscribes, where they are, until when.

A SUBSCRIPTION frame's body is the CBOR array [[x, y], [filter, attributes]] with x and y as
binary64, the subscriber's location in metres.  The first 20 bytes have a fixed layout and the
rest does not change from one refresh to the next: a refresh is recognised by its bytes and costs
no decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.wire import WireError

_PLACE: Final = struct.Struct(">BBBdBd")
_HEADS: Final = (0x82, 0x82, 0xFB, 0xFB)  # array of 2, array of 2, binary64, binary64
LIMIT: Final = 1e9
"""Metres; what a routing extension can hold (`nodeapp.wire`)."""
MAX_ENTRIES: Final = 65_536
"""Subscriptions that are stored at most, whatever arrives."""


def encode_subscription(subscription: Subscription, location: Point) -> bytes:
    """Return the body of a SUBSCRIPTION frame."""
    two, pair, head_x, head_y = _HEADS
    return _PLACE.pack(two, pair, head_x, location[0], head_y, location[1]) + subscription.encode()


class _Entry:
    """One subscription of one subscriber."""

    __slots__ = ("expires", "location", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.location: Point = (0.0, 0.0)
        self.expires = 0.0


class SubscriptionTable:
    """The subscriptions heard of in the last `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._entries: dict[tuple[int, bytes], _Entry] = {}
        self._by_topic: dict[str, dict[tuple[int, bytes], _Entry]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def store(self, subscriber: int, body: bytes, now: float) -> None:
        """Store or refresh what a SUBSCRIPTION frame of `subscriber` says.

        Raises `WireError` where it is malformed or its filter asks for no topic.
        """
        if len(body) < _PLACE.size:
            raise WireError("not the body of a SUBSCRIPTION")
        two, pair, head_x, x, head_y, y = _PLACE.unpack_from(body)
        if (two, pair, head_x, head_y) != _HEADS or not (abs(x) < LIMIT and abs(y) < LIMIT):
            raise WireError("not the body of a SUBSCRIPTION")
        key = (subscriber, body[_PLACE.size :])
        entry = self._entries.get(key)
        if entry is None:
            subscription = Subscription.decode(key[1])
            topic = subscription.filter.topic
            if topic is None:
                raise WireError("a filter without a topic")
            if len(self._entries) >= MAX_ENTRIES:
                return
            entry = self._entries[key] = _Entry(subscription)
            self._by_topic.setdefault(topic, {})[key] = entry
        entry.location = (x, y)
        entry.expires = now + self._timeout

    def subscribers(self, event: Event, now: float) -> Iterator[tuple[int, Point]]:
        """Yield each subscriber that is to get the event, once, with its latest location."""
        found: dict[int, _Entry] = {}
        for (subscriber, _), entry in self._by_topic.get(event.topic or "", {}).items():
            if entry.expires > now and entry.subscription.accepts(event):
                known = found.get(subscriber)
                if known is None or known.expires < entry.expires:
                    found[subscriber] = entry
        for subscriber, entry in found.items():
            yield subscriber, entry.location

    def expire(self, now: float) -> None:
        """Forget what was not refreshed in time."""
        for key in [key for key, entry in self._entries.items() if entry.expires <= now]:
            topic = self._entries.pop(key).subscription.filter.topic
            assert topic is not None
            of_topic = self._by_topic[topic]
            del of_topic[key]
            if not of_topic:
                del self._by_topic[topic]

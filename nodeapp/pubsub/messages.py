"""Bodies of the frames between clients of a topic and its decision point, in CBOR.

    SUBSCRIPTION   [[x, y], [filter, attributes]]     x, y: the subscriber's location, metres
    ADVERTISEMENT  [[x, y], topic]                    x, y: the publisher's location, metres
    SUBSCRIBERS    [topic, part, parts, [[subscriber, age, x, y, subscription], ...]]

x and y are binary64; `age` is how long ago the subscriber was heard, milliseconds;
`subscription` is the encoded [filter, attributes] as a byte string.  A list of subscribers that
does not fit one frame comes in several, `part` 0 to `parts` - 1.

The location of the first two is 20 bytes of fixed layout and the rest does not change from one
refresh to the next, so a refresh is recognised by its bytes and costs no decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from nodeapp import wire
from nodeapp.events import Subscription
from nodeapp.geometry import Point
from nodeapp.wire import BROADCAST, MAX_BODY, WireError

_LOCATION: Final = struct.Struct(">BBBdBd")
_HEADS: Final = (0x82, 0x82, 0xFB, 0xFB)  # array of 2, array of 2, binary64, binary64
LIMIT: Final = 1e9
"""Metres; what a routing extension can hold (`nodeapp.wire`)."""
MAX_TOPIC: Final = 4096
"""Bytes of a topic: what 1,024 characters, `MAX_TEXT` of a filter, come to at most."""
MAX_SUBSCRIPTION: Final = MAX_BODY - MAX_TOPIC - 1024
"""Bytes of a filter with the subscriber's attributes, so that a list has room for one."""
LIST_BYTES: Final = 1200
"""Of entries in a SUBSCRIBERS frame: with all headers it stays below an MTU of 1,500 bytes."""
MAX_PARTS: Final = 0xFFFF
"""Frames of one list at most."""


class Located(NamedTuple):
    """What a SUBSCRIPTION or an ADVERTISEMENT says: a sender's location, and an encoded item."""

    location: Point
    item: bytes


def encode_located(location: Point, item: bytes) -> bytes:
    """Return the body of a SUBSCRIPTION or an ADVERTISEMENT."""
    two, pair, head_x, head_y = _HEADS
    return _LOCATION.pack(two, pair, head_x, location[0], head_y, location[1]) + item


def decode_located(body: bytes) -> Located:
    """Return what such a body says; the item is not looked into.  Raises `WireError`."""
    if len(body) < _LOCATION.size:
        raise WireError("a body without a location")
    two, pair, head_x, x, head_y, y = _LOCATION.unpack_from(body)
    if (two, pair, head_x, head_y) != _HEADS or not (abs(x) < LIMIT and abs(y) < LIMIT):
        raise WireError("a body without a location")
    return Located((x, y), body[_LOCATION.size :])


def encode_subscription(subscription: Subscription, location: Point) -> bytes:
    """Return the body of a SUBSCRIPTION frame."""
    return encode_located(location, subscription.encode())


def encode_advertisement(topic: str, location: Point) -> bytes:
    """Return the body of an ADVERTISEMENT frame."""
    return encode_located(location, wire.encode_body(topic))


def decode_advertisement(body: bytes) -> tuple[str, Point]:
    """Return topic and location of an ADVERTISEMENT's body.  Raises `WireError`."""
    location, item = decode_located(body)
    topic = wire.decode_body(item)
    if not isinstance(topic, str) or len(topic.encode()) > MAX_TOPIC:
        raise WireError("an advertisement without a topic, or of too long a one")
    return topic, location


class Subscriber(NamedTuple):
    """One entry of a list: node, subscription, location, and when that was heard (seconds)."""

    node: int
    subscription: bytes
    location: Point
    heard: float


class SubscriberList(NamedTuple):
    """What one SUBSCRIBERS frame says."""

    topic: str
    part: int
    parts: int
    subscribers: list[Subscriber]


def encode_subscribers(
    topic: str, subscribers: Iterable[Subscriber], now: float
) -> Iterator[bytes]:
    """Yield the bodies of the frames that list `subscribers`: one at least."""
    chunks: list[list[list[Any]]] = [[]]
    room = LIST_BYTES
    for node, subscription, (x, y), heard in subscribers:
        size = len(subscription) + 32
        if size > room and chunks[-1]:
            chunks.append([])
            room = LIST_BYTES
        chunks[-1].append([node, round((now - heard) * 1000), x, y, subscription])
        room -= size
    for part, chunk in enumerate(chunks[:MAX_PARTS]):
        yield wire.encode_body([topic, part, min(len(chunks), MAX_PARTS), chunk])


def decode_subscribers(body: bytes, now: float) -> SubscriberList:
    """Return what the body of a SUBSCRIBERS frame says at time `now`.  Raises `WireError`."""
    value = wire.decode_body(body)
    if not isinstance(value, list) or len(value) != 4:
        raise WireError("not a list of subscribers")
    topic, part, parts, entries = value
    if not isinstance(topic, str) or not isinstance(entries, list):
        raise WireError("not a list of subscribers")
    if not _whole(part, 0, MAX_PARTS - 1) or not _whole(parts, part + 1, MAX_PARTS):
        raise WireError("not a part of a list of subscribers")
    return SubscriberList(topic, part, parts, [_subscriber(entry, now) for entry in entries])


def _subscriber(entry: Any, now: float) -> Subscriber:
    if not isinstance(entry, list) or len(entry) != 5:
        raise WireError("not a subscriber")
    node, age, x, y, subscription = entry
    if not _whole(node, 1, BROADCAST - 1) or not _whole(age, 0, 2**40):
        raise WireError("not a subscriber")
    if not isinstance(x, float) or not isinstance(y, float) or not isinstance(subscription, bytes):
        raise WireError("not a subscriber")
    if not (abs(x) < LIMIT and abs(y) < LIMIT):  # false for NaN too
        raise WireError("a subscriber from nowhere")
    return Subscriber(node, subscription, (x, y), now - age / 1000)


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

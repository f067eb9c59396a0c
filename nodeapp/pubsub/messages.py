"""Bodies of the frames between clients of a topic and its decision point, in CBOR.

    SUBSCRIPTION   [[x, y, stamp], [filter, attributes]]   x, y: the subscriber's location, metres
    ADVERTISEMENT  [[x, y, stamp], topic]                  x, y: the publisher's location, metres
    SUBSCRIBERS    [topic, part, parts, [[subscriber, stamp, age, x, y, subscription], ...]]

x and y are binary64.  `stamp` orders the refreshes of one issuer: its clock when it sent this
one, milliseconds, and more than in the one before (`Stamps`); only the issuer's own stamps
compare.  In a list it is that of the subscriber's last refresh.  `age` is how long ago the
subscriber was heard, milliseconds; `subscription` is the encoded [filter, attributes] as a byte
string.  A list of subscribers that does not fit one frame comes in several, `part` 0 to
`parts` - 1.

Location and stamp of the first two are 29 bytes of fixed layout and the rest does not change from
one refresh to the next, so a refresh is recognised by its bytes and costs no decoding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from nodeapp import wire
from nodeapp.events import Subscription
from nodeapp.geometry import Point
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.fields import LIMIT, is_whole, items_of
from nodeapp.wire import BROADCAST, MAX_BODY, Frame, WireError

T = TypeVar("T")

_LOCATION: Final = struct.Struct(">BBBdBdBQ")
_HEADS: Final = (0x82, 0x83, 0xFB, 0xFB, 0x1B)  # arrays of 2 and of 3, binary64 twice, 64 bits
MAX_TOPIC: Final = 4096
"""Bytes of a topic: what 1,024 characters, `MAX_TEXT` of a filter, come to at most."""
MAX_SUBSCRIPTION: Final = MAX_BODY - MAX_TOPIC - 1024
"""Bytes of a filter with the subscriber's attributes, so that a list has room for one."""
LIST_BYTES: Final = 1200
"""Bytes of entries in a frame with a list, which stays below an MTU of 1,500 with all headers."""
MAX_PARTS: Final = 0xFFFF
"""Most frames of one list."""
MAX_STAMP: Final = 2**64 - 1


class TopicKind(Kind):
    """Messages between the clients of a topic and its decision point."""

    SUBSCRIPTION = 3, Role.INTEREST
    ADVERTISEMENT = 7
    SUBSCRIBERS = 8, Role.DEMAND


class Stamps:
    """The stamps of one issuer: its monotonic clock in milliseconds, and each above the last.

    That clock goes on when a node app restarts, and with it the order.  After a restart of the
    machine stamps may begin below earlier ones: a table then takes the next refresh when the old
    entry has timed out.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, now: float) -> int:
        """Return the stamp of a refresh at time `now`, seconds."""
        self._last = max(self._last + 1, int(now * 1000))
        return self._last

    def go_above(self, stamp: int) -> None:
        """Let the next ones be above a stamp of this issuer from before a restart."""
        self._last = max(self._last, stamp)


class Located(NamedTuple):
    """What a SUBSCRIPTION or an ADVERTISEMENT says: where its issuer was, and an encoded item."""

    location: Point
    stamp: int
    item: bytes


def encode_located(location: Point, stamp: int, item: bytes) -> bytes:
    """Return the body of a SUBSCRIPTION or an ADVERTISEMENT."""
    two, triple, head_x, head_y, head_stamp = _HEADS
    x, y = location
    return _LOCATION.pack(two, triple, head_x, x, head_y, y, head_stamp, stamp) + item


def decode_located(body: bytes) -> Located:
    """Return what such a body says; the item is not decoded.  Raises `WireError`."""
    if len(body) < _LOCATION.size:
        raise WireError("a body without a location")
    two, triple, head_x, x, head_y, y, head_stamp, stamp = _LOCATION.unpack_from(body)
    heads = (two, triple, head_x, head_y, head_stamp)
    if heads != _HEADS or not (abs(x) < LIMIT and abs(y) < LIMIT):
        raise WireError("a body without a location")
    return Located((x, y), stamp, body[_LOCATION.size :])


def issuer_of(frame: Frame) -> int:
    """Return the node that a SUBSCRIPTION or an ADVERTISEMENT is from.  Raises `WireError`."""
    if not 1 <= frame.originator < BROADCAST:
        raise WireError("a message of no node")
    return frame.originator


def encode_subscription(subscription: Subscription, location: Point, stamp: int) -> bytes:
    """Return the body of a SUBSCRIPTION frame."""
    return encode_located(location, stamp, subscription.encode())


def encode_advertisement(topic: str, location: Point, stamp: int) -> bytes:
    """Return the body of an ADVERTISEMENT frame."""
    return encode_located(location, stamp, wire.encode_body(topic))


def decode_advertisement(body: bytes) -> tuple[str, Point, int]:
    """Return topic, location and stamp of an ADVERTISEMENT's body.  Raises `WireError`."""
    location, stamp, item = decode_located(body)
    topic = wire.decode_body(item)
    if not isinstance(topic, str) or len(topic.encode()) > MAX_TOPIC:
        raise WireError("an advertisement without a topic, or of too long a one")
    return topic, location, stamp


class Subscriber(NamedTuple):
    """One subscription of a node, according to its last refresh.

    `stamp` is that of the refresh, `heard` when it came to the decision point, seconds.
    """

    node: int
    subscription: bytes
    location: Point
    stamp: int
    heard: float


class SubscriberList(NamedTuple):
    """What one SUBSCRIBERS frame says."""

    topic: str
    part: int
    parts: int
    subscribers: list[Subscriber]


def split_list(items: Iterable[T], size: Callable[[T], int]) -> list[list[T]]:
    """Return items in lists of at most `LIST_BYTES` by their `size`, or of one: one list at least.

    For bodies that go into several frames if one does not hold them.
    """
    lists: list[list[T]] = [[]]
    room = LIST_BYTES
    for item in items:
        taken = size(item)
        if taken > room and lists[-1]:
            lists.append([])
            room = LIST_BYTES
        lists[-1].append(item)
        room -= taken
    return lists


def encode_subscribers(
    topic: str, subscribers: Iterable[Subscriber], now: float
) -> Iterator[bytes]:
    """Yield the bodies of the frames that list `subscribers`: one at least."""
    chunks = split_list(subscribers, lambda subscriber: len(subscriber.subscription) + 41)
    for part, chunk in enumerate(chunks[:MAX_PARTS]):
        entries = [
            [node, stamp, round((now - heard) * 1000), x, y, subscription]
            for node, subscription, (x, y), stamp, heard in chunk
        ]
        yield wire.encode_body([topic, part, min(len(chunks), MAX_PARTS), entries])


def decode_subscribers(body: bytes, now: float) -> SubscriberList:
    """Return what the body of a SUBSCRIBERS frame says at time `now`.  Raises `WireError`."""
    topic, part, parts, entries = items_of(wire.decode_body(body), 4, "a list of subscribers")
    if not isinstance(topic, str) or not isinstance(entries, list):
        raise WireError("not a list of subscribers")
    if not is_whole(part, 0, MAX_PARTS - 1) or not is_whole(parts, part + 1, MAX_PARTS):
        raise WireError("not a part of a list of subscribers")
    return SubscriberList(topic, part, parts, [_subscriber(entry, now) for entry in entries])


def _subscriber(entry: Any, now: float) -> Subscriber:
    node, stamp, age, x, y, subscription = items_of(entry, 6, "a subscriber")
    if not is_refresh(node, stamp, age, x, y) or not isinstance(subscription, bytes):
        raise WireError("not a subscriber")
    if not (abs(x) < LIMIT and abs(y) < LIMIT):  # false for NaN too
        raise WireError("a subscriber from nowhere")
    return Subscriber(node, subscription, (x, y), stamp, now - age / 1000)


def is_refresh(node: Any, stamp: Any, age: Any, x: Any, y: Any) -> bool:
    """Return whether decoded values are a node, its position, and stamp and age of its refresh."""
    whole = is_whole(node, 1, BROADCAST - 1) and is_whole(stamp, 0, MAX_STAMP)
    return whole and is_whole(age, 0, 2**40) and isinstance(x, float) and isinstance(y, float)

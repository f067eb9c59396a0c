"""Bodies of AODV's messages (RFC 3561, section 5), in CBOR.

    ROUTE_REQUEST  [flags, id, destination sequence number, originator sequence number]
    ROUTE_REPLY    [flags, destination, destination sequence number, hop count, lifetime]
    ROUTE_ERROR    [flags, destination, destination sequence number, destination, ...]
    ROUTE_REPLY_ACK  []
    HELLO          [sequence number, lifetime]

Lifetimes are milliseconds.  The rest of the RFC's fields are in the frame header: `originator` and
`destination` of a request are the node that asks and the node it asks for, `hops` is its hop
count; `originator` and `destination` of a reply are the node that replies and the node that asked
for the route.  A hello is a message of its own, not a reply with a TTL of 1 (6.9).

Every number takes four bytes, so the layouts are fixed and one struct reads and writes each.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from nodeapp.kinds import Kind, Role
from nodeapp.wire import BROADCAST, WireError

GRATUITOUS: Final = 0x01
"""G: an intermediate node that replies tells the destination of the route back as well."""
DESTINATION_ONLY: Final = 0x02
"""D: only the destination may reply."""
UNKNOWN: Final = 0x04
"""U: the originator knows no sequence number of the destination."""
ACKNOWLEDGE: Final = 0x01
"""A, in a ROUTE_REPLY: the next hop is to answer with a ROUTE_REPLY_ACK (6.7, 6.8)."""
NO_DELETE: Final = 0x01
"""N, in a ROUTE_ERROR: the routes are repaired, and longer; upstream nodes keep theirs (6.12)."""
ACK_BODY: Final = b"\x80"
"""The body of a ROUTE_REPLY_ACK: it does not say which reply it acknowledges."""
MAX_LIFETIME: Final = 0xFFFFFFFF
"""Milliseconds."""
ERRORS_A_FRAME: Final = 128
"""Destinations that one ROUTE_ERROR lists; it stays below an MTU of 1,500 bytes."""
NO_SEQUENCE: Final = 0
"""In a ROUTE_ERROR: the sender knows no sequence number of the destination."""

_WORD: Final = 0x1A  # CBOR: an unsigned integer of 32 bits follows
_PAIR: Final = struct.Struct(">BIBI")
_FOUR: Final = struct.Struct(">BBIBIBIBI")
_FOUR_HEADS: Final = (0x84, _WORD, _WORD, _WORD, _WORD)
_FIVE: Final = struct.Struct(">BBIBIBIBIBI")
_FIVE_HEADS: Final = (0x85, _WORD, _WORD, _WORD, _WORD, _WORD)
_ARRAY_16: Final = 0x99  # CBOR: an array whose length takes 16 bits
_ERROR_HEAD: Final = struct.Struct(">BHBI")
_HELLO: Final = struct.Struct(">BBIBI")


class AodvKind(Kind):
    """AODV's messages, except its beacons (`nodeapp.kinds.CommonKind`)."""

    ROUTE_REQUEST = 4, Role.ROUTING
    ROUTE_REPLY = 5, Role.ROUTING
    ROUTE_ERROR = 6, Role.ROUTING
    ROUTE_REPLY_ACK = 9, Role.ROUTING


class RouteRequest(NamedTuple):
    """What a ROUTE_REQUEST says besides its header."""

    flags: int
    request: int
    destination_sequence: int
    originator_sequence: int

    def encode(self) -> bytes:
        first, second, third, fourth = self
        return _FOUR.pack(0x84, _WORD, first, _WORD, second, _WORD, third, _WORD, fourth)


class RouteReply(NamedTuple):
    """What a ROUTE_REPLY says besides its header; `lifetime` is in seconds."""

    destination: int
    sequence: int
    hops: int
    lifetime: float
    flags: int = 0

    def encode(self) -> bytes:
        destination, sequence, hops, lifetime, flags = self
        words = (_WORD, destination, _WORD, sequence, _WORD, hops)
        return _FIVE.pack(0x85, _WORD, flags, *words, _WORD, _milliseconds(lifetime))


class RouteErrors(NamedTuple):
    """What a ROUTE_ERROR says: `unreachable` are destinations with their sequence numbers."""

    flags: int
    unreachable: list[tuple[int, int]]


class Hello(NamedTuple):
    """What a HELLO says: the sender's sequence number, and seconds for which it holds."""

    sequence: int
    lifetime: float

    def encode(self) -> bytes:
        return _HELLO.pack(0x82, _WORD, self.sequence, _WORD, _milliseconds(self.lifetime))


def _milliseconds(seconds: float) -> int:
    return min(max(round(seconds * 1000), 0), MAX_LIFETIME)


# Simulated nodes that hear one broadcast share one body.
@functools.lru_cache(maxsize=64)
def decode_request(body: bytes) -> RouteRequest:
    """Return what the body of a ROUTE_REQUEST says.  Raises `WireError`."""
    if len(body) != _FOUR.size:
        raise WireError("not the body of a ROUTE_REQUEST")
    array, head_1, first, head_2, second, head_3, third, head_4, fourth = _FOUR.unpack(body)
    if (array, head_1, head_2, head_3, head_4) != _FOUR_HEADS:
        raise WireError("not the body of a ROUTE_REQUEST")
    request = RouteRequest(first, second, third, fourth)
    if request.flags > GRATUITOUS | DESTINATION_ONLY | UNKNOWN:
        raise WireError("a ROUTE_REQUEST with unknown flags")
    return request


def decode_reply(body: bytes) -> RouteReply:
    """Return what the body of a ROUTE_REPLY says.  Raises `WireError`."""
    if len(body) != _FIVE.size:
        raise WireError("not the body of a ROUTE_REPLY")
    words = _FIVE.unpack(body)
    if (words[0], *words[1::2]) != _FIVE_HEADS:
        raise WireError("not the body of a ROUTE_REPLY")
    flags, destination, sequence, hops, lifetime = words[2::2]
    if not 0 < destination < BROADCAST or hops > 255:
        raise WireError("a ROUTE_REPLY of a route to nowhere")
    if flags > ACKNOWLEDGE:
        raise WireError("a ROUTE_REPLY with unknown flags")
    return RouteReply(destination, sequence, hops, lifetime / 1000, flags)


@functools.lru_cache(maxsize=64)
def decode_hello(body: bytes) -> Hello:
    """Return what the body of a HELLO says.  Raises `WireError`."""
    if len(body) != _HELLO.size:
        raise WireError("not the body of a HELLO")
    array, head_1, sequence, head_2, lifetime = _HELLO.unpack(body)
    if (array, head_1, head_2) != (0x82, _WORD, _WORD):
        raise WireError("not the body of a HELLO")
    return Hello(sequence, lifetime / 1000)


def check_acknowledgement(body: bytes) -> None:
    """Raise `WireError` if this is not the body of a ROUTE_REPLY_ACK."""
    if body != ACK_BODY:
        raise WireError("not the body of a ROUTE_REPLY_ACK")


def encode_errors(unreachable: Iterable[tuple[int, int]], flags: int = 0) -> Iterator[bytes]:
    """Yield the bodies that list unreachable destinations with their sequence numbers."""
    pairs = [_PAIR.pack(_WORD, node, _WORD, sequence) for node, sequence in unreachable]
    for start in range(0, len(pairs), ERRORS_A_FRAME):
        chunk = pairs[start : start + ERRORS_A_FRAME]
        yield _ERROR_HEAD.pack(_ARRAY_16, 1 + 2 * len(chunk), _WORD, flags) + b"".join(chunk)


def decode_errors(body: bytes) -> RouteErrors:
    """Return what the body of a ROUTE_ERROR says.  Raises `WireError`."""
    pairs, rest = divmod(len(body) - _ERROR_HEAD.size, _PAIR.size)
    if pairs < 1 or rest:
        raise WireError("not the body of a ROUTE_ERROR")
    array, length, head, flags = _ERROR_HEAD.unpack_from(body)
    if (array, length, head) != (_ARRAY_16, 1 + 2 * pairs, _WORD):
        raise WireError("not the body of a ROUTE_ERROR")
    if flags > NO_DELETE:
        raise WireError("a ROUTE_ERROR with unknown flags")
    unreachable = []
    for head_1, node, head_2, sequence in _PAIR.iter_unpack(body[_ERROR_HEAD.size :]):
        if (head_1, head_2) != (_WORD, _WORD) or not 0 < node < BROADCAST:
            raise WireError("not the body of a ROUTE_ERROR")
        unreachable.append((node, sequence))
    return RouteErrors(flags, unreachable)

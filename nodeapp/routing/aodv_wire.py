"""Bodies of AODV's messages (RFC 3561, section 5), in CBOR.

    ROUTE_REQUEST  [flags, id, destination sequence number, originator sequence number]
    ROUTE_REPLY    [destination, destination sequence number, hop count, lifetime]
    ROUTE_ERROR    [destination, destination sequence number, destination, ...]
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

from nodeapp.wire import BROADCAST, WireError

GRATUITOUS: Final = 0x01
"""G: an intermediate node that replies tells the destination of the route back as well."""
DESTINATION_ONLY: Final = 0x02
"""D: only the destination may reply."""
UNKNOWN: Final = 0x04
"""U: the originator knows no sequence number of the destination."""
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
_ARRAY_16: Final = 0x99  # CBOR: an array whose length takes 16 bits
_ERROR_HEAD: Final = struct.Struct(">BH")
_HELLO: Final = struct.Struct(">BBIBI")


class RouteRequest(NamedTuple):
    """What a ROUTE_REQUEST says beside its header."""

    flags: int
    request: int
    destination_sequence: int
    originator_sequence: int

    def encode(self) -> bytes:
        """Return the body."""
        return _encode_four(*self)


class RouteReply(NamedTuple):
    """What a ROUTE_REPLY says beside its header; `lifetime` is in seconds."""

    destination: int
    sequence: int
    hops: int
    lifetime: float

    def encode(self) -> bytes:
        """Return the body."""
        return _encode_four(
            self.destination, self.sequence, self.hops, _milliseconds(self.lifetime)
        )


class Hello(NamedTuple):
    """What a HELLO says: the sender's sequence number, and seconds for which it holds."""

    sequence: int
    lifetime: float

    def encode(self) -> bytes:
        """Return the body."""
        return _HELLO.pack(0x82, _WORD, self.sequence, _WORD, _milliseconds(self.lifetime))


def _milliseconds(seconds: float) -> int:
    return min(max(round(seconds * 1000), 0), MAX_LIFETIME)


def _encode_four(first: int, second: int, third: int, fourth: int) -> bytes:
    return _FOUR.pack(0x84, _WORD, first, _WORD, second, _WORD, third, _WORD, fourth)


def _decode_four(body: bytes, what: str) -> tuple[int, int, int, int]:
    if len(body) != _FOUR.size:
        raise WireError(f"not the body of a {what}")
    array, head_1, first, head_2, second, head_3, third, head_4, fourth = _FOUR.unpack(body)
    if (array, head_1, head_2, head_3, head_4) != _FOUR_HEADS:
        raise WireError(f"not the body of a {what}")
    return first, second, third, fourth


# Simulated nodes that hear one broadcast share one body.
@functools.lru_cache(maxsize=64)
def decode_request(body: bytes) -> RouteRequest:
    """Return what the body of a ROUTE_REQUEST says.  Raises `WireError`."""
    request = RouteRequest(*_decode_four(body, "ROUTE_REQUEST"))
    if request.flags > GRATUITOUS | DESTINATION_ONLY | UNKNOWN:
        raise WireError("a ROUTE_REQUEST with unknown flags")
    return request


def decode_reply(body: bytes) -> RouteReply:
    """Return what the body of a ROUTE_REPLY says.  Raises `WireError`."""
    destination, sequence, hops, lifetime = _decode_four(body, "ROUTE_REPLY")
    if not 0 < destination < BROADCAST or hops > 255:
        raise WireError("a ROUTE_REPLY of a route to nowhere")
    return RouteReply(destination, sequence, hops, lifetime / 1000)


@functools.lru_cache(maxsize=64)
def decode_hello(body: bytes) -> Hello:
    """Return what the body of a HELLO says.  Raises `WireError`."""
    if len(body) != _HELLO.size:
        raise WireError("not the body of a HELLO")
    array, head_1, sequence, head_2, lifetime = _HELLO.unpack(body)
    if (array, head_1, head_2) != (0x82, _WORD, _WORD):
        raise WireError("not the body of a HELLO")
    return Hello(sequence, lifetime / 1000)


def encode_errors(unreachable: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the bodies that list unreachable destinations with their sequence numbers."""
    pairs = [_PAIR.pack(_WORD, node, _WORD, sequence) for node, sequence in unreachable]
    for start in range(0, len(pairs), ERRORS_A_FRAME):
        chunk = pairs[start : start + ERRORS_A_FRAME]
        yield _ERROR_HEAD.pack(_ARRAY_16, 2 * len(chunk)) + b"".join(chunk)


def decode_errors(body: bytes) -> list[tuple[int, int]]:
    """Return (destination, sequence number) of all that a ROUTE_ERROR lists.

    Raises `WireError`.
    """
    pairs, rest = divmod(len(body) - _ERROR_HEAD.size, _PAIR.size)
    if pairs < 1 or rest or _ERROR_HEAD.unpack_from(body) != (_ARRAY_16, 2 * pairs):
        raise WireError("not the body of a ROUTE_ERROR")
    unreachable = []
    for head_1, node, head_2, sequence in _PAIR.iter_unpack(body[_ERROR_HEAD.size :]):
        if (head_1, head_2) != (_WORD, _WORD) or not 0 < node < BROADCAST:
            raise WireError("not the body of a ROUTE_ERROR")
        unreachable.append((node, sequence))
    return unreachable

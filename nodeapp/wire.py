"""Wire format of the testbed: one fixed header, an optional routing extension, a CBOR body.

Every datagram, between nodes (UDP port `NODE_PORT`) and between a node and its local clients
(UDP port `CLIENT_PORT` on loopback), is

    0               1               2               3
    +---------------+---------------+---------------+---------------+
    | version       | kind          | flags         | ttl           |
    +---------------+---------------+---------------+---------------+
    | hops          | route length  | body length                   |
    +---------------+---------------+---------------+---------------+
    | originator                                                    |
    +---------------------------------------------------------------+
    | final destination                                             |
    +---------------------------------------------------------------+
    | publisher                                                     |
    +---------------------------------------------------------------+
    | event sequence number                                         |
    +---------------------------------------------------------------+
    | routing extension (route length bytes)                        |
    +---------------------------------------------------------------+
    | body (body length bytes, CBOR, RFC 8949)                      |
    +---------------------------------------------------------------+

in network byte order.  All that captures are analysed for is in the 24 fixed bytes, so that a
decoder needs neither CBOR nor the protocols.  A forwarder rewrites header and routing extension
and relays the body untouched.

ttl is the number of hops still allowed after this one; hops is the number of radio transmissions
made so far, this one included: 1 when the originator sends, 0 only on loopback.  Publisher and
sequence number together are the event id; both are 0 in frames that carry no event, except a
SUBSCRIPTION that names a publisher whose events it takes, and the sequence number of some
messages of brokers of a mesh and of peers of Mirinae, which is when their sender began (`moment`).

Length, version and kind are checked on receipt; a frame that fails is refused with `WireError`,
which the caller counts.
"""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import cbor2

from nodeapp.kinds import CLASSES, TrafficClass

VERSION: Final = 1
NODE_PORT: Final = 5550
CLIENT_PORT: Final = 5551
MOMENTS: Final = 2**32
"""After so many milliseconds, 49.7 days, `moment` wraps around."""
BROADCAST: Final = 0xFFFFFFFF
"""Node id of all one-hop neighbours."""
ANY_NODE: Final = 0
"""Final destination of a frame that is for the node that serves its location."""
HEADER: Final = struct.Struct(">BBBBBBHIIII")
HEADER_LENGTH: Final = HEADER.size
MAX_BODY: Final = 60_000
"""Bytes; with the header and IP and UDP headers below the 65,535 of an IPv4 datagram."""


def traffic_class(datagram: bytes) -> TrafficClass:
    """Return the class of an encoded frame, from its kind; `EVENTS` if its kind is unknown."""
    kind = datagram[1] if len(datagram) > 1 else 0
    return CLASSES.get(kind, TrafficClass.EVENTS)


BY_HAND: Final = 1 << 31
"""Sequence numbers of events published by hand have this bit; those of programs count from 1."""
FLAG_REPLICA: Final = 0x01
"""A subscription copied by the node that captured it to its neighbours; not captured again."""
FLAG_ONE_WAY: Final = 0x02
"""A frame that came by another path than its forwarders' routes to its originator (AODV)."""
FLAG_EXPLORE: Final = 0x04
"""A subscription whose issuer takes events from here again, whatever it has pruned before."""
FLAG_SEALED: Final = 0x08
"""A frame that ends with the seal of its transmitter (`nodeapp.auth`)."""

FLAG_MULTICAST: Final = 0x10
"""An event of an overlay that goes on to covered peers and neighbours, not to covering ones."""
FLAG_FLOOD: Final = 0x20
"""An event of an overlay that goes to every peer, whatever that is interested in."""


class WireError(ValueError):
    """A datagram or a body that does not follow the wire format."""

    counter: ClassVar[str] = "malformed"
    """What a node counts it as."""


class UnknownKindError(WireError):
    """A frame of a kind that no file that is imported declares (`nodeapp.kinds`)."""

    counter: ClassVar[str] = "unexpected kind"


def moment(now: float) -> int:
    """Return a time of a node's clock, seconds, as a sequence number holds it: milliseconds."""
    return int(now * 1000) % MOMENTS


class Frame(NamedTuple):
    """One decoded datagram; immutable, so that receivers of one broadcast can share it."""

    kind: int
    originator: int
    destination: int = BROADCAST
    publisher: int = 0
    sequence: int = 0
    ttl: int = 0
    hops: int = 1
    flags: int = 0
    route: bytes = b""
    body: bytes = b""

    def encode(self) -> bytes:
        """Return the datagram.  Raises `WireError` if a field does not fit its width."""
        try:
            header = HEADER.pack(
                VERSION,
                self.kind,
                self.flags,
                self.ttl,
                self.hops,
                len(self.route),
                len(self.body),
                self.originator,
                self.destination,
                self.publisher,
                self.sequence,
            )
        except struct.error as error:
            raise WireError(f"a header field is out of range: {error}") from None
        if len(self.body) > MAX_BODY:
            raise WireError(f"body of {len(self.body)} bytes; at most {MAX_BODY} fit a datagram")
        return header + self.route + self.body

    def forwarded(self, route: bytes | None = None) -> Frame:
        """Return the frame as the next hop's transmission: one hop more, one hop of life less.

        Raises `WireError` if no hop is left (`ttl` 0 or `hops` 255).
        """
        if self.ttl <= 0 or self.hops >= 255:
            raise WireError("time to live is used up")
        return self._replace(
            ttl=self.ttl - 1, hops=self.hops + 1, route=self.route if route is None else route
        )


def decode(datagram: bytes) -> Frame:
    """Return the frame in `datagram`.  Raises `WireError` if it is malformed or unknown."""
    if len(datagram) < HEADER_LENGTH:
        raise WireError("shorter than the header")
    (
        version,
        kind,
        flags,
        ttl,
        hops,
        route_length,
        body_length,
        originator,
        destination,
        publisher,
        sequence,
    ) = HEADER.unpack_from(datagram)
    if version != VERSION:
        raise WireError(f"version {version} is not {VERSION}")
    if kind not in CLASSES:
        raise UnknownKindError(f"unknown kind {kind}")
    body_start = HEADER_LENGTH + route_length
    if len(datagram) != body_start + body_length or body_length > MAX_BODY:
        raise WireError("length does not match the header")
    return Frame(
        kind,
        originator,
        destination,
        publisher,
        sequence,
        ttl,
        hops,
        flags,
        datagram[HEADER_LENGTH:body_start],
        datagram[body_start:],
    )


class GeoRoute(NamedTuple):
    """Routing extension of geographic forwarding: GPSR's packet header (table 1).

    Coordinates are metres on the local plane.  In greedy mode only the destination location is
    carried; in perimeter mode also the points at which the packet entered that mode (`entered`, Lp)
    and the current face (`face`, Lf), and the first edge of the face (`edge`, e0).
    `entry`, which GPSR does not have, is the node that stood at Lp: nodes move.
    Source: docs/papers.md#gpsr.
    """

    x: float
    y: float
    entered: tuple[float, float] | None = None
    face: tuple[float, float] = (0.0, 0.0)
    edge: tuple[int, int] = (0, 0)
    entry: int = 0

    def encode(self) -> bytes:
        """Return the extension: 17 bytes in greedy mode, 61 in perimeter mode."""
        if self.entered is None:
            return _GREEDY.pack(GREEDY, self.x, self.y)
        return _PERIMETER.pack(
            PERIMETER, self.x, self.y, *self.entered, *self.face, *self.edge, self.entry
        )


GREEDY: Final = 1
PERIMETER: Final = 2
TREE: Final = 3
"""First byte of the routing extension of a HELLO that tells its sender's place in a spanning tree.

The layout is in `nodeapp.routing.tree_beacon`.
"""
CELLS: Final = 5
"""First byte of the routing extension of cell hash routing (`nodeapp.routing.cell_wire`)."""
CELL_WALK: Final = 6
"""The same in perimeter mode."""
_GREEDY: Final = struct.Struct(">Bdd")
_PERIMETER: Final = struct.Struct(">BddddddIII")


def decode_geo_route(route: bytes) -> GeoRoute:
    """Return the geographic routing extension in `route`.  Raises `WireError`."""
    if len(route) == _GREEDY.size and route[0] == GREEDY:
        _, x, y = _GREEDY.unpack(route)
        geo = GeoRoute(x, y)
    elif len(route) == _PERIMETER.size and route[0] == PERIMETER:
        _, x, y, ex, ey, fx, fy, first, second, entry = _PERIMETER.unpack(route)
        geo = GeoRoute(x, y, (ex, ey), (fx, fy), (first, second), entry)
    else:
        raise WireError("not a geographic routing extension")
    coordinates = (geo.x, geo.y, *(geo.entered or ()), *geo.face)
    if not all(abs(value) < 1e9 for value in coordinates):  # false for NaN and infinity too
        raise WireError("a coordinate is not a finite number of metres")
    return geo


class Whereabouts(NamedTuple):
    """Where the sender of a frame is, metres, and its velocity, metres a second."""

    x: float
    y: float
    vx: float = 0.0
    vy: float = 0.0


WITH_SENDER: Final = 0x80
"""Bit of a geographic extension's first byte: it ends with where the frame's sender is."""
_SENDER: Final = struct.Struct(">ddff")


def with_sender(route: bytes, sender: Whereabouts) -> bytes:
    """Return a geographic extension, or an empty one, with the whereabouts of the frame's sender.

    The position piggybacked on data packets (GPSR, section 2.1: docs/papers.md#gpsr), in 24 bytes;
    the velocity is rounded to binary32.  An empty extension gets a first byte of its own.
    """
    mode = route[0] if route else 0
    return bytes((mode | WITH_SENDER,)) + route[1:] + _SENDER.pack(*sender)


@functools.lru_cache(maxsize=64)  # all who hear a frame look at the same one
def split_sender(route: bytes) -> tuple[bytes, Whereabouts | None]:
    """Return the extension without what `with_sender` added, and that, or None if it has none.

    Raises `WireError` if that is malformed; the rest is not decoded.
    """
    if not route or not route[0] & WITH_SENDER:
        return route, None
    mode = route[0] & ~WITH_SENDER
    if len(route) < 1 + _SENDER.size or (not mode and len(route) > 1 + _SENDER.size):
        raise WireError("an extension without the sender that it speaks of")
    sender = Whereabouts(*_SENDER.unpack(route[-_SENDER.size :]))
    if not all(abs(value) < 1e9 for value in sender):  # false for NaN and infinity too
        raise WireError("a position or velocity is not a finite number of metres")
    return (bytes((mode,)) + route[1 : -_SENDER.size] if mode else b""), sender


ADDRESSEES: Final = 4
"""First byte of the routing extension that lists neighbours."""
MAX_ADDRESSEES: Final = 63
"""Neighbours in one list: an extension has at most 255 bytes."""


def encode_addressees(nodes: Sequence[int]) -> bytes:
    """Return the routing extension of a broadcast that only the neighbours `nodes` shall take.

    Raises `WireError` for no node, for more than `MAX_ADDRESSEES`, or for what is no node id.
    """
    if not 0 < len(nodes) <= MAX_ADDRESSEES:
        raise WireError(f"{len(nodes)} addressees; a frame has 1 to {MAX_ADDRESSEES}")
    if not 0 < min(nodes) <= max(nodes) < BROADCAST:
        raise WireError("an addressee that is no node")
    return struct.pack(f">B{len(nodes)}I", ADDRESSEES, *nodes)


@functools.lru_cache(maxsize=64)  # all who hear a frame look at the same one
def decode_addressees(route: bytes) -> tuple[int, ...]:
    """Return the neighbours that a routing extension lists.  Raises `WireError`."""
    count, rest = divmod(len(route) - 1, 4)
    if count < 1 or rest or route[0] != ADDRESSEES:
        raise WireError("not a list of addressees")
    nodes: tuple[int, ...] = struct.unpack_from(f">{count}I", route, 1)
    if not 0 < min(nodes) <= max(nodes) < BROADCAST:
        raise WireError("an addressee that is no node")
    return nodes


def encode_body(value: Any) -> bytes:
    """Return `value` (maps, arrays, text, numbers, booleans, bytes, None) in CBOR."""
    return cbor2.dumps(value)


def decode_body(body: bytes) -> Any:
    """Return the one CBOR item that `body` is, as plain values.

    Raises `WireError` and nothing else.  Also refused are tags (a tagged value may cost far
    more to build than its bytes), nesting beyond `MAX_DEPTH`, repeated map keys and those that are
    neither texts nor byte strings, and bytes after the item.
    """
    source = io.BytesIO(body)
    try:
        value = cbor2.CBORDecoder(
            source,
            tag_hook=_refuse_tag,
            semantic_decoders=_REFUSED_TAGS,
            max_depth=MAX_DEPTH,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        ).decode()
    except (cbor2.CBORError, ValueError) as error:
        raise WireError(f"body is not CBOR: {error}") from None
    if source.tell() != len(body):
        raise WireError(f"{len(body) - source.tell()} bytes after the body's CBOR item")
    return value


def _refuse_tag(*_: object) -> Any:
    raise ValueError("tags are not allowed")


MAX_DEPTH: Final = 8
"""Most levels of arrays and maps in a body."""
_REFUSED_TAGS: Final = dict.fromkeys(
    # The tags that cbor2 decodes itself; those it does not know go to the tag hook.
    (*range(6), 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799),
    _refuse_tag,
)

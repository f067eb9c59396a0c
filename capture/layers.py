# SPDX-License-Identifier: GPL-2.0-only
"""scapy layers for the wire format: dissect captures, build packets by hand.

    >>> from capture.layers import PubSub
    >>> IP(dst="10.255.255.255") / UDP() / PubSub(kind="EVENT", publisher=3, sequence=17)

`PubSub` is bound to both UDP ports.  Its fields have the names of `nodeapp.wire`, except the
routing extension: `route` is a method of every scapy packet, so that field is `routing`.  Lengths
are computed, the routing extension is a packet of its own if its format is known, and the body may
be given as the value that its CBOR encodes and is shown decoded.  What `nodeapp.wire.decode`
refuses is dissected as `Raw`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from scapy.config import conf
from scapy.fields import (
    AnyField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FieldListField,
    FlagsField,
    IEEEDoubleField,
    IEEEFloatField,
    IntEnumField,
    IntField,
    PacketLenField,
    ShortField,
    SignedIntField,
    StrLenField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_layers

from nodeapp import wire
from nodeapp.auth import TRAILER
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.registry import kinds
from nodeapp.routing.cell_wire import decode_cell_route

KIND_NAMES: Final = {number: kind.name for number, kind in kinds().items()}

MODES: Final = {wire.GREEDY: "greedy", wire.PERIMETER: "perimeter"}
MODE_NAMES: Final = (
    MODES
    | {mode | wire.WITH_SENDER: f"{name}, with sender" for mode, name in MODES.items()}
    | {wire.WITH_SENDER: "sender", wire.ADDRESSEES: "addressees"}
    | {wire.CELLS: "cells", wire.CELL_WALK: "cells, perimeter"}
)
_ADDRESSEES: Final = bytes((wire.ADDRESSEES,))
_CELLS: Final = (bytes((wire.CELLS,)), bytes((wire.CELL_WALK,)))


def _sender() -> list[AnyField]:
    """Return the fields of the sender's whereabouts, present if the mode says so."""
    fields: list[Any] = [
        IEEEDoubleField("sender_x", 0),
        IEEEDoubleField("sender_y", 0),
        IEEEFloatField("sender_vx", 0),
        IEEEFloatField("sender_vy", 0),
    ]
    return [ConditionalField(field, _has_sender) for field in fields]


def _has_sender(packet: Packet) -> bool:
    return bool(packet.mode & wire.WITH_SENDER)


class SenderRoute(Packet):
    """Geographic routing extension of a broadcast: where its sender is, and its velocity."""

    name = "SenderRoute"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("mode", wire.WITH_SENDER, MODE_NAMES),
        *_sender(),
    ]


class GreedyRoute(Packet):
    """Geographic routing extension in greedy mode: where the frame is going, metres."""

    name = "GreedyRoute"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("mode", wire.GREEDY, MODE_NAMES),
        IEEEDoubleField("x", 0),
        IEEEDoubleField("y", 0),
        *_sender(),
    ]


class PerimeterRoute(Packet):
    """Geographic routing extension in perimeter mode; Lp, Lf and e0 of GPSR's table 1."""

    name = "PerimeterRoute"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("mode", wire.PERIMETER, MODE_NAMES),
        IEEEDoubleField("x", 0),
        IEEEDoubleField("y", 0),
        IEEEDoubleField("entered_x", 0),
        IEEEDoubleField("entered_y", 0),
        IEEEDoubleField("face_x", 0),
        IEEEDoubleField("face_y", 0),
        IntField("edge_from", 0),
        IntField("edge_to", 0),
        IntField("entry", 0),
        *_sender(),
    ]


class AddresseesRoute(Packet):
    """Routing extension of a broadcast that is for the listed neighbours only."""

    name = "AddresseesRoute"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("mode", wire.ADDRESSEES, MODE_NAMES),
        FieldListField("addressees", [], IntField("", 0)),
    ]


class CellsRoute(Packet):
    """Routing extension of cell hash routing; the last four fields in perimeter mode only."""

    name = "CellsRoute"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteEnumField("mode", wire.CELLS, MODE_NAMES),
        ByteField("key", 0),
        ShortField("left", 0),
        *(SignedIntField(name, 0) for name in ("column", "row", "sender_column", "sender_row")),
        *(
            ConditionalField(SignedIntField(name, 0), lambda packet: packet.mode == wire.CELL_WALK)
            for name in ("entry_column", "entry_row", "first_column", "first_row")
        ),
    ]


def _route(data: bytes) -> Packet:
    """Return the packet for a routing extension; `Raw` if its format is unknown."""
    try:
        if data[:1] == _ADDRESSEES:
            wire.decode_addressees(data)
            return AddresseesRoute(data)
        if data[:1] in _CELLS:
            decode_cell_route(data)
            return CellsRoute(data)
        route, sender = wire.split_sender(data)
        if sender is not None and not route:
            return SenderRoute(data)
        geo = wire.decode_geo_route(route)
    except wire.WireError:
        return conf.raw_layer(data)
    return GreedyRoute(data) if geo.entered is None else PerimeterRoute(data)


class CborField(StrLenField):
    """A string of bytes that is one CBOR item: set by its bytes or its value, shown decoded."""

    def any2i(self, pkt: Packet | None, x: Any) -> bytes:
        """Return the bytes of the item; bytes are taken to be encoded already."""
        return x if isinstance(x, bytes) else wire.encode_body(x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Return the value, or the bytes if they are not CBOR, and the seal."""
        sealed = pkt is not None and int(pkt.flags) & wire.FLAG_SEALED and len(x) >= TRAILER
        item, seal = (x[:-TRAILER], x[-TRAILER:]) if sealed else (x, b"")
        try:
            shown = repr(wire.decode_body(item)) if item else ""
        except wire.WireError:
            shown = repr(item)
        return f"{shown} sealed {seal.hex()}".lstrip() if seal else shown


class PubSub(Packet):
    """A frame of the testbed."""

    name = "PubSub"
    fields_desc: ClassVar[list[AnyField]] = [
        ByteField("version", wire.VERSION),
        ByteEnumField("kind", CommonKind.HELLO, KIND_NAMES),
        FlagsField(
            "flags", 0, 8, ["replica", "one-way", "explore", "sealed", "multicast", "flood"]
        ),
        ByteField("ttl", 0),
        ByteField("hops", 1),
        FieldLenField("route_length", None, fmt="B", length_of="routing"),
        FieldLenField("body_length", None, fmt="H", length_of="body"),
        IntField("originator", 0),
        IntEnumField(
            "destination", wire.BROADCAST, {wire.BROADCAST: "broadcast", wire.ANY_NODE: "any"}
        ),
        IntField("publisher", 0),
        IntField("sequence", 0),
        PacketLenField(
            "routing", cast(Packet, None), _route, length_from=lambda packet: packet.route_length
        ),
        CborField("body", b"", length_from=lambda packet: packet.body_length),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_args: Any, **_fields: Any) -> type[Packet]:
        """Choose the class for a datagram: this one, or `Raw` if a node would refuse it."""
        if _pkt is None:
            return cls
        try:
            wire.decode(_pkt)
        except wire.WireError:
            raw: type[Packet] = conf.raw_layer
            return raw
        return cls

    def mysummary(self) -> str:
        """Return one line, such as "EVENT 3/17 from 3 to broadcast hop 2 ttl 14"."""
        event = f" {self.publisher}/{self.sequence}" if self.publisher or self.sequence else ""
        return str(
            self.sprintf("%PubSub.kind%")
            + event
            + self.sprintf(
                " from %PubSub.originator% to %PubSub.destination%"
                " hop %PubSub.hops% ttl %PubSub.ttl%"
            )
        )


for _port in (wire.CLIENT_PORT, wire.NODE_PORT):
    bind_bottom_up(UDP, PubSub, sport=_port)
    bind_bottom_up(UDP, PubSub, dport=_port)
bind_layers(UDP, PubSub, sport=wire.NODE_PORT, dport=wire.NODE_PORT)

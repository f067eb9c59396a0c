"""Packets of MQTT 3.1.1 as those of MQTT 5, and back.  Sans-I/O.

Source: OASIS, MQTT Version 3.1.1, 2014, and Version 5.0, 2019.  The later version has the same
packets with properties and more codes: with empty properties put in, one library parses both, and
what it writes has them taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from nodeapp.mqtt.fields import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    IDENTIFIED,
    PASSWORD,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    USER,
    WILL,
    PacketFields,
    malformed,
    number_at,
)
from nodeapp.mqtt.packets import parse as parse_later

VERSION: Final = 4
_BEGIN: Final = b"\0\4MQTT"
_NONE: Final = b"\0"
"""No properties."""
_REFUSED: Final = 0x80
_NOT_AUTHORISED: Final = 5
_RETURN_CODES: Final[Mapping[int, int]] = {0x00: 0, 0x84: 1, 0x85: 2, 0x86: 4}
"""Of CONNACK, by those of MQTT 5; others are `_NOT_AUTHORISED`."""


def refusal(code: int) -> bytes:
    """Return CONNACK with a return code."""
    return bytes([CONNACK, 2, 0, code])


def parse(packet: bytes) -> Any:
    """Return a client's packet, which is whole, as mqtt5 has it.  Raises `PacketError`."""
    return parse_later(upgraded(packet))


def upgraded(packet: bytes) -> bytes:
    """Return a client's packet, which is whole, as one of MQTT 5.  Raises `PacketError`."""
    _, start = number_at(packet, 1)
    body = packet[start:]
    change = _FROM_CLIENTS.get(packet[0] >> 4)
    if change is None:
        raise malformed(f"a packet of type {packet[0] >> 4}")
    return _packet(packet[0], change(body, packet[0]))


def downgraded(packet: bytes) -> bytes:
    """Return a packet of MQTT 5 for a client of 3.1.1; empty for one that it does not know."""
    length, start = number_at(packet, 1)
    body, kind = packet[start : start + length], packet[0] & 0xF0
    if kind == CONNACK:
        return refusal(_RETURN_CODES.get(body[1], _NOT_AUTHORISED))
    if kind == PUBLISH:
        at = 2 + int.from_bytes(body[:2], "big") + (2 if packet[0] & IDENTIFIED else 0)
        return _packet(packet[0], body[:at] + _after_properties(body, at))
    if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP, UNSUBACK):
        return _packet(packet[0], body[:2])
    if kind == SUBACK:
        codes = (min(code, _REFUSED) for code in _after_properties(body, 2))
        return _packet(packet[0], body[:2] + bytes(codes))
    return b"" if kind == DISCONNECT else packet


def _packet(first: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while not length or left:
        left, digit = divmod(left, 0x80)
        length.append(digit | (0x80 if left else 0))
    return bytes([first, *length]) + body


def _after_properties(body: bytes, at: int) -> bytes:
    length, start = number_at(body, at)
    return body[start + length :]


def _connect(body: bytes, _first: int) -> bytes:
    if len(body) < 10 or body[:7] != _BEGIN + bytes([VERSION]):
        raise malformed("CONNECT")
    flags = body[7]
    if flags & PASSWORD and not flags & USER:
        raise malformed("a password without a user")
    fields = PacketFields(body, 10)
    fields.binary()
    name, rest = body[10 : fields.at], body[fields.at :]
    of_will = _NONE if flags & WILL else b""
    return _BEGIN + b"\5" + body[7:10] + _NONE + name + of_will + rest


def _publish(body: bytes, first: int) -> bytes:
    fields = PacketFields(body, 0)
    fields.binary()
    fields.skip(2 if first & IDENTIFIED else 0)
    return body[: fields.at] + _NONE + body[fields.at :]


def _subscribe(body: bytes, _first: int) -> bytes:
    fields = PacketFields(body, 2)
    while fields.left > 0:
        fields.binary()
        fields.skip(1)
        if body[fields.at - 1] > 2:
            raise malformed("a quality of SUBSCRIBE")
    return _unsubscribe(body, _first)


def _unsubscribe(body: bytes, _first: int) -> bytes:
    return body[:2] + _NONE + body[2:]


def _of_size(size: int) -> Callable[[bytes, int], bytes]:
    def same(body: bytes, _first: int) -> bytes:
        if len(body) != size:
            raise malformed(f"{len(body)} bytes, not {size}")
        return body

    return same


_FROM_CLIENTS: Final[Mapping[int, Callable[[bytes, int], bytes]]] = {
    CONNECT >> 4: _connect,
    PUBLISH >> 4: _publish,
    SUBSCRIBE >> 4: _subscribe,
    UNSUBSCRIBE >> 4: _unsubscribe,
    **{kind >> 4: _of_size(2) for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)},
    **{kind >> 4: _of_size(0) for kind in (PINGREQ, DISCONNECT)},
}
"""How the body of a packet changes, by its type; with the first byte of the packet.

Texts are passed over: they are looked at when the packet is parsed.
"""

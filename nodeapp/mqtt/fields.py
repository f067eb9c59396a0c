"""The fields of packets of MQTT: lengths, texts, properties.  Sans-I/O.

Source: OASIS, MQTT Version 5.0, 2019, sections 1.5, 2 and 3; Version 3.1.1 has the same but
properties.  mqtt5 parses packets; of a text that is not UTF-8 it makes a panic, so texts are looked
at before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mqtt5 import DisconnectReasonCode

CONNECT: Final = 0x10
CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x60
PUBCOMP: Final = 0x70
SUBSCRIBE: Final = 0x80
SUBACK: Final = 0x90
UNSUBSCRIBE: Final = 0xA0
UNSUBACK: Final = 0xB0
PINGREQ: Final = 0xC0
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0
AUTH: Final = 0xF0
"""Types of packets: the upper half of their first byte."""
RESERVED: Final = 0x01
WILL: Final = 0x04
OF_WILL: Final = 0x38
PASSWORD: Final = 0x40
USER: Final = 0x80
"""Flags of CONNECT."""
RESERVED_OPTIONS: Final = 0xC0
"""Bits of the options of a filter of SUBSCRIBE."""
IDENTIFIED: Final = 0x06
"""Qualities of PUBLISH, in its first byte, with which it has an identifier."""

_TEXTS: Final = frozenset({0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F})
_PAIR: Final = 0x26
_BINARY: Final = frozenset({0x09, 0x16})
_NUMBER: Final = 0x0B
_SIZES: Final[Mapping[int, int]] = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), 1),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), 2),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), 4),
}
"""Properties by the type of their value (section 2.2.2.2); bytes of those that are integers."""


class PacketError(Exception):
    """A connection ends, by what its client has sent or not; the code is that of DISCONNECT."""

    def __init__(self, code: DisconnectReasonCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def malformed(reason: str) -> PacketError:
    """Return the error of a packet that is malformed."""
    return PacketError(DisconnectReasonCode.MALFORMED_PACKET, reason)


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the Variable Byte Integer that begins at a byte, and where it ends.

    Raises `PacketError`, and `IndexError` if not all of it is there.
    """
    value = 0
    for place in range(4):
        digit = data[at + place]
        value |= (digit & 0x7F) << 7 * place
        if digit < 0x80:
            return value, at + place + 1
    raise malformed("a length of more than four bytes")


class PacketFields:
    """Goes through the fields of a packet; each method passes one, or raises `PacketError`."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        """How many bytes there are."""
        return len(self._data) - self.at

    def skip(self, size: int) -> None:
        """Pass a field of so many bytes."""
        if size > self.left:
            raise malformed("a field is longer than its packet")
        self.at += size

    def binary(self) -> bytes:
        """Return binary data."""
        self.skip(2)
        start = self.at
        self.skip(int.from_bytes(self._data[start - 2 : start], "big"))
        return self._data[start : self.at]

    def text(self) -> None:
        """Pass a text, which must be UTF-8 without U+0000 [MQTT-1.5.4-2]."""
        try:
            text = self.binary().decode()
        except UnicodeDecodeError:
            raise malformed("not UTF-8") from None
        if "\0" in text:
            raise malformed("U+0000 in a text")

    def properties(self) -> None:
        """Pass properties."""
        end = self._number() + self.at
        while self.at < end:
            kind = self._number()
            if kind in _TEXTS:
                self.text()
            elif kind == _PAIR:
                self.text()
                self.text()
            elif kind in _BINARY:
                self.binary()
            elif kind == _NUMBER:
                self._number()
            elif kind in _SIZES:
                self.skip(_SIZES[kind])
            else:
                raise malformed(f"property {kind}")

    def _number(self) -> int:
        try:
            value, self.at = number_at(self._data, self.at)
        except IndexError:
            raise malformed("a field is longer than its packet") from None
        return value


def check(packet: bytes) -> None:
    """Check a client's packet of MQTT 5: that texts are UTF-8, and reserved bits 0.

    Raises `PacketError`.
    """
    kind, (_, start) = packet[0] & 0xF0, number_at(packet, 1)
    fields = PacketFields(packet, start)
    if kind == CONNECT:
        fields.text()
        fields.skip(4)
        flags = packet[fields.at - 3]
        if flags & RESERVED or (flags & OF_WILL and not flags & WILL):
            raise malformed("flags of CONNECT")
        fields.properties()
        fields.text()
        if flags & WILL:
            fields.properties()
            fields.text()
            fields.binary()
        if flags & USER:
            fields.text()
    elif kind == PUBLISH:
        fields.text()
        fields.skip(2 if packet[0] & IDENTIFIED else 0)
        fields.properties()
    elif kind in (SUBSCRIBE, UNSUBSCRIBE):
        fields.skip(2)
        fields.properties()
        while fields.left:
            fields.text()
            fields.skip(1 if kind == SUBSCRIBE else 0)
            if kind == SUBSCRIBE and packet[fields.at - 1] & RESERVED_OPTIONS:
                raise malformed("options of SUBSCRIBE")
    else:
        before = 1 if kind in (DISCONNECT, AUTH) else 3  # the code, and whose it is
        if fields.left > before:
            fields.skip(before)
            fields.properties()

"""Generic netlink messages as bytes: headers, attributes, errors (Linux, netlink(7), genetlink).

Sans-I/O.  A datagram of a netlink socket holds messages one after the other; a generic netlink
message has a header (length, type, flags, sequence, port), a second one (command, version) and
attributes, each preceded by its length and type and padded to four bytes.  The message type of a
family is a number that the kernel chose when the family was registered; the controller, whose own
number is fixed, looks it up by name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NLM_F_REQUEST: Final = 1
NLM_F_ACK: Final = 4
NLM_F_DUMP: Final = 0x300
GENL_ID_CTRL: Final = 16
CTRL_CMD_GETFAMILY: Final = 3
CTRL_ATTR_FAMILY_ID: Final = 1
CTRL_ATTR_FAMILY_NAME: Final = 2
VERSION: Final = 1
NESTED: Final = 0xC000
"""Flags in an attribute's type: nested, in network byte order."""
_HEADER: Final = struct.Struct("=IHHII")
_GENERIC: Final = struct.Struct("=BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")
_U16: Final = struct.Struct("=H")
_U32: Final = struct.Struct("=I")
_S32: Final = struct.Struct("=i")
BODY: Final = _HEADER.size + _GENERIC.size
"""Offset of the attributes from the start of a message."""


class NetlinkError(ValueError):
    """Bytes that are not a netlink message, or not the expected one."""


class NetlinkMessage(NamedTuple):
    """One message: its type, sequence number, and offsets of its payload in the datagram."""

    type: int
    sequence: int
    start: int
    end: int


def messages(datagram: bytes) -> Iterator[NetlinkMessage]:
    """Yield the messages of a datagram.  Raises `NetlinkError` at a truncated one."""
    offset = 0
    while offset < len(datagram):
        if len(datagram) - offset < _HEADER.size:
            raise NetlinkError(f"{len(datagram) - offset} bytes are not a message")
        length, kind, _, sequence, _ = _HEADER.unpack_from(datagram, offset)
        if not _HEADER.size <= length <= len(datagram) - offset:
            raise NetlinkError(f"a message of {length} bytes in {len(datagram) - offset}")
        yield NetlinkMessage(kind, sequence, offset + _HEADER.size, offset + length)
        offset += (length + 3) & ~3


def error_of(datagram: bytes, message: NetlinkMessage) -> int:
    """Return the number in an acknowledgement: 0, minus an errno, or what the command returns."""
    if message.type != NLMSG_ERROR or message.end - message.start < _S32.size:
        raise NetlinkError(f"a message of type {message.type} is not an acknowledgement")
    number: int = _S32.unpack_from(datagram, message.start)[0]
    return number


def command_of(datagram: bytes, message: NetlinkMessage) -> int:
    if message.end - message.start < _GENERIC.size:
        raise NetlinkError("a message without a generic netlink header")
    return datagram[message.start]


def attributes(datagram: bytes, start: int, end: int) -> dict[int, tuple[int, int]]:
    """Return the span of each attribute's value in the datagram: type to (start, end).

    Raises `NetlinkError` if the attributes do not fill the space exactly.
    """
    spans: dict[int, tuple[int, int]] = {}
    offset = start
    while offset < end:
        if end - offset < _ATTRIBUTE.size:
            raise NetlinkError(f"{end - offset} bytes after the last attribute")
        length, kind = _ATTRIBUTE.unpack_from(datagram, offset)
        if not _ATTRIBUTE.size <= length <= end - offset:
            raise NetlinkError(f"an attribute of {length} bytes in {end - offset}")
        spans[kind & ~NESTED] = (offset + _ATTRIBUTE.size, offset + length)
        offset += (length + 3) & ~3
    return spans


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute, padded.  Raises `NetlinkError` if the value is too long."""
    length = _ATTRIBUTE.size + len(value)
    if length > 0xFFFF:
        raise NetlinkError(f"a value of {len(value)} bytes does not fit into an attribute")
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def attribute_u32(kind: int, value: int) -> bytes:
    """Return an attribute that is an unsigned number of 32 bits."""
    return attribute(kind, _U32.pack(value))


def text(value: str) -> bytes:
    """Return a string as netlink encodes it: with a zero byte at its end."""
    return value.encode() + b"\0"


def request_message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a request message; `body` follows its header."""
    head = _HEADER.pack(_HEADER.size + len(body), kind, flags | NLM_F_REQUEST, 0, 0)
    return head + body


def request(
    family: int, command: int, body: bytes = b"", *, acknowledge: bool = False, dump: bool = False
) -> bytes:
    """Return a request to a family; `dump` requests all objects."""
    flags = (NLM_F_ACK if acknowledge else 0) | (NLM_F_DUMP if dump else 0)
    return request_message(family, flags, _GENERIC.pack(command, VERSION, 0) + body)


def family_request(name: str) -> bytes:
    """Return the request for a family's number."""
    body = attribute(CTRL_ATTR_FAMILY_NAME, text(name))
    return request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, body)


def family_of(datagram: bytes) -> int | None:
    """Return the family's number from the answer; None if the kernel has no such family."""
    for message in messages(datagram):
        if message.type == NLMSG_ERROR:
            return None
        values = attributes(datagram, message.start + _GENERIC.size, message.end)
        span = values.get(CTRL_ATTR_FAMILY_ID)
        if message.type == GENL_ID_CTRL and span is not None and span[1] - span[0] == 2:
            return int(_U16.unpack_from(datagram, span[0])[0])
    raise NetlinkError("not an answer of the controller")

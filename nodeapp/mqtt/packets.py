"""PacketStream of MQTT 5 as they come over a connection.

Source: OASIS, MQTT Version 5.0, 2019; mqtt5, which parses.  What it lets through although the
standard calls it malformed is refused here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import mqtt5
from mqtt5 import DisconnectReasonCode, QoS

from nodeapp.events import MAX_EVENT

VERSION: Final = 5
CONNECT: Final = 0x10
CONNECT_WAIT: Final = 10.0
"""Seconds within which a connection must begin."""
MAX_PACKET: Final = MAX_EVENT + 4_000
"""Bytes."""


class PacketError(Exception):
    """A connection ends, by what its client has sent or not; the code is that of DISCONNECT."""

    def __init__(self, code: DisconnectReasonCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


async def first_bytes(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """Return the first bytes of a connection and the version of MQTT that ends them.

    Raises `EOFError` if it does not begin with CONNECT, and `TimeoutError` if nothing comes.
    """
    async with asyncio.timeout(CONNECT_WAIT):
        head = await reader.readexactly(2)
        while head[-1] & 0x80 and len(head) < 5:
            head += await reader.readexactly(1)
        if head[0] != CONNECT or head[-1] & 0x80:
            raise EOFError
        head += await reader.readexactly(2)
        head += await reader.readexactly(int.from_bytes(head[-2:], "big") + 1)
        return head, head[-1]


def parse(data: memoryview) -> tuple[Any, int] | None:
    """Return the first packet and its size in bytes; None if not all of it is there.

    Raises `PacketError`.
    """
    try:
        packet, size = mqtt5.read(data)
    except IndexError:
        return None
    except ValueError as error:
        raise PacketError(DisconnectReasonCode.MALFORMED_PACKET, str(error)) from None
    except BaseException as error:  # how the library says that a string is not UTF-8
        if type(error).__name__ != "PanicException":
            raise
        raise PacketError(DisconnectReasonCode.MALFORMED_PACKET, "not UTF-8") from None
    if isinstance(packet, mqtt5.ConnectPacket) and not _flagged_well(data):
        raise PacketError(DisconnectReasonCode.MALFORMED_PACKET, "flags of CONNECT")
    if isinstance(packet, mqtt5.SubscribePacket) and not _optioned_well(packet, data[:size]):
        raise PacketError(DisconnectReasonCode.MALFORMED_PACKET, "options of SUBSCRIBE")
    problem = _PROBLEMS.get(type(packet), _no_identifier)(packet)
    if problem is not None:
        raise PacketError(DisconnectReasonCode.PROTOCOL_ERROR, problem)
    return packet, size


def _flagged_well(connect: memoryview) -> bool:
    """Return whether the reserved flag is 0, and a will that is not there has none."""
    length = next(at for at in range(1, 5) if connect[at] < 0x80)
    flags = connect[length + len(b"\0\4MQTT\5") + 1]
    return not flags & 0x01 and bool(flags & 0x04 or not flags & 0x38)


def _optioned_well(packet: Any, subscribe: memoryview) -> bool:
    """Return whether the reserved bits of a SUBSCRIBE's options, one byte a filter, are 0."""
    at = len(subscribe)
    for topic_filter in reversed(packet.topic_filters):
        if subscribe[at - 1] & 0xC0:
            return False
        at -= 2 + len(topic_filter.pattern.encode()) + 1
    return True


def _of_connect(packet: Any) -> str | None:
    if packet.authentication_data is not None and packet.authentication_method is None:
        return "authentication data without a method"
    return None


def _of_publish(packet: Any) -> str | None:
    if packet.duplicate and packet.qos == QoS.AT_MOST_ONCE:
        return "a duplicate at quality 0"
    if packet.subscription_ids:
        return "subscription identifiers are the broker's"
    return _no_identifier(packet)


def _of_subscribe(packet: Any) -> str | None:
    return _no_identifier(packet) if packet.topic_filters else "no topic filter"


def _of_unsubscribe(packet: Any) -> str | None:
    return _no_identifier(packet) if packet.patterns else "no topic filter"


def _no_identifier(packet: Any) -> str | None:
    return "packet identifier 0" if getattr(packet, "packet_id", None) == 0 else None


_PROBLEMS: Final[dict[type, Callable[[Any], str | None]]] = {
    mqtt5.ConnectPacket: _of_connect,
    mqtt5.PublishPacket: _of_publish,
    mqtt5.SubscribePacket: _of_subscribe,
    mqtt5.UnsubscribePacket: _of_unsubscribe,
}
"""What is wrong with a packet, by its type."""


class PacketStream:
    """The packets of a connection, some bytes of which have been read."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader) -> None:
        self._buffer = head
        self._at = 0
        self._reader = reader

    async def next(self, silence: float | None) -> Any:
        """Return the next packet; None at the end.

        Raises `PacketError`, also if the packet is not whole after `silence` seconds.
        """
        await asyncio.sleep(0)  # a client that sends much leaves time to others
        try:
            async with asyncio.timeout(silence):
                return await self._next()
        except TimeoutError:
            code = DisconnectReasonCode.KEEP_ALIVE_TIMEOUT
            raise PacketError(code, "silent for too long") from None

    async def _next(self) -> Any:
        while True:
            answer = parse(memoryview(self._buffer)[self._at :])
            size = len(self._buffer) - self._at if answer is None else answer[1]
            if size > MAX_PACKET:
                reason = f"a packet has {MAX_PACKET} bytes at most"
                raise PacketError(DisconnectReasonCode.PACKET_TOO_LARGE, reason)
            if answer is not None:
                self._at += size
                return answer[0]
            more = await self._reader.read(MAX_PACKET)
            if not more:
                return None
            self._buffer = self._buffer[self._at :] + more
            self._at = 0

    async def discard(self, seconds: float) -> None:
        """Read what still comes: TCP would drop a last answer if some were unread."""
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(MAX_PACKET):
                    pass
        except OSError:  # TimeoutError is one
            pass

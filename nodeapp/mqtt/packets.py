"""Packets of MQTT as they come over a connection.

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
from nodeapp.mqtt.fields import (
    CONNACK,
    CONNECT,
    PINGRESP,
    SUBACK,
    UNSUBACK,
    PacketError,
    check,
    malformed,
    number_at,
)

VERSION: Final = 5
CONNECT_WAIT: Final = 10.0
"""Seconds within which a connection must begin."""
MAX_PACKET: Final = MAX_EVENT + 4_000
"""Bytes."""
OF_SERVERS: Final = frozenset({CONNACK, SUBACK, UNSUBACK, PINGRESP})
"""Types of packets that no client sends: their fields are not looked at, and may make a panic."""
TLS: Final = 0x16
"""The first byte of a handshake of TLS (RFC 8446, 5.1)."""


class ForeignError(Exception):
    """A connection that begins with something else; the message says with what."""


async def first_bytes(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """Return the first bytes of a connection and the version of MQTT that ends them.

    Raises `ForeignError` or `EOFError` if it does not begin with CONNECT, and `TimeoutError` if
    nothing comes.
    """
    async with asyncio.timeout(CONNECT_WAIT):
        head = await reader.readexactly(2)
        while head[-1] & 0x80 and len(head) < 5:
            head += await reader.readexactly(1)
        if head[0] == TLS:
            raise ForeignError("TLS, which this port does not speak: connect without it")
        if head[0] != CONNECT or head[-1] & 0x80:
            raise ForeignError("no packet CONNECT")
        head += await reader.readexactly(2)
        head += await reader.readexactly(int.from_bytes(head[-2:], "big") + 1)
        return head, head[-1]


def parse(data: bytes) -> Any:
    """Return a packet, which is whole.  Raises `PacketError`."""
    if data[0] & 0xF0 in OF_SERVERS:
        raise PacketError(DisconnectReasonCode.PROTOCOL_ERROR, "a packet that servers send")
    check(data)
    try:
        packet, size = mqtt5.read(memoryview(data))
    except (ValueError, IndexError) as error:
        raise malformed(str(error)) from None
    if size != len(data):
        raise malformed("its length is another")
    problem = _PROBLEMS.get(type(packet), _no_identifier)(packet)
    if problem is not None:
        raise PacketError(DisconnectReasonCode.PROTOCOL_ERROR, problem)
    return packet


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

    def __init__(
        self, head: bytes, reader: asyncio.StreamReader, parser: Callable[[bytes], Any]
    ) -> None:
        self._buffer = head
        self._at = 0
        self._reader = reader
        self._parse = parser

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
            end = self._end()
            if end is not None and end <= len(self._buffer):
                packet, self._at = self._buffer[self._at : end], end
                return self._parse(packet)
            more = await self._reader.read(MAX_PACKET)
            if not more:
                return None
            self._buffer = self._buffer[self._at :] + more
            self._at = 0

    def _end(self) -> int | None:
        """Return where the next packet ends in the buffer; None if that is not known yet."""
        try:
            length, start = number_at(self._buffer, self._at + 1)
        except IndexError:
            return None
        if start + length - self._at > MAX_PACKET:
            reason = f"a packet has {MAX_PACKET} bytes at most"
            raise PacketError(DisconnectReasonCode.PACKET_TOO_LARGE, reason)
        return start + length

    async def discard(self, seconds: float) -> None:
        """Read what still comes: TCP would drop a last answer if some were unread."""
        try:
            async with asyncio.timeout(seconds):
                while await self._reader.read(MAX_PACKET):
                    pass
        except OSError:  # TimeoutError is one
            pass

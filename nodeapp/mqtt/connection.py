"""A client's connection.

Source: OASIS, MQTT Version 5.0, 2019, and Version 3.1.1, 2014; mqtt5, which parses and writes the
packets of the one, and of the other through `version311`.  Packets are taken one after the other,
and a message is acknowledged when the node app has taken it: between nodes the protocol decides.

Subscription identifiers, No Local, topics' properties, the client's Receive Maximum and Maximum
Packet Size are kept.  What nodes cannot do is told as MQTT 5 provides for it, with a reason in
words:

    CONNACK     sessions end with their connection (Session Expiry Interval 0); no retained messages
                (0x9a for a will that is), no shared subscriptions, no topic aliases
    SUBACK      0xa2 wildcards that the protocol refuses, 0x9e $share, 0x8f malformed, 0x83 others
    PUBACK,     0x90 topics that are none, 0x83 what the protocol refuses or does not fit an event;
    PUBREC      at quality 0 the same by DISCONNECT
    DISCONNECT  0x9a retained messages, 0x81 malformed packets, 0x95 those that are too large, 0x8d
                silence, 0x8e another client of that id, 0x97 a client that does not read what it
                has subscribed to

and as MQTT 3.1.1 does: CONNACK 5 for sessions that outlive their connection (`clean_session=0`) and
for wills, SUBACK 0x80, and else the connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import mqtt5
from mqtt5 import (
    ConnAckReasonCode,
    DisconnectReasonCode,
    PubAckReasonCode,
    PubCompReasonCode,
    PubRecReasonCode,
    PubRelReasonCode,
    QoS,
    SubAckReasonCode,
    UnsubAckReasonCode,
)

from nodeapp.client_port import MAX_REFUSAL
from nodeapp.mqtt import version311
from nodeapp.mqtt.fields import PacketError
from nodeapp.mqtt.packets import CONNECT_WAIT, MAX_PACKET, PacketStream, parse
from nodeapp.mqtt.topics import (
    EXPIRES,
    WILDCARDS,
    MqttMessage,
    event_of,
    is_filter,
    is_topic,
    proper,
)
from nodeapp.mqtt.uplink import SubscriptionOptions, Uplink
from nodeapp.predicates import EventError

LINGER: Final = 1.0
"""Seconds for which a connection that the broker ends stays, so that its client may read why."""
MAX_WAITING: Final = 4_000_000
"""Bytes that wait for a client that does not read."""
MAX_LEFT: Final = 0xFFFFFFFF
"""The longest Message Expiry Interval, s."""
UNALTERED: Final = (
    "payload_format_indicator",
    "content_type",
    "response_topic",
    "correlation_data",
    "user_properties",
)
"""Properties of a message that subscribers get as they are."""
QUALITIES: Final = (QoS.AT_MOST_ONCE, QoS.AT_LEAST_ONCE, QoS.EXACTLY_ONCE)
GRANTED: Final = (
    SubAckReasonCode.GRANTED_QOS_AT_MOST_ONCE,
    SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE,
    SubAckReasonCode.GRANTED_QOS_EXACTLY_ONCE,
)
RETAINED: Final = "retained messages are not kept"

log = logging.getLogger("nodeapp")


class Connection:
    """A client's connection, by its version of MQTT, some bytes of which have been read.

    `enter` has the client connected, in place of one of the same id, and returns its id.
    `wildcards`: the protocol has more than topics.
    """

    def __init__(
        self,
        uplink: Uplink,
        enter: Callable[[str, Connection], str],
        wildcards: bool,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.name = ""
        self.will: Any = None
        self._uplink = uplink
        self._enter = enter
        self._wildcards = wildcards
        self._old = head[-1] == version311.VERSION
        """Whether its client speaks MQTT 3.1.1."""
        parser = version311.parse if self._old else parse
        self._packets = PacketStream(head, reader, parser)
        self._reader = reader
        self._writer = writer
        self._ended = False
        self._client: Any = None
        """Its CONNECT."""
        self._silence: float | None = CONNECT_WAIT
        self._received: set[int] = set()
        """Messages of quality 2 that it has sent and not released."""
        self._sent: dict[int, Any] = {}
        """The packet that each message that was sent waits for."""
        self._queue: deque[tuple[MqttMessage, Sequence[int]]] = deque()
        """Messages that wait for the client's Receive Maximum."""
        self._queued = 0  # bytes
        self._number = 0

    async def run(self) -> None:
        """Serve until the connection ends."""
        try:
            if await self._connect():
                while (packet := await self._packets.next(self._silence)) and not self._ended:
                    if isinstance(packet, mqtt5.DisconnectPacket):
                        self._disconnected(packet)
                        break
                    await self._take(packet)
                    await self._drained()
        except PacketError as error:
            self.end(error.code, str(error))
            self._writer.write_eof()
            await self._packets.discard(LINGER)
        except OSError as error:
            log.info("mqtt: client %.200r: %s", self.name, error)
        finally:
            self._ended = True
            self._queue.clear()
            self._uplink.forget(self)
            if self.will is not None:
                await self._publish_will()

    async def _drained(self) -> None:
        try:
            await asyncio.wait_for(self._writer.drain(), self._silence)
        except TimeoutError:
            code = DisconnectReasonCode.KEEP_ALIVE_TIMEOUT
            raise PacketError(code, "does not read") from None

    def _write(
        self, packet: Any, *arguments: Any, reason: str | None = None, **options: Any
    ) -> None:
        """Write a packet, without the reason or not at all if it is too large for the client."""
        limit = (self._client and self._client.max_packet_size) or MAX_PACKET
        for text in (reason, None):
            data = self._written(packet(*arguments, reason_str=text, **options))
            if len(data) <= limit and not self._ended:
                self._writer.write(data)
                return

    def _written(self, packet: Any) -> bytes:
        """Return a packet as bytes.  Raises `ValueError`."""
        data: bytes = packet.write()
        return version311.downgraded(data) if self._old else data

    def end(self, code: DisconnectReasonCode, reason: str) -> None:
        """End the connection and say why."""
        if self._ended:
            return
        log.warning("mqtt: client %.200r is closed: %s", self.name, reason)
        if self.name:
            self._write(mqtt5.DisconnectPacket, reason_code=code, reason=reason)
        self._ended = True
        abort_later(self._writer.transport)

    def leave(self, code: DisconnectReasonCode, reason: str) -> None:
        """End the connection from outside of `run`, which then returns."""
        self.end(code, reason)
        self._writer.close()
        self._reader.feed_eof()

    # Connecting.

    async def _connect(self) -> bool:
        """Take CONNECT; return whether the client is connected."""
        packet = await self._packets.next(self._silence)
        if not isinstance(packet, mqtt5.ConnectPacket):
            return False
        self._client = packet
        refusal = self._refusal(packet)
        if refusal is not None:
            code, reason = refusal
            log.warning("mqtt: client %.200r is refused: %s", packet.client_id, reason)
            self._write(mqtt5.ConnAckPacket, reason_code=code, reason=reason)
            return False
        self.name = self._enter(packet.client_id, self)
        self.will = packet.will
        self._silence = packet.keep_alive * 1.5 or None
        self._write(
            mqtt5.ConnAckPacket,
            session_expiry_interval=0 if packet.session_expiry_interval else None,
            assigned_client_id=None if packet.client_id else self.name,
            max_packet_size=MAX_PACKET,
            retain_available=False,
            wildcard_subscription_available=self._wildcards,
            shared_subscription_available=False,
        )
        return True

    def _refusal(self, packet: Any) -> tuple[ConnAckReasonCode, str] | None:
        """Return why a client cannot connect."""
        if self._old and not packet.clean_start:
            codes = ConnAckReasonCode  # [MQTT-3.1.3-8]
            code = codes.NOT_AUTHORIZED if packet.client_id else codes.CLIENT_ID_NOT_VALID
            return code, "sessions end with their connection: connect with clean_session=1"
        if packet.authentication_method is not None:
            return ConnAckReasonCode.BAD_AUTHENTICATION_METHOD, "nobody is authenticated"
        if packet.will is None:
            return None
        if packet.will.retain:
            return ConnAckReasonCode.RETAIN_NOT_SUPPORTED, RETAINED
        try:
            event_of(0, 1, _message(packet.will))
        except EventError as error:
            code = _code(ConnAckReasonCode, packet.will.topic)
            return code, f"the will: {error}"[:MAX_REFUSAL]
        except PacketError as error:
            return ConnAckReasonCode.PROTOCOL_ERROR, f"the will: {error}"
        return None

    def _disconnected(self, packet: Any) -> None:
        if packet.session_expiry_interval and not self._client.session_expiry_interval:
            code = DisconnectReasonCode.PROTOCOL_ERROR
            raise PacketError(code, "a session expires after its connection")
        if packet.reason_code == DisconnectReasonCode.NORMAL_DISCONNECTION:
            self.will = None

    async def _publish_will(self) -> None:
        refusal = await self._uplink.publish(_message(self.will))
        if refusal is not None:
            log.warning("mqtt: the will of client %.200r: %s", self.name, refusal)

    # From the client.

    async def _take(self, packet: Any) -> None:
        match packet:
            case mqtt5.PublishPacket():
                await self._publish(packet)
            case mqtt5.PubRelPacket():
                known = packet.packet_id in self._received
                self._received.discard(packet.packet_id)
                code = PubCompReasonCode.SUCCESS if known else PubCompReasonCode.PACKET_ID_NOT_FOUND
                self._write(mqtt5.PubCompPacket, packet.packet_id, reason_code=code)
            case mqtt5.PubAckPacket() | mqtt5.PubRecPacket() | mqtt5.PubCompPacket():
                self._acknowledged(packet)
            case mqtt5.SubscribePacket():
                await self._subscribe(packet)
            case mqtt5.UnsubscribePacket():
                ended = [self._uplink.unfollow(pattern, self) for pattern in packet.patterns]
                none = UnsubAckReasonCode.NO_SUBSCRIPTION_EXISTED
                codes = [UnsubAckReasonCode.SUCCESS if one else none for one in ended]
                self._write(mqtt5.UnsubAckPacket, packet.packet_id, codes)
            case mqtt5.PingReqPacket():
                self._writer.write(mqtt5.PingRespPacket().write())
            case _:
                code = DisconnectReasonCode.PROTOCOL_ERROR
                raise PacketError(code, f"{type(packet).__name__} is not expected")

    async def _publish(self, packet: Any) -> None:
        if packet.retain:
            raise PacketError(DisconnectReasonCode.RETAIN_NOT_SUPPORTED, RETAINED)
        if packet.topic_alias is not None:
            raise PacketError(DisconnectReasonCode.TOPIC_ALIAS_INVALID, "topics have no aliases")
        answer, codes = mqtt5.PubAckPacket, PubAckReasonCode
        if packet.qos == QoS.EXACTLY_ONCE:
            answer, codes = mqtt5.PubRecPacket, PubRecReasonCode
        number = packet.packet_id
        if number in self._received:  # None is not
            again = packet.qos == QoS.EXACTLY_ONCE
            if self._old and not again:
                raise PacketError(DisconnectReasonCode.PROTOCOL_ERROR, "an identifier in use")
            code = codes.SUCCESS if again else codes.PACKET_ID_IN_USE
            self._write(answer, number, reason_code=code)
            return
        refusal = await self._uplink.publish(_message(packet), self.name)
        if refusal is not None:
            log.warning("mqtt: client %.200r: %s", self.name, refusal)
            if number is None or self._old:  # [MQTT-3.3.5-2]
                raise PacketError(_code(DisconnectReasonCode, packet.topic), refusal)
        elif packet.qos == QoS.EXACTLY_ONCE:
            self._received.add(number)
        if number is not None:
            code = codes.SUCCESS if refusal is None else _code(codes, packet.topic)
            self._write(answer, number, reason_code=code, reason=self._reason(refusal))

    async def _subscribe(self, packet: Any) -> None:
        codes, reasons = [], []
        for wanted in packet.topic_filters:
            options = SubscriptionOptions(
                int(wanted.max_qos), wanted.no_local, packet.subscription_id or 0
            )
            refusal = await self._uplink.follow(wanted.pattern, self, options)
            if refusal is None:
                codes.append(GRANTED[options.qos])
            else:
                codes.append(_code_of_filter(wanted.pattern, wildcards=self._wildcards))
                reasons.append(refusal)
                log.warning("mqtt: client %.200r, %.200r: %s", self.name, wanted.pattern, refusal)
        reason = "; ".join(reasons)[:MAX_REFUSAL] or None
        self._write(mqtt5.SubAckPacket, packet.packet_id, codes, reason=self._reason(reason))

    def _reason(self, reason: str | None) -> str | None:
        """Return a reason, if the client wants any."""
        return reason if self._client.request_problem_info else None

    # To the client.

    def deliver(self, message: MqttMessage, identifiers: Sequence[int]) -> None:
        """Send a message, or have it wait until the client has acknowledged others."""
        if self._ended:
            return
        if self._queued + self._writer.transport.get_write_buffer_size() > MAX_WAITING:
            code = DisconnectReasonCode.QUOTA_EXCEEDED
            self.leave(code, "does not read what it subscribed to")
        elif message.qos and len(self._sent) >= self._client.receive_max:
            self._queue.append((message, identifiers))
            self._queued += _size(message)
        else:
            self._send(message, identifiers)

    def _send(self, message: MqttMessage, identifiers: Sequence[int]) -> None:
        left = message.left(time.time())
        if left <= 0:
            return
        properties: dict[str, Any] = {}
        if not self._old:
            properties = {**message.properties, "subscription_ids": list(identifiers)}
            if properties.pop(EXPIRES, None) is not None:
                properties["message_expiry_interval"] = min(math.ceil(left), MAX_LEFT)
        try:
            packet = mqtt5.PublishPacket(
                message.topic,
                message.payload,
                qos=QUALITIES[message.qos],
                packet_id=self._next_number() if message.qos else None,
                **properties,
            )
            data = self._written(packet)
        except ValueError as error:  # a string that is too long, made up by somebody else
            log.warning("mqtt: %.200r: %s", message.topic, error)
            return
        if len(data) > (self._client.max_packet_size or len(data)):
            return  # [MQTT-3.1.2-25]
        if message.qos:
            waits_for = (mqtt5.PubAckPacket, mqtt5.PubRecPacket)[message.qos - 1]
            self._sent[packet.packet_id] = waits_for
        self._writer.write(data)

    def _next_number(self) -> int:
        """Return a packet identifier that is free."""
        while True:
            self._number = self._number % 65_535 + 1
            if self._number not in self._sent:
                return self._number

    def _acknowledged(self, packet: Any) -> None:
        number = packet.packet_id
        expected = self._sent.get(number) is type(packet)
        if isinstance(packet, mqtt5.PubRecPacket) and int(packet.reason_code) < 0x80:
            known = expected or self._sent.get(number) is mqtt5.PubCompPacket
            code = PubRelReasonCode.SUCCESS if known else PubRelReasonCode.PACKET_ID_NOT_FOUND
            if known:
                self._sent[number] = mqtt5.PubCompPacket
            self._write(mqtt5.PubRelPacket, number, reason_code=code)
        elif expected:
            del self._sent[number]
            while self._queue and len(self._sent) < self._client.receive_max:
                message, identifiers = self._queue.popleft()
                self._queued -= _size(message)
                self._send(message, identifiers)


def abort_later(transport: Any) -> None:
    """End a connection after `LINGER` s, even if its client does not read what is left."""

    def abort() -> None:
        if not transport.is_closing() or transport.get_write_buffer_size():  # else it has ended
            transport.abort()

    asyncio.get_running_loop().call_later(LINGER, abort)


def _size(message: MqttMessage) -> int:
    """Return about how many bytes a message takes that waits."""
    texts = sum(len(str(value)) for value in message.properties.values())
    return 500 + len(message.topic) + len(message.payload) + texts


def _message(packet: Any) -> MqttMessage:
    """Return the message of a PUBLISH or a will, which lives from now on.  Raises `PacketError`."""
    properties = {
        name: value for name in UNALTERED if (value := getattr(packet, name)) not in (None, 0, [])
    }
    if packet.message_expiry_interval is not None:
        properties[EXPIRES] = time.time() + packet.message_expiry_interval
    wrong = properties.keys() - proper(properties).keys()
    if wrong:
        raise PacketError(DisconnectReasonCode.PROTOCOL_ERROR, f"wrong: {', '.join(sorted(wrong))}")
    return MqttMessage(packet.topic, packet.payload or b"", int(packet.qos), properties)


def _code(codes: Any, topic: str) -> Any:
    """Return the code for a message that is refused."""
    return codes.IMPLEMENTATION_SPECIFIC_ERROR if is_topic(topic) else codes.TOPIC_NAME_INVALID


def _code_of_filter(topic_filter: str, *, wildcards: bool) -> SubAckReasonCode:
    """Return the code for a topic filter that is refused."""
    if topic_filter.startswith("$share/"):
        return SubAckReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if topic_filter.startswith("$"):
        return SubAckReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    if not is_filter(topic_filter):
        return SubAckReasonCode.TOPIC_FILTER_INVALID
    if not wildcards and WILDCARDS & set(topic_filter):
        return SubAckReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    return SubAckReasonCode.IMPLEMENTATION_SPECIFIC_ERROR

"""The front at a node: a broker whose network is the node app.

Source: OASIS, MQTT Version 3.1.1, 2014; amqtt, the broker of that version as a library, which
parses, keeps connections and acknowledges.  An acknowledgement says that the broker has a message,
not that the node has taken it (if not, the connection is closed), nor that others have it: between
nodes the protocol decides.

What cannot be right is refused by codes of the standard.  CONNACK 5: sessions that outlive their
connection (`clean_session=0`) and retained wills.  SUBACK 0x80: filters that the protocol refuses,
`$share`, malformed ones.  PUBLISH has no such code, so the connection is closed [MQTT-3.3.5-2]:
retained messages, which no protocol here keeps, and what does not fit an event.

amqtt's own ways are mended where the standard says otherwise: a client of the same id takes over
[MQTT-3.1.4-2], keep-alive is enforced [MQTT-3.1.2-24], a second SUBSCRIBE replaces the first
[MQTT-3.8.4-3], and a message is sent at the lower of two qualities [MQTT-3.8.4-6].
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker

from nodeapp.mqtt.packets import VERSION, first_bytes
from nodeapp.mqtt.topics import MqttMessage, event_of
from nodeapp.mqtt.uplink import SubscriptionOptions, Uplink
from nodeapp.mqtt.version5 import Clients
from nodeapp.predicates import EventError
from nodeapp.pubsub.base import EndedError

PORT: Final = 1883
REFUSED: Final = 0x80
"""The return code of SUBACK for a subscription that is refused."""

log = logging.getLogger("nodeapp")


class _Client:
    """A session of MQTT 3.1.1, as a subscriber."""

    def __init__(self, front: Front, session: Any) -> None:
        self.name: str = session.client_id
        self._front = front
        self._session = session

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Client) and other._session is self._session

    def __hash__(self) -> int:
        return id(self._session)

    @property
    def here(self) -> bool:
        """Whether the session has not ended: another may have taken over."""
        return self._front.sessions.get(self.name, (None,))[0] is self._session

    def deliver(self, message: MqttMessage, _identifiers: Sequence[int]) -> None:
        if self.here and self._session.transitions.state == "connected":
            handler = self._front.sessions[self.name][1]
            work = handler.mqtt_publish(message.topic, message.payload, message.qos, retain=False)
            self._front.uplink.spawn(work)


class _Replayed(StreamReaderAdapter):
    """A connection's stream, some of which has been read."""

    def __init__(self, head: bytes, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._head = head

    async def read(self, n: int = -1) -> bytes:
        if not self._head or n < 0:
            head, self._head = self._head, b""
            rest: bytes = await super().read(n)
            return head + rest
        head, self._head = self._head[:n], self._head[n:]
        return head


class Front(Broker):
    """The broker at a node."""

    def __init__(self, node: int) -> None:
        listener = {"type": "tcp", "bind": f"127.0.0.1:{PORT}"}
        super().__init__({"listeners": {"default": listener}, "plugins": {}})
        self.uplink = Uplink(node)
        self._node = node
        self._clients = Clients(self.uplink, self._displace)
        """Those of MQTT 5."""

    @classmethod
    async def open(cls, node: int) -> Front:
        """Return the front of a node, which serves.  Raises `EndedError`."""
        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.ERROR)
        front = cls(node)
        await front.uplink.open()
        try:
            await front.start()
        except Exception as error:  # noqa: BLE001  the library wraps what it meets
            front.uplink.close()
            raise EndedError(
                f"cannot serve clients of MQTT on 127.0.0.1, TCP port {PORT}: "
                f"{error.__context__ or error}: stop what uses the port, or leave mqtt off"
            ) from None
        return front

    async def close(self) -> None:
        """End connections and subscriptions."""
        self._clients.close()
        await self.shutdown()
        self.uplink.close()

    def status(self) -> dict[str, int]:
        """Return the port, and how many clients and subscriptions there are."""
        states = [session.transitions.state for session, _ in self.sessions.values()]
        clients = states.count("connected") + self._clients.count
        return {"port": PORT, "clients": clients, "filters": self.uplink.filters}

    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        """Serve a connection by its version."""
        try:
            head, version = await first_bytes(reader)
        except (OSError, EOFError, TimeoutError):  # a port that was tried
            writer.close()
            return
        if version == VERSION:
            await self._clients.serve(head, reader, writer)
        else:
            adapted = StreamWriterAdapter(writer)
            await self._client_connected(listener_name, _Replayed(head, reader), adapted)

    async def _displace(self, name: str) -> None:
        """End the connection of a client whose id another has."""
        await self._delete_session(name)

    # From clients to the node.

    async def _client_connected(self, listener_name: str, reader: Any, writer: Any) -> None:
        with contextlib.suppress(OSError):  # the client has closed first
            await super()._client_connected(listener_name, reader, writer)

    async def _authenticate(self, session: Any, _listener: Any) -> bool:
        """Return whether to accept a connection; CONNACK says 5 if not."""
        reason = None
        if not session.clean_session or session.parent:
            reason = "sessions end with their connection: connect with clean_session=1"
        elif session.will_flag and session.will_retain:
            reason = "retained messages are not kept: leave the will's retain flag off"
        elif session.will_flag:
            try:
                will = (session.will_topic, session.will_message, session.will_qos)
                event_of(self._node, 1, MqttMessage(*will))
            except EventError as error:
                reason = f"the will: {error}"
        if reason is not None:
            session.parent = 0  # [MQTT-3.2.2-4]
            log.warning("mqtt: client %.200r is refused: %s", session.client_id, reason)
        else:
            self._clients.displace(session.client_id)
        return reason is None

    async def _handle_client_session(
        self, reader: Any, writer: Any, client_session: Any, handler: Any, *rest: Any
    ) -> None:
        def silent() -> None:
            self.uplink.spawn(handler.handle_connection_closed())

        handler.handle_read_timeout = silent
        client_session.keep_alive = client_session.keep_alive * 3 // 2
        try:
            await super()._handle_client_session(reader, writer, client_session, handler, *rest)
        finally:
            name = client_session.client_id
            if self.sessions.get(name, (None,))[0] is client_session:
                await super()._delete_session(name)

    async def _delete_session(self, client_id: str) -> None:
        session, handler = self.sessions.get(client_id, (None, None))
        if session is not None and session.transitions.state == "connected":
            await handler.handle_connection_closed()
        await super()._delete_session(client_id)

    async def _handle_message_delivery(
        self, client_session: Any, handler: Any, wait_deliver: Any
    ) -> bool:
        """Publish what a client has sent, or close its connection."""
        message = wait_deliver.result()
        if message is None:
            return True
        refusal: str | None = "retained messages are not kept"
        if not message.publish_packet.retain_flag:
            sent = MqttMessage(message.topic or "", bytes(message.data), message.qos)
            refusal = await self.uplink.publish(sent)
        if refusal is not None:
            log.warning("mqtt: client %.200r is closed: %s", client_session.client_id, refusal)
            await handler.handle_connection_closed()
        return True

    async def _broadcast_message(
        self, session: Any, topic: Any, data: Any, force_qos: int | None = None
    ) -> None:
        """Publish a will: all else comes by `_handle_message_delivery`."""
        refusal = await self.uplink.publish(MqttMessage(topic, bytes(data), force_qos or 0))
        if refusal is not None:
            log.warning("mqtt: the will of client %.200r: %s", session.client_id, refusal)

    async def add_subscription(self, subscription: tuple[str, int], session: Any) -> int:
        """Subscribe a client; return the code for SUBACK."""
        topic_filter, qos = subscription
        client = _Client(self, session)
        refusal = await self.uplink.follow(topic_filter, client, SubscriptionOptions(qos))
        if not client.here:
            self.uplink.unfollow(topic_filter, client)
        if refusal is not None:
            log.warning("mqtt: client %.200r, %.200r: %s", client.name, topic_filter, refusal)
            return REFUSED
        return qos

    def _del_subscription(self, a_filter: str, session: Any) -> int:
        return int(self.uplink.unfollow(a_filter, _Client(self, session)))

    async def _del_all_subscriptions(self, session: Any) -> None:
        self.uplink.forget(_Client(self, session))

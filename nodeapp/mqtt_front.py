"""A front for clients of MQTT 3.1.1: a broker at the node, whose network is the node app.

    mosquitto_pub, Node-RED, paho ── TCP, 127.0.0.1:1883 ── amqtt ── this ── client port ── protocol

Source: OASIS, MQTT Version 3.1.1, 2014; amqtt, the broker as a library, which parses, keeps
connections and acknowledges.  Every message goes to the node app as PUBLISH, and comes back as
NOTIFY, to the node's own subscribers as well: captures of `lo` show it as any client's.  So an
acknowledgement says that the broker has a message, not that the node has taken it (if not, the
connection is closed), nor that others have it: between nodes the protocol decides.

What cannot be right is refused by codes of the standard.  CONNACK 1: MQTT 5.  CONNACK 5: sessions
that outlive their connection (`clean_session=0`) and retained wills.  SUBACK 0x80: filters that the
protocol refuses, `$share`, malformed ones.  PUBLISH has no such code, so the connection is closed
[MQTT-3.3.5-2]: retained messages, which no protocol here keeps, and what does not fit an event.

amqtt's own ways are mended where the standard says otherwise: a client of the same id takes over
[MQTT-3.1.4-2], keep-alive is enforced [MQTT-3.1.2-24], a second SUBSCRIBE replaces the first
[MQTT-3.8.4-3], and a message is sent at the lower of two qualities [MQTT-3.8.4-6].
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections.abc import Callable
from typing import Any, Final

from amqtt.broker import Broker

from nodeapp import wire
from nodeapp.client import REPEAT, TIMEOUT
from nodeapp.client_port import RENEWAL
from nodeapp.events import Event, Subscription
from nodeapp.kinds import ClientKind
from nodeapp.mqtt_topics import event_of, filter_of, matches, message_of
from nodeapp.predicates import EventError
from nodeapp.pubsub.base import EndedError
from nodeapp.wire import BY_HAND, CLIENT_PORT, Frame, WireError

PORT: Final = 1883
REFUSED: Final = 0x80
"""The return code of SUBACK for a subscription that is refused."""

log = logging.getLogger("nodeapp")


class _ClientPort(asyncio.DatagramProtocol):
    """The front's socket to the node app."""

    def __init__(self, arrived: Callable[[Event], None]) -> None:
        self._arrived = arrived
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._random = random.SystemRandom()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        try:
            frame = wire.decode(data)
            if frame.kind == ClientKind.NOTIFY:
                self._arrived(Event.decode(frame.publisher, frame.sequence, frame.body))
                return
            answer = self._asked.get(frame.originator)
            if frame.kind == ClientKind.ACK and answer is not None and not answer.done():
                answer.set_result(wire.decode_body(frame.body))
        except WireError as error:
            log.warning("mqtt: a malformed datagram from the node: %s", error)

    async def ask(
        self, kind: ClientKind, sequence: int, publisher: int = 0, body: bytes = b""
    ) -> str | None:
        """Make a request, again until it is answered; return why it is refused, if it is."""
        token = self._random.getrandbits(32) or 1
        answer = self._asked[token] = asyncio.get_running_loop().create_future()
        try:
            frame = Frame(kind, token, 0, publisher, sequence, hops=0, body=body).encode()
            for _ in range(round(TIMEOUT / REPEAT)):
                self._transport.sendto(frame)
                done, _waiting = await asyncio.wait([answer], timeout=REPEAT)
                if done:
                    refusal: str | None = answer.result()
                    return refusal
            return "the node does not answer"
        except WireError as error:
            return str(error)
        finally:
            del self._asked[token]

    def sequence(self) -> int:
        """Return a number for an event, as other clients by hand do."""
        return BY_HAND | self._random.getrandbits(31)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Front(Broker):
    """The broker at a node."""

    def __init__(self, node: int) -> None:
        listener = {"type": "tcp", "bind": f"127.0.0.1:{PORT}"}
        super().__init__({"listeners": {"default": listener}, "plugins": {}})
        self._node = node
        self._port = _ClientPort(self._arrived)
        self._numbers: dict[str, int] = {}
        """Subscriptions at the node by topic filter."""
        self._bodies: dict[str, bytes] = {}
        self._counter = itertools.count(1)
        self._changing = asyncio.Lock()
        self._work: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, node: int) -> Front:
        """Return the front of a node, which serves.  Raises `EndedError`."""
        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.ERROR)
        front = cls(node)
        loop = asyncio.get_running_loop()
        address = ("127.0.0.1", CLIENT_PORT)
        await loop.create_datagram_endpoint(lambda: front._port, remote_addr=address)
        try:
            await front.start()
        except Exception as error:  # noqa: BLE001  the library wraps what it meets
            front._port.close()
            raise EndedError(
                f"cannot serve clients of MQTT on 127.0.0.1, TCP port {PORT}: "
                f"{error.__context__ or error}: stop what uses the port, or leave mqtt off"
            ) from None
        front._spawn(front._renew())
        return front

    async def close(self) -> None:
        """End connections and subscriptions."""
        await self.shutdown()
        for task in self._work:
            task.cancel()
        self._port.close()

    def status(self) -> dict[str, int]:
        """Return the port, and how many clients and subscriptions there are."""
        states = [session.transitions.state for session, _ in self.sessions.values()]
        clients = states.count("connected")
        return {"port": PORT, "clients": clients, "filters": len(self._numbers)}

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
                event_of(self._node, 1, session.will_topic, session.will_message, session.will_qos)
            except EventError as error:
                reason = f"the will: {error}"
        if reason is not None:
            session.parent = 0  # [MQTT-3.2.2-4]
            log.warning("mqtt: client %s is refused: %s", session.client_id, reason)
        return reason is None

    async def _handle_client_session(
        self, reader: Any, writer: Any, client_session: Any, handler: Any, *rest: Any
    ) -> None:
        def silent() -> None:
            self._spawn(handler.handle_connection_closed())

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
            refusal = await self._publish(message.topic, message.data, message.qos)
        if refusal is not None:
            log.warning("mqtt: client %s is closed: %s", client_session.client_id, refusal)
            await handler.handle_connection_closed()
        return True

    async def _broadcast_message(
        self, session: Any, topic: Any, data: Any, force_qos: int | None = None
    ) -> None:
        """Publish a will: all else comes by `_handle_message_delivery`."""
        refusal = await self._publish(topic, data, force_qos or 0)
        if refusal is not None:
            log.warning("mqtt: the will of client %s: %s", session.client_id, refusal)

    async def _publish(self, topic: str, data: bytes, qos: int) -> str | None:
        """Publish a message; return why it is refused, if it is."""
        try:
            event = event_of(self._node, self._port.sequence(), topic or "", bytes(data), qos)
        except EventError as error:
            return str(error)
        return await self._port.ask(ClientKind.PUBLISH, event.sequence, self._node, event.encode())

    async def add_subscription(self, subscription: tuple[str, int], session: Any) -> int:
        """Subscribe a client, and the node if none has yet; return the code for SUBACK."""
        topic_filter, qos = subscription
        async with self._changing:
            refusal = await self._follow(topic_filter)
            if refusal is not None:
                log.warning("mqtt: client %s, %s: %s", session.client_id, topic_filter, refusal)
                return REFUSED
            super()._del_subscription(topic_filter, session)
            self.subscriptions.setdefault(topic_filter, []).append((session, qos))
        return qos

    async def _follow(self, topic_filter: str) -> str | None:
        if topic_filter in self._numbers:
            return None
        try:
            body = Subscription(filter_of(topic_filter)).encode()
        except EventError as error:
            return str(error)
        number = next(self._counter)
        refusal = await self._port.ask(ClientKind.SUBSCRIBE, number, body=body)
        if refusal is None:
            self._numbers[topic_filter], self._bodies[topic_filter] = number, body
        return refusal

    def _del_subscription(self, a_filter: str, session: Any) -> int:
        deleted: int = super()._del_subscription(a_filter, session)
        if deleted and not self.subscriptions[a_filter]:
            self._spawn(self._unfollow(a_filter))
        return deleted

    async def _unfollow(self, topic_filter: str) -> None:
        async with self._changing:
            if topic_filter in self._numbers and not self.subscriptions.get(topic_filter):
                self.subscriptions.pop(topic_filter, None)
                del self._bodies[topic_filter]
                await self._port.ask(ClientKind.UNSUBSCRIBE, self._numbers.pop(topic_filter))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL)
            async with self._changing:
                for topic_filter, number in self._numbers.items():
                    body = self._bodies[topic_filter]
                    refusal = await self._port.ask(ClientKind.SUBSCRIBE, number, body=body)
                    if refusal is not None:
                        log.warning("mqtt: %s is not renewed: %s", topic_filter, refusal)

    # From the node to clients.

    def _arrived(self, event: Event) -> None:
        """Send an event to each client once, at the highest quality of its matching filters."""
        message = message_of(event)
        if message is None:
            return
        topic, payload, qos = message
        granted: dict[str, int] = {}
        for topic_filter, subscribers in self.subscriptions.items():
            if matches(topic_filter, topic):
                for session, most in subscribers:
                    granted[session.client_id] = max(most, granted.get(session.client_id, 0))
        for client, most in granted.items():
            session, handler = self.sessions.get(client, (None, None))
            if session is not None and session.transitions.state == "connected":
                self._spawn(handler.mqtt_publish(topic, payload, min(qos, most), retain=False))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a client that went, or does not acknowledge
            log.info("mqtt: %s", error)

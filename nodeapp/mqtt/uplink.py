"""The one client of the node app that all clients of MQTT at a node share.

Every message goes to the node app as PUBLISH, and comes back as NOTIFY, to the node's own
subscribers as well: captures of `lo` show it as any client's.  The node app has one subscription
for each topic filter, however many clients have it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from nodeapp import wire
from nodeapp.buffers import enlarge
from nodeapp.client import REPEAT, TIMEOUT
from nodeapp.client_port import MAX_REFUSAL, RENEWAL
from nodeapp.events import Event, Subscription
from nodeapp.kinds import ClientKind
from nodeapp.mqtt.topics import MqttMessage, event_of, filter_of, matches, message_of
from nodeapp.predicates import EventError
from nodeapp.wire import BY_HAND, CLIENT_PORT, Frame, WireError

REMEMBERED: Final = 1000
"""Messages whose publisher is known when they come back."""

log = logging.getLogger("nodeapp")


class MqttClient(Protocol):
    """A client of MQTT; hashable."""

    @property
    def name(self) -> str:
        """Its identifier."""

    def deliver(self, message: MqttMessage, identifiers: Sequence[int]) -> None:
        """Send a message at the quality that it has, with the numbers of its subscriptions."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a client subscribes: MQTT 5, section 3.8.3.1; an identifier of 0 is none."""

    qos: int
    no_local: bool = False
    identifier: int = 0


@dataclass(slots=True)
class _Filter:
    """A topic filter: its subscription at the node, and whose it is."""

    number: int
    body: bytes
    subscribers: dict[MqttClient, SubscriptionOptions] = field(default_factory=dict)


class Uplink(asyncio.DatagramProtocol):
    """The socket to the node app, and who subscribes to what."""

    def __init__(self, node: int) -> None:
        self._node = node
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._filters: dict[str, _Filter] = {}
        self._publishers: dict[int, str] = {}
        """By sequence number, the last ones."""
        self._counter = itertools.count(1)
        self._changing = asyncio.Lock()
        self._work: set[asyncio.Task[Any]] = set()
        self._random = random.SystemRandom()
        self._transport: Any = None

    async def open(self) -> None:
        """Connect to the node app."""
        address = ("127.0.0.1", CLIENT_PORT)
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, remote_addr=address)
        enlarge(self._transport.get_extra_info("socket"))
        self.spawn(self._renew())

    def close(self) -> None:
        """End; the node app forgets what is not renewed."""
        self._filters.clear()  # connections end later, and would ask it to end theirs
        for task in self._work:
            task.cancel()
        if self._transport is not None:
            self._transport.close()

    @property
    def filters(self) -> int:
        """How many topic filters the node app has."""
        return len(self._filters)

    # From clients to the node.

    async def publish(self, message: MqttMessage, publisher: str = "") -> str | None:
        """Publish a message of a client; return why it is refused, if it is."""
        sequence = BY_HAND | self._random.getrandbits(31)  # as other clients by hand do
        try:
            body = event_of(self._node, sequence, message).encode()
        except EventError as error:
            return str(error)[:MAX_REFUSAL]
        if publisher:
            self._publishers[sequence] = publisher
            if len(self._publishers) > REMEMBERED:
                del self._publishers[next(iter(self._publishers))]
        return await self._ask(ClientKind.PUBLISH, sequence, self._node, body)

    async def follow(
        self, topic_filter: str, subscriber: MqttClient, options: SubscriptionOptions
    ) -> str | None:
        """Subscribe a client, and the node if it has not; return why it is refused, if it is."""
        async with self._changing:
            known = self._filters.get(topic_filter)
            if known is None:
                try:
                    body = Subscription(filter_of(topic_filter)).encode()
                except EventError as error:
                    return str(error)[:MAX_REFUSAL]
                known = self._filters[topic_filter] = _Filter(next(self._counter), body)
                refusal: str | None = "no answer"
                try:
                    refusal = await self._ask(ClientKind.SUBSCRIBE, known.number, body=body)
                finally:  # if cancelled, too; by hand it may be gone already
                    if refusal is not None and self._filters.get(topic_filter) is known:
                        del self._filters[topic_filter]
                if refusal is not None:
                    return refusal
            known.subscribers[subscriber] = options
        return None

    def unfollow(self, topic_filter: str, subscriber: MqttClient) -> bool:
        """End a client's subscription; return whether there was one."""
        known = self._filters.get(topic_filter)
        if known is None or known.subscribers.pop(subscriber, None) is None:
            return False
        if not known.subscribers:
            self.spawn(self._unsubscribe(topic_filter))
        return True

    def forget(self, subscriber: MqttClient) -> None:
        """End all of a client's subscriptions."""
        for topic_filter in list(self._filters):
            self.unfollow(topic_filter, subscriber)

    async def _unsubscribe(self, topic_filter: str) -> None:
        async with self._changing:
            known = self._filters.get(topic_filter)
            if known is not None and not known.subscribers:
                del self._filters[topic_filter]
                await self._ask(ClientKind.UNSUBSCRIBE, known.number)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL)
            async with self._changing:
                for topic_filter, known in list(self._filters.items()):
                    if self._filters.get(topic_filter) is not known:
                        continue  # ended by hand meanwhile
                    refusal = await self._ask(ClientKind.SUBSCRIBE, known.number, body=known.body)
                    if refusal is not None:
                        log.warning("mqtt: %.200r is not renewed: %s", topic_filter, refusal)

    async def _ask(
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

    # From the node to clients.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        try:
            frame = wire.decode(data)
            if frame.kind == ClientKind.NOTIFY:
                self._arrived(Event.decode(frame.publisher, frame.sequence, frame.body))
                return
            if frame.kind == ClientKind.UNSUBSCRIBE:
                self._end_by_hand(frame.sequence)
                return
            answer = self._asked.get(frame.originator)
            if frame.kind == ClientKind.ACK and answer is not None and not answer.done():
                answer.set_result(wire.decode_body(frame.body))
        except WireError as error:
            log.warning("mqtt: a malformed datagram from the node: %s", error)

    def _end_by_hand(self, number: int) -> None:
        """Forget a topic filter and its subscribers, whom MQTT has no way to tell."""
        for topic_filter, known in list(self._filters.items()):
            if known.number == number:
                log.warning("mqtt: %.200r: 'pubsub unsub' ended its subscriptions", topic_filter)
                del self._filters[topic_filter]

    def _arrived(self, event: Event) -> None:
        """Send an event to each client once, at the highest quality of its matching filters."""
        message = message_of(event)
        if message is None or message.left(time.time()) <= 0:
            return
        own = self._publishers.get(event.sequence) if event.publisher == self._node else None
        granted: dict[MqttClient, list[SubscriptionOptions]] = {}
        for topic_filter, known in self._filters.items():
            if matches(topic_filter, message.topic):
                for subscriber, options in known.subscribers.items():
                    if not (options.no_local and subscriber.name == own):
                        granted.setdefault(subscriber, []).append(options)
        for subscriber, subscriptions in granted.items():
            most = max(options.qos for options in subscriptions)
            identifiers = [options.identifier for options in subscriptions if options.identifier]
            subscriber.deliver(message.at(min(message.qos, most)), identifiers)

    def spawn(self, work: Any) -> None:
        """Do work beside; what ends it is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._work.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a client that went, or does not acknowledge
            log.info("mqtt: %s", error)

"""Brokers as decision points (seed paper of section C, sections 3.2.1 to 3.5).

All who share a topic find its broker by a hash of the topic.  A subscriber sends each of its
subscriptions there every `refresh_interval`, with its id and location; the broker keeps them as
soft state.  A publisher sends its events there; the broker evaluates topic, content and the
event's access policy against every subscription and sends the event to each subscriber that
qualifies, once, by its id and latest location.  Nothing is handed over when another node becomes
the broker, and nothing is withdrawn: the next refresh builds the state, the timeout removes it.

How a topic is hashed and how frames find the broker are given to `Broker` as two objects, so that
a system of this family is a composition (`broker_gpsr`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment, EventIds, Handler, Service
from nodeapp.pubsub.subscription_table import SubscriptionTable, encode_subscription
from nodeapp.pubsub.topic_hash import Target
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_REPLICA, Frame, Kind


@dataclass(frozen=True)
class BrokerParameters:
    """Parameters of `Broker`."""

    refresh_interval: Annotated[float, Param("s between refreshes", low=0.05, high=3600)] = 1.0
    refresh_jitter: Annotated[float, Param("share of it, each way", low=0, high=0.9)] = 0.1
    subscription_timeout: Annotated[
        float, Param("s that a subscription is kept without a refresh", low=0.1, high=36_000)
    ] = 3.5


class Router(Protocol):
    """What carries frames to a node id, to a location, or to whichever node serves one."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """The kinds of frames that are the router's own."""

    def start(self) -> None:
        """Begin whatever the router does by itself."""

    def send(self, frame: Frame, location: Point) -> None:
        """Send a frame to its destination; its `hops` are those travelled before."""

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame that a neighbour forwarded here.  Raises `nodeapp.wire.WireError`."""

    def status(self) -> dict[str, Any]:
        """Return what STATUS tells of the router."""


class Broker(Service):
    """Subscriber, publisher and broker in one, as every node is.

    A subclass sets `router`, which calls `arrived`, and calls `start` after that.
    """

    needs_topic = True
    router: Router

    def __init__(
        self,
        host: Host,
        environment: Environment,
        parameters: BrokerParameters,
        topic_hash: Callable[[str], Target],
    ) -> None:
        super().__init__(host, environment, parameters)
        self.subscriptions = SubscriptionTable(parameters.subscription_timeout)
        self._parameters = parameters
        self._topic_hash = topic_hash
        self._processed = EventIds()

    def start(self) -> None:
        """Begin to refresh subscriptions, at a random time of the first interval."""
        self.handlers.update(self.router.handlers)
        self.handlers[Kind.EVENT] = self.router.receive
        self.handlers[Kind.SUBSCRIPTION] = self._subscription_received
        self.router.start()
        interval = self._parameters.refresh_interval
        self.host.call_later(self.host.rng.uniform(0.0, interval), self._refresh)

    # Subscriber and publisher.

    def subscribe(self, subscription: Subscription) -> None:
        """Add a local subscription and tell the broker at once.  Raises `RefusedError`."""
        super().subscribe(subscription)
        self._send_subscription(subscription)

    def _refresh(self) -> None:
        self.subscriptions.expire(self.host.now())
        for subscription in self.local:
            self._send_subscription(subscription)
        jitter = self._parameters.refresh_jitter
        delay = self._parameters.refresh_interval * (1 + self.host.rng.uniform(-jitter, jitter))
        self.host.call_later(delay, self._refresh)

    def _send_subscription(self, subscription: Subscription) -> None:
        topic = subscription.filter.topic
        assert topic is not None
        target = self._topic_hash(topic)
        x, y, _, _ = self.host.position()
        frame = Frame(
            Kind.SUBSCRIPTION,
            self.host.node_id,
            target.node,
            hops=0,
            body=encode_subscription(subscription, (x, y)),
        )
        self.router.send(frame, target.location)

    def disseminate(self, event: Event) -> None:
        """Send a local client's event to the broker of its topic."""
        assert event.topic is not None
        target = self._topic_hash(event.topic)
        frame = Frame(
            Kind.EVENT,
            self.host.node_id,
            target.node,
            event.publisher,
            event.sequence,
            hops=0,
            body=event.encode(),
        )
        self.router.send(frame, target.location)

    # Broker.

    def arrived(self, frame: Frame) -> None:
        """Take a frame that is for this node, or that this node is to serve."""
        if frame.destination != ANY_NODE:
            if frame.kind == Kind.EVENT:
                self.deliver(frame)
        elif frame.kind == Kind.EVENT:
            self._process(frame)
        else:
            self.subscriptions.store(frame.originator, frame.body, self.host.now())

    def replicate(self, frame: Frame) -> None:
        """Broadcast a subscription that this node serves to its neighbours, which store it too."""
        replica = frame._replace(
            destination=BROADCAST, flags=frame.flags | FLAG_REPLICA, ttl=0, hops=frame.hops + 1
        )
        self.host.send(BROADCAST, replica._replace(route=b"").encode())

    def _subscription_received(self, frame: Frame, sender: int) -> None:
        if frame.flags & FLAG_REPLICA:
            self.subscriptions.store(frame.originator, frame.body, self.host.now())
        else:
            self.router.receive(frame, sender)

    def _process(self, frame: Frame) -> None:
        now = self.host.now()
        if not self._processed.add(frame.publisher, frame.sequence, now):
            self.counters["duplicates"] += 1
            return
        self.counters["processed as broker"] += 1
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        me = self.host.node_id
        for subscriber, location in self.subscriptions.subscribers(event, now):
            if subscriber == frame.publisher:
                continue  # it handed the event to its own clients when it published it
            copy = frame._replace(originator=me, destination=subscriber)
            if subscriber == me:
                self.deliver(copy)
            else:
                self.router.send(copy, location)

    def status(self) -> dict[str, Any]:
        """Return what STATUS tells: the base's, the router's, and what is stored as broker."""
        stored = {"stored subscriptions": len(self.subscriptions)}
        return super().status() | self.router.status() | stored

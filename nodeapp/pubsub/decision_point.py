"""Decision points: nodes that all who share a topic find by a hash of the topic.

A subscriber sends each of its subscriptions to the decision point of the topic every
`refresh_interval`, with its id, its location and a stamp, by which an older refresh that comes late
is recognised (`subscription_table`); it is kept there as soft state.  Nothing is handed
over when another node becomes the decision point, and nothing is withdrawn: the next refresh builds
the state, the timeout removes it (3.4).  The two kinds differ in what they do with the
subscriptions: a broker evaluates topic, content and access policy of each event itself, and sends
it once to each subscriber that qualifies, by its id and latest location (`Broker`); a rendezvous
node hands the subscriptions to the publishers, which do that (`rendezvous`).

A scheme is a decision point, a routing protocol and a hash function, put together by a line:

    class BrokerGpsr(Broker, routing=GPSR, hashing=LocationHash):

Its parameters are those of the decision point and the routing protocol, in one dataclass; what it
needs (a position, a map, node ids) is what its parts need.

Proximity (3.5) belongs to routing by location (`over_gpsr`): every node within K of the hashed
location is a decision point.  The first that a subscription reaches captures it and broadcasts it
once to its neighbours, which store it as well (`replica`); the first that anything else reaches
serves it and tells nobody.

Source: docs/papers.md#six-schemes, sections 3.2 to 3.5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.pubsub.base import (
    Environment,
    EventIds,
    Handler,
    RefusedError,
    Service,
    refresh_forever,
)
from nodeapp.pubsub.messages import (
    MAX_SUBSCRIPTION,
    MAX_TOPIC,
    Stamps,
    Subscriber,
    TopicKind,
    decode_located,
    encode_subscription,
    issuer_of,
)
from nodeapp.pubsub.subscription_table import SubscriptionTable
from nodeapp.pubsub.topic_hash import TopicHash
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_REPLICA, Frame


@dataclass(frozen=True)
class DecisionPointParameters:
    """Parameters of `DecisionPoint`."""

    refresh_interval: Annotated[float, Param("s between refreshes", low=0.05, high=3600)] = 1.0
    refresh_jitter: Annotated[float, Param("share of the interval, each way", low=0, high=0.9)] = (
        0.1
    )
    subscription_timeout: Annotated[
        float, Param("s that a subscription is kept without a refresh", low=0.1, high=36_000)
    ] = 3.5


class Router(Protocol):
    """What carries frames to a node id, to a location, or to the node that serves one."""

    @property
    def handlers(self) -> Mapping[int, Handler]:
        """The kinds of frames that are the router's own."""

    def start(self) -> None:
        """Begin what the router does by itself."""

    def send(self, frame: Frame, location: Point) -> None:
        """Send a frame to its destination; its `hops` are those travelled before."""

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a frame that a neighbour forwarded here.  Raises `nodeapp.wire.WireError`."""

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports of the router."""


@dataclass(frozen=True, slots=True)
class Routing:
    """A routing protocol as a part of a scheme."""

    parameters: type[Any]
    make_router: Callable[[DecisionPoint], Router]
    """Returns the router of a node, which is to call `DecisionPoint.arrived`."""
    needs_position: bool = False
    needs_places: bool = False


class DecisionPoint(Service):
    """Subscriber, publisher and decision point in one, as every node is."""

    needs_topic = True
    routing: ClassVar[Routing]
    hashing: ClassVar[type[TopicHash]]
    router: Router

    def __init_subclass__(
        cls, *, routing: Routing | None = None, hashing: type[TopicHash] | None = None
    ) -> None:
        """Put a scheme together if both parts are given."""
        super().__init_subclass__()
        if routing is None or hashing is None:
            return
        cls.routing, cls.hashing = routing, hashing
        cls.Parameters = dataclasses.make_dataclass(
            f"{cls.__name__}Parameters", (), bases=(cls.Parameters, routing.parameters), frozen=True
        )
        if routing.needs_position:
            cls.promises = dataclasses.replace(cls.promises, misplaced=False)
        cls.needs_position, cls.needs_places = routing.needs_position, routing.needs_places
        cls.needs_map, cls.needs_nodes = hashing.needs_map, hashing.needs_nodes

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self.parameters = parameters
        self.subscriptions = SubscriptionTable(parameters.subscription_timeout)
        """Those of others, for which this node is the decision point."""
        self.arrivals: dict[int, Callable[[Frame], None]] = {
            TopicKind.SUBSCRIPTION: self._subscription_arrived
        }
        """Handlers of frames that are for this node, by kind; the router carries these kinds."""
        self.topic_hash = self.hashing(environment)
        self.stamps = Stamps()
        self.overheard: Handler | None = None
        """Called with replicas, if the router learns something from their senders."""
        self.router = self.routing.make_router(self)

    def start(self) -> None:
        self.handlers.update(self.router.handlers)
        self.handlers.update(dict.fromkeys(self.arrivals, self.router.receive))
        self.handlers[TopicKind.SUBSCRIPTION] = self._subscription_received
        self.router.start()
        interval = self.parameters.refresh_interval
        self.host.call_later(self.host.rng.uniform(0.0, interval), refresh_forever, self)

    # Subscriber.

    def subscribe(self, subscription: Subscription) -> None:
        if len(subscription.encode()) > MAX_SUBSCRIPTION:
            raise RefusedError(f"a filter and attributes of more than {MAX_SUBSCRIPTION} bytes")
        super().subscribe(subscription)
        self._send_subscription(subscription)

    def _check_topic(self, topic: str | None, what: str) -> None:
        super()._check_topic(topic, what)
        if topic is not None and len(topic.encode()) > MAX_TOPIC:
            raise RefusedError(f"a topic of more than {MAX_TOPIC} bytes")

    def refresh(self) -> None:
        """Send what is soft state elsewhere again, forget what is out of date here."""
        self.subscriptions.expire(self.host.now())
        for subscription in self.local:
            self._send_subscription(subscription)

    def _send_subscription(self, subscription: Subscription) -> None:
        topic = subscription.filter.topic
        assert topic is not None
        stamp = self.stamps.next(self.host.now())
        body = encode_subscription(subscription, self.location(), stamp)
        self.send_to_point(
            topic, Frame(TopicKind.SUBSCRIPTION, self.host.node_id, hops=0, body=body)
        )

    def replaces(self, frame: Frame) -> Hashable:
        """Return a key that a frame of this node shares with those that it makes out of date.

        A refresh repeats the one before it, with newer data: a router in which frames wait needs
        to keep only the last one.  None if a frame makes nothing out of date.
        """
        if frame.kind in (TopicKind.SUBSCRIPTION, TopicKind.ADVERTISEMENT):
            return frame.kind, frame.destination, decode_located(frame.body).item
        return None

    def location(self) -> Point:
        """Return where this node is, metres."""
        x, y, _, _ = self.host.position()
        return x, y

    def send_to_point(self, topic: str, frame: Frame) -> None:
        target = self.topic_hash(topic)
        self.router.send(frame._replace(destination=target.node), target.location)

    def send_to_subscribers(self, frame: Frame, event: Event, table: SubscriptionTable) -> None:
        """Send the event in `frame` to each of the table's subscribers that is to get it."""
        me = self.host.node_id
        for subscriber, location in table.subscribers(event, self.host.now()):
            if subscriber == event.publisher:
                continue  # it handed the event to its own clients when it published it
            copy = frame._replace(originator=me, destination=subscriber)
            if subscriber == me:
                self.deliver(copy)
            else:
                self.router.send(copy, location)

    # Decision point.

    def arrived(self, frame: Frame) -> None:
        """Take a frame that is for this node, or that this node is to serve."""
        self.arrivals[frame.kind](frame)

    def replica(self, frame: Frame) -> Frame:
        """Return the copy of a subscription served here that neighbours get to store."""
        return frame._replace(
            destination=BROADCAST,
            flags=frame.flags | FLAG_REPLICA,
            ttl=0,
            hops=frame.hops + 1,
            route=b"",
        )

    def _subscription_received(self, frame: Frame, sender: int) -> None:
        if frame.flags & FLAG_REPLICA:
            if self.overheard is not None:
                self.overheard(frame, sender)
            self._subscription_arrived(frame)
        else:
            self.router.receive(frame, sender)

    def _subscription_arrived(self, frame: Frame) -> None:
        location, stamp, item = decode_located(frame.body)
        now = self.host.now()
        self.subscriptions.store(Subscriber(issuer_of(frame), item, location, stamp, now))

    def status(self) -> dict[str, Any]:
        stored = {
            "stored subscriptions": len(self.subscriptions),
            "subscriptions without room": self.subscriptions.refused,
        }
        return super().status() | self.router.status() | stored


class Broker(DecisionPoint):
    """Subscriber, publisher and broker in one."""

    Parameters = DecisionPointParameters

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self.arrivals[CommonKind.EVENT] = self._event_arrived
        self._processed = EventIds()

    def disseminate(self, event: Event) -> None:
        assert event.topic is not None
        self.send_to_point(event.topic, self.event_frame(event))

    def _event_arrived(self, frame: Frame) -> None:
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        if frame.destination == ANY_NODE or self._is_broker_of(event, frame):
            self._process(frame, event)
        else:
            self.deliver(frame)

    def _is_broker_of(self, event: Event, frame: Frame) -> bool:
        """Return whether a frame for this node is for it as the broker, if topics hash to ids.

        As the broker it sends copies to others only, so it gets none as a subscriber.
        """
        target = None if event.topic is None else self.topic_hash(event.topic)
        return target is not None and target.node == self.host.node_id

    def _process(self, frame: Frame, event: Event) -> None:
        if not self._processed.add(frame.publisher, frame.sequence, frame.body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.counters["processed as broker"] += 1
        self.send_to_subscribers(frame, event, self.subscriptions)

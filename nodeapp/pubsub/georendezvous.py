"""GeoRendezvous: a topic has n rendezvous cells; subscribers choose the one on the shortest path.

A topic and a replica number 0 to n - 1 hash to a point, whose home cell is found by cell hash
routing (`nodeapp.routing.cell_hash_routing`).

  * A publisher advertises its topic at all n rendezvous cells every `refresh_interval`.  That is
    never pruned.
  * A subscriber subscribes at all n, or at the m that are nearest to it (`nearest`).
  * A rendezvous cell that has a subscription for an advertiser tells it so, once for all its
    subscribers (DEMAND): when the first subscribes, and again with every advertisement.  The node
    that got the message that made it necessary is responsible.
  * A publisher sends its events to the rendezvous cells that have asked for them.  One that has
    just begun to advertise cannot know yet, and for `answer_wait` sends to all n.
  * A rendezvous cell evaluates filters and policies and sends the event on to each subscriber that
    is to get it.
  * A subscriber gets the first event of a publisher over several cells.  Once all have brought it,
    or after `choice_wait`, it chooses the one with the fewest hops (ties: `tie_break`), and
    prunes: the others are told to send it no more of this publisher's events.  If an event comes
    over a cell that is not chosen, it prunes again, or chooses that one if it took fewer hops.
  * The first event of another publisher comes over the cells that are chosen already.  The
    subscriber then subscribes at its other candidates, too, so that the next one comes over all.
  * A rendezvous cell from which no subscriber takes a publisher's events tells the publisher (PRUNE
    again), which then does not send there.
  * Subscriptions are refreshed at the chosen cells only.  A refresh names one of the publishers
    whose events the subscriber takes there, in turn (the frame's publisher), and undoes a prune of
    it that a node of the cell still has: that may have missed that the subscriber tried again, or
    chose this cell after all, which is also told at once.  Every `explore_interval`, and when the m
    nearest have changed, a subscriber subscribes at all again and chooses again.

All nodes of a rendezvous cell share its state (`rendezvous_cell`): the node that gets a message
which changes it tells the others in one broadcast.  A node that comes into a cell asks for the
state, of this cell and of targets to which it is nearer than the cells around.  One that leaves
hands the state over to whoever is home then, by routing: so the last one takes it to the next home
cell.  What is lost nevertheless comes back with the next refresh.

What the paper leaves open, and how it is here: choices are made for each publisher of a topic,
whenever it begins, among all candidates; subscribers that do not refresh are forgotten rather than
withdrawn; a rendezvous cell addresses subscribers one by one, and copies that take the same path
pass the same nodes.

Source: docs/papers.md#georendezvous, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.events import Event, Subscription
from nodeapp.geometry import squared_distance
from nodeapp.host import Host
from nodeapp.kinds import CommonKind, Kind
from nodeapp.parameters import Param, ParameterError
from nodeapp.pubsub.base import Environment, Promises, RefusedError, Service, refresh_forever
from nodeapp.pubsub.messages import (
    MAX_SUBSCRIPTION,
    MAX_TOPIC,
    Stamps,
    TopicKind,
    decode_advertisement,
    encode_advertisement,
    encode_subscription,
)
from nodeapp.pubsub.rendezvous_cell import MAX_REPLICAS, CellKind, Key, decode_prune, encode_prune
from nodeapp.pubsub.rendezvous_choice import Choices, Stream
from nodeapp.pubsub.rendezvous_member import RendezvousMember
from nodeapp.pubsub.topic_hash import replica_location
from nodeapp.routing.cell_hash_routing import CellHashRouting, CellRoutingParameters, grid_of
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.routing.cells import Cell
from nodeapp.wire import ANY_NODE, FLAG_EXPLORE, FLAG_REPLICA, Frame, WireError

MAX_KNOWN: Final = 4096
"""Most topics whose cells, and most publishers whose choice, are remembered."""


@dataclass(frozen=True)
class GeoRendezvousParameters(CellRoutingParameters):
    """Parameters of `GeoRendezvous`."""

    replicas: Annotated[int, Param("n: rendezvous cells of a topic", low=1, high=MAX_REPLICAS)] = 8
    nearest: Annotated[
        int,
        Param("m: of these, the nearest that a subscriber tries; 0: all", low=0, high=MAX_REPLICAS),
    ] = 2
    tie_break: Annotated[
        str,
        Param("of paths with equal hops: first to tell, or nearest", choices=("first", "nearest")),
    ] = "first"
    choice_wait: Annotated[
        float, Param("s that a first event is awaited over all cells", low=0, high=3600)
    ] = 1.0
    explore_interval: Annotated[
        float, Param("s after which a subscriber tries all again; 0: never", low=0, high=36_000)
    ] = 60.0
    refresh_interval: Annotated[float, Param("s between refreshes", low=0.05, high=36_000)] = 5.0
    refresh_jitter: Annotated[float, Param("share of the interval, each way", low=0, high=0.9)] = (
        0.1
    )
    subscription_timeout: Annotated[
        float, Param("s that state is kept without a refresh", low=0.1, high=360_000)
    ] = 17.5
    publisher_timeout: Annotated[
        float, Param("s that a publisher advertises after its last event", low=0.1, high=36_000)
    ] = 60.0
    answer_wait: Annotated[
        float, Param("s after a first advertisement in which events go to all", low=0, high=3600)
    ] = 2.0


class _Published:
    """A topic that this node publishes on."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.until = now
        self.demanded: dict[int, float] = {}
        """By replica: until when its cell wants the events."""


class GeoRendezvous(Service):
    """Subscriber, publisher and node of rendezvous cells in one."""

    Parameters = GeoRendezvousParameters
    needs_position = True
    needs_topic = True
    needs_places = True
    # Section 2.1: nodes of adjacent cells are neighbours, whose side is range / (2 sqrt 2).  A walk
    # along a perimeter that changes under it begins again, up to 512 hops, on each of 8 paths.
    promises = Promises(reach=1 / (2 * math.sqrt(2)), frames=5_000, misplaced=False)

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        misfit = self.misfit(environment, vars(parameters))
        if misfit is not None:
            raise ParameterError(misfit)
        self.parameters = parameters
        self.router = CellHashRouting(
            host,
            parameters,
            environment.area,
            environment.radio_range,
            self.counters,
            self._arrived,
            self._moved,
        )
        self.stamps = Stamps()
        self.member = RendezvousMember(self, parameters.subscription_timeout)
        self._targets: dict[str, tuple[Cell, ...]] = {}
        self._published: dict[str, _Published] = {}
        self._choices = Choices(
            host, parameters.choice_wait, parameters.tie_break, self._prune, self._take
        )
        self._refreshes = 0
        self._tried: dict[str, tuple[int, ...]] = {}
        """By topic: the replicas at which this node subscribed when it last explored."""
        self._explored: dict[str, float] = {}
        self._offered: dict[str, float] = {}
        """By topic: when all candidates were offered to a new publisher."""

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        n, m = parameters["replicas"], parameters["nearest"]
        if m > n:
            return f"nearest: {m} of {n} rendezvous cells: lower nearest or raise replicas"
        try:
            grid_of(environment.area, environment.radio_range, parameters["cell_size"])
        except ParameterError as error:
            return str(error)
        return None

    def start(self) -> None:
        self.handlers.update(self.router.handlers)
        for kind in (
            TopicKind.ADVERTISEMENT,
            TopicKind.SUBSCRIPTION,
            CellKind.PRUNE,
            CellKind.DEMAND,
            CommonKind.EVENT,
            CellKind.CELL_STATE,
        ):
            self.handlers[kind] = self._received
        self.handlers[CellKind.CELL_STATE_REQUEST] = self.member.state_requested
        self.router.start()
        wait = self.host.rng.uniform(0.0, self.parameters.refresh_interval)
        self.host.call_later(wait, refresh_forever, self)
        # Other nodes of this cell may have been there before: this one may be back after a crash.
        self.host.call_later(self.parameters.hello_interval, self.member.ask)

    # Where the rendezvous cells are.

    def targets(self, topic: str) -> tuple[Cell, ...]:
        """Return the cells that a topic hashes to, by replica."""
        targets = self._targets.get(topic)
        if targets is None:
            area, grid = self.environment.area, self.router.grid
            targets = tuple(
                grid.cell(replica_location(topic, replica, area))
                for replica in range(self.parameters.replicas)
            )
            if len(self._targets) < MAX_KNOWN:
                self._targets[topic] = targets
        return targets

    def candidates(self, topic: str) -> tuple[int, ...]:
        """Return the replicas that this node tries as a subscriber, the nearest first."""
        own, centre = self.router.neighbours.position(), self.router.grid.centre
        distances = [squared_distance(own, centre(cell)) for cell in self.targets(topic)]
        order = sorted(range(len(distances)), key=lambda replica: (distances[replica], replica))
        return tuple(order[: self.parameters.nearest or len(order)])

    def target(self, key: Key) -> Cell | None:
        """Return the cell that a rendezvous point hashes to; None for a replica not in use."""
        topic, replica = key
        return self.targets(topic)[replica] if replica < self.parameters.replicas else None

    def send_to_point(
        self, kind: Kind, key: Key, body: bytes, *, flags: int = 0, publisher: int = 0
    ) -> None:
        """Send a message to a rendezvous cell."""
        topic, replica = key
        frame = Frame(kind, self.host.node_id, ANY_NODE, publisher, hops=0, flags=flags, body=body)
        self.router.send(frame, self.targets(topic)[replica], replica)

    def location(self) -> tuple[float, float]:
        """Return where this node is, metres."""
        x, y, _, _ = self.host.position()
        return x, y

    # Subscriber.

    def _check_topic(self, topic: str | None, what: str) -> None:
        super()._check_topic(topic, what)
        if topic is not None and len(topic.encode()) > MAX_TOPIC:
            raise RefusedError(f"a topic of more than {MAX_TOPIC} bytes")

    def subscribe(self, subscription: Subscription) -> None:
        if len(subscription.encode()) > MAX_SUBSCRIPTION:
            raise RefusedError(f"a filter and attributes of more than {MAX_SUBSCRIPTION} bytes")
        super().subscribe(subscription)
        topic = subscription.filter.topic
        assert topic is not None
        if topic not in self._tried:
            self._explore(topic)
        else:
            flags = 0 if self._choices.chosen(topic) else FLAG_EXPLORE  # the others are being tried
            for replica in self._in_use(topic):
                self._send_subscription(subscription, replica, flags)

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        topic = subscription.filter.topic
        if topic is not None and all(other.filter.topic != topic for other in self.local):
            self._choices.forget(topic)
            self._tried.pop(topic, None)
            self._explored.pop(topic, None)
            self._offered.pop(topic, None)

    def _explore(self, topic: str) -> None:
        """Subscribe at all candidates, to choose by the next event of each publisher."""
        self._choices.forget(topic)
        self._explored[topic] = self.host.now()
        self._tried[topic] = self.candidates(topic)
        for subscription in self.local:
            if subscription.filter.topic == topic:
                for replica in self._tried[topic]:
                    self._send_subscription(subscription, replica, FLAG_EXPLORE)

    def _in_use(self, topic: str) -> tuple[int, ...]:
        """Return the replicas at which subscriptions are refreshed."""
        return self._choices.chosen(topic) or self._tried[topic]

    def _send_subscription(
        self, subscription: Subscription, replica: int, flags: int = 0, taken: int = 0
    ) -> None:
        topic = subscription.filter.topic
        assert topic is not None
        stamp = self.stamps.next(self.host.now())
        body = encode_subscription(subscription, self.location(), stamp)
        self.send_to_point(
            TopicKind.SUBSCRIPTION, (topic, replica), body, flags=flags, publisher=taken
        )

    def _notified(self, frame: Frame, replica: int) -> None:
        """Take an event over a rendezvous cell, as a subscriber."""
        if replica >= self.parameters.replicas:
            raise WireError(f"an event over replica {replica} of {self.parameters.replicas}")
        if not self.local:
            return
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        self.deliver_event(event, frame.hops)
        topic = event.topic
        if topic is not None and topic in self._tried:
            stream, tried = (topic, event.publisher), self._tried[topic]
            if not self._choices.ways(stream):
                self._offer(topic)
            self._choices.notified(stream, event.id, replica, frame.hops, tried)

    def _offer(self, topic: str) -> None:
        """Subscribe at the candidates that no stream of a topic uses, for one that is new.

        It lasts for `subscription_timeout`, so further publishers that begin within a refresh need
        none.  Other publishers' events may come over them once, and are pruned again.
        """
        chosen, now = self._choices.chosen(topic), self.host.now()
        last = self._offered.get(topic, -math.inf)
        if chosen is None or now - last < self.parameters.refresh_interval:
            return
        self._offered[topic] = now
        for replica in self._tried[topic]:
            if replica not in chosen:
                self._take((topic, 0), replica)

    def _prune(self, stream: Stream, replica: int) -> None:
        topic, publisher = stream
        stamp = self.stamps.next(self.host.now())
        body = encode_prune(topic, publisher, self.location(), stamp)
        self.send_to_point(CellKind.PRUNE, (topic, replica), body)

    def _take(self, stream: Stream, replica: int) -> None:
        """Subscribe at a chosen rendezvous cell; publisher 0 of the stream names none."""
        topic, publisher = stream
        for subscription in self.local:
            if subscription.filter.topic == topic:
                self._send_subscription(subscription, replica, taken=publisher)

    # Publisher.

    def advertise(self, topic: str) -> None:
        """Advertise a topic from now on, so that rendezvous cells ask for its events.

        Raises `RefusedError`.
        """
        super().advertise(topic)
        self._publishes(topic)

    def _publishes(self, topic: str) -> _Published:
        now = self.host.now()
        published = self._published.get(topic)
        if published is None:
            published = self._published[topic] = _Published(now)
            self._advertise(topic)
        published.until = now + self.parameters.publisher_timeout
        return published

    def _advertise(self, topic: str) -> None:
        for replica in range(self.parameters.replicas):
            stamp = self.stamps.next(self.host.now())
            body = encode_advertisement(topic, self.location(), stamp)
            self.send_to_point(TopicKind.ADVERTISEMENT, (topic, replica), body)

    def disseminate(self, event: Event) -> None:
        topic, now = event.topic, self.host.now()
        assert topic is not None
        published = self._publishes(topic)
        if now - published.since < self.parameters.answer_wait:
            replicas = list(range(self.parameters.replicas))
        else:
            replicas = [replica for replica, until in published.demanded.items() if until > now]
        frame = self.event_frame(event)._replace(destination=ANY_NODE)
        targets = self.targets(topic)
        for replica in replicas:
            self.router.send(frame, targets[replica], replica)

    def _demanded(self, frame: Frame, replica: int) -> None:
        topic, _, _ = decode_advertisement(frame.body)
        published = self._published.get(topic)
        if published is not None and replica < self.parameters.replicas:
            until = self.host.now() + self.parameters.subscription_timeout
            published.demanded[replica] = until

    # Frames.

    def _moved(self, before: Cell) -> None:
        self.member.moved()

    def _received(self, frame: Frame, sender: int) -> None:
        if frame.flags & FLAG_REPLICA:
            self.member.replica_received(frame)
        else:
            self.router.receive(frame, sender)

    def _arrived(self, frame: Frame, route: CellRoute) -> None:
        if frame.destination == ANY_NODE:
            self.member.arrived(frame, route)
        else:
            self.for_this_node(frame, route.key)

    def for_this_node(self, frame: Frame, replica: int) -> None:
        """Take a frame that is for this very node."""
        if frame.kind == CommonKind.EVENT:
            self._notified(frame, replica)
        elif frame.kind == CellKind.DEMAND:
            self._demanded(frame, replica)
        elif frame.kind == CellKind.PRUNE:
            topic, _, _ = decode_prune(frame.body)
            if topic in self._published:
                self._published[topic].demanded.pop(replica, None)
        else:
            raise WireError("a message for rendezvous cells")

    # Soft state.

    def refresh(self) -> None:
        """Send what is soft state elsewhere again, forget what is out of date here."""
        now = self.host.now()
        self.member.expire(now)
        for topic, published in list(self._published.items()):
            if published.until > now:
                self._advertise(topic)
            else:
                del self._published[topic]
        interval = self.parameters.explore_interval or math.inf
        for topic in list(self._tried):
            lapsed = self._explored[topic] + interval <= now
            if lapsed or set(self.candidates(topic)) != set(self._tried[topic]):
                self._explore(topic)
                continue
            for replica in self._in_use(topic):
                publishers = self._choices.publishers(topic, replica)
                taken = publishers[self._refreshes % len(publishers)] if publishers else 0
                self._take((topic, taken), replica)
        self._refreshes += 1

    def status(self) -> dict[str, Any]:
        state = self.member.state
        stored = {"stored entries": len(state), "rendezvous points": len(state.points())}
        return super().status() | self.router.status() | stored

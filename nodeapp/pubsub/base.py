"""What every publish/subscribe service shares.

A service is a plain object between a host and the radio: frames in, timers in, calls out.  The
base class dispatches frames by kind, counts those that are malformed or not the protocol's,
keeps the local subscriptions, and hands each event to the local clients at most once.  A protocol
says which kinds it handles, what it does with an event of a local client (`disseminate`), and
what a change of the local subscriptions means to it.
"""

from __future__ import annotations

import abc
from array import array
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from nodeapp import wire
from nodeapp.events import MAX_EVENT, Event, Subscription
from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.predicates import Value
from nodeapp.wire import Frame, WireError

Handler = Callable[[Frame, int], None]
HOLD_TIME: Final = 30.0
"""Seconds for which every event is known; DUP_HOLD_TIME of OLSR (RFC 3626, 18.3)."""
HELD_EVENTS: Final = 8192
"""Most events of these seconds, so that memory stays bounded under any load."""
SILENCE: Final = 600.0
"""Seconds of a publisher's silence after which all of its events are forgotten."""
GENERATION: Final = 4096
"""Events of a publisher that are known at least until then; twice as many at most."""
MAX_PUBLISHERS: Final = 4096
MAX_REMEMBERED: Final = 1 << 17
"""Events of all publishers together; the publisher heard of first is forgotten first."""


@dataclass(frozen=True, slots=True)
class Promises:
    """Promises over a radio that loses nothing within range, and the times that they take, s."""

    served: bool = True
    """Once nothing has changed for `settle`, a subscriber gets at least one of a publisher's last
    few events that match."""
    delivered: bool = True
    """It gets all of them."""
    settle: float = 30.0
    """From the last change (a subscription, a move, a fault's end) until that holds."""
    arrival: float = 5.0
    """From an event's publication, or the last change after it, to its last frame."""
    frames: int = 500
    """Most frames of one event; nodes that send more are taken to send it without end."""
    reach: float = 1.0
    """Share of the radio range within which neighbours have to be for all this."""
    outlives: bool = True
    """Whether all this still holds among the others after nodes are gone for good."""
    misplaced: bool = True
    """Whether all this still holds while nodes have wrong positions."""
    wired: bool = False
    """Whether all this is promised for hosts on one wired network, not over a radio."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What all nodes know of the network: area (x0, y0, x1, y1) and radio range, metres.

    `waypoints` are the points of the road map, metres; empty if there is no map.  `nodes` is the
    number of nodes, whose ids are 1 to `nodes`; 0 if that is not known.  `brokers` are the
    brokers of a mesh, (node id, x, y), whose radios reach `mesh_range` metres; the other nodes are
    clients then.  `wired`: all nodes are on one wired network, each a hop from any other.
    """

    area: tuple[float, float, float, float]
    radio_range: float
    waypoints: tuple[Point, ...] = ()
    nodes: int = 0
    brokers: tuple[tuple[int, float, float], ...] = ()
    mesh_range: float = 0.0
    wired: bool = False


class Route(NamedTuple):
    """What a navigator knows of a client's route: next destination, metres, and speed, m/s.

    `pause` is how long it is going to stay there, `remaining` for how long it still stays where it
    is, seconds.
    """

    x: float
    y: float
    speed: float
    pause: float
    remaining: float


class RefusedError(ValueError):
    """A client's request that the protocol cannot serve; the message says why."""


class EndedError(Exception):
    """A service that cannot go on: it ends its node, with the message, one line, as the reason."""


class _Heard:
    """The events of one publisher, by fingerprint, in two generations, each in order."""

    __slots__ = ("before", "recent", "until")

    def __init__(self) -> None:
        self.recent = array("Q")
        self.before = array("Q")
        self.until = 0.0

    def __len__(self) -> int:
        return len(self.recent) + len(self.before)

    def add(self, fingerprint: int) -> bool:
        """Remember an event; return whether it is new.  The caller begins new generations."""
        recent, before = self.recent, self.before
        index = bisect_left(recent, fingerprint)
        if index < len(recent) and recent[index] == fingerprint:
            return False
        if before:
            earlier = bisect_left(before, fingerprint)
            if earlier < len(before) and before[earlier] == fingerprint:
                return False
        recent.insert(index, fingerprint)
        return True


class EventIds:
    """The events that have come, by id and content.

    Two events of one id are the same only if every byte of them is: no event is old because of its
    number.  So a stranger's forged event takes the place of none of the publisher's, whatever its
    number; a publisher that counts from 1 again is heard, as its events differ; and a recorded
    event that is sent again is recognised until its publisher has been silent for `SILENCE`.
    Memory is bounded: a stranger who fills it can have old events accepted once more.
    """

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._order: deque[tuple[float, int]] = deque()
        self._publishers: dict[int, _Heard] = {}
        self._remembered = 0

    def __len__(self) -> int:
        return self._remembered

    def add(self, publisher: int, sequence: int, body: bytes, now: float) -> bool:
        """Remember an event, whose body `Event.encode` returns, at `now`; return whether new."""
        # `fingerprint`, without the call: most of what comes is a copy, and ends here.
        key = (hash(body) ^ (publisher << 32 | sequence)) & 0xFFFFFFFFFFFFFFFF
        held = self._held
        if key in held:
            return False
        heard = self._publishers.get(publisher)
        if heard is None or heard.until < now:
            heard = self._begin(publisher)
        if not heard.add(key):
            return False
        heard.until = now + SILENCE
        self._remembered += 1
        if len(heard.recent) >= GENERATION:
            self._remembered -= len(heard.before)
            heard.before, heard.recent = heard.recent, array("Q")
        if self._remembered > MAX_REMEMBERED:
            self._forget_first()
        order = self._order
        while order and (order[0][0] < now - HOLD_TIME or len(order) >= HELD_EVENTS):
            held.discard(order.popleft()[1])
        held.add(key)
        order.append((now, key))
        return True

    def _begin(self, publisher: int) -> _Heard:
        """Return an empty memory for a publisher."""
        publishers = self._publishers
        known = publishers.pop(publisher, None)
        if known is not None:
            self._remembered -= len(known)
        elif len(publishers) >= MAX_PUBLISHERS:
            self._forget_first()
        heard = publishers[publisher] = _Heard()
        return heard

    def _forget_first(self) -> None:
        first = next(iter(self._publishers))
        self._remembered -= len(self._publishers.pop(first))


class Service(abc.ABC):
    """One publish/subscribe protocol at one node.

    `counters` counts what happened, by name, for STATUS only.
    """

    Parameters: ClassVar[type[Any]]
    """The dataclass of the protocol's parameters (`nodeapp.parameters`)."""
    needs_position: ClassVar[bool] = False
    """Whether the protocol cannot work without knowing where the node is."""
    needs_map: ClassVar[bool] = False
    """Whether the protocol cannot work without a road map (`Environment.waypoints`)."""
    needs_nodes: ClassVar[bool] = False
    """Whether the protocol cannot work without the ids of all nodes (`Environment.nodes`)."""
    needs_brokers: ClassVar[bool] = False
    """Whether the protocol runs on brokers and their clients (`Environment.brokers`)."""
    needs_routes: ClassVar[bool] = False
    """Whether clients' navigators should tell it where they are going (`Service.navigate`)."""
    needs_topic: ClassVar[bool] = False
    """Whether every event has to have a topic, and every filter a predicate `topic = ...`."""
    needs_places: ClassVar[bool] = False
    """Whether it sends to places, so that nodes need positions: with contacts they have none."""
    modules: ClassVar[tuple[str, ...]] = ()
    """Packages that it needs besides the project's own, and that take long to load."""
    ports: ClassVar[tuple[int, ...]] = ()
    """Its TCP and UDP ports, by which captures recognise its frames, if it does not use ours."""
    node_memory: ClassVar[int] = 4 << 20
    """Bytes of a node in real time: node app, shell and the kernel's part; 5,000 took 19 GB."""
    brings_back: ClassVar[bool] = False
    """Whether the node's own events come back over the network, for its own clients as well."""
    promises: ClassVar[Promises] = Promises()
    """What `check` judges the protocol by."""

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        self.host = host
        self.environment = environment
        self.counters: Counter[str] = Counter()
        self.local: list[Subscription] = []
        self.handlers: dict[int, Handler] = {}
        self._delivered = EventIds()

    @classmethod
    def missing(cls) -> str | None:
        """Return what is not installed on this machine and what to do; None if all is."""
        return None

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        """Return why parameters do not fit the environment or each other; None if they do.

        `parameters` are all of the protocol's, by name, each allowed by itself.
        """
        return None

    @classmethod
    def foreign(cls, event: Mapping[str, Value], parameters: Mapping[str, Any]) -> str | None:
        """Return why the protocol cannot carry an event with these attributes; None if it can.

        `parameters` as for `misfit`.
        """
        return None

    @classmethod
    def unfit(cls, predicates: Sequence[tuple[str, str, Any]]) -> str | None:
        """Return why subscriptions cannot have a filter of these predicates; None if they can."""
        return None

    @abc.abstractmethod
    def start(self) -> None:
        """Begin: from now on the service may send and set timers."""

    @abc.abstractmethod
    def disseminate(self, event: Event) -> None:
        """Send an event of a local client on its way; the local subscribers have it already."""

    def _check_topic(self, topic: str | None, what: str) -> None:
        if self.needs_topic and topic is None:
            raise RefusedError(f"this protocol finds subscribers by topic: give {what} a topic")

    def datagram_received(self, datagram: bytes, sender: int) -> None:
        """Take a datagram that the neighbour `sender` transmitted; malformed ones are counted."""
        try:
            frame = wire.decode(datagram)
        except WireError as error:
            self.counters[error.counter] += 1
            return
        self.receive(frame, sender)

    def receive(self, frame: Frame, sender: int) -> None:
        """Take a decoded frame that the neighbour `sender` transmitted."""
        handler = self.handlers.get(frame.kind)
        if handler is None:
            self.counters["unexpected kind"] += 1
            return
        try:
            handler(frame, sender)
        except WireError:
            self.counters["malformed"] += 1

    def subscribe(self, subscription: Subscription) -> None:
        """Add a local subscription, once.  Raises `RefusedError`."""
        self._check_topic(subscription.filter.topic, "the filter")
        self.local.append(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Remove a local subscription that was added."""
        self.local.remove(subscription)

    def advertise(self, topic: str) -> None:
        """Learn that a local client is going to publish on a topic; few protocols need to know.

        May be repeated.  Raises `RefusedError` if the protocol cannot carry such events.
        """
        self._check_topic(topic, "what is advertised")

    def navigate(self, route: Route) -> None:
        """Take where a local client is going; few protocols need to know.

        Raises `RefusedError`.
        """
        raise RefusedError("this protocol has no use for a client's route")

    def publish(self, event: Event) -> None:
        """Publish an event of a local client; one that is published already has no effect.

        Raises `RefusedError` if the protocol cannot carry it.
        """
        self._check_topic(event.topic, "the event")
        body = event.encode()
        if len(body) > MAX_EVENT:
            raise RefusedError(f"an event of {len(body)} bytes: at most {MAX_EVENT} fit a datagram")
        if self._delivered.add(event.publisher, event.sequence, body, self.host.now()):
            self.counters["published"] += 1
            if not self.brings_back:
                self.host.notify(event, 0)
            self.disseminate(event)

    def event_frame(self, event: Event, *, ttl: int = 0, hops: int = 0) -> Frame:
        """Return the frame of a local client's event, as this node makes it."""
        return Frame(
            CommonKind.EVENT,
            self.host.node_id,
            publisher=event.publisher,
            sequence=event.sequence,
            ttl=ttl,
            hops=hops,
            body=event.encode(),
        )

    def deliver(self, frame: Frame) -> None:
        """Hand the event in `frame` to the local clients, unless they had it before.

        Raises `WireError` if the frame's body is not an event.
        """
        if self.local:
            event = Event.decode(frame.publisher, frame.sequence, frame.body)
            self.deliver_event(event, frame.hops)

    def deliver_event(self, event: Event, hops: int) -> None:
        """Hand an event that came over `hops` to the local clients, unless they had it before."""
        if self.local and self._delivered.add(
            event.publisher, event.sequence, event.encode(), self.host.now()
        ):
            if any(subscription.accepts(event) for subscription in self.local):
                self.counters["delivered"] += 1
            self.host.notify(event, hops)

    def close(self) -> None:  # noqa: B027  # few services have something to close
        """End what the service itself has started; the node ends."""

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports of the protocol, in types of CBOR: numbers, texts, maps."""
        return {"counters": dict(self.counters), "local subscriptions": len(self.local)}


class Refreshing(Protocol):
    """A service with soft state elsewhere; its parameters have an interval and its jitter."""

    host: Host
    parameters: Any

    def refresh(self) -> None:
        """Send it again."""


def refresh_forever(service: Refreshing) -> None:
    """Refresh now, and again after each interval; an internal error costs one refresh."""
    try:
        service.refresh()
    finally:
        jitter = service.parameters.refresh_jitter
        wait = service.parameters.refresh_interval * (1 + service.host.rng.uniform(-jitter, jitter))
        service.host.call_later(wait, refresh_forever, service)

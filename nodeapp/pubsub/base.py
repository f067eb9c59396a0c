"""What every publish/subscribe service shares.

A service is a plain object between a host and the radio: frames in, timers in, calls out.  The
base class dispatches frames by kind, counts those that are malformed or not the protocol's,
keeps the local subscriptions, and hands each event to the local clients at most once.  A protocol
says which kinds it handles, what it does with an event of a local client (`disseminate`), and
what a change of the local subscriptions means to it.
"""

from __future__ import annotations

import abc
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from nodeapp import wire
from nodeapp.events import MAX_EVENT, Event, Subscription
from nodeapp.geometry import Point
from nodeapp.host import Host
from nodeapp.predicates import Value
from nodeapp.wire import BY_HAND, Frame, Kind, WireError

Handler = Callable[[Frame, int], None]

HOLD_TIME: Final = 30.0
"""Seconds for which an event id is remembered; DUP_HOLD_TIME of OLSR (RFC 3626, 18.3)."""
WINDOW: Final = 1024
"""Sequence numbers of a publisher that are remembered."""
WINDOW_TIME: Final = 600.0
"""Seconds of silence after which they are forgotten: the publisher may count from 1 again."""
MOST_AHEAD: Final = 1 << 16
"""How far ahead of the last a number may be to be the last: a forged one must not end all."""
MAX_PUBLISHERS: Final = 4096
_WHOLE: Final = (1 << WINDOW) - 1
HELD_EVENTS: Final = 8192
"""Event ids that are remembered at most, so that memory stays bounded under any load."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What all nodes know of the network: area (x0, y0, x1, y1) and radio range, metres.

    `waypoints` are the points of the road map, metres; empty if there is no map.  `nodes` is how
    many nodes there are, with the ids 1 to `nodes`; 0 if that is not known.  `brokers` are the
    brokers of a mesh, (node id, x, y), whose radios reach `mesh_range` metres; the other nodes are
    clients then.  `wired` tells that all nodes are on one wired network, each a hop from any other.
    """

    area: tuple[float, float, float, float]
    radio_range: float
    waypoints: tuple[Point, ...] = ()
    nodes: int = 0
    brokers: tuple[tuple[int, float, float], ...] = ()
    mesh_range: float = 0.0
    wired: bool = False


class Route(NamedTuple):
    """What a navigator knows of a client's way: the next destination, metres, and the speed, m/s.

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


class _Window:
    """Which of a publisher's last `WINDOW` sequence numbers have come."""

    __slots__ = ("bits", "last", "until")

    def __init__(self, sequence: int) -> None:
        self.last = sequence
        self.bits = 1
        self.until = 0.0

    def take(self, sequence: int) -> bool:
        """Note a number; return whether it is new, as far as that is known."""
        ahead = sequence - self.last
        if ahead > 0:
            if ahead <= MOST_AHEAD:
                self.bits = (self.bits << ahead | 1) & _WHOLE if ahead < WINDOW else 1
                self.last = sequence
            return True
        if -ahead >= WINDOW or self.bits >> -ahead & 1:
            return False
        self.bits |= 1 << -ahead
        return True


class EventIds:
    """The event ids of the last `HOLD_TIME` seconds, `HELD_EVENTS` at most.

    Programs number their events one after the other: of each such publisher the last numbers are
    remembered until it has been silent for `WINDOW_TIME`, so that what was recorded and sent again
    after `HOLD_TIME` is known.  A number far ahead is taken once, and changes nothing.
    """

    def __init__(self) -> None:
        self._held: set[int] = set()
        self._order: deque[tuple[float, int]] = deque()
        self._windows: dict[int, _Window] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, publisher: int, sequence: int, now: float) -> bool:
        """Remember an id at time `now`; return whether it is new."""
        key = publisher << 32 | sequence
        held, order = self._held, self._order
        if key in held:
            return False
        if sequence < BY_HAND:
            window = self._windows.get(publisher)
            if window is None or window.until < now:
                if window is None and len(self._windows) >= MAX_PUBLISHERS:
                    del self._windows[next(iter(self._windows))]
                window = self._windows[publisher] = _Window(sequence)
            elif not window.take(sequence):
                return False
            window.until = now + WINDOW_TIME
        while order and (order[0][0] < now - HOLD_TIME or len(order) >= HELD_EVENTS):
            held.discard(order.popleft()[1])
        held.add(key)
        order.append((now, key))
        return True


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
    is_overlay: ClassVar[bool] = False
    """Whether nodes are peers of an overlay by interest, which has all parameters of
    `nodeapp.pubsub.overlay.parameters.IdentifierParameters`; analyses count overlay hops then."""
    has_rendezvous_cells: ClassVar[bool] = False
    """Whether subscribers choose among a topic's rendezvous cells, which keep soft state, with the
    messages and parameters of `nodeapp.pubsub.georendezvous`: analyses count choices and state."""
    floods: ClassVar[bool] = False
    """Whether every node that hears of an event sends it as often as the parameter `repeat` says,
    once without one: a backend can then tell from a scenario what comes to its nodes."""
    rounds_voids: ClassVar[bool] = False
    """Whether GPSR brings what it sends to places: round voids, on ways of many hops."""

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        self.host = host
        self.environment = environment
        self.counters: Counter[str] = Counter()
        self.local: list[Subscription] = []
        self.handlers: dict[int, Handler] = {}
        self._delivered = EventIds()

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
        except WireError:
            self.counters["malformed"] += 1
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
        """Publish an event of a local client; a repeated event id does nothing.

        Raises `RefusedError` if the protocol cannot carry it.
        """
        self._check_topic(event.topic, "the event")
        size = len(event.encode())
        if size > MAX_EVENT:
            raise RefusedError(f"an event of {size} bytes: at most {MAX_EVENT} fit a datagram")
        if self._delivered.add(event.publisher, event.sequence, self.host.now()):
            self.counters["published"] += 1
            self.host.notify(event, 0)
            self.disseminate(event)

    def event_frame(self, event: Event, *, ttl: int = 0, hops: int = 0) -> Frame:
        """Return the frame of a local client's event, as this node makes it."""
        return Frame(
            Kind.EVENT,
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
        if self.local and self._delivered.add(event.publisher, event.sequence, self.host.now()):
            if any(each.accepts(event) for each in self.local):
                self.counters["delivered"] += 1
            self.host.notify(event, hops)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports of the protocol, in types of CBOR: numbers, texts, maps."""
        return {"counters": dict(self.counters), "local subscriptions": len(self.local)}

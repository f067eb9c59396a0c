"""A session: what a broker knows of one client that it serves, or has served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nodeapp.events import Subscription, fingerprint
from nodeapp.host import Timer
from nodeapp.pubsub.mesh.messages import EventDelivery, MeshKind, Received, SessionKey
from nodeapp.pubsub.mesh.prediction import ClientStatus, PredictedPath
from nodeapp.pubsub.patterns import encode_pattern
from nodeapp.wire import Frame

MAX_EVENTS: Final = 65_536
"""Events that a session remembers."""


class Held(NamedTuple):
    """An event that waits for its client, and the hops that it has come."""

    publisher: int
    sequence: int
    body: bytes
    hops: int


@dataclass
class EventSource:
    """An old session whose events the new broker fetches."""

    session: SessionKey
    received: Received
    heard: float
    """When the old broker last answered; at first when it was first asked."""
    total: int | None = None
    answered: bool = False
    fetched: int = 0
    """Events that came since it was asked last."""
    asked: float = 0.0
    repeated: bool = False
    timer: Timer | None = None

    @property
    def complete(self) -> bool:
        """Whether everything has come."""
        return self.total is not None and self.received.base >= self.total


@dataclass
class Served:
    """One session at its broker."""

    client: int
    session: SessionKey
    path: PredictedPath
    reported: float
    """When the status of the path was reported."""
    heard: float
    subscriptions: tuple[Subscription, ...] = ()
    patterns: tuple[bytes, ...] = ()
    events: dict[int, Held] = field(default_factory=dict)
    total: int = 0
    received: Received = field(default_factory=Received)
    confirmed: bool = False
    """Whether the client knows that this broker serves it."""
    ended: bool = False
    """Whether a new broker has taken over and no more events come."""
    sources: dict[SessionKey, EventSource] = field(default_factory=dict)
    new: SessionKey | None = None
    """The session that takes over."""
    taken: int = 0
    """The number of the last report that its broker knew of."""
    propagating: frozenset[bytes] = frozenset()
    reached: dict[SessionKey, set[bytes]] = field(default_factory=dict)
    """Patterns whose propagation from a new session has ended."""
    _events: dict[int, None] = field(default_factory=dict)

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        self.subscriptions = tuple(subscriptions)
        patterns = (encode_pattern(subscription.filter) for subscription in subscriptions)
        self.patterns = tuple(dict.fromkeys(patterns))

    def delivery(
        self, broker: int, index: int, status: ClientStatus | None = None, age: float = 0.0
    ) -> tuple[Frame, EventDelivery]:
        """Return the frame of this broker that delivers a kept event, and what it says."""
        held = self.events[index]
        delivery = EventDelivery(self.session, index, 0, status, age, held.body)
        frame = Frame(
            MeshKind.DELIVERY,
            broker,
            self.client,
            held.publisher,
            held.sequence,
            hops=held.hops,
            body=delivery.encode(),
        )
        return frame, delivery

    def take(self, held: Held) -> int | None:
        """Number an event and keep it; None if the session had it before."""
        key = fingerprint(held.publisher, held.sequence, held.body)
        if key in self._events:
            return None
        self._events[key] = None
        if len(self._events) > MAX_EVENTS:
            del self._events[next(iter(self._events))]
        self.total += 1
        self.events[self.total] = held
        return self.total

    def note_received(self, index: int) -> None:
        """Note that the client has an event, or that it is lost."""
        self.received.add(index)
        self.events.pop(index, None)

    def merge_received(self, received: Received) -> None:
        """Note all that the client says it has."""
        self.received.merge(received)
        for index in [index for index in self.events if index in self.received]:
            del self.events[index]

    @property
    def may_end(self) -> bool:
        """Whether the new broker gets everything itself by now."""
        if self.new is None or self.sources:
            return False
        return self.propagating.intersection(self.patterns) <= self.reached.get(self.new, set())

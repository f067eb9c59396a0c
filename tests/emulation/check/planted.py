"""Protocols with a bug each, as people make them."""

from __future__ import annotations

from typing import Any

from nodeapp.events import Event, Filter, Subscription
from nodeapp.pubsub.base import EventIds
from nodeapp.pubsub.flooding import Flooding
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.over_aodv import BrokerAodv
from nodeapp.pubsub.semi_probabilistic import SemiProbabilistic
from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.wire import Frame


class _Nothing(EventIds):
    """Remembers no event."""

    def add(self, publisher: int, sequence: int, body: bytes, now: float) -> bool:
        return True


class _LastOne(EventIds):
    """Remembers the last event only."""

    last: Any = None

    def add(self, publisher: int, sequence: int, body: bytes, now: float) -> bool:
        fresh: bool = (publisher, sequence) != self.last
        self.last = (publisher, sequence)
        return fresh


class _Numbers(EventIds):
    """Remembers numbers of events, whoever published them."""

    def add(self, publisher: int, sequence: int, body: bytes, now: float) -> bool:
        return super().add(1, sequence, b"", now)


class _Remembering(Flooding):
    memory: type[EventIds] = EventIds

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._seen, self._delivered = self.memory(), self.memory()


class NoDuplicateCheck(_Remembering):
    memory = _Nothing


class ShortWindow(_Remembering):
    memory = _LastOne


class NumbersAlone(_Remembering):
    memory = _Numbers


class Dawdles(Flooding):
    """Tells its clients of an event two seconds after it came."""

    def deliver(self, frame: Frame) -> None:
        self.host.call_later(2.0, super().deliver, frame)


class NoTimeToLive(Flooding):
    """Sends what it hears again and again, and counts no hops down."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        self.deliver(frame)
        self.host.call_later(0.5, self._send, frame.encode())


class ThreeHops(Flooding):
    """Gives an event up after three hops."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        super()._event_received(frame._replace(ttl=min(frame.ttl, 3 - frame.hops)), sender)


class MatchesAll(Flooding):
    """Takes every event for a match."""

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        object.__setattr__(subscription, "filter", Filter())


class EmptyFilter(Flooding):
    """Looks at the first condition, though there may be none."""

    def subscribe(self, subscription: Subscription) -> None:
        assert subscription.filter.predicates[0]
        super().subscribe(subscription)


class Changes(Flooding):
    """Writes the event anew at each hop, and its price rounded."""

    def _rebroadcast(self, frame: Frame) -> None:
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        rounded = {**event.attributes, "price": 0}
        body = Event(event.publisher, event.sequence, rounded).encode()
        super()._rebroadcast(frame._replace(body=body))


class StandsStill(Flooding):
    """Waits for its queue without letting time pass, once an event has come to it."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        self.host.call_later(0.0, self._event_received, frame, sender)


class TimesOut(Flooding):
    """Raises what reading from a connection may."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        raise TimeoutError("no answer")


class NoCopies(Flooding):
    """Takes a neighbour to send an event once, so that what it sends again is another."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        if not hasattr(self, "copies"):
            self.copies: set[tuple[int, int, int]] = set()
        key = (frame.publisher, frame.sequence, sender)
        if key in self.copies:
            self._delivered = EventIds()
            self.deliver(frame)
        self.copies.add(key)
        super()._event_received(frame, sender)


class Trusting(Flooding):
    """Takes all events for what its own clients publish."""

    def _event_received(self, frame: Frame, sender: int) -> None:
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        assert event.attributes["stock"] in ("A", "B")
        super()._event_received(frame, sender)


class NeverStops(Flooding):
    """Repeats each subscription of its clients, and goes on when it has ended."""

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        self._repeat(subscription)

    def _repeat(self, subscription: Subscription) -> None:
        frame = Frame(TopicKind.SUBSCRIPTION, self.host.node_id, body=subscription.encode())
        self._send(frame.encode())
        self.host.call_later(0.1, self._repeat, subscription)


class LostAtRestart(BrokerAodv):
    """Refreshes its subscriptions only if it was there from the beginning."""

    def refresh(self) -> None:
        if not hasattr(self, "began"):
            self.began = self.host.now()
        if self.began < 1.0:
            super().refresh()

    def subscribe(self, subscription: Subscription) -> None:
        self.local.append(subscription)


class ForgetsAll(SemiProbabilistic):
    """Ends all subscriptions with one."""

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self.local:
            super().unsubscribe(subscription)
        self.local.clear()


class AnythingCovers(SubscriptionForwarding):
    """Passes on the first of its clients' subscriptions, as if that covered all later ones."""

    def subscribe(self, subscription: Subscription) -> None:
        if self.local:
            self.local.append(subscription)
        else:
            super().subscribe(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self.local[1:]:
            self.local.remove(subscription)
        else:
            super().unsubscribe(subscription)

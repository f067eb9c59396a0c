"""Soft state: the subscriptions of other nodes, with their locations, until they time out.

Refreshes may come late, twice and out of order: over different paths, after waiting for a route, or
from a decision point that heard them in another order.  Of one subscriber's refreshes, the one that
it sent last counts (its stamp, `nodeapp.pubsub.messages`), and one that was sent before it changes
nothing.  What has timed out orders nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nodeapp.events import Event, Subscription
from nodeapp.geometry import Point
from nodeapp.pubsub.messages import MAX_SUBSCRIPTION, Subscriber
from nodeapp.wire import WireError

MAX_ENTRIES: Final = 65_536
"""Most subscriptions that are stored, so that memory stays bounded."""


MAX_BYTES: Final = 4 << 20
"""Most bytes of these subscriptions, encoded; decoded they take a few dozen times as much at worst.
"""


class _Entry:
    """One subscription of one subscriber."""

    __slots__ = ("heard", "location", "stamp", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.location: Point = (0.0, 0.0)
        self.stamp = -1
        self.heard = float("-inf")


class SubscriptionTable:
    """The subscriptions heard in the last `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._entries: dict[tuple[int, bytes], _Entry] = {}
        self._by_topic: dict[str, dict[tuple[int, bytes], _Entry]] = {}
        self._bytes = 0
        self.refused = 0
        """Subscriptions for which there was no room."""

    def __len__(self) -> int:
        return len(self._entries)

    def store(self, subscriber: Subscriber) -> None:
        """Store or refresh a subscription; what was sent before what is known changes nothing.

        Raises `WireError` if it is malformed or its filter asks for no topic.
        """
        key = (subscriber.node, subscriber.subscription)
        entry = self._entries.get(key)
        if entry is None:
            if len(subscriber.subscription) > MAX_SUBSCRIPTION:
                raise WireError("too long a filter")
            subscription = Subscription.decode(subscriber.subscription)
            topic = subscription.filter.topic
            if topic is None:
                raise WireError("a filter without a topic")
            size = self._bytes + len(subscriber.subscription)
            if len(self._entries) >= MAX_ENTRIES or size > MAX_BYTES:
                self.refused += 1
                return
            self._bytes = size
            entry = self._entries[key] = _Entry(subscription)
            self._by_topic.setdefault(topic, {})[key] = entry
        lapsed = entry.heard + self._timeout <= subscriber.heard
        if subscriber.stamp > entry.stamp or lapsed:
            entry.location = subscriber.location
            entry.stamp = subscriber.stamp
            entry.heard = subscriber.heard

    def of_topic(self, topic: str, now: float) -> Iterator[Subscriber]:
        for (node, encoded), entry in self._by_topic.get(topic, {}).items():
            if entry.heard + self._timeout > now:
                yield Subscriber(node, encoded, entry.location, entry.stamp, entry.heard)

    def subscribers(self, event: Event, now: float) -> Iterator[tuple[int, Point]]:
        """Yield each subscriber that is to get the event, once, with its latest location."""
        latest: dict[int, _Entry] = {}
        for (node, _), entry in self._by_topic.get(event.topic or "", {}).items():
            if entry.heard + self._timeout > now and entry.subscription.accepts(event):
                known = latest.get(node)
                if known is None or known.stamp < entry.stamp:
                    latest[node] = entry
        for node, entry in latest.items():
            yield node, entry.location

    def expire(self, now: float) -> None:
        """Forget what was not refreshed in time."""
        oldest = now - self._timeout
        for key in [key for key, entry in self._entries.items() if entry.heard <= oldest]:
            topic = self._entries.pop(key).subscription.filter.topic
            self._bytes -= len(key[1])
            assert topic is not None
            of_topic = self._by_topic[topic]
            del of_topic[key]
            if not of_topic:
                del self._by_topic[topic]

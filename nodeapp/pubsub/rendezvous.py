"""Rendezvous nodes: decision points that are directories.

A publisher sends an advertisement of its topic to the rendezvous node every `refresh_interval`.
The rendezvous node answers each with the list of the subscriptions to that topic, keeping nothing
of it but its stamp: one that is older or comes twice is not answered, since the publisher is not
there any more.  It evaluates no content and no policy.  The publisher does: it sends its event
straight to each subscriber on its list that qualifies, by its id and the location on the list.
Under proximity selection the first node within K that an advertisement reaches answers it, and no
other.

What the paper leaves open:
  * Who is a publisher.  In the paper it is known from the start.  Here a node becomes a publisher
    of a topic when a client says that it is going to publish on it, or with its first event, and
    stays one for `publisher_timeout` after the last event (or after what the client said).
  * The list is soft state like all else.  Each entry tells how long ago the rendezvous node heard
    the subscriber, and ends at the publisher `subscription_timeout` after that, as it does at the
    rendezvous node.  Lists are merged, a subscriber's last refresh prevailing: what a node that
    has just become the rendezvous node does not know yet is not forgotten.
  * An event for which the publisher has no list newer than `subscription_timeout`, such as the
    first one, waits for the next, `list_wait` at most.  (Section 5 speaks of the time that the
    subscribers' locations take to the publisher "before an event can be sent".)  A list of several
    frames has come when all its parts have, in one answer or in several; if only some came while
    an event waited, it goes to those that they name in the end.

Source: docs/papers.md#six-schemes, sections 3.2.2 and 5.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.events import Event, fingerprint
from nodeapp.host import Host, Timer
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.decision_point import DecisionPoint, DecisionPointParameters
from nodeapp.pubsub.messages import (
    LIST_BYTES,
    TopicKind,
    decode_advertisement,
    decode_subscribers,
    encode_advertisement,
    encode_subscribers,
    issuer_of,
)
from nodeapp.pubsub.subscription_table import SubscriptionTable
from nodeapp.wire import Frame

MAX_WAITING: Final = 1024
"""Most events of one topic that wait for a list."""
MAX_LIST_BYTES: Final = 64 * LIST_BYTES
"""Most bytes of subscriptions that answer an advertisement; if there are more, the next answer goes
on where this one ended, as lists are merged."""
MAX_LIST_RATE: Final = 1000
"""Most frames of lists a second: a forged advertisement asks for many at the price of one."""
MAX_ADVERTISERS: Final = 65_536
"""Most publishers and topics whose last stamp is remembered, so that memory stays bounded."""
MAX_LISTS: Final = 4
"""Most lists of a topic whose parts a publisher collects at a time."""


@dataclass(frozen=True)
class RendezvousParameters(DecisionPointParameters):
    """Parameters of `Rendezvous`."""

    publisher_timeout: Annotated[
        float, Param("s that a publisher advertises after its last event", low=0.1, high=36_000)
    ] = 60.0
    list_wait: Annotated[
        float, Param("s that an event waits for a list of subscribers", low=0, high=3600)
    ] = 10.0


class _Advertised:
    """A topic of which this node is a publisher."""

    def __init__(self) -> None:
        self.until = 0.0
        self.listed = -math.inf
        """Since when all of a list is known: its oldest part came then."""
        self.heard = -math.inf
        """When the last part of a list came."""
        self._parts: dict[tuple[int, int], dict[int, float]] = {}
        """By rendezvous node and number of parts: when each came last."""
        self.waiting: dict[int, tuple[Event, Timer]] = {}
        """By fingerprint: events that wait for a list."""

    def hear(self, rendezvous: int, part: int, parts: int, now: float) -> None:
        """Take note of a part of a list."""
        come = self._parts.pop((rendezvous, parts), {})
        come[part] = self.heard = now
        self._parts[rendezvous, parts] = come
        if len(self._parts) > MAX_LISTS:
            del self._parts[next(iter(self._parts))]
        if len(come) == parts:
            self.listed = max(self.listed, min(come.values()))


class Rendezvous(DecisionPoint):
    """Subscriber, publisher and rendezvous node in one."""

    Parameters = RendezvousParameters

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self.arrivals[CommonKind.EVENT] = self.deliver
        self.arrivals[TopicKind.ADVERTISEMENT] = self._advertisement_arrived
        self.arrivals[TopicKind.SUBSCRIBERS] = self._subscribers_arrived
        self.listed = SubscriptionTable(parameters.subscription_timeout)
        """What rendezvous nodes told this node as a publisher."""
        self._advertised: dict[str, _Advertised] = {}
        self._list_second, self._list_frames, self._list_from = 0, 0, 0
        self._answered: dict[tuple[int, str], tuple[int, float]] = {}
        """By publisher and topic: the stamp of the last advertisement, and when it came."""

    # Publisher.

    def advertise(self, topic: str) -> None:
        super().advertise(topic)
        known = topic in self._advertised
        self._publishes(topic)
        if not known:
            self._advertise(topic)

    def _publishes(self, topic: str) -> _Advertised:
        advertised = self._advertised.setdefault(topic, _Advertised())
        advertised.until = self.host.now() + self.parameters.publisher_timeout
        return advertised

    def disseminate(self, event: Event) -> None:
        topic, now = event.topic, self.host.now()
        assert topic is not None
        advertised = self._publishes(topic)
        if advertised.listed + self.parameters.subscription_timeout > now:
            self._process(event)
            return
        if len(advertised.waiting) >= MAX_WAITING:
            self.counters["no list of subscribers"] += 1
            return
        key = fingerprint(event.publisher, event.sequence, event.encode())
        timer = self.host.call_later(self.parameters.list_wait, self._no_list, advertised, key, now)
        advertised.waiting[key] = event, timer
        if len(advertised.waiting) == 1:
            self._advertise(topic)

    def _no_list(self, advertised: _Advertised, key: int, since: float) -> None:
        event, _ = advertised.waiting.pop(key)
        if advertised.heard < since:
            self.counters["no list of subscribers"] += 1
            return
        self.counters["lists incomplete"] += 1
        self._process(event)

    def refresh(self) -> None:
        super().refresh()
        now = self.host.now()
        self.listed.expire(now)
        oldest = now - self.parameters.subscription_timeout
        for key in [key for key, (_, heard) in self._answered.items() if heard <= oldest]:
            del self._answered[key]
        for topic, advertised in list(self._advertised.items()):
            if advertised.until > now or advertised.waiting:
                self._advertise(topic)
            else:
                del self._advertised[topic]

    def _advertise(self, topic: str) -> None:
        body = encode_advertisement(topic, self.location(), self.stamps.next(self.host.now()))
        self.send_to_point(
            topic, Frame(TopicKind.ADVERTISEMENT, self.host.node_id, hops=0, body=body)
        )

    def _subscribers_arrived(self, frame: Frame) -> None:
        now = self.host.now()
        topic, part, parts, subscribers = decode_subscribers(frame.body, now)
        advertised = self._advertised.get(topic)
        if advertised is None:
            self.counters["lists not asked for"] += 1
            return
        for subscriber in subscribers:
            self.listed.store(subscriber)
        advertised.hear(frame.originator, part, parts, now)
        if advertised.listed + self.parameters.subscription_timeout > now:
            waiting = list(advertised.waiting.values())
            advertised.waiting.clear()
            for event, timer in waiting:
                timer.cancel()
                self._process(event)

    def _process(self, event: Event) -> None:
        self.counters["processed as publisher"] += 1
        self.send_to_subscribers(self.event_frame(event), event, self.listed)

    # Rendezvous node.

    def _advertisement_arrived(self, frame: Frame) -> None:
        topic, location, stamp = decode_advertisement(frame.body)
        now = self.host.now()
        if not self._is_news((issuer_of(frame), topic), stamp, now):
            self.counters["stale advertisements"] += 1
            return
        bodies = self._list(topic, now)
        if bodies is None:
            self.counters["lists held back"] += 1
            return
        self.counters["answered as rendezvous"] += 1
        for body in bodies:
            answer = Frame(
                TopicKind.SUBSCRIBERS, self.host.node_id, frame.originator, hops=0, body=body
            )
            self.router.send(answer, location)

    def _list(self, topic: str, now: float) -> list[bytes] | None:
        """Return the list of a topic's subscribers, in bodies of frames; None if it must wait."""
        if int(now) != self._list_second:
            self._list_second, self._list_frames = int(now), 0
        if self._list_frames >= MAX_LIST_RATE:
            return None
        subscribers = list(self.subscriptions.of_topic(topic, now))
        if sum(len(subscriber.subscription) for subscriber in subscribers) > MAX_LIST_BYTES:
            self.counters["lists cut"] += 1
            first = self._list_from % len(subscribers)
            subscribers = subscribers[first:] + subscribers[:first]
            sizes = itertools.accumulate(len(subscriber.subscription) for subscriber in subscribers)
            room = max(1, sum(size <= MAX_LIST_BYTES for size in sizes))
            self._list_from = first + room
            subscribers = subscribers[:room]
        bodies = list(encode_subscribers(topic, subscribers, now))
        self._list_frames += len(bodies)
        return bodies

    def _is_news(self, advertiser: tuple[int, str], stamp: int, now: float) -> bool:
        """Return whether an advertisement is newer than the last one, unless that has lapsed."""
        last, heard = self._answered.get(advertiser, (-1, -math.inf))
        if stamp <= last and heard + self.parameters.subscription_timeout > now:
            return False
        if advertiser in self._answered or len(self._answered) < MAX_ADVERTISERS:
            self._answered[advertiser] = stamp, now
        return True

    def status(self) -> dict[str, Any]:
        return super().status() | {"listed subscriptions": len(self.listed)}

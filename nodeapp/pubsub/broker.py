"""Brokers: decision points that evaluate events.

A publisher sends its events to the broker of their topic; the broker evaluates topic, content and
the event's access policy against every subscription it knows and sends the event to each
subscriber that qualifies, once, by its id and latest location.

Source: docs/papers.md#six-schemes, section 3.2.1.
"""

from __future__ import annotations

from typing import Any

from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.pubsub.base import Environment, EventIds
from nodeapp.pubsub.decision_point import DecisionPoint, DecisionPointParameters
from nodeapp.wire import ANY_NODE, Frame, Kind


class Broker(DecisionPoint):
    """Subscriber, publisher and broker in one."""

    Parameters = DecisionPointParameters

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        super().__init__(host, environment, parameters)
        self.arrivals[Kind.EVENT] = self._event_arrived
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

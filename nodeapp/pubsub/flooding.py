"""Flooding: every node rebroadcasts each event once.

The reference for delivery: nothing is configured and nothing can be out of date.  A rebroadcast
waits for a random time up to `max_jitter` (RFC 5148, 5.2), or neighbours that heard the same
transmission would answer it together.

Broadcasts are not acknowledged: where those of two hidden nodes collide, an event ends.  With
`repeat` every node sends each event several times, `REPEAT_AFTER` and a jitter apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment, EventIds, Service
from nodeapp.wire import BROADCAST, Frame

REPEAT_AFTER: Final = 0.05
"""Seconds between transmissions of an event at a node, at least."""


@dataclass(frozen=True)
class FloodingParameters:
    """Parameters of `Flooding`."""

    ttl: Annotated[int, Param("hops an event may travel", low=1, high=255)] = 64
    max_jitter: Annotated[float, Param("s before a rebroadcast, at most", low=0, high=10)] = 0.05
    repeat: Annotated[int, Param("times that a node sends an event", low=1, high=10)] = 1


class Flooding(Service):
    """Every node rebroadcasts each event once."""

    Parameters = FloodingParameters

    def __init__(
        self, host: Host, environment: Environment, parameters: FloodingParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self._parameters = parameters
        self._seen = EventIds()
        self.handlers[CommonKind.EVENT] = self._event_received

    def start(self) -> None:
        """Do nothing yet: the protocol acts on events alone."""

    def disseminate(self, event: Event) -> None:
        self._seen.add(event.publisher, event.sequence, event.encode(), self.host.now())
        frame = self.event_frame(event, ttl=self._parameters.ttl - 1, hops=1)
        self._send(frame.encode())

    def _event_received(self, frame: Frame, sender: int) -> None:
        if not self._seen.add(frame.publisher, frame.sequence, frame.body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver(frame)
        if frame.ttl == 0 or frame.hops == 255:
            self.counters["time to live used up"] += 1
            return
        delay = self.host.rng.uniform(0.0, self._parameters.max_jitter)
        self.host.call_later(delay, self._rebroadcast, frame)

    def _rebroadcast(self, frame: Frame) -> None:
        self.counters["rebroadcast"] += 1
        self._send(frame.forwarded().encode())

    def _send(self, datagram: bytes, number: int = 1) -> None:
        self.host.send(BROADCAST, datagram)
        if number < self._parameters.repeat:
            wait = REPEAT_AFTER + self.host.rng.uniform(0.0, self._parameters.max_jitter)
            self.host.call_later(wait, self._send, datagram, number + 1)

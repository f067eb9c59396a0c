"""The last hop: a broker that has an event for a client that should be near tries to reach it.

A client acknowledges every event.  While it does not, it may be between two access points, or still
at the one behind it, or on another path than it said, or its broker may have failed.  The broker
sends the event twice; then it works out where the client should be by now, and lets the broker
nearest to there try, and the next nearest ones in turn.  After some brokers it gives up; the
serving broker still has the event, for when the client reports.  Only if the client should have
arrived, and so has nothing to report, is it looked for again and again, unless it probes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from nodeapp.geometry import Point, squared_distance
from nodeapp.host import Host, Timer
from nodeapp.pubsub.mesh.broker_map import BrokerMap
from nodeapp.pubsub.mesh.messages import EventDelivery, SessionKey
from nodeapp.pubsub.mesh.relay import Relay
from nodeapp.wire import Frame

LOCAL_TRIES: Final = 2
"""How often one broker sends an event."""

PAUSE: Final = 10.0
"""Seconds until a client that stays and was not found is looked for once more."""

_Key = tuple[int, SessionKey, int]


@dataclass
class _Pending:
    frame: Frame
    delivery: EventDelivery
    came: float
    tries: int
    timer: Timer
    rounds: int = 0


class LastHop:
    """Delivers events to clients nearby."""

    def __init__(
        self,
        host: Host,
        broker_map: BrokerMap,
        relay: Relay,
        retry: float,
        tries: int,
        rounds: int,
        counters: Counter[str],
    ) -> None:
        """`rounds`: how often a client that stays and was not found is looked for once more."""
        self._host = host
        self._broker_map = broker_map
        self._relay = relay
        self._retry = retry
        self._tries = tries
        self._rounds = rounds
        self._counters = counters
        self._pending: dict[_Key, _Pending] = {}

    def deliver(self, frame: Frame, delivery: EventDelivery) -> None:
        """Send the client an event until it acknowledges."""
        key = frame.destination, delivery.session, delivery.event_index
        if key in self._pending:
            return
        timer = self._host.call_later(self._retry, self._again, key)
        self._pending[key] = _Pending(frame, delivery, self._host.now(), 1, timer)
        self._send(frame)

    def received(self, client: int, session: SessionKey, index: int) -> None:
        """Take a client's acknowledgement."""
        pending = self._pending.pop((client, session, index), None)
        if pending is not None:
            pending.timer.cancel()

    def _send(self, frame: Frame) -> None:
        copy = frame._replace(hops=min(frame.hops + 1, 255), ttl=0, route=b"")
        self._host.send(frame.destination, copy.encode())

    def _again(self, key: _Key) -> None:
        pending = self._pending[key]
        if pending.tries < LOCAL_TRIES:
            pending.tries += 1
            pending.timer = self._host.call_later(self._retry, self._again, key)
            self._counters["last hops repeated"] += 1
            self._send(pending.frame)
            return
        delivery = pending.delivery
        age = delivery.age + self._host.now() - pending.came
        status = delivery.status
        last = delivery.tries + 1 >= self._tries
        if status is not None and last and status.rests(age) and pending.rounds < self._rounds:
            # It is here somewhere and stays: no report is going to bring the event back.
            fresh = delivery._replace(tries=0, age=age)
            pending.delivery, pending.came = fresh, self._host.now()
            pending.rounds += 1
            pending.tries = 0
            pending.timer = self._host.call_later(PAUSE, self._again, key)
            return
        del self._pending[key]
        if status is None or last:
            self._counters["clients not found"] += 1
            return
        me = self._host.node_id
        target = self._next(status.position(age), delivery.tries)
        if target == me:
            self._counters["clients not found"] += 1
            return
        self._counters["clients looked for elsewhere"] += 1
        again = delivery._replace(tries=delivery.tries + 1, age=age)
        frame = pending.frame._replace(body=again.encode())
        self._relay.to_broker(frame, target)

    def _next(self, position: Point, tries: int) -> int:
        """Return who tries after `tries` others: the nearest, from there the next ones in turn."""
        me = self._host.node_id
        positions = self._broker_map.positions
        near = sorted(
            (me, *self._relay.neighbours.positions()),
            key=lambda node: (squared_distance(position, positions[node]), node),
        )
        return near[0] if near[0] != me else near[min(tries // 2 + 1, len(near) - 1)]

"""The host under the virtual clock: one node's view of a simulation.

While a real node reads a gpsd server, this one has the fixes that the server would report, at the
same rate, and carries them on along their velocity in the same way.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final

from emulation.network.gpsd import RATE
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.virtual.clock import Clock, VirtualTimer
from nodeapp.client_port import ClientTable
from nodeapp.events import Event
from nodeapp.host import Position
from nodeapp.pubsub.base import Service

REASSEMBLIES: Final = 64
"""Datagrams of which some fragments are here and others missing, before the oldest is given up."""


class VirtualHost:
    """A node: the `nodeapp.host.Host`; `index` is its index in the scenario's nodes.

    `send(host, to, datagram)` takes what it sends; `reports_links` says whether somebody will call
    `link_failed` for unicasts that were not acknowledged.
    """

    service: Service
    clients: ClientTable

    def __init__(
        self,
        scenario: Scenario,
        index: int,
        clock: Clock,
        send: Callable[[VirtualHost, int, bytes], None],
        reports_links: bool,
    ) -> None:
        spec: NodeSpec = scenario.nodes[index]
        self.index = index
        self.spec = spec
        self.counters: Counter[str] = Counter()
        self._protocol = scenario.protocol.name
        self._clock = clock
        self._send = send
        self._reports_links = reports_links
        self._node_id = spec.id
        self._rng = random.Random(f"{scenario.seed}/{spec.id}")
        self._times = [waypoint.time for waypoint in spec.waypoints]
        first = spec.waypoints[0]
        self._fix = self._position = Position(first.x, first.y)
        self._position_at = -1.0
        self._fixed_at = 0.0
        self._next_fix = 0.0 if len(self._times) > 1 else float("inf")
        self.link_failed: Callable[[int, bytes], None] | None = None
        self._fragments: OrderedDict[object, set[int]] = OrderedDict()

    @property
    def node_id(self) -> int:
        """This node."""
        return self._node_id

    @property
    def rng(self) -> random.Random:
        """Seeded from the scenario's seed and the node id, as a real node's."""
        return self._rng

    def now(self) -> float:
        """Seconds into the run."""
        return self._clock.now

    def position(self) -> Position:
        """The last fix, carried on along its velocity."""
        now = self._clock.now
        if now != self._position_at:
            self._position_at = now
            if now >= self._next_fix:
                self._take_fix(now)
            x, y, vx, vy = self._position = self._fix
            if vx or vy:
                age = now - self._fixed_at
                self._position = Position(x + vx * age, y + vy * age, vx, vy)
        return self._position

    def _take_fix(self, now: float) -> None:
        number = int(now * RATE)
        time = self._fixed_at = number / RATE
        self._next_fix = (number + 1) / RATE
        waypoints = self.spec.waypoints
        leg = bisect_right(self._times, time)
        if leg == len(waypoints):
            _, x, y = waypoints[-1]
            self._fix = Position(x, y)
            self._next_fix = float("inf")
        elif leg == 0:
            _, x, y = waypoints[0]
            self._fix = Position(x, y)
        else:
            (t0, x0, y0), (t1, x1, y1) = waypoints[leg - 1], waypoints[leg]
            vx, vy = (x1 - x0) / (t1 - t0), (y1 - y0) / (t1 - t0)
            self._fix = Position(x0 + vx * (time - t0), y0 + vy * (time - t0), vx, vy)

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call back when the clock says so."""
        timer = self._clock.call_later(delay, callback, *args)
        timer.owner = self
        return timer

    def send(self, to: int, datagram: bytes) -> None:
        """Send over the radio."""
        self._send(self, to, datagram)

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        """Be told by the channel, if it can tell."""
        self.link_failed = failed
        return self._reports_links

    def notify(self, event: Event, hops: int) -> None:
        """Hand an event to the local clients that want it."""
        self.clients.notify(event, hops)

    def complete(self, message: object, fragment: int, count: int) -> bool:
        """Take fragment number `fragment` of a message; return whether it is whole now."""
        waiting = self._fragments
        here = waiting.setdefault(message, set())
        here.add(fragment)
        if len(here) < count:
            if len(waiting) > REASSEMBLIES:
                waiting.popitem(last=False)
            return False
        del waiting[message]
        return True

    def about(self) -> dict[str, Any]:
        """Return what STATUS tells of the host."""
        x, y, vx, vy = (round(value, 3) for value in self.position())
        return {
            "node": self.node_id,
            "protocol": self._protocol,
            "position": [x, y],
            "velocity": [vx, vy],
            "host counters": dict(self.counters),
        }

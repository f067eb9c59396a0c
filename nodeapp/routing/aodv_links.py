"""AODV's local connectivity: hellos, and the silence of neighbours (RFC 3561, section 6.9).

A UDP socket is not told that a frame was not acknowledged, so a broken link shows only by silence:
nodes on an active route broadcast a HELLO after each HELLO_INTERVAL without another broadcast, and
a neighbour not heard for ALLOWED_HELLO_LOSS intervals, as long as they may last, is lost.  "On an
active route" is a node that handled data frames or replies within the lifetime of their routes; the
RFC's definition (a valid route in the table) would include the routes that hellos make, and nobody
would ever fall silent.
As a frame makes its next hop say hello, silence counts from the first frame that is sent to a
neighbour, not only from its first hello; and a node that leaves the active routes says so by a last
hello of lifetime 0, so that its silence does not break routes that nobody uses just then.

A lost link swallows frames for up to ALLOWED_HELLO_LOSS intervals; and hellos and requests, short
and at the lowest rate, are heard from farther away than data frames are, so that routes over links
that carry hellos but few frames stay (the grey zone of Lundgren, Nordstrom and Tschudin; their
remedies need the signal strength, or hellos from all nodes before a route is wanted).  If the link
layer reports frames that were not acknowledged (`link_feedback`), there are no hellos: the first
such frame breaks a link, and its originator sends it over another route.

Sources: docs/papers.md#aodv, docs/papers.md#grey-zones.
"""

from __future__ import annotations

import math
from typing import Final

from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.wire import BROADCAST, Frame

HELLO_JITTER: Final = 0.05
"""Greatest share of HELLO_INTERVAL by which hellos come late.

Without it, neighbours whose hellos have collided once would collide again; and as a hello is due
only after a whole interval without a broadcast (6.9), it cannot come early.
"""


MAX_HEARD: Final = 1024
"""Most neighbours whose hellos count: any id can be claimed on the air.  Those to which frames
are sent count too; there are no more of them than routes."""


class LinkMonitor:
    """The links of one node: says hello on its own side, and tells which neighbours are silent."""

    def __init__(self, host: Host, parameters: AodvParameters) -> None:
        self._host = host
        self._interval = parameters.hello_interval
        self._lifetime = parameters.hello_lifetime
        self._silence = parameters.hello_lifetime * (1.0 + HELLO_JITTER)
        self._lost_at: dict[int, float] = {}  # neighbour: when it will have been silent too long
        self._active_until = -math.inf
        self._last_broadcast = -math.inf
        self._says_hello = False
        self._needs_hellos = True

    def rely_on_feedback(self) -> None:
        """Send no hellos and count no silence: the link layer reports broken links."""
        self._needs_hellos = False
        self._silence = math.inf

    def on_active_route(self, until: float) -> None:
        """Note that this node is on an active route for some time."""
        if until > self._active_until:
            self._active_until = until

    def used(self, neighbour: int, now: float) -> None:
        """Note that a frame is sent to a neighbour: from now on its silence counts."""
        if neighbour not in self._lost_at:
            self._lost_at[neighbour] = now + self._silence

    def heard(self, neighbour: int, now: float) -> None:
        """Note that a neighbour was heard; its silence, if it counts, begins again."""
        if neighbour in self._lost_at:
            self._lost_at[neighbour] = now + self._silence

    def hello_heard(self, neighbour: int, lifetime: float, now: float) -> float:
        """Note a hello; return the seconds for which it lets this node rely on the link, or 0.

        A `lifetime` of 0 takes leave: the neighbour's silence does not count any more.
        """
        if lifetime == 0.0:
            self._lost_at.pop(neighbour, None)
            return 0.0
        if len(self._lost_at) >= MAX_HEARD and neighbour not in self._lost_at:
            return 0.0
        self._lost_at[neighbour] = now + self._silence
        return min(lifetime * (1.0 + HELLO_JITTER), self._silence)

    def is_lost(self, neighbour: int, now: float) -> bool:
        """Return whether a neighbour has been silent for too long."""
        return self._lost_at.get(neighbour, math.inf) <= now

    def lost(self, now: float) -> list[int]:
        """Return the neighbours that have been silent for too long."""
        return [neighbour for neighbour, time in self._lost_at.items() if time <= now]

    def forget(self, neighbour: int) -> None:
        """Forget a neighbour whose link is broken."""
        self._lost_at.pop(neighbour, None)

    def broadcast(self, frame: Frame) -> None:
        """Broadcast a frame, which is as good as a hello."""
        self._last_broadcast = self._host.now()
        self._host.send(BROADCAST, frame.encode())

    def say_hello(self, sequence: int, now: float) -> float:
        """Say hello if it is due; return the seconds until it may be due again.

        It is due on an active route after an interval without a broadcast, and once when this node
        has left the active routes.
        """
        late = self._interval * self._host.rng.uniform(0.0, HELLO_JITTER)
        wait = self._last_broadcast + self._interval - now
        if wait > 0.0:
            return wait + late
        active = now < self._active_until and self._needs_hellos
        if active or self._says_hello:
            hello = aodv_wire.Hello(sequence, self._lifetime if active else 0.0)
            self.broadcast(Frame(CommonKind.HELLO, self._host.node_id, body=hello.encode()))
            self._says_hello = active
        return self._interval + late

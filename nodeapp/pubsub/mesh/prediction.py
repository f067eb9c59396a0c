"""Where a client is going to be: its mobility status, and Algorithm 1 of the paper.

A client reports <C, D, V, P, R>: where it is, its next destination, its velocity, the pause there,
and what remains of the pause here (section IV.A).  It stays for R, goes straight to D and stays.

Algorithm 1 (figure 2) picks the broker to which an event is sent: the first on the client's path,
from the cell where the client is now, in whose cell the client is by the time the event gets there.
Comments give the line that code implements.  Three things in it are inconsistent and are read as
they must be meant:

  * Its input lists D before C, and its line 6.2 speaks of `index` for i.
  * The loop runs to G_No, the number of cells, and indices start from 0: to G_No - 1.
  * If no cell on the path fits (hops slower than the client), GID stays unset: D_GID here.

T' is i times the delay of a hop, from the broker whose cell the path begins in: the serving broker.

Source: docs/papers.md#mesh-prediction, sections IV.A and IV.B.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import NamedTuple

from nodeapp.geometry import Point
from nodeapp.pubsub.mesh.broker_map import BrokerMap, Passage


class ClientStatus(NamedTuple):
    """A mobility status: C, D (metres), V (m/s), P and R (s)."""

    current: Point
    destination: Point
    velocity: float
    pause: float
    remaining: float

    @property
    def moving_time(self) -> float:
        """Seconds between leaving C and reaching D; 0 if the client stays."""
        return math.dist(self.current, self.destination) / self.velocity if self.velocity else 0.0

    @property
    def moves(self) -> bool:
        """Whether the client is going to be elsewhere."""
        return self.velocity > 0 and self.current != self.destination

    def share(self, time: float) -> float:
        """Return the share of the path behind the client `time` seconds after the report."""
        needs = self.moving_time
        if needs <= 0.0:
            return 0.0
        return min(max((time - self.remaining) / needs, 0.0), 1.0)

    def rests(self, time: float) -> bool:
        """Return whether the client stays where it is from then on, as far as is known."""
        return not self.moves or self.share(time) >= 1.0

    def position(self, time: float) -> Point:
        """Return where the client is `time` seconds after the report, if it keeps to it."""
        share = self.share(time)
        (x, y), (dx, dy) = self.current, self.destination
        return x + share * (dx - x), y + share * (dy - y)


class PredictedPath:
    """A client's path through the cells, according to its status."""

    def __init__(self, broker_map: BrokerMap, status: ClientStatus) -> None:
        self.status = status
        self._broker_map = broker_map
        self._passages: list[Passage] | None = None
        self._enters: list[float] = []

    @property
    def passages(self) -> list[Passage]:
        """The cells in order, worked out when they are first needed."""
        if self._passages is None:
            status = self.status
            end = status.destination if status.moves else status.current
            self._passages = self._broker_map.way(status.current, end)  # lines 2 and 3
            self._enters = [passage.enters for passage in self._passages]
        return self._passages

    def _index(self, time: float) -> int:
        """Return the index of the cell in which the client is `time` s after its report."""
        passages = self.passages
        return min(bisect_right(self._enters, self.status.share(time)), len(passages)) - 1

    def forwarding_broker(self, time: float, delay: float) -> int:
        """Return GID, the broker to which an event goes `time` (T) s after the last report.

        `delay` is that of a hop between neighbours, seconds.
        """
        status = self.status
        distance = math.dist(status.current, status.destination)  # line 1
        g_array = self.passages  # lines 2 and 3
        current = self._index(time)  # line 4
        d_gid = g_array[-1].broker  # line 5
        arrives = distance / status.velocity if status.moves else 0.0
        if arrives + status.remaining + status.pause < time:  # line 6
            return d_gid  # line 6.1
        for index in range(current, len(g_array)):  # line 6.2
            ahead = index * delay  # T'
            if self._index(time + ahead) == index:  # pos' is in the cell with this index
                return g_array[index].broker
        return d_gid

"""AODV's local repair: an intermediate node mends a route that broke beyond it (RFC 3561, 6.12).

If the destination of a broken route was no more than MAX_REPAIR_TTL hops away and neighbours send
frames over the route, they are not told: the route is invalid, but marked as repairable for as long
as it would have been valid, and keeps its precursors.  The first frame of another node that comes
for the destination meanwhile waits, and a request is sent whose TTL is the hops that the
destination was away, or half of those that the frame's originator is, and LOCAL_ADD_TTL.  As the
route's sequence number was raised when it became invalid, only a route is taken that does not lead
back here.  Further frames wait with the first one.

If the search finds a route that is longer than the broken one was, precursors are told so by a
ROUTE_ERROR with the N flag, which costs nobody a route.  If it finds none, they are told what they
would have been told at first.

ns-2 decides by the frame (`repair_one`): only if that has come farther than it had still to go is
its route repaired, else all routes over the link are given up.  The route stays as it is, and is
offered to others, while frames for it wait for an ordinary search; if that fails nobody is told.
The route ends when as much time has passed again as before (its timer takes a time of day for a
delay).

Source: docs/papers.md#aodv.
"""

from __future__ import annotations

from collections import Counter

from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_errors import ErrorSender
from nodeapp.routing.aodv_parameters import LOCAL_ADD_TTL, AodvParameters
from nodeapp.routing.aodv_search import Searches
from nodeapp.routing.aodv_table import AodvRoute, RouteTable
from nodeapp.wire import Frame


class Repairs:
    """The repairs of one node."""

    def __init__(
        self,
        me: int,
        born: float,
        parameters: AodvParameters,
        table: RouteTable,
        searches: Searches,
        errors: ErrorSender,
        counters: Counter[str],
    ) -> None:
        self._me = me
        self._born = born
        self._parameters = parameters
        self._table = table
        self._searches = searches
        self._errors = errors
        self._counters = counters
        self._before: dict[int, int] = {}  # destination under repair: hops of the broken route

    def hops_of_link(self) -> int:
        """Return up to how many hops routes over a broken link are repairable."""
        parameters = self._parameters
        if not parameters.local_repair or parameters.repair_one:
            return 0
        return parameters.repair_hops

    def _travelled(self, frame: Frame) -> int:
        """Return the hops from a frame's originator to here."""
        return self._parameters.net_diameter - frame.ttl

    def take_alone(self, received: Frame, frame: Frame, now: float) -> bool:
        """Let a frame that was not acknowledged wait, and repair its route alone (ns-2).

        `received` is the frame as it was received here.
        """
        if not (self._parameters.repair_one and self._parameters.local_repair):
            return False
        route = self._table.valid(frame.destination, now)
        if route is None or received.originator == self._me:
            return False
        if self._travelled(received) <= route.hops:
            return False
        if not route.in_repair:
            route.in_repair = True
            route.expires = now + max(now - self._born, 1.0)
        self._searches.add(frame)
        return True

    def take_back(self, frame: Frame, now: float) -> None:
        """Let a frame that was not acknowledged wait for a repair, or tell of its route's end."""
        if not self.take(frame, None, now) and frame.destination not in self._searches:
            self.failed(frame.destination, now)

    def take(self, frame: Frame, sender: int | None, now: float) -> bool:
        """Let a frame that `sender` forwarded here wait for a repair, if there may be one."""
        destination = frame.destination
        route = self._table.known(destination, now)
        if route is None or route.valid or route.repairable <= now:
            return False
        if destination not in self._searches:
            self._before[destination] = route.hops
        if sender is not None:
            route.precursors.add(sender)
        ttl = max(route.hops, self._travelled(frame) // 2) + LOCAL_ADD_TTL
        self._searches.repair(frame, ttl)
        return True

    def done(self, destination: int, route: AodvRoute, now: float) -> None:
        """Tell the precursors of a route that was repaired if it is longer than it was."""
        before = self._before.pop(destination, None)
        if before is None:
            return
        self._counters["repaired"] += 1
        precursors = route.precursors - {route.next_hop}
        if route.hops > before and precursors and route.known:
            longer = [(destination, route.sequence)]
            self._errors.send(longer, precursors, now, aodv_wire.NO_DELETE)

    def longer(self, repaired: list[tuple[int, int]], sender: int, now: float) -> None:
        """Tell the precursors of routes over `sender` that these were repaired, and are longer.

        The routes stay as they are.
        """
        onward = []
        affected: set[int] = set()
        for destination, sequence in repaired:
            route = self._table.valid(destination, now)
            if route is not None and route.next_hop == sender:
                self._counters["longer ways"] += 1
                if route.precursors:
                    onward.append((destination, sequence))
                    affected |= route.precursors
        if onward:
            self._errors.send(onward, affected, now, aodv_wire.NO_DELETE)

    def failed(self, destination: int, now: float) -> None:
        """Tell the precursors of a route that could not be repaired."""
        self._before.pop(destination, None)
        route = self._table.known(destination, now)
        if route is None or route.valid or not route.repairable:
            return
        precursors, route.precursors, route.repairable = route.precursors, set(), 0.0
        self._errors.tell([(destination, route, precursors)], now)

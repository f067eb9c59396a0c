"""AODV's route errors on their way out: whom to tell, and how often (RFC 3561, section 6.11).

Source: docs/papers.md#aodv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from nodeapp.host import Host
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_search import RateLimit
from nodeapp.routing.aodv_table import AodvRoute
from nodeapp.wire import BROADCAST, Frame, Kind


class ErrorSender:
    """Sends the ROUTE_ERRORs of one node, `ratelimit` a second; `broadcast` sends to all."""

    def __init__(
        self,
        host: Host,
        ratelimit: int,
        counters: Counter[str],
        broadcast: Callable[[Frame], None],
    ) -> None:
        self._host = host
        self._limit = RateLimit(ratelimit)
        self._counters = counters
        self._broadcast = broadcast

    def tell(self, broken: Iterable[tuple[int, AodvRoute, set[int]]], now: float) -> None:
        """Tell the precursors of routes, given by destination, that they are broken."""
        unreachable = []
        affected: set[int] = set()
        for destination, route, precursors in broken:
            if precursors:
                unreachable.append((destination, route.sequence if route.known else 0))
                affected |= precursors
        if unreachable:
            self.send(unreachable, affected, now)

    def send(
        self,
        unreachable: Iterable[tuple[int, int]],
        neighbours: set[int],
        now: float,
        flags: int = 0,
    ) -> None:
        """Tell neighbours which destinations, with their sequence numbers, are unreachable.

        With the flag NO_DELETE, that the way there has become longer.
        """
        if self._limit.wait(now) > 0.0:
            self._counters["route errors held back"] += 1
            return
        self._counters["route errors"] += 1
        to = next(iter(neighbours)) if len(neighbours) == 1 else BROADCAST
        for body in aodv_wire.encode_errors(unreachable, flags):
            frame = Frame(Kind.ROUTE_ERROR, self._host.node_id, to, body=body)
            if to == BROADCAST:
                self._broadcast(frame)
            else:
                self._host.send(to, frame.encode())

"""AODV's route errors on their way out: whom to tell, and how often (RFC 3561, section 6.11).

What RERR_RATELIMIT holds back is sent as soon as it allows, together, if it is still true then:
the precursors of a broken route are forgotten with it, so that nobody would be told later.  ns-2
(`errors_to=all`) broadcasts every error; those that it passes on wait for a random time.

Source: docs/papers.md#aodv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from nodeapp.host import Host, Timer
from nodeapp.routing import aodv_wire
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_search import RateLimit
from nodeapp.routing.aodv_table import AodvRoute, RouteTable
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import BROADCAST, Frame


class ErrorSender:
    """Sends the ROUTE_ERRORs of one node; `broadcast` sends to all."""

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        table: RouteTable,
        counters: Counter[str],
        broadcast: Callable[[Frame], None],
    ) -> None:
        self._host = host
        self._table = table
        self._limit = RateLimit(parameters.rerr_ratelimit)
        self._counters = counters
        self._broadcast = broadcast
        self._to_all = parameters.errors_to == "all"
        self._jitter = parameters.jitter
        self._held: dict[int, int] = {}  # destination: its sequence number
        self._held_for: set[int] = set()
        self._timer: Timer | None = None

    def tell(
        self,
        broken: Iterable[tuple[int, AodvRoute, set[int]]],
        now: float,
        *,
        own: bool = False,
    ) -> None:
        """Tell the precursors of routes, given by destination, that they are broken.

        `own` if a link of this node broke.
        """
        unreachable = []
        affected: set[int] = set()
        for destination, route, precursors in broken:
            if precursors or (own and self._to_all):
                unreachable.append((destination, route.sequence if route.known else 0))
                affected |= precursors
        if not unreachable:
            return
        if self._to_all and not own:
            delay = self._host.rng.uniform(0.0, self._jitter)
            self._host.call_later(delay, self._send, unreachable, affected, 0)
        else:
            self.send(unreachable, affected, now)

    def send(
        self,
        unreachable: list[tuple[int, int]],
        neighbours: set[int],
        now: float,
        flags: int = 0,
    ) -> None:
        """Tell neighbours which destinations, with their sequence numbers, are unreachable.

        With the flag NO_DELETE, that the route there has become longer, which may go untold.
        """
        wait = self._limit.wait(now)
        if wait > 0.0:
            self._counters["route errors held back"] += 1
            if not flags:
                self._held.update(unreachable)
                self._held_for |= neighbours
                if self._timer is None:
                    self._timer = self._host.call_later(wait, self._send_held)
            return
        self._send(unreachable, neighbours, flags)

    def _send_held(self) -> None:
        """Send what was held back, of destinations that are still unreachable."""
        now = self._host.now()
        unreachable = [
            (destination, sequence)
            for destination, sequence in self._held.items()
            if self._table.valid(destination, now) is None
        ]
        neighbours = self._held_for
        self._held, self._held_for, self._timer = {}, set(), None
        if unreachable:
            self.send(unreachable, neighbours, now)

    def _send(self, unreachable: list[tuple[int, int]], neighbours: set[int], flags: int) -> None:
        self._counters["route errors"] += 1
        alone = len(neighbours) == 1 and not self._to_all
        to = next(iter(neighbours)) if alone else BROADCAST
        for body in aodv_wire.encode_errors(unreachable, flags):
            frame = Frame(AodvKind.ROUTE_ERROR, self._host.node_id, to, body=body)
            if to == BROADCAST:
                self._broadcast(frame)
            else:
                self._host.send(to, frame.encode())

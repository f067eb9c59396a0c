"""AODV's route table and its rules for sequence numbers (RFC 3561, sections 6.1, 6.2 and 6.11).

The rules are what keeps routes free of loops, and the RFC can be read so that they do not (van
Glabbeek et al. 2013).  They are read here so that what the proof of Fehnker et al. rests on holds:
the net sequence number of a route, which is its sequence number while it is valid and one less
while it is not, never decreases.  Along a path to a destination the net sequence number then never
falls, and if it stays the same the hop count falls, or the path ends at a route that is not valid.
It follows that
  * a node has no route to itself;
  * a route is replaced by one with a newer number, by one with the same number and fewer hops, or
    if it is invalid by one with the same number (6.2); a request is no exception to that (6.5
    may be read to say so);
  * a route that becomes invalid, by expiry as well as by a broken link, gets the number after its
    own, and if a ROUTE_ERROR says so (case iii) the newer of that and the error's;
  * a neighbour heard directly has a route of one hop, also if the table had another.  A message
    without its sequence number leaves the number as it was before the route became invalid.  So no
    route has a number its destination has not had, no invalid one more than the next, and the
    destination's next request is newer than anything that others have of it.

These rules are for numbers of one count.  Two that are more than `LEAP` apart are not: their node
has started again, with another clock, or a stranger has made one of them up.  No comparison tells
which, so the last that is heard is taken, and a forged number lasts until the next message of its
node.  A smaller forged one is overtaken by the node itself, which goes above it when it hears of it
(6.1); if it does not, its requests are taken as they are after `DELETE_PERIOD` in which an invalid
route was newer than every one of them.

There are no timers: a route is looked at when it is used.  An invalid route is kept, as 6.4 allows,
beyond DELETE_PERIOD.  The RFC takes that for the longest time that a neighbour can go on sending
frames over a route that is invalid here, but if hellos pass and frames do not (a grey zone) a
neighbour that goes on sending keeps its route alive without ever being told: a node that forgot
the sequence number would take that neighbour's route, which leads back to it.  Numbers are
forgotten `FORGOTTEN` after the route, or DELETE_PERIOD after it when the table fills up.

Sources: docs/papers.md#aodv, docs/papers.md#aodv-loops, docs/papers.md#aodv-proof.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from nodeapp.routing.aodv_ns2 import NEVER_BROKEN

MASK: Final = 0xFFFFFFFF
MAX_ROUTES: Final = 16_384
"""Most destinations in the table: any id can be claimed on the air."""
LEAP: Final = 2**20
"""How far apart two sequence numbers of one count may be: a node counts 10 a second, the clock from
which it begins again 100 a second, which makes three hours."""
REACH: Final = 4 * LEAP
"""How far a node goes above its own number when others ask for a newer one.  They refuse numbers up
to `LEAP` before the one they ask for, and what an intermediate node offers may be made up, too."""
MAX_AHEAD: Final = 2**30
"""How far ahead of that of a valid route a number may be, whatever its count: 124 days at 100 a
second, by which a node that restarts may be ahead."""
FORGOTTEN: Final = 3600.0
"""Seconds after which nobody can still rely on an invalid route."""
CROWDED: Final = MAX_ROUTES // 2
"""Destinations above which what has been invalid for DELETE_PERIOD is forgotten."""


def newer(one: int, other: int) -> bool:
    """Return whether sequence number `one` is after `other`, in signed 32-bit arithmetic (6.1)."""
    return 0 < (one - other) & MASK < 0x80000000


def ahead(one: int, other: int) -> int:
    """Return by how much sequence number `one` is after `other`; negative if it is before it."""
    return ((one - other + 0x80000000) & MASK) - 0x80000000


def is_reached(one: int, other: int) -> bool:
    """Return whether a node whose own sequence number is `other` goes up to `one` if asked to."""
    return 0 < ahead(one, other) <= REACH


def following(sequence: int) -> int:
    """Return the sequence number after one."""
    return (sequence + 1) & MASK


def raised(own: int, other: int) -> int:
    """Return a node's `own` sequence number when others say that it has an `other` one (6.1).

    They have the next one if they know a broken route.  A higher one is made up, or from before a
    restart; the node goes on from there, or what it says would be old for them.
    """
    return other if is_reached(other, following(own)) else own


class AodvRoute:
    """A route table entry (section 2).

    `expires`: when it becomes invalid, or if it is invalid, when it may be forgotten.
    `sequence` means nothing unless `known`.  Its `hops` outlive it: the next search begins there.
    `repairable`: until when an invalid route may be repaired (6.12); until then it has precursors.
    `in_repair`: whether frames wait for it, though others may use it (ns-2's local repair).
    `last_hops`: its hops when it broke last.
    `doubted`: since when all requests of its destination are older than an invalid route is.
    """

    __slots__ = (
        *("doubted", "expires", "hops", "in_repair", "known", "last_hops", "next_hop"),
        *("precursors", "repairable", "sequence", "valid"),
    )

    def __init__(self, sequence: int | None, hops: int, next_hop: int, expires: float) -> None:
        self.known = sequence is not None
        self.sequence = sequence or 0
        self.hops = hops
        self.next_hop = next_hop
        self.expires = expires
        self.valid = True
        self.in_repair = False
        self.last_hops = NEVER_BROKEN
        self.repairable = 0.0
        self.doubted = math.inf
        self.precursors: set[int] = set()

    def extend(self, expires: float) -> None:
        """Let a valid route expire no earlier than `expires`."""
        if expires > self.expires:
            self.expires = expires


class RouteTable:
    """The routes of one node, by destination; it is never asked to learn one to itself.

    It forgets only when it has more than `crowded` of them.
    """

    def __init__(self, delete_period: float, crowded: int = CROWDED) -> None:
        self._crowded = crowded
        self._routes: dict[int, AodvRoute] = {}
        self._delete_period = delete_period

    def __len__(self) -> int:
        return len(self._routes)

    def items(self) -> Iterable[tuple[int, AodvRoute]]:
        """Return all destinations and their routes, up to date or not."""
        return self._routes.items()

    def known(self, destination: int, now: float) -> AodvRoute | None:
        """Return the route to a destination, valid or not."""
        route = self._routes.get(destination)
        if route is not None and route.valid and route.expires <= now:
            self._invalidate(route, route.expires)
        return route

    def valid(self, destination: int, now: float) -> AodvRoute | None:
        route = self._routes.get(destination)
        if route is None:
            return None
        if route.expires <= now:
            route = self.known(destination, now)
        return route if route is not None and route.valid else None

    def extend(self, destination: int, next_hop: int, now: float, expires: float) -> bool:
        """Let a valid route over `next_hop` expire no earlier than `expires`, if there is one."""
        route = self._routes.get(destination)
        if route is None or not route.valid or route.next_hop != next_hop or route.expires <= now:
            return False
        if expires > route.expires:
            route.expires = expires
        return True

    def learn(
        self,
        destination: int,
        sequence: int,
        hops: int,
        next_hop: int,
        now: float,
        expires: float,
        *,
        own: bool = False,
    ) -> bool:
        """Take a route on offer; return whether it was better than the one known (6.2).

        `own`: the number is the one that the destination has now, not that of a route.
        """
        route = self.known(destination, now)
        if route is None:
            return self._add(destination, AodvRoute(sequence, hops, next_hop, expires))
        if route.known and not self._is_better(route, sequence, hops, own, now):
            return False
        if not route.valid:
            self._revive(route, now)
        route.known, route.sequence, route.hops = True, sequence, hops
        route.next_hop, route.valid, route.expires = next_hop, True, expires
        route.in_repair = False
        return True

    def _is_better(self, route: AodvRoute, sequence: int, hops: int, own: bool, now: float) -> bool:
        by = ahead(sequence, route.sequence)
        if abs(by) > LEAP:
            return not route.valid or by <= MAX_AHEAD
        if by >= 0:
            return by > 0 or not route.valid or hops < route.hops
        if not own or route.valid:
            return False
        route.doubted = min(route.doubted, now)
        return now - route.doubted >= self._delete_period

    def learn_neighbour(
        self, neighbour: int, sequence: int | None, now: float, expires: float
    ) -> None:
        """Note that a neighbour was heard, with its own sequence number if it gave that."""
        route = self.known(neighbour, now)
        if route is None:
            self._add(neighbour, AodvRoute(sequence, 1, neighbour, expires))
            return
        if not route.valid:
            if route.known:
                route.sequence = (route.sequence - 1) & MASK
            self._revive(route, now)
            route.expires = expires
        route.extend(expires)
        route.hops, route.next_hop = 1, neighbour
        if sequence is not None and route.known and abs(ahead(sequence, route.sequence)) > LEAP:
            route.sequence = sequence
        self._take_number(route, sequence)

    def _add(self, destination: int, route: AodvRoute) -> bool:
        if len(self._routes) >= MAX_ROUTES:
            return False
        self._routes[destination] = route
        return True

    def over(self, neighbours: Collection[int]) -> dict[int, list[int]]:
        """Return the destinations of the routes over each of some neighbours."""
        by_neighbour: dict[int, list[int]] = {neighbour: [] for neighbour in neighbours}
        for destination, route in self._routes.items():
            if route.next_hop in by_neighbour:
                by_neighbour[route.next_hop].append(destination)
        return by_neighbour

    def break_link(
        self,
        neighbour: int,
        now: float,
        repairable_hops: int = 0,
        over: Iterable[int] | None = None,
    ) -> list[tuple[int, AodvRoute, set[int]]]:
        """Make all routes over a lost neighbour invalid; return them with their precursors.

        Those that others use and that have no more than `repairable_hops` are repairable instead
        for as long as they would have lasted, and not returned.  `over` are the destinations of the
        routes over it, if they are known already.
        """
        broken = []
        for destination in self.over({neighbour})[neighbour] if over is None else over:
            route = self.valid(destination, now)
            if route is None:
                continue
            precursors, lasts = route.precursors, route.expires
            self._invalidate(route, now)
            if precursors and route.hops <= repairable_hops:
                route.precursors, route.repairable = precursors, lasts
            else:
                broken.append((destination, route, precursors))
        return broken

    def break_route(
        self, destination: int, next_hop: int, sequence: int | None, now: float
    ) -> tuple[AodvRoute, set[int]] | None:
        """Make a route over `next_hop` invalid, as that reported with the sequence number given.

        Returns the route and its precursors, None if there is no such route.
        """
        route = self.valid(destination, now)
        if route is None or route.next_hop != next_hop:
            return None
        precursors = route.precursors
        self._invalidate(route, now)
        self._take_number(route, sequence)
        return route, precursors

    @staticmethod
    def _take_number(route: AodvRoute, sequence: int | None) -> None:
        """Take a sequence number that was reported, unless the route's own is newer."""
        if sequence is None:
            return
        if not route.known or 0 < ahead(sequence, route.sequence) <= LEAP:
            route.known, route.sequence = True, sequence

    @staticmethod
    def _revive(route: AodvRoute, now: float) -> None:
        route.valid, route.doubted = True, math.inf
        if route.repairable <= now:
            route.precursors = set()
        route.repairable = 0.0

    def _invalidate(self, route: AodvRoute, when: float) -> None:
        if route.known:
            route.sequence = following(route.sequence)
        route.valid = route.in_repair = False
        route.last_hops = route.hops
        route.expires = when + self._delete_period
        route.precursors = set()

    def keep(self, route: AodvRoute, now: float) -> None:
        """Keep an invalid route for another DELETE_PERIOD: a neighbour still relies on it."""
        route.expires = now + self._delete_period

    def expire(self, now: float) -> None:
        """Forget what has been invalid for `FORGOTTEN`; DELETE_PERIOD if the table is crowded."""
        crowded = len(self._routes) > self._crowded
        before = now if crowded else now - (FORGOTTEN - self._delete_period)
        for destination in [d for d, route in self._routes.items() if route.expires <= before]:
            route = self._routes[destination]
            if route.valid:
                self._invalidate(route, route.expires)
            if route.expires <= before:
                del self._routes[destination]

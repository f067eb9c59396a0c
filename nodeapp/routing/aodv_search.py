"""AODV's searches for routes, and the frames that wait for them (RFC 3561, sections 6.3 and 6.4).

A search sends requests of growing TTL: TTL_START, or the hops of the last known route and
TTL_INCREMENT more; then steps of TTL_INCREMENT up to TTL_THRESHOLD, each with RING_TRAVERSAL_TIME
to be answered; then NET_DIAMETER, once and RREQ_RETRIES times more.  The last ones wait for
NET_TRAVERSAL_TIME, and twice as long as the one before (binary exponential backoff).  Frames that
wait for a destination that is not found are dropped.

A repair (6.12, `aodv_repair`) is a search with one ring of its own.  If a frame of this node's own
comes to wait for the same destination, the search goes on after the repair has failed.

One buffer holds the frames for all destinations; when it is full the oldest is dropped.  A frame
whose key (`replaces`) is that of a frame that waits takes its place: it has newer data.

ns-2's rules are options: with `adaptive_timeout` a request waits for 2 TTL times what a hop took in
the last searches for that destination, times the requests through the whole network so far, and
what has waited long enough is looked for each `CHECK_INTERVAL` or when the next frame comes; after
a search that failed there is no other for `max_rreq_timeout`; frames wait for `buffer_timeout`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Any, Final

from nodeapp.host import Host, Timer
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_table import RouteTable
from nodeapp.wire import Frame

CHECK_INTERVAL: Final = 0.5
"""Seconds between checks of what waits, with adaptive timeouts (ns-2: `FREQUENCY` of rt_purge)."""
MAX_HISTORY: Final = 3
"""Searches for one destination whose times count (ns-2)."""
MAX_TIMED: Final = 4096
"""Most destinations whose times are remembered."""
MAX_REQUESTS: Final = 8192
"""Most requests that are remembered."""


class RateLimit:
    """At most `count` times in any second."""

    def __init__(self, count: int) -> None:
        self._times: deque[float] = deque(maxlen=count)

    def wait(self, now: float) -> float:
        """Return 0 and count one, or return the seconds to wait."""
        times = self._times
        if len(times) == times.maxlen and times[0] + 1.0 > now:
            return times[0] + 1.0 - now
        times.append(now)
        return 0.0


class SeenRequests:
    """The requests of others in the last `hold` seconds (6.5)."""

    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._until: dict[int, float] = {}  # originator and id: when to forget; by age

    def add(self, originator: int, request: int, now: float) -> bool:
        """Remember a request; return whether it is new."""
        until = self._until
        key = originator << 32 | request
        if until.get(key, -math.inf) > now:
            return False
        until.pop(key, None)
        while until:
            oldest = next(iter(until))
            if until[oldest] > now and len(until) < MAX_REQUESTS:
                break
            del until[oldest]
        until[key] = now + self._hold
        return True


class _Search:
    """A search for a route to one destination; `ttl` is that of the next request."""

    __slots__ = ("asked", "deadline", "own", "paused", "repair", "timer", "ttl", "whole")

    def __init__(self, ttl: int, *, repair: bool) -> None:
        self.ttl = ttl
        self.repair = repair
        """Whether it is still the repair that it began as."""
        self.own = not repair
        """Whether it goes on, for frames of this node's own, when a repair has failed."""
        self.whole = 0
        """Requests so far that went through the whole network."""
        self.asked = -math.inf
        """When the last request was sent."""
        self.deadline = math.inf
        """Until when that may be answered."""
        self.paused = False
        """Whether it failed, and the next is not to begin yet."""
        self.timer: Timer | None = None


class Searches:
    """The searches of one node.

    `send_request(destination, ttl)` sends a request; `failed(destination)` is called when a search
    or a repair has failed, and then `unreachable(destination)` if it was a search.
    `replaces(frame)` returns the key of a frame of this node's own; None if it replaces no other.
    """

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        table: RouteTable,
        counters: Counter[str],
        send_request: Callable[[int, int], None],
        failed: Callable[[int], None],
        unreachable: Callable[[int], None],
        replaces: Callable[[Frame], Hashable],
    ) -> None:
        self._host = host
        self._parameters = parameters
        self._table = table
        self._counters = counters
        self._send_request = send_request
        self._failed = failed
        self._unreachable = unreachable
        self._replaces = replaces
        self._searches: dict[int, _Search] = {}
        self._waiting: dict[Hashable, tuple[float, Frame]] = {}  # by time; when to drop, what
        self._number = 0
        self._limit = RateLimit(parameters.rreq_ratelimit)
        self._times: dict[int, deque[float]] = {}  # destination: seconds a hop

        self._last_ttl: dict[int, int] = {}  # destination: ns-2's rt_req_last_ttl

    def __contains__(self, destination: int) -> bool:
        return destination in self._searches

    def __len__(self) -> int:
        return len(self._searches)

    def add(self, frame: Frame) -> None:
        """Let a frame of this node's own wait for a route, and search for one.

        With ns-2's local repair, one of others, too.
        """
        now = self._host.now()
        key = self._replaces(frame) if frame.originator == self._host.node_id else None
        self._wait(key if self._parameters.buffer_replaces else None, frame, now)
        destination = frame.destination
        search = self._searches.get(destination)
        if search is None:
            self._begin(destination, self._first_ttl(destination, now), repair=False)
            return
        search.own = True
        if now >= search.deadline and not search.paused:
            if search.timer is not None:
                search.timer.cancel()
            self._request(destination, search)

    def _first_ttl(self, destination: int, now: float) -> int:
        parameters = self._parameters
        before = self._table.known(destination, now)
        if parameters.rings == "ns2":
            last = 0 if before is None else before.last_hops
            last = max(last, self._last_ttl.get(destination, 0))
            return self._next_ring(last) if last else parameters.ttl_start
        if before is not None and before.expires > now:  # invalid for at most DELETE_PERIOD
            return before.hops + parameters.ttl_increment
        return parameters.ttl_start

    def _next_ring(self, ttl: int) -> int:
        """Return the TTL of the request after one of `ttl`."""
        parameters = self._parameters
        if ttl >= parameters.ttl_threshold:
            return parameters.net_diameter
        following = ttl + parameters.ttl_increment
        if parameters.rings != "ns2":
            following = min(following, parameters.ttl_threshold)
        return min(following, parameters.net_diameter)

    def repair(self, frame: Frame, ttl: int) -> None:
        """Let another node's frame wait for a route, and repair it in a first ring of `ttl`."""
        self._wait(None, frame, self._host.now())
        if frame.destination not in self._searches:
            self._begin(frame.destination, ttl, repair=True)

    def _wait(self, key: Hashable, frame: Frame, now: float) -> None:
        waiting = self._waiting
        if key is None:
            self._number += 1
            key = self._number
        elif waiting.pop(key, None) is not None:
            self._counters["replaced by newer ones"] += 1
        self._drop_stale(now)
        if len(waiting) >= self._parameters.buffer:
            del waiting[next(iter(waiting))]
            self._counters["dropped from a full buffer"] += 1
        waiting[key] = now + (self._parameters.buffer_timeout or math.inf), frame

    def _drop_stale(self, now: float) -> None:
        waiting = self._waiting
        while waiting:
            oldest = next(iter(waiting))
            if waiting[oldest][0] > now:
                return
            del waiting[oldest]
            self._counters["waited too long"] += 1

    def _begin(self, destination: int, ttl: int, *, repair: bool) -> None:
        search = _Search(min(ttl, self._parameters.net_diameter), repair=repair)
        self._searches[destination] = search
        self._counters["repairs" if repair else "searches"] += 1
        self._request(destination, search)

    def answered(self, destination: int, hops: int, now: float) -> None:
        """Note that a reply has come, from `hops` away."""
        search = self._searches.get(destination)
        if search is None or search.asked == -math.inf:
            return
        times = self._times.get(destination)
        if times is None:
            times = deque(maxlen=MAX_HISTORY)
            self._remember(self._times, destination, times)
        times.append((now - search.asked) / hops)

    @staticmethod
    def _remember(values: dict[int, Any], destination: int, value: Any) -> None:
        if destination not in values and len(values) >= MAX_TIMED:
            del values[next(iter(values))]
        values[destination] = value

    def finish(self, destination: int, hops: int) -> list[Frame]:
        """End a search that found a route of `hops`; return the frames that waited for it."""
        if destination in self._last_ttl:
            self._last_ttl[destination] = hops
        search = self._searches.pop(destination)
        if search.timer is not None:
            search.timer.cancel()
        self._drop_stale(self._host.now())
        return self._take(destination)

    def _take(self, destination: int, but_of: int | None = None) -> list[Frame]:
        """Take the frames for a destination out of the buffer, except those of one originator."""
        ready = [
            (key, frame)
            for key, (_, frame) in self._waiting.items()
            if frame.destination == destination and frame.originator != but_of
        ]
        for key, _ in ready:
            del self._waiting[key]
        return [frame for _, frame in ready]

    def _request(self, destination: int, search: _Search) -> None:
        """Send the next request of a search, or give the search up."""
        parameters, host = self._parameters, self._host
        now = host.now()
        if search.repair and search.asked > -math.inf:
            self._repair_failed(destination, search)
            if not search.own:
                return
        whole = search.ttl >= parameters.net_diameter
        if whole and search.whole > parameters.rreq_retries and not search.repair:
            self._give_up(destination, search)
            return
        wait = self._limit.wait(now)
        if wait > 0.0:
            search.deadline = math.inf
            search.timer = host.call_later(wait, self._request, destination, search)
            return
        ttl = search.ttl
        if whole:
            search.whole += 1
        else:
            search.ttl = self._next_ring(ttl)
        if parameters.rings == "ns2":
            self._remember(self._last_ttl, destination, ttl)
        timeout = self._timeout(destination, ttl, search.whole)
        search.asked = now
        search.deadline = now + timeout
        if parameters.adaptive_timeout:
            timeout = math.ceil(search.deadline / CHECK_INTERVAL) * CHECK_INTERVAL - now
        search.timer = host.call_later(timeout, self._request, destination, search)
        self._send_request(destination, ttl)

    def _timeout(self, destination: int, ttl: int, whole: int) -> float:
        """Return the seconds that a request waits; it is number `whole` to the whole network."""
        parameters = self._parameters
        if parameters.adaptive_timeout:
            times = self._times.get(destination)
            a_hop = sum(times) / len(times) if times else parameters.node_traversal_time
            timeout = 2 * ttl * a_hop * max(whole, 1)
        elif ttl < parameters.net_diameter:
            timeout = parameters.ring_traversal_time(ttl)
        else:
            timeout = parameters.net_traversal_time * 2 ** (whole - 1)
        return min(timeout, parameters.max_rreq_timeout or math.inf)

    def _give_up(self, destination: int, search: _Search) -> None:
        """End a search that has failed; drop what waits for it."""
        self._counters["searches failed"] += 1
        self._drop_stale(self._host.now())
        self._counters["destination unreachable"] += len(self._take(destination))
        pause = self._parameters.max_rreq_timeout
        if pause:
            search.paused, search.whole = True, 0
            search.timer = self._host.call_later(pause, self._resume, destination, search)
        else:
            del self._searches[destination]
        self._failed(destination)
        self._unreachable(destination)

    def _repair_failed(self, destination: int, search: _Search) -> None:
        """End a repair that has failed; drop the frames of others that wait for it."""
        self._counters["repairs failed"] += 1
        self._drop_stale(self._host.now())
        dropped = self._take(destination, self._host.node_id)
        self._counters["destination unreachable"] += len(dropped)
        search.repair = False
        if not search.own:
            del self._searches[destination]
        self._failed(destination)

    def _resume(self, destination: int, search: _Search) -> None:
        """Search again after a pause, if frames came to wait in it."""
        self._drop_stale(self._host.now())
        if any(frame.destination == destination for _, frame in self._waiting.values()):
            search.paused = False
            self._request(destination, search)
        else:
            del self._searches[destination]

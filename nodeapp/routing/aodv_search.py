"""AODV's searches for routes, and the frames that wait for them (RFC 3561, sections 6.3 and 6.4).

A search sends requests of growing TTL: TTL_START, or the hops of the last known route and
TTL_INCREMENT more; then steps of TTL_INCREMENT up to TTL_THRESHOLD, each with RING_TRAVERSAL_TIME
to be answered; then NET_DIAMETER, RREQ_RETRIES times more than once.  The last ones wait for
NET_TRAVERSAL_TIME, and twice as long as the one before (binary exponential backoff).  Frames that
wait for a destination that is not found are dropped.

One buffer holds the frames for all destinations; when it is full the oldest is dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from nodeapp.host import Host, Timer
from nodeapp.routing.aodv_parameters import AodvParameters
from nodeapp.routing.aodv_table import RouteTable
from nodeapp.wire import Frame


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


class _Search:
    """A search for a route to one destination; `ttl` is that of the next request."""

    __slots__ = ("timer", "ttl", "whole")

    def __init__(self, ttl: int) -> None:
        self.ttl = ttl
        self.whole = 0
        """Requests so far that went through the whole network."""
        self.timer: Timer | None = None


class Searches:
    """The searches of one node; `send_request(destination, ttl)` sends a request."""

    def __init__(
        self,
        host: Host,
        parameters: AodvParameters,
        table: RouteTable,
        counters: Counter[str],
        send_request: Callable[[int, int], None],
    ) -> None:
        self._host = host
        self._parameters = parameters
        self._table = table
        self._counters = counters
        self._send_request = send_request
        self._searches: dict[int, _Search] = {}
        self._waiting: deque[Frame] = deque()
        self._limit = RateLimit(parameters.rreq_ratelimit)

    def __contains__(self, destination: int) -> bool:
        return destination in self._searches

    def __len__(self) -> int:
        return len(self._searches)

    def add(self, frame: Frame) -> None:
        """Let a frame wait for a route to its destination, and search for one."""
        if len(self._waiting) >= self._parameters.buffer:
            self._waiting.popleft()
            self._counters["dropped from a full buffer"] += 1
        self._waiting.append(frame)
        destination = frame.destination
        if destination in self._searches:
            return
        ttl = self._parameters.ttl_start
        now = self._host.now()
        before = self._table.known(destination, now)
        if before is not None and before.expires > now:  # invalid for no more than DELETE_PERIOD
            ttl = before.hops + self._parameters.ttl_increment
        search = _Search(min(ttl, self._parameters.net_diameter))
        self._searches[destination] = search
        self._counters["searches"] += 1
        self._request(destination, search)

    def finish(self, destination: int) -> list[Frame]:
        """End a search; return the frames that waited for it."""
        search = self._searches.pop(destination)
        if search.timer is not None:
            search.timer.cancel()
        ready = [frame for frame in self._waiting if frame.destination == destination]
        if ready:
            self._waiting = deque(
                frame for frame in self._waiting if frame.destination != destination
            )
        return ready

    def _request(self, destination: int, search: _Search) -> None:
        """Send the next request of a search, or give the search up."""
        parameters, host = self._parameters, self._host
        if search.whole > parameters.rreq_retries:
            self._counters["searches failed"] += 1
            self._counters["destination unreachable"] += len(self.finish(destination))
            return
        wait = self._limit.wait(host.now())
        if wait > 0.0:
            search.timer = host.call_later(wait, self._request, destination, search)
            return
        ttl = search.ttl
        if ttl < parameters.net_diameter:
            timeout = parameters.ring_traversal_time(ttl)
            if ttl >= parameters.ttl_threshold:
                search.ttl = parameters.net_diameter
            else:
                following = min(ttl + parameters.ttl_increment, parameters.ttl_threshold)
                search.ttl = min(following, parameters.net_diameter)
        else:
            timeout = parameters.net_traversal_time * 2**search.whole
            search.whole += 1
        search.timer = host.call_later(timeout, self._request, destination, search)
        self._send_request(destination, ttl)

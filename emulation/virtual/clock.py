"""The virtual clock: calls in order of time, and nothing between them.

Theory of operation.  A heap of timers, which are lists [time, number, callback, arguments] and so
compare in C; the number makes calls for one instant come in the order they were asked for, and a
run the same every time.  A cancelled timer stays in the heap without its callback and is passed
over when its time comes.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class VirtualTimer(list[Any]):
    """A pending call: `nodeapp.host.Timer`."""

    __slots__ = ("owner",)
    owner: object
    """Who asked for it, if they say so."""

    def cancel(self) -> None:
        """Forget the call; no effect if it was made already."""
        self[2] = None


class Clock:
    """Time in seconds, from 0, that passes only in `run`."""

    __slots__ = ("_number", "heap", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.heap: list[VirtualTimer] = []
        """What is to come; for an owner that interleaves it with events of its own."""
        self._number = 0

    def call_at(self, time: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call `callback(*args)` at `time`, or as soon as possible if that is past."""
        self._number += 1
        if time < self.now:
            time = self.now
        timer = VirtualTimer((time, self._number, callback, args))
        heappush(self.heap, timer)
        return timer

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call `callback(*args)` in `delay` seconds, at once if that is not above 0."""
        self._number += 1
        time = self.now + delay if delay > 0.0 else self.now
        timer = VirtualTimer((time, self._number, callback, args))
        heappush(self.heap, timer)
        return timer

    def step(self) -> None:
        """Make the next call; there must be one."""
        self.now, _, callback, args = heappop(self.heap)
        if callback is not None:
            callback(*args)

    def run(self, until: float) -> None:
        """Make all calls up to the time `until`, which it is then."""
        heap = self.heap
        while heap and heap[0][0] <= until:
            self.now, _, callback, args = heappop(heap)
            if callback is not None:
                callback(*args)
        if until > self.now:
            self.now = until

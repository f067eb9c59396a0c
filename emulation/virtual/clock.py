"""The virtual clock: calls in order of time, and nothing between them.

Theory of operation.  A binary heap of timers by time, then by number: calls for one instant come in
the order they were asked for, and a run is the same every time.  A cancelled timer stays in the
heap without its callback and is skipped when its time comes.  `heapq` would compare lists or
tuples, which costs compiled code (`testbed.compiling`) more than all the rest; here two floats are
compared in place, and indices are machine integers (`i64`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

FOREVER: Final = float("inf")


class VirtualTimer:
    """A pending call: `nodeapp.host.Timer`."""

    __slots__ = ("args", "callback", "number", "owner", "time")

    def __init__(
        self, time: float, number: int, callback: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        self.time: Final = time
        self.number: Final = number
        self.callback: Callable[..., None] | None = callback
        """None if the call was cancelled."""
        self.args = args
        self.owner: object = None
        """Who requested it, if known."""

    def cancel(self) -> None:
        """Cancel the call; no effect if it was already made."""
        self.callback = None
        self.args = ()


class Clock:
    """Time in seconds, from 0, that passes only in `run` and `step`."""

    __slots__ = ("_heap", "_number", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[VirtualTimer] = []
        self._number = 0

    def __iter__(self) -> Iterator[VirtualTimer]:
        """All pending timers, including cancelled ones, in no particular order."""
        return iter(self._heap)

    def time(self) -> float:
        return self.now

    def call_at(self, time: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call `callback(*args)` at `time`, or as soon as possible if that is past."""
        return self._push(time if time > self.now else self.now, callback, args)

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> VirtualTimer:
        """Call `callback(*args)` in `delay` seconds, at once if that is 0 or less."""
        return self._push(self.now + delay if delay > 0.0 else self.now, callback, args)

    def due(self) -> float:
        """Return the time of the next call, even a cancelled one; infinity if there is none."""
        return self._heap[0].time if self._heap else FOREVER

    def next_owner(self) -> object:
        """Return who requested the next call, if known; there must be one."""
        return self._heap[0].owner

    def step(self) -> None:
        """Make the next call; there must be one."""
        timer = self._pop()
        self.now = timer.time
        callback = timer.callback
        if callback is not None:
            callback(*timer.args)

    def run(self, until: float) -> None:
        """Make all calls up to the time `until`, and advance to it."""
        heap = self._heap
        while heap and heap[0].time <= until:
            self.step()
        if until > self.now:
            self.now = until

    def _push(
        self, time: float, callback: Callable[..., None], args: tuple[Any, ...]
    ) -> VirtualTimer:
        self._number += 1
        timer = VirtualTimer(time, self._number, callback, args)
        heap = self._heap
        place: i64 = len(heap)
        heap.append(timer)
        while place > 0:
            above = (place - 1) >> 1
            parent = heap[above]
            if parent.time <= time:  # it has the lower number
                break
            heap[place] = parent
            place = above
        heap[place] = timer
        return timer

    def _pop(self) -> VirtualTimer:
        """Remove the first timer: the lesser child moves up at each level, the last one there."""
        heap = self._heap
        last = heap.pop()
        count: i64 = len(heap)
        if count == 0:
            return last
        first = heap[0]
        place: i64 = 0
        below: i64 = 1
        while below < count:
            least = heap[below]
            if below + 1 < count:
                other = heap[below + 1]
                if other.time < least.time or (
                    other.time == least.time and other.number < least.number
                ):
                    least = other
                    below += 1
            heap[place] = least
            place = below
            below = 2 * place + 1
        time, number = last.time, last.number
        while place > 0:
            above = (place - 1) >> 1
            parent = heap[above]
            if parent.time < time or (parent.time == time and parent.number < number):
                break
            heap[place] = parent
            place = above
        heap[place] = last
        return first

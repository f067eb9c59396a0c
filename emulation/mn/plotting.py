"""A matplotlib back end without a window, whose timers run: some scripts use them to move nodes.

Theory of operation.  Without a display, matplotlib falls back to a canvas whose timers never fire:
`FuncAnimation` then stands still and `show` returns at once.  Here the timers of a figure run while
the script is in `show` or `pause`, as in the loop of a window.  `show` ends with the last timer, or
with Ctrl-C, as if a window were closed.

Source: matplotlib, `backend_bases.py` (what a back end implements).
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any, Final

from matplotlib._pylab_helpers import Gcf
from matplotlib.backend_bases import FigureManagerBase, TimerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

LONGEST_NAP: Final = 0.05
"""Seconds after which a loop checks whether it has been stopped."""


class LoopTimer(TimerBase):
    """A timer that fires in the loop of its canvas."""

    def __init__(self, canvas: Canvas, interval: int | None, callbacks: Any) -> None:
        self._canvas = canvas
        self.due = math.inf
        super().__init__(interval, callbacks)

    def _timer_start(self) -> None:
        self.due = time.monotonic() + self.interval / 1000
        self._canvas.timers.add(self)

    def _timer_stop(self) -> None:
        self.due = math.inf
        self._canvas.timers.discard(self)

    def fire(self) -> None:
        """Call the callbacks, and set the next time unless it fires only once."""
        if self.single_shot:
            self._timer_stop()
        else:
            self.due = time.monotonic() + self.interval / 1000
        self._on_timer()  # type: ignore[attr-defined]  # not in its stubs


class Canvas(FigureCanvasAgg):
    """A canvas in memory."""

    required_interactive_framework = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.timers: set[LoopTimer] = set()
        super().__init__(*arguments, **options)

    def new_timer(self, interval: int | None = None, callbacks: Any = None) -> LoopTimer:
        """Return a timer; `interval` is in milliseconds."""
        return LoopTimer(self, interval, callbacks)

    def draw_idle(self, *arguments: Any, **options: Any) -> None:
        self.draw(*arguments, **options)  # type: ignore[no-untyped-call]

    def start_event_loop(self, timeout: float = 0) -> None:
        """Run the timers for some seconds, 0 for ever, or until `stop_event_loop`."""
        self._looping = True
        end = time.monotonic() + timeout if timeout > 0 else math.inf
        while self._looping and time.monotonic() < end:
            run_timers(end)


def run_timers(end: float) -> bool:
    """Wait for the next timers of all figures, and fire them; return whether there are any."""
    timers = [timer for manager in Gcf.get_all_fig_managers() for timer in manager.canvas.timers]  # type: ignore[attr-defined]
    now = time.monotonic()
    wait = min((timer.due for timer in timers), default=math.inf) - now
    time.sleep(max(0.0, min(wait, end - now, LONGEST_NAP)))
    for timer in timers:
        if timer.due <= time.monotonic():
            timer.fire()
    return bool(timers)


class Manager(FigureManagerBase):
    """A stand-in for the window."""

    def show(self) -> None:
        """Draw the figure, which starts animations."""
        self.canvas.draw()

    @classmethod
    def start_main_loop(cls) -> None:
        """Run the timers until none is left, or until Ctrl-C."""
        with suppress(KeyboardInterrupt):
            while run_timers(math.inf):
                pass


Canvas.manager_class = Manager  # type: ignore[assignment]  # a class property
FigureCanvas, FigureManager = Canvas, Manager
"""The names that matplotlib looks for in a back end."""

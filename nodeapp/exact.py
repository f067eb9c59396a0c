"""An event loop whose timers end when they should.

epoll_wait(2) takes its timeout in whole milliseconds, and asyncio rounds up: a timer would end half
a millisecond late in the mean, which is longer than a short frame is on the air.  select(2) on the
epoll descriptor waits to the microsecond, but for the kernel's timer slack (50 us, prctl(2)).
"""

from __future__ import annotations

import asyncio
import select
import selectors
from collections.abc import Coroutine
from typing import Any, Final

FD_SETSIZE: Final = 1024
"""Descriptors that select(2) can wait for."""


class ExactSelector(selectors.EpollSelector):
    """epoll whose timeouts are exact, unless its descriptor is beyond those of select(2)."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready within `timeout` seconds; None: wait for it."""
        if timeout is not None and timeout > 0 and self.fileno() < FD_SETSIZE:
            select.select((self.fileno(),), (), (), timeout)
            timeout = 0
        return super().select(timeout)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end in a loop of its own, as `asyncio.run` does."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(ExactSelector())) as runner:
        runner.run(main)

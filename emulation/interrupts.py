"""SIGINT, SIGTERM and SIGHUP, noticed at points where a run can stop and nowhere else.

Python raises KeyboardInterrupt between any two instructions: in the middle of starting a process,
or of what a library keeps consistent.  A run that starts dozens of processes and must leave none
behind asks instead, where it can stop.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn, Self

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Context in which these signals only set `requested`; for the main thread."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True

    def check(self) -> None:
        """Raise KeyboardInterrupt where one of the signals has come."""
        if self.requested:
            raise KeyboardInterrupt

    @contextmanager
    def at_prompt(self) -> Iterator[None]:
        """Let SIGINT reach what runs at a prompt for the block; the others end the block."""
        self.check()
        noting = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
            signal.SIGTERM: signal.signal(signal.SIGTERM, _leave),
            signal.SIGHUP: signal.signal(signal.SIGHUP, _leave),
        }
        try:
            yield
        except SystemExit:
            self.requested = True
        finally:
            for number, handler in noting.items():
                signal.signal(number, handler)
        self.check()


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit

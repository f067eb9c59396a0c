"""A lock between processes that share a cache."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from emulation.network.interrupts import Interrupts

POLL: Final = 0.2


@contextmanager
def locked(
    path: Path, interrupts: Interrupts | None, waits: Callable[[], object] | None = None
) -> Iterator[None]:
    """Hold the lock of a file, created if need be; `waits` is called if another process has it.

    Raises OSError if the file cannot be made, and KeyboardInterrupt.
    """
    with _opened(path) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waits is not None:
                    waits()
                waits = None
                if interrupts is not None:
                    interrupts.check()
                time.sleep(POLL)
        yield


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("ab")
    except PermissionError:  # root has made it: what is only read can be locked, too
        if not path.exists():
            raise
        return path.open("rb")

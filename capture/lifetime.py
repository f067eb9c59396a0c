"""Bind a process's life to its parent's (Linux): a killed run takes its helpers with it."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process (prctl(2)); raises OSError if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def die_with_parent(number: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Have the kernel send this process `number` when the thread that started it ends.

    Raises ProcessLookupError if `parent`, the process id expected, has ended already.
    """
    prctl(PR_SET_PDEATHSIG, number)
    if parent is not None and os.getppid() != parent:
        raise ProcessLookupError(f"the parent process {parent} has ended")

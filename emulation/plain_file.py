"""Reading a file that others wrote: whole, and without waiting for what never comes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_plain_file(path: Path) -> bytes:
    """Return what a regular file holds.

    Raises OSError if it cannot be read, or is a pipe, a device or a folder.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(
                errno.EINVAL, "it is a pipe or a device: put a regular file in its place", str(path)
            )
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; that of a pipe would wait until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)

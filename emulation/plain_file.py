"""Reading a file that others wrote: whole, and without waiting for what never comes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def read_plain_file(path: Path) -> bytes:
    """Return what a regular file holds.

    Raises OSError if it cannot be read, or is a pipe, a device or a folder.
    """
    with open_file(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _no_file(path)
        return file.read()


def open_file(path: Path) -> BinaryIO:
    """Return a file, or a device, opened to be read.

    Raises OSError if it cannot be read, or is a pipe, which would wait, or a folder.
    """
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  the caller closes it
    if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _no_file(path)
    return file


def _no_file(path: Path) -> OSError:
    return OSError(
        errno.EINVAL, "it is a pipe or a device: put a regular file in its place", str(path)
    )


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting, as opening a pipe does until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)

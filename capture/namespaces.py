"""Enter another process's network namespace, for as long as it takes to open a descriptor there.

A socket or TAP descriptor belongs for its whole life to the namespace it was opened in, so one
process can hold descriptors in hundreds of namespaces and serve them all from one loop.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CLONE_NEWNET: Final = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot enter a network namespace: {os.strerror(code)}")


@contextmanager
def new_network_namespace() -> Iterator[None]:
    """Put the calling thread into a new network namespace for the block.

    It lives on as long as sockets that were opened there.  Raises OSError.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.unshare(CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"cannot make a network namespace: {os.strerror(code)}")
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


@contextmanager
def network_namespace(pid: int) -> Iterator[None]:
    """Put the calling thread into the network namespace of process `pid` for the block.

    Raises OSError if the process is gone or the caller is not root.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(Path(f"/proc/{pid}/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(target)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)

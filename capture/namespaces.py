"""Enter another process's network namespace, for as long as it takes to open a descriptor there.

A socket or TAP descriptor belongs for its whole life to the namespace it was opened in, so one
process can hold descriptors in hundreds of namespaces and serve them all from one loop.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

CLONE_NEWNET: Final = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, doing: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot {doing} a network namespace: {os.strerror(code)}")


def _enter(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(_libc.setns(descriptor, CLONE_NEWNET), "enter")
    finally:
        os.close(descriptor)


@contextmanager
def _elsewhere(go: Callable[[], None]) -> Iterator[None]:
    """Have the calling thread go to another network namespace for the block."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        go()
        try:
            yield
        finally:
            _checked(_libc.setns(home, CLONE_NEWNET), "enter")
    finally:
        os.close(home)


def new_network_namespace() -> AbstractContextManager[None]:
    """Put the calling thread into a new network namespace for the block.

    It lives on as long as sockets that were opened there.  Raises OSError.
    """
    return _elsewhere(lambda: _checked(_libc.unshare(CLONE_NEWNET), "make"))


def network_namespace(pid: int) -> AbstractContextManager[None]:
    """Put the calling thread into the network namespace of process `pid` for the block.

    Raises OSError if the process is gone or the caller is not root.
    """
    return _elsewhere(lambda: _enter(f"/proc/{pid}/ns/net"))

"""Processes that hold namespaces: a server that forks one for each node.

    python -I -S holder.py DESCRIPTOR

Theory of operation.  A node of Mininet is a shell in namespaces of its own.  Sixty shells take most
of the time that sixty nodes take to start, and most are never used.  A process that only holds the
namespaces is forked in half a millisecond; when its shell is asked for it becomes that, so that
process and namespaces stay what they are.

The descriptor is a socket of datagrams, JSON.  A request is a list of [NAME, HOME]: make namespaces
of the network and of mounts, as `mnexec -n` does, or with HOME take on those of that process.  Each
is answered in turn with the process id and with the end of a socket to that process.  On that the
process tells 0 once it has its namespaces, or the number of the error; then it awaits one request
[WORDS, ENVIRONMENT] with a descriptor, its terminal: it executes the words there.  If the other end
is closed it ends.  This process ends when the other end of its own socket is closed.

It imports nothing of the project, and little at all: what is small is forked fast.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWNET: Final = 0x40000000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MS_MGC_VAL: Final = 0xC0ED0000
MESSAGE: Final = 1 << 20
"""Bytes of the longest message: an environment."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, failed: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{failed}: {os.strerror(code)}")


def _make_namespaces() -> None:
    """Make namespaces of the network and of mounts.  Raises OSError."""
    failed = "cannot make namespaces"
    _checked(_libc.unshare(CLONE_NEWNET | CLONE_NEWNS), failed)
    # Mounts made here stay here, and /sys shows the new network.
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), failed)
    _checked(_libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(MS_MGC_VAL), None), failed)


def enter(pid: int) -> None:
    """Take on the network and the files of a process, as `mnexec -a` does.  Raises OSError."""
    folder = os.open(".", os.O_RDONLY)
    try:
        for kind in ("net", "mnt"):
            descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            try:
                _checked(_libc.setns(descriptor, 0), f"cannot enter the namespaces of {pid}")
            finally:
                os.close(descriptor)
        os.fchdir(folder)
    finally:
        os.close(folder)


def room() -> tuple[int, int]:
    """Return where this process's command line is in memory, and its bytes."""
    with open("/proc/self/stat", encoding="ascii") as file:  # noqa: PTH123  # not worth pathlib
        fields = file.read().rpartition(")")[2].split()
    start, end = map(int, fields[45:47])  # arg_start and arg_end of proc(5), which counts from 1
    return start, end - start


def show(title: bytes, start: int, length: int) -> None:
    """Have ps and top show a command line for this process, in the room that its own took."""
    ctypes.memmove(start, title[: length - 1].ljust(length, b"\0"), length)


def _hold(run: socket.socket, home: int | None) -> None:
    """Be the process of a node: hold its namespaces, then become its shell."""
    os.setsid()
    try:
        if home is None:
            _make_namespaces()
        else:
            enter(home)
    except OSError as error:
        run.send(str(error.errno).encode())
        return
    run.send(b"0")
    message, descriptors, _, _ = socket.recv_fds(run, MESSAGE, 1)
    if not message:
        return
    words, environment = json.loads(message)
    for descriptor in range(3):
        os.dup2(descriptors[0], descriptor)
    # What Python ignores, a shell's commands would ignore as well.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(words[0], words, environment)  # noqa: S606  a command of ours, no shell


def serve(run: socket.socket) -> None:
    """Serve until the run closes its end; in a process that is forked, be a node's."""
    start, length = room()
    while message := run.recv(MESSAGE):
        for name, home in json.loads(message):
            theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            pid = os.fork()
            if pid == 0:
                run.close()
                theirs.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # As its shell is found: ps and pgrep show this for a command line.
                show(f"mininet:{name}".encode(), start, length)
                _hold(ours, home)
                return
            ours.close()
            socket.send_fds(run, [str(pid).encode()], [theirs.fileno()])
            theirs.close()


def main(arguments: Sequence[str]) -> None:
    """Serve the run at the other end of a descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel is to reap
    with socket.socket(fileno=int(arguments[0])) as run, contextlib.suppress(ConnectionError):
        serve(run)  # a run that was killed closes its end at any moment


if __name__ == "__main__":
    main(sys.argv[1:])

"""Processes that hold namespaces: a server that forks one for each node.

    python -I -S holder.py DESCRIPTOR

Theory of operation.  A Mininet node is a shell in namespaces of its own.  Starting sixty shells
takes most of the time in which sixty nodes start, and most are never used.  A process that only
holds the namespaces is forked in half a millisecond; when its shell is needed, it becomes that
shell, so process and namespaces stay the same.

The descriptor is a socket of JSON datagrams.  A request is a list of [NAME, HOME]: make network and
mount namespaces, as `mnexec -n` does, or with HOME enter those of that process.  Each is answered
in turn with the process id and one end of a socket to that process.  There the process sends 0 once
it has its namespaces, or an error number; then it awaits one request [WORDS, ENVIRONMENT] with a
descriptor, its terminal, and executes the words there.  It ends if the other end is closed.  This
process ends when the other end of its own socket is closed.

It imports nothing of the project, and little else: a small process is forked fast.
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

CLONE_NEWTIME: Final = 0x00000080
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWNET: Final = 0x40000000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18
MESSAGE: Final = 1 << 20
"""Longest message, bytes: one with an environment."""

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, failed: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{failed}: {os.strerror(code)}")


def mount(kind: bytes, target: bytes, failed: str, flags: int = 0) -> None:
    """Mount a file system that is known by its kind, as sysfs.  Raises OSError."""
    _checked(_libc.mount(kind, target, kind, ctypes.c_ulong(flags), None), failed)


def make_namespaces() -> None:
    """Put the calling thread into new network and mount namespaces.  Raises OSError.

    Mounts made there stay there, and /sys shows the new network.
    """
    _checked(_libc.unshare(CLONE_NEWNET | CLONE_NEWNS), "cannot make namespaces")
    mount(b"none", b"/", "cannot make mounts private", MS_REC | MS_PRIVATE)
    mount(b"sysfs", b"/sys", "cannot mount /sys")


def enter(pid: int) -> None:
    """Enter the network and mount namespaces of a process, as `mnexec -a` does.  Raises OSError."""
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


def set_clock_ahead(seconds: float) -> None:
    """Move this process's monotonic clock, in a time namespace of its own (time_namespaces(7)).

    Raises OSError if the kernel has none.
    """
    _checked(_libc.unshare(CLONE_NEWTIME), "cannot make a time namespace")
    whole, nanoseconds = divmod(round(seconds * 1e9), 1_000_000_000)
    offsets = os.open("/proc/self/timens_offsets", os.O_WRONLY)
    try:
        os.write(offsets, f"monotonic {whole} {nanoseconds}".encode())
    finally:
        os.close(offsets)
    descriptor = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    try:
        _checked(_libc.setns(descriptor, CLONE_NEWTIME), "cannot enter a time namespace")
    finally:
        os.close(descriptor)


def room() -> tuple[int, int]:
    """Return where this process's command line lies in memory, and its length, bytes."""
    with open("/proc/self/stat", encoding="ascii") as file:  # noqa: PTH123  # not worth pathlib
        fields = file.read().rpartition(")")[2].split()
    start, end = map(int, fields[45:47])  # arg_start and arg_end of proc(5), which counts from 1
    return start, end - start


def show(title: bytes, start: int, length: int) -> None:
    """Have ps and top show a command line for this process, written over its own."""
    ctypes.memmove(start, title[: length - 1].ljust(length, b"\0"), length)


def _hold(run: socket.socket, home: int | None) -> None:
    """Be the process of a node: hold its namespaces, then become its shell."""
    os.setsid()
    try:
        if home is None:
            make_namespaces()
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
    # A shell's commands would inherit the signals that Python ignores.
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
                # ps and pgrep find the holder by this command line, as they would its shell.
                show(f"mininet:{name}".encode(), start, length)
                _hold(ours, home)
                return
            ours.close()
            socket.send_fds(run, [str(pid).encode()], [theirs.fileno()])
            theirs.close()


def main(arguments: Sequence[str]) -> None:
    """Serve the run at the other end of a descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    with socket.socket(fileno=int(arguments[0])) as run, contextlib.suppress(ConnectionError):
        serve(run)  # a killed run may close its end at any moment


if __name__ == "__main__":
    main(sys.argv[1:])

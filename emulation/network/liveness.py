"""Whether processes make progress, by proc(5), and an end to waits for those that do not.

A wait for another process cannot always be limited by time alone: an analysis may take hours.  But
a process that a signal has stopped never answers, and one that is stuck uses no processor time, nor
do its children.  `Watch` watches a process and all of its descendants while this process waits for
an answer.  When one has been stopped for `LIMIT` seconds, or all together have been idle for
`IDLE_LIMIT`, it kills them, so that the wait ends as if the process had died, and says why.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psutil

from emulation.network.processes import called

LIMIT: Final = 10.0
"""Seconds for which a process may be stopped."""
IDLE_LIMIT: Final = 180.0
"""Seconds for which all processes together may be idle."""
IDLE: Final = 0.02
"""Share of a processor below which they count as idle: Java's timers take less than half of it."""
BETWEEN: Final = 2.0
"""Seconds between checks, each of which looks through all processes of the machine."""


def states(pid: int, *, threads: bool = True) -> set[int]:
    """Return the states of a process's threads, or of its main thread alone (proc(5))."""
    folder = Path(f"/proc/{pid}")
    try:
        tasks = [*(folder / "task").iterdir()] if threads else [folder]
    except OSError:
        return set()
    return {fields[0][0] for task in tasks if (fields := _stat(task))}


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped a process."""
    return not states(pid, threads=False).isdisjoint(b"Tt")


def wants_to_run(pid: int) -> bool:
    """Return whether a thread of a process has, or wants, a processor or a page from the disk."""
    return not states(pid).isdisjoint(b"RD")


def spent(pid: int) -> float:
    """Return the seconds of processor time that a process has used (proc(5))."""
    fields = _stat(Path(f"/proc/{pid}"))
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _stat(folder: Path) -> list[bytes]:
    """Return the fields of `stat` from the state on; none if there is no such process or thread."""
    try:
        return (folder / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def family(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; nothing if it has ended."""
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


class Watch:
    """Kills processes that make no progress, while the context lasts.

    `members` returns the processes to watch.  `idle_limit` is None if they may be idle.
    """

    def __init__(
        self,
        members: Callable[[], Sequence[psutil.Process]],
        *,
        limit: float | None = None,
        idle_limit: float | None = None,
    ) -> None:
        self.cause: str | None = None
        """Why they were killed, if they were, in words that follow "since"."""
        self._members = members
        self._limit = LIMIT if limit is None else limit
        self.idle_limit = idle_limit
        self._since: dict[int, float] = {}
        """By process: since when it has been stopped, monotonic clock."""
        self._busy = (0.0, 0.0)
        """When they were last busy, and the processor time that they had used by then."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _keep_looking(self) -> None:
        looked = time.monotonic()
        while not self._end.wait(min(BETWEEN, self._limit / 4)):
            now = time.monotonic()
            if now > looked + self._limit / 2:  # this process was itself stopped, or the machine
                self._since.clear()
                self._busy = (0.0, 0.0)
            looked = now
            members = self._members()
            self.cause = self._stopped(members, now) or self._idle(members, now)
            if self.cause is not None:
                for member in members:
                    with suppress(psutil.Error):
                        member.kill()
                return

    def _stopped(self, members: Sequence[psutil.Process], now: float) -> str | None:
        stopped = {member.pid for member in members if is_stopped(member.pid)}
        self._since = {pid: self._since.get(pid, now) for pid in stopped}
        for pid, since in self._since.items():
            if now - since > self._limit:
                return f"{_name(pid)} was stopped by a signal"
        return None

    def _idle(self, members: Sequence[psutil.Process], now: float) -> str | None:
        if self.idle_limit is None or not members:
            return None
        total = sum(spent(member.pid) for member in members if member.is_running())
        since, before = self._busy
        # Processes that ended take their time with them.
        busy = not before <= total <= before + IDLE * (now - since)
        if not since or busy or any(wants_to_run(member.pid) for member in members):
            self._busy = (now, total)
        elif now - since > self.idle_limit:
            names = ", ".join(_name(member.pid) for member in members)
            return f"{names} did nothing for {self.idle_limit:g} s"
        return None


def _name(pid: int) -> str:
    """Return what a process is called, with its number."""
    try:
        name = called(psutil.Process(pid))
    except psutil.Error:
        name = "a process"
    return f"{name} (process {pid})"

"""Folders that Spark works in, and what killed analyses have left of them.

Nothing here needs Spark.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

from emulation.network.processes import end_processes

PREFIX: Final = "testbed-spark-"
LOG: Final = "spark.log"
"""The file in such a folder to which Spark writes errors."""
TOLD_BY_JAVA: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable by which PySpark names the file for Java's port to Java: in such a folder."""
GRACE: Final = 5.0
"""Seconds in which Java removes its own files, and ends."""


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for the block; those of processes that were killed are removed."""
    clean()
    prefix = f"{PREFIX}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


@functools.cache
def lasting() -> Path:
    """Return the folder that is there until this process ends."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    return scratch


@contextmanager
def instead_of_tmp(path: Path) -> Iterator[None]:
    """Have other code make its temporary files in a folder, where `clean` finds them."""
    before = tempfile.tempdir
    tempfile.tempdir = str(path)
    try:
        yield
    finally:
        tempfile.tempdir = before


def log_text() -> str:
    """Return what Spark has logged in this process."""
    logs = sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.getpid()}-*/{LOG}"))
    return "".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)


def clean(root: Path | None = None) -> list[str]:
    """Remove the folders of processes that are gone; return a line for each.

    Java ends by itself when its parent is gone, but only once it has started up, which it never
    does without the folder.  So it is ended first.
    """
    killed = []
    for folder in sorted((root or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        owner = re.match(rf"{PREFIX}(\d+)-", folder.name)
        if owner is not None and has_ended(int(owner[1])):
            killed.append(folder)
    if killed:
        end_processes(_java(killed), GRACE)
    for folder in killed:
        shutil.rmtree(folder, ignore_errors=True)
    return [f"removed {folder} of a killed analysis" for folder in killed]


def java_of_this_process() -> list[psutil.Process]:
    """Return the processes of Java that this one has started, and those of their workers."""
    processes = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            if TOLD_BY_JAVA in process.environ():  # which workers inherit
                processes.append(process)
    return processes


def has_ended(number: int) -> bool:
    """Return whether a process has ended; one that was killed is waited for.

    One that works beside a run gets a processor only when that is idle (SCHED_IDLE), and ends no
    sooner: a killed one is given ordinary priority.
    """
    try:
        status = Path("/proc", str(number), "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    if re.search(r"^State:\s*[ZX]", status, re.MULTILINE):
        return True
    if not is_killed(status):
        return False
    with suppress(OSError):
        os.sched_setscheduler(number, os.SCHED_OTHER, os.sched_param(0))
    with suppress(psutil.Error):
        psutil.Process(number).wait(GRACE)
    return not Path("/proc", str(number)).exists()


def is_killed(status: str) -> bool:
    """Return whether SIGKILL waits for a process, by its /proc/PID/status (proc(5))."""
    waiting = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return any(int(mask, 16) & 1 << (signal.SIGKILL - 1) for mask in waiting)


def _java(folders: Sequence[Path]) -> Iterator[psutil.Process]:
    """Yield the processes that PySpark told to write into one of the folders."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            port_file = Path(process.environ().get(TOLD_BY_JAVA, ""))
            if any(folder in port_file.parents for folder in folders):
                yield process

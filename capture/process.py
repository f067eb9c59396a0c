"""What a process asks of Linux for itself: to die with its parent, open files, priority, timers."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
from pathlib import Path
from typing import Final, Literal

PR_SET_PDEATHSIG: Final = 1
FILES: Final = 1024
"""Open files that Java and runs of some dozens of nodes need."""
LEAST_MEMORY: Final = 2 << 30
"""Bytes of address space without which libraries cannot be loaded."""
STARTED: Final = 19
"""Index of the start time among the fields after the name in /proc/PID/stat."""
PR_SET_TIMERSLACK: Final = 29
NICE: Final = -10
PriorityName = Literal["nice", "round-robin", "none"]


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


def allow_descriptors() -> None:
    """Raise the limit on open files to the highest allowed, for sockets in many namespaces."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))


def start_of(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot, which no change of the clock moves.

    None if it has ended, even if nobody has waited for it (proc(5)).
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *others = fields.rpartition(")")[2].split()
    return None if state in "ZX" else int(others[STARTED - 1])


def explained(error: OSError) -> str:
    """Return the reason for an error; for a limit on open files, also how to raise it."""
    reason = error.strerror or str(error)
    if error.errno == errno.EMFILE:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return f"{reason}: a process may have {soft} (raise the limit: ulimit -n {4 * soft})"
    if error.errno == errno.ENFILE:
        return f"{reason} on this machine (raise the limit: sysctl fs.file-max)"
    return reason


def too_little_memory() -> bool:
    """Return whether the address space is too small for the testbed's libraries."""
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    return memory != resource.RLIM_INFINITY and memory < LEAST_MEMORY


def low_limits() -> str:
    """Return which limits are low, and how to raise them; empty if none is."""
    low = []
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and files < FILES:
        low.append(f"{files} open files are allowed: ulimit -n {4 * FILES}")
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    if memory != resource.RLIM_INFINITY:
        low.append(
            f"{memory / 1e9:.1f} GB of address space are allowed, of which Java and libraries "
            "reserve more than they use: ulimit -v unlimited"
        )
    return "; ".join(low)


def exact_timers() -> None:
    """Have sleeps end on time; by default the kernel adds up to 50 us."""
    prctl(PR_SET_TIMERSLACK, 1)


def raise_priority(wanted: PriorityName) -> PriorityName:
    """Raise the priority of this process; return what was permitted.

    Round-robin runs before every ordinary process; the kernel's throttling of real-time
    processes (sched_rt_runtime_us) keeps a share of each second for the others.
    """
    if wanted == "round-robin":
        try:
            # Reset on fork: child processes get the ordinary priority back.
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
            return "round-robin"
        except PermissionError:
            wanted = "nice"
    if wanted == "nice":
        try:
            os.setpriority(os.PRIO_PROCESS, 0, NICE)
            return "nice"
        except PermissionError:
            return "none"
    return "none"

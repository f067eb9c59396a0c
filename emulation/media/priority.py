"""Priority and timer slack of a process that must keep time (Linux)."""

from __future__ import annotations

import os
from typing import Final, Literal

from capture.lifetime import prctl

PR_SET_TIMERSLACK: Final = 29
NICE: Final = -10

PriorityName = Literal["nice", "round-robin", "none"]


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

"""What a run in real time will take of this machine, before it starts."""

from __future__ import annotations

import os
from typing import Final

import psutil

from emulation.backends.base import BackendError

STATION_MEMORY: Final = 4 << 20
"""Bytes of a node: its app, its shell and the kernel's part; 5,000 took 19 GB."""
STATION_SECONDS: Final = 0.12
"""Seconds until one more node is ready, on two cores; 5,000 took ten minutes."""
A_CORE: Final = 100
"""Nodes of the default scenario for which a core keeps real time (docs/benchmarks.md)."""
ELSEWHERE: Final = "use fewer, or --backend virtual, which needs no processes"


def check(nodes: int, available: int | None = None, cores: int | None = None) -> str | None:
    """Return a warning if a run of so many nodes will hardly keep real time, None if it may.

    `available` is memory in bytes and `cores` their number: this machine's unless given.  Raises
    `BackendError` if there is not enough memory.
    """
    if available is None:
        available = psutil.virtual_memory().available
    needed = nodes * STATION_MEMORY
    if needed > available:
        raise BackendError(
            f"{nodes:,} nodes need about {needed / 1e9:.1f} GB of memory, and "
            f"{available / 1e9:.1f} GB are free: {ELSEWHERE}"
        )
    cores = cores or len(os.sched_getaffinity(0))
    if nodes <= cores * A_CORE:
        return None
    minutes = nodes * STATION_SECONDS / 60
    return (
        f"{nodes:,} nodes will hardly keep real time on {cores} cores, which do with some "
        f"{cores * A_CORE}; they take about {needed / 1e9:.1f} GB of memory and {minutes:.0f} min "
        f"to start: {ELSEWHERE}"
    )

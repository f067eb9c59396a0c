"""What a run in real time will take of this machine, before it starts."""

from __future__ import annotations

import os
from typing import Final

import numpy as np
import psutil

from emulation.backends.base import BackendError
from emulation.scenario.scenario import NOMINAL_RANGE, Scenario

STATION_MEMORY: Final = 4 << 20
"""Bytes of a node: its app, its shell and the kernel's part; 5,000 took 19 GB."""
STATION_SECONDS: Final = 0.02
"""Seconds until one more node is ready, on two cores; 1,000 took 16 s (docs/backends.md)."""
A_CORE: Final = 100
"""Nodes with the traffic of the default scenario for which a core keeps real time."""
RECEPTION: Final = 1e-4
"""Processor seconds of a frame that a node receives: medium, captures, node app.

0.09 to 0.12 ms of beacons with 12 neighbours (tests/benchmarks/tap_load.py)."""
CARRIED: Final = 0.7
"""Share of the processors that beacons alone may take: events and whoever else runs need theirs."""
ELSEWHERE: Final = "use fewer, or --backend virtual, which needs no processes"


def beacons_received(scenario: Scenario) -> float:
    """Return how many beacons all nodes receive a second at their first positions.

    0 if the protocol has none; all in range of each other's radio are taken to hear each other.
    """
    interval = scenario.protocol.parameters.get("hello_interval")
    if not isinstance(interval, int | float) or interval <= 0 or scenario.access_points:
        return 0.0
    xy = scenario.trace().positions(0.0)
    reach = scenario.radio.range or NOMINAL_RANGE
    near = sum(int((np.hypot(*(xy - here).T) <= reach).sum()) - 1 for here in xy)
    return float(near / interval)


def check(
    nodes: int,
    available: int | None = None,
    cores: int | None = None,
    received: float = 0.0,
) -> str | None:
    """Return a warning if a run of so many nodes will hardly keep real time, None if it may.

    `available` is memory in bytes and `cores` their number: this machine's unless given; `received`
    are beacons a second.  Raises `BackendError` if there is not enough memory.
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
    if received * RECEPTION > cores * CARRIED:
        return (
            f"beacons alone are received {received:,.0f} times a second, which takes about "
            f"{received * RECEPTION:.1f} of {cores} cores: the run will hardly keep real time; "
            f"raise hello_interval, or {ELSEWHERE}"
        )
    if nodes <= cores * A_CORE:
        return None
    return (
        f"{nodes:,} nodes keep real time on {cores} cores only if they send little: with the "
        f"traffic of the default scenario some {cores * A_CORE} do; they take about "
        f"{needed / 1e9:.1f} GB of memory and {nodes * STATION_SECONDS:.0f} s to start: {ELSEWHERE}"
    )

"""What a run on tap costs, by kind of process: processor time a second and a frame received.

    python -m tests.benchmarks.tap_load [STATIONS...]

`emulation.backends.realtime.estimate` has its constants from here.  Stations stand on a field on
which each has the same number of neighbours, whatever their number, and beacon ten times a second,
so that a short run has many frames; what costs without a frame is the cost at no beacons.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil

from emulation.backends.base import Unwatched
from emulation.backends.tap import TapBackend, TapRun
from emulation.media.control import request
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from topologies.catalog import make_scenario

SECONDS = 8.0
WARM_UP = 1.0
DEGREE = 12


def spent(run: TapRun) -> dict[str, float]:
    """Return processor seconds by kind of process so far."""
    total: dict[str, float] = defaultdict(float)
    named = {process.pid: name for name, process in run.helpers.items()}
    named |= {process.pid: "node apps" for process in run.nodes.values()}
    for pid, name in named.items():
        times = psutil.Process(pid).cpu_times()
        total[name] += times.user + times.system
    return total


def measure(stations: int, interval: float) -> dict[str, Any]:
    """Return processor seconds a second by kind of process, and frames received a second."""
    side = math.sqrt(stations * math.pi * 250.0**2 / DEGREE)
    settings = {"nodes": stations, "topics": 0, "speed": 0, "side": side}
    scenario = make_scenario(
        "roaming_field",
        "broker-gpsr",
        seed=1,
        duration=SECONDS,
        settings=settings | {"hello_interval": interval},
    )
    with tempfile.TemporaryDirectory() as root, Interrupts() as interrupts:
        folder = RunFolder.create(Path(root), scenario)
        run = TapRun(TapBackend(), scenario, folder, Unwatched(), interrupts)

        def look() -> tuple[float, dict[str, float], int]:
            counters = request(run.medium_control, {"op": "stats"})["counters"]
            return time.monotonic(), spent(run), sum(counters["received"])

        try:
            run.start()
            time.sleep(max(0.0, run.epoch + WARM_UP - time.monotonic()))
            began, before, first = look()
            time.sleep(SECONDS - 2 * WARM_UP)
            ended, after, last = look()
        finally:
            run.stop()
    took = ended - began
    share = {name: (after[name] - before[name]) / took for name in after}
    return {"share": share, "received": (last - first) / took}


def main() -> None:
    """Measure at beacons and nearly without."""
    print("stations  beacons/s  frames received/s  processor s/s: all, by kind")
    for stations in [int(word) for word in sys.argv[1:]] or [20, 60]:
        for interval in (0.1, 100.0):
            found = measure(stations, interval)
            kinds = ", ".join(f"{name} {share:.3f}" for name, share in found["share"].items())
            total = sum(found["share"].values())
            print(
                f"{stations:8}  {1 / interval:9g}  {found['received']:17.0f}  {total:.3f}: {kinds}",
                flush=True,
            )


if __name__ == "__main__":
    main()

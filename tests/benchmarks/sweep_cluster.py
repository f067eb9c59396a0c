"""How well a sweep keeps the processors of a cluster busy.

    python -m tests.benchmarks.sweep_cluster [--points 1000] [--workers 2 4] [--lose]

Runs the same sweep of short points, from nothing, with `local[N]` and on standalone clusters on
this machine, whose workers have one core each.  The efficiency is what the points themselves took
of the processors, against all that the processors in use could have given from the start of the
sweep to its table: everything else is the price of Spark, of the analysis and of waiting.  Workers
beyond the processors of the machine share them: four workers on two processors can at best be as
fast as two.  With `--lose` one worker is killed in the middle of each sweep on a cluster, and its
processor counts to the end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import numpy as np

from spark_analysis.sweeps.spec import SweepSpec, points
from spark_analysis.sweeps.sweep import Progress, run_sweep
from spark_analysis.sweeps.tasks import COST, processor_seconds
from tests.spark_cluster import Cluster

PROTOCOLS: Final = ("flooding", "broker-gpsr")
SEEDS: Final = 10
"""Runs of every point, unless there are too few points."""


@dataclass(frozen=True)
class Measured:
    """One sweep: seconds from its start to its end, and by what it was doing."""

    wall: float
    stages: tuple[tuple[str, float], ...]
    rows: int

    def doing(self, what: str) -> float:
        """Return the seconds in stages whose names begin so."""
        return sum(seconds for name, seconds in self.stages if name.startswith(what))


def make_spec(count: int, nodes: int, duration: float) -> SweepSpec:
    """Return a sweep of `count` points or a few less."""
    seeds = max(1, min(SEEDS, count // (2 * len(PROTOCOLS))))
    speeds = max(1, count // (seeds * len(PROTOCOLS)))
    return SweepSpec(
        "roaming_field",
        PROTOCOLS,
        {"speed": tuple(f"{1 + number / 10:g}" for number in range(speeds))},
        seeds,
        duration,
        {"nodes": str(nodes), "interval": "1"},
    )


def _sweep(spec: SweepSpec, folder: Path, master: str, outcome: Connection) -> None:
    """Run a sweep, in a process that has not run one, and send when it did what."""
    marks = [("starting", time.monotonic())]

    def progress(at: Progress) -> None:
        doing = "checking" if at.doing.startswith("checking") else at.doing
        if doing != marks[-1][0]:
            marks.append((doing, time.monotonic()))

    results = run_sweep(spec, folder, master=master, progress=progress).results
    end = time.monotonic()
    ends = [when for _, when in marks[1:]] + [end]
    stages = [(name, until - since) for (name, since), until in zip(marks, ends, strict=True)]
    assert sorted(results["run"]) == sorted({*results["run"]}), "a point is in the table twice"
    outcome.send(Measured(end - marks[0][1], tuple(stages), len(results)))


def measure(spec: SweepSpec, folder: Path, master: str, losing: Cluster | None) -> Measured:
    """Run a sweep; lose a worker of a cluster, if given, when a third of the points have run."""
    context = multiprocessing.get_context("spawn")
    outcome, end = context.Pipe(duplex=False)
    process = context.Process(target=_sweep, args=(spec, folder, master, end))
    process.start()
    end.close()
    try:
        if losing is not None:
            third = len(points(spec)) // 3
            while process.is_alive() and len(spent(folder)) < third:
                time.sleep(0.2)
            losing.lose(losing.workers[0])
            print(f"  a worker was killed after {len(spent(folder))} points")
        measured: Measured = outcome.recv()
        process.join()
    except BaseException:
        process.kill()
        raise
    return measured


def spent(folder: Path) -> list[float]:
    """Return the processor seconds of the points that have run."""
    return [processor_seconds(path.parent) for path in folder.glob(f"points/*/{COST}")]


def show(name: str, spec: SweepSpec, found: Measured, points_took: float, at_a_time: int) -> None:
    """Print a sweep."""
    processors = min(at_a_time, os.cpu_count() or 1)
    running, analysing = found.doing("running"), found.doing("analys")
    given = found.wall * processors
    waves = sum(name == "analysing" for name, _ in found.stages)
    print(
        f"{name}: {found.wall:.1f} s; points took {points_took:.1f} of {given:.1f} processor "
        f"seconds: efficiency {points_took / given:.0%}, "
        f"{points_took / (running * processors):.0%} while points ran"
    )
    print(
        f"  {found.wall - running - analysing:.1f} s before, {running:.1f} s running and "
        f"{analysing:.1f} s analysing in {waves} waves; {found.rows} rows of "
        f"{len(points(spec))} points"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--duration", type=float, default=14.0, help="simulated seconds of a point")
    parser.add_argument("--local", type=int, nargs="*", default=[2], help="local[N]")
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4], help="of clusters")
    parser.add_argument("--lose", action="store_true", help="kill a worker of each cluster")
    options = parser.parse_args()
    if options.lose and any(count < 2 for count in options.workers):
        parser.error("--lose needs two workers or more")
    spec = make_spec(options.points, options.nodes, options.duration)
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} beforehand")
    with tempfile.TemporaryDirectory() as scratch:
        for count in options.local:
            folder = Path(scratch, f"local-{count}")
            found = measure(spec, folder, f"local[{count}]", None)
            show(f"local[{count}]", spec, found, float(np.nansum(spent(folder))), count)
        for count in options.workers:
            folder = Path(scratch, f"cluster-{count}")
            with Cluster(Path(scratch, f"spark-{count}"), count) as cluster:
                losing = cluster if options.lose else None
                found = measure(spec, folder, cluster.master, losing)
            show(f"{count} workers", spec, found, float(np.nansum(spent(folder))), count)


if __name__ == "__main__":
    main()

"""Processors that wait for the last points of a sweep's waves, by the order of the points.

    python -m tests.benchmarks.wave_ends [SWEEP] [--processors 2 4 8 16]

Runs points of very different lengths once, one after the other, or takes what those of a finished
sweep took.  Then it replays their processor seconds on some processors: waves as
`spark_analysis.sweeps.waves` makes them, in the order of the sweep, with the longest first as they
are expected, and with the longest first as they turn out to be.  What is printed is the share of
the processors' time in which they wait for the end of a wave.
"""

from __future__ import annotations

import argparse
import heapq
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.spec import RunPoint, SweepSpec, points
from spark_analysis.sweeps.tasks import processor_seconds
from spark_analysis.sweeps.waves import Costs, take_wave, work

SPEC = SweepSpec(
    "roaming_field",
    ("flooding", "broker-gpsr", "broker-aodv", "semi-probabilistic"),
    {"nodes": ("10", "20", "40", "60", "80"), "interval": ("1", "2", "5")},
    seeds=3,
    duration=20.0,
)


def measured(spec: SweepSpec, folder: Path) -> dict[str, float]:
    """Run points of a spec in an empty folder; return the processor seconds of each, by key."""
    wanted, sweep = points(spec), SweepFolder(folder)
    for number, point in enumerate(wanted):
        print(f"\rrunning point {number + 1} of {len(wanted)}", end="", flush=True)
        point.task(sweep.path(point)).run()
    print()
    return {point.key: processor_seconds(sweep.path(point)) for point in wanted}


def replayed(
    wanted: Sequence[RunPoint],
    processors: int,
    works: Mapping[str, float],
    seconds: Mapping[str, float],
    order: Callable[[Sequence[RunPoint]], Sequence[RunPoint]],
) -> tuple[int, float]:
    """Return the number of waves, and the share of the processors' time that they wait.

    `order` puts the points of a wave, which come longest first as expected, into their order.
    """
    costs, rest, waves, elapsed = Costs(works), list(wanted), 0, 0.0
    while rest:
        wave, rest = take_wave(rest, processors, costs)
        ends = [0.0] * processors
        for point in order(wave):
            heapq.heapreplace(ends, ends[0] + seconds[point.key])
            costs.note(point, seconds[point.key])
        waves, elapsed = waves + 1, elapsed + max(ends)
    return waves, 1.0 - sum(seconds[point.key] for point in wanted) / (elapsed * processors)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sweep", nargs="?", type=Path, help="folder of a finished sweep")
    parser.add_argument("--processors", nargs="+", type=int, default=[2, 4, 8, 16])
    options = parser.parse_args()
    if options.sweep is None:
        spec = SPEC
        with tempfile.TemporaryDirectory() as folder:
            seconds = measured(spec, Path(folder))
    else:
        sweep = SweepFolder(options.sweep)
        noted = sweep.noted()
        if noted is None:
            parser.error(f"{options.sweep} is not the folder of a sweep")
        spec = noted[0]
        seconds = {point.key: processor_seconds(sweep.path(point)) for point in points(spec)}
    wanted = [point for point in points(spec) if seconds[point.key] > 0]
    if not wanted:
        parser.error("no point of this code has run there")
    works = {point.key: work(point.scenario()) for point in wanted}
    asked = {point.key: number for number, point in enumerate(wanted)}
    orders: dict[str, Callable[[Sequence[RunPoint]], Sequence[RunPoint]]] = {
        "as asked for": lambda wave: sorted(wave, key=lambda point: asked[point.key]),
        "longest first, expected": lambda wave: wave,
        "longest first, in truth": lambda wave: sorted(wave, key=lambda p: -seconds[p.key]),
    }
    spent = [seconds[point.key] for point in wanted]
    print(
        f"{len(wanted)} points of {min(spent):.2f} to {max(spent):.2f} s, {sum(spent):.0f} s in all"
    )
    for processors in options.processors:
        for name, order in orders.items():
            waves, waiting = replayed(wanted, processors, works, seconds, order)
            print(f"{processors:4} processors, {waves:2} waves, {name:24} {waiting:7.1%} waiting")


if __name__ == "__main__":
    main()

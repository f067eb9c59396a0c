"""Do two backends agree?  One scenario, run several times on both, compared by its captures.

Theory of operation.  Repeat i has the same placement, motion and workload on both backends; the
seeds of the nodes and of the channel are other ones in every repeat, and the same on both.  What
the repeats differ by is therefore chance, part of which (jitter, start times) both backends share:
differences are taken repeat by repeat, and an interval of confidence over the repeats says how
well their mean is known.  Three criteria, none of which knows a backend by name:

*Delivery*: the mean ratios differ by at most `DELIVERY_BOUND`.

*Frames on the air*: the mean numbers of frames that all radios sent while the scenario lasted
differ by at most `FRAMES_BOUND` of the first backend's.

*Delay*: the mean of the repeats' median delays differs by no more than the slower backend's own
overhead explains, and the half width of the interval of the difference.  Real nodes take time
where the protocol does not say so: a process is woken, Python runs, a frame goes through sockets
and devices.  The captures show how much (`jobs.stages`): of every stage of an event's way, by how
much the same step of the same delivery is longer on the slower backend, median.  A delivery over h
hops has one `originate`, one `medium`, h - 1 `forward` and h - 1 `relay`, and one `notify`.  What
overhead explains is the median of the quicker backend's delays, each lengthened by the overhead of
its way, less their median as it is.  Ways are those of the quicker backend, so one that takes
longer ways is not excused; a stage in which the slower backend is the quicker one counts against
the others; a backend that measures no fidelity claims no overhead.

Stages add up to the delay, so whatever is wrong would be excused by the stage it is in, were there
no other measure of what execution can cost.  On the medium no step is excused by more than the
lateness with which that backend's own medium says it delivered frames (99 of 100 frames): what
goes beyond is the radio model.  A forwarder does what a publisher's and a subscriber's node do, it
takes a frame in and sends one, so no forward is excused by more than both of these together, and
by `TIMER` where it waits on purpose: what goes beyond is the protocol.

A repeat whose run lost real time measures the machine, and does not count.  Where fewer than two
repeats are left, the verdict is that the machine was too slow, whatever the numbers say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from emulation.network.fidelity import LATE_MEDIAN, LATE_P99
from emulation.scenario.runfolder import Run
from spark_analysis.confidence import Interval, mean_interval
from spark_analysis.errors import AnalysisError, plain_errors
from spark_analysis.jobs.stages import Stage, on_air, stages, steps
from spark_analysis.jobs.stages import matched as matched_steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analysis.result import Analysis

DELIVERY_BOUND: Final = 0.02
"""Greatest difference of the delivery ratios."""
FRAMES_BOUND: Final = 0.05
"""Greatest difference of the frames on the air, as a share of the first backend's."""
TIMER: Final = 0.001
"""Seconds by which a node may end a wait late: asyncio waits in epoll, whole milliseconds."""
LEAST_REPEATS: Final = 2
"""Repeats that an interval needs."""


@dataclass(frozen=True)
class StageMeasure:
    """One stage of one run: median step and mean share of a delivery, seconds."""

    p50: float
    per_delivery: float


@dataclass(frozen=True)
class Measures:
    """What one run is compared by; NaN where there was nothing to measure."""

    run: str
    seed: int
    delivery: float
    """Ratio, settled events."""
    delay: float
    """s, median over deliveries at other nodes than the publisher's."""
    hops: float
    """Mean of these deliveries."""
    frames: Mapping[str, float]
    """Frames on the air by message kind."""
    stages: Mapping[Stage, StageMeasure]
    deliveries: tuple[tuple[int, float], ...]
    """Hops and delay, s, of each of these deliveries."""
    traced: float
    """Share of the deliveries whose way was followed through the captures."""
    kept_real_time: bool | None = None
    """None: the backend does not run in real time."""
    late_median: float = math.nan
    late_p99: float = math.nan
    """s, how late the backend's medium delivered frames, by its own account."""
    failed_checks: tuple[str, ...] = ()

    @property
    def frames_total(self) -> float:
        """Frames on the air of all kinds."""
        return float(sum(self.frames.values()))


@dataclass(frozen=True)
class Side:
    """One backend and its runs, one a repeat."""

    name: str
    runs: tuple[Measures, ...]

    def values(self, of: Callable[[Measures], float]) -> list[float]:
        """Return what was measured in each run, where something was."""
        return [value for value in map(of, self.runs) if math.isfinite(value)]


@dataclass(frozen=True)
class Quantity:
    """A quantity on both sides, and first less second."""

    first: Interval
    second: Interval
    difference: Interval

    @property
    def relative(self) -> float:
        """The difference as a share of the first side's mean; 0 where both are 0."""
        if self.difference.mean == 0:
            return 0.0
        return self.difference.mean / self.first.mean if self.first.mean else math.inf


@dataclass(frozen=True)
class Overhead:
    """What one stage excuses; seconds."""

    stage: Stage
    median: Quantity
    """Median steps of the repeats; the difference is that of the same steps (`Matched`)."""
    excess: float
    """How much longer the slower side's step is, or shorter; 0 for a side without overhead."""
    limit: float
    """Greatest excess that counts; infinite where nothing limits it."""

    @property
    def counts(self) -> float:
        """What counts of the excess."""
        return min(self.excess, self.limit)


def along_the_way(overhead: Sequence[Overhead], hops: float) -> float:
    """Return the overhead, s, of a delivery over so many hops."""
    return sum(part.counts * times(part.stage, hops) for part in overhead)


def times(stage: Stage, hops: float) -> float:
    """Return how often a stage comes in a delivery over so many hops."""
    return hops - 1 if stage in (Stage.FORWARD, Stage.RELAY) else 1


@dataclass(frozen=True)
class Criterion:
    """One question, its answer and the bound; `quantity` and `bound` in the same unit."""

    name: str
    quantity: Quantity
    bound: float
    ok: bool
    why: str
    """One sentence, with numbers, whatever the answer."""


class Outcome(StrEnum):
    """The answer to the whole."""

    AGREE = "agree"
    DISAGREE = "disagree"
    TOO_SLOW = "too slow"


@dataclass(frozen=True)
class Agreement:
    """The comparison of two backends."""

    first: Side
    second: Side
    counted: tuple[int, ...]
    """Repeats, from 0, whose runs all kept real time; all where these are too few."""
    outcome: Outcome
    delivery: Criterion
    frames: Criterion
    delay: Criterion
    kinds: Mapping[str, Quantity]
    """Frames on the air by message kind."""
    hops: Quantity
    overhead: tuple[Overhead, ...]
    explained: float
    """s of the difference in median delay that overhead explains."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All of them, in order."""
        return (self.delivery, self.frames, self.delay)

    @property
    def slow(self) -> tuple[Measures, ...]:
        """Runs that lost real time."""
        runs = (*self.first.runs, *self.second.runs)
        return tuple(run for run in runs if run.kept_real_time is False)

    @property
    def slower(self) -> Side:
        """The side with the longer delays."""
        return self.second if self.delay.quantity.difference.mean < 0 else self.first


Matched = Mapping[Stage, float]
"""By how much the same step is longer in the first run of a repeat than in the second, s."""


def compare(first: Side, second: Side, matched: Sequence[Matched]) -> Agreement:
    """Return the comparison of two sides with as many runs each, at least `LEAST_REPEATS`.

    `matched` has an entry a repeat, without the stages that no delivery has.
    """
    repeats = range(len(first.runs))
    kept = tuple(
        i
        for i in repeats
        if first.runs[i].kept_real_time is not False and second.runs[i].kept_real_time is not False
    )
    enough = len(kept) >= LEAST_REPEATS
    counted = kept if enough else tuple(repeats)
    a = Side(first.name, tuple(first.runs[i] for i in counted))
    b = Side(second.name, tuple(second.runs[i] for i in counted))
    hops = _quantity(a, b, lambda run: run.hops)
    delay = _quantity(a, b, lambda run: run.delay)
    overhead = _overhead(a, b, delay, [matched[i] for i in counted])
    explained = _explained(b if delay.difference.mean >= 0 else a, overhead)
    kinds = {
        kind: _quantity(a, b, lambda run, kind=kind: float(run.frames.get(kind, 0)))  # type: ignore[misc]
        for kind in dict.fromkeys(kind for run in (*a.runs, *b.runs) for kind in sorted(run.frames))
    }
    criteria = (
        _delivery(_quantity(a, b, lambda run: run.delivery)),
        _frames(_quantity(a, b, lambda run: run.frames_total)),
        _delay(delay, explained),
    )
    if not enough:
        outcome = Outcome.TOO_SLOW
    elif all(criterion.ok for criterion in criteria):
        outcome = Outcome.AGREE
    else:
        outcome = Outcome.DISAGREE
    return Agreement(first, second, counted, outcome, *criteria, kinds, hops, overhead, explained)


def half_width(interval: Interval) -> float:
    """Return how far an interval reaches to either side; 0 where it is not known."""
    width = (interval.high - interval.low) / 2
    return width if math.isfinite(width) else 0.0


def _quantity(first: Side, second: Side, of: Callable[[Measures], float]) -> Quantity:
    pairs = [(of(a), of(b)) for a, b in zip(first.runs, second.runs, strict=True)]
    pairs = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    if not pairs:
        return Quantity(_NOTHING, _NOTHING, _NOTHING)
    return Quantity(
        mean_interval([a for a, _ in pairs]),
        mean_interval([b for _, b in pairs]),
        mean_interval([a - b for a, b in pairs]),
    )


_NOTHING: Final = Interval(math.nan, math.nan, math.nan, 0)


def _delivery(quantity: Quantity) -> Criterion:
    off = abs(quantity.difference.mean)
    why = (
        f"the ratios differ by {100 * off:.2f} percentage points, "
        f"at most {100 * DELIVERY_BOUND:g} are allowed"
    )
    return Criterion("delivery", quantity, DELIVERY_BOUND, off <= DELIVERY_BOUND, _known(off, why))


def _frames(quantity: Quantity) -> Criterion:
    off = abs(quantity.relative)
    why = f"the numbers differ by {100 * off:.2f} %, at most {100 * FRAMES_BOUND:g} % are allowed"
    bound = FRAMES_BOUND * quantity.first.mean
    return Criterion("frames on the air", quantity, bound, off <= FRAMES_BOUND, _known(off, why))


def _delay(quantity: Quantity, explained: float) -> Criterion:
    off, chance = abs(quantity.difference.mean), half_width(quantity.difference)
    bound = explained + chance
    why = (
        f"the medians differ by {1e3 * off:.3f} ms, of which overhead explains "
        f"{1e3 * explained:.3f} ms and chance {1e3 * chance:.3f} ms"
    )
    return Criterion("median delay", quantity, bound, off <= bound, _known(off, why))


def _known(off: float, why: str) -> str:
    return why if math.isfinite(off) else "there is nothing to measure"


def _overhead(
    first: Side, second: Side, delay: Quantity, matched: Sequence[Matched]
) -> tuple[Overhead, ...]:
    """Return what the stages excuse of the slower side's longer delays."""
    sign = -1.0 if delay.difference.mean < 0 else 1.0
    slower = first if sign > 0 else second
    real_time = any(run.kept_real_time is not None for run in slower.runs)
    medians = {}
    for stage in Stage:
        same = [repeat[stage] for repeat in matched if stage in repeat]
        if same:
            steps = _quantity(first, second, lambda run, stage=stage: _p50(run, stage))  # type: ignore[misc]
            medians[stage] = replace(steps, difference=mean_interval(same))
    excess = {
        stage: sign * median.difference.mean if real_time else 0.0
        for stage, median in medians.items()
    }
    limits = _limits(slower, excess, _waits(medians, sign))
    return tuple(
        Overhead(stage, median, excess[stage], limits.get(stage, math.inf))
        for stage, median in medians.items()
    )


def _p50(run: Measures, stage: Stage) -> float:
    return run.stages[stage].p50 if stage in run.stages else math.nan


def _explained(quicker: Side, overhead: Sequence[Overhead]) -> float:
    """Return by how much overhead would shift the median delay of the quicker side; mean."""
    shifts = [
        statistics.median(delay + along_the_way(overhead, hops) for hops, delay in run.deliveries)
        - statistics.median(delay for _, delay in run.deliveries)
        for run in quicker.runs
        if run.deliveries
    ]
    return max(0.0, statistics.fmean(shifts)) if shifts else 0.0


def _waits(medians: Mapping[Stage, Quantity], sign: float) -> bool:
    """Say whether forwarders wait on purpose: longer than nodes need, on the quicker side."""
    quicker = {
        stage: (median.second if sign > 0 else median.first).mean
        for stage, median in medians.items()
    }
    needed = quicker.get(Stage.ORIGINATE, 0.0) + quicker.get(Stage.NOTIFY, 0.0)
    return quicker.get(Stage.FORWARD, 0.0) > needed


def _limits(slower: Side, excess: Mapping[Stage, float], waits: bool) -> dict[Stage, float]:
    """Return how much of a step's excess counts, by measures of their own."""
    nodes = sum(max(0.0, excess.get(stage, 0.0)) for stage in (Stage.ORIGINATE, Stage.NOTIFY))
    late = max(slower.values(lambda run: run.late_p99), default=math.inf)
    return {
        Stage.MEDIUM: late,
        Stage.RELAY: late,
        Stage.FORWARD: nodes + (TIMER if waits else 0.0),
    }


# From run folders.


def measure(run: Run, analysis: Analysis, stages: pd.DataFrame, air: pd.DataFrame) -> Measures:
    """Return a run's measures from its tables: those of the analysis, `STAGES` and `ON_AIR`."""
    summary = analysis.of(run).table("summary").iloc[0]
    of_run = stages[stages["run"] == run.name]
    delays = analysis.of(run).table("delay")
    delays = delays[~delays["local"].eq(True)]
    sent = air[air["run"] == run.name].sort_values("kind_name")
    delivered = float(summary["delay_count"])
    checks = {} if run.fidelity is None else {check.name: check for check in run.fidelity.checks}

    def late(name: str) -> float:
        value = checks[name].value if name in checks else None
        return math.nan if value is None else value / 1e6

    return Measures(
        run=run.name,
        seed=run.scenario.seed,
        delivery=float(summary["delivery_ratio"]),
        delay=float(summary["delay_p50"]),
        hops=float(summary["hops_mean"]),
        frames={str(row.kind_name): float(row.frames) for row in sent.itertuples()},
        stages={
            Stage(row.stage): StageMeasure(float(row.p50), float(row.per_delivery))
            for row in of_run.itertuples()
        },
        deliveries=tuple(
            (int(hops), float(delay))
            for hops, delay in zip(delays["hops"], delays["delay"], strict=True)
        ),
        traced=float(of_run["deliveries"].max()) / delivered if delivered and len(of_run) else 0.0,
        kept_real_time=run.fidelity.kept_real_time if checks and run.fidelity else None,
        late_median=late(LATE_MEDIAN),
        late_p99=late(LATE_P99),
        failed_checks=tuple(name for name, check in checks.items() if not check.ok),
    )


def read_agreements(
    spark: SparkSession,
    folders: Sequence[Sequence[Path]],
    names: Sequence[str],
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> tuple[list[Agreement], Analysis]:
    """Analyse the run folders of all repeats in one session; return comparisons and analysis.

    `folders` has those of each repeat in the order of `names`; the first backend is compared with
    each of the others.  Raises `AnalysisError`.
    """
    from spark_analysis.analysis import analyse

    if len(folders) < LEAST_REPEATS:
        raise AnalysisError(f"{len(folders)} repeats are too few: at least {LEAST_REPEATS}")
    every = [folder for repeat in folders for folder in repeat]
    analysis = analyse(spark, every, progress=lambda what, share: progress(what, 0.7 * share))
    progress("following every delivery through the captures", 0.7)
    with plain_errors():
        tables, longer = _tables(spark, analysis, len(names))
    of_runs = [measure(run, analysis, tables["stages"], tables["on_air"]) for run in analysis.runs]
    first, *others = (
        Side(name, tuple(of_runs[place :: len(names)])) for place, name in enumerate(names)
    )
    found = []
    for other, table in zip(others, longer, strict=True):
        matched: list[dict[Stage, float]] = [{} for _ in folders]
        for row in table.itertuples():
            matched[row.repeat][Stage(row.stage)] = float(row.longer)
        found.append(compare(first, other, matched))
    return found, analysis


def _tables(
    spark: SparkSession, analysis: Analysis, sides: int
) -> tuple[dict[str, pd.DataFrame], list[pd.DataFrame]]:
    """Return `STAGES` and `ON_AIR` of all runs, and `MATCHED` of the first side with each other.

    The runs of a repeat are after each other.
    """
    from spark_analysis.captures.materialise import FRAMES_FOLDER, read_frames
    from spark_analysis.jobs.nodes import NODES
    from spark_analysis.jobs.overhead import radio_packets

    frames = read_frames(spark, [run.metrics / FRAMES_FOLDER for run in analysis.runs])
    nodes = spark.createDataFrame(analysis.table("nodes")[NODES.schema.fieldNames()], NODES.schema)
    runs = spark.createDataFrame(analysis.table("summary")[["run", "epoch_ns", "duration"]])
    found = steps(frames, nodes).cache()
    try:
        tables = {
            "stages": stages(found).toPandas(),
            "on_air": on_air(radio_packets(frames, nodes), runs).toPandas(),
        }
        longer = []
        for other in range(1, sides):
            turns = spark.createDataFrame(
                [
                    (run.name, i // sides, i % sides == 0)
                    for i, run in enumerate(analysis.runs)
                    if i % sides in (0, other)
                ],
                "run string, repeat int, first boolean",
            )
            longer.append(matched_steps(found, turns).toPandas())
    finally:
        found.unpersist()
    return tables, longer

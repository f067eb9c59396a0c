"""Sweeps: one scenario with many values of its parameters, as Spark tasks.

Theory of operation.  A spec (`spark_analysis.sweeps.spec`) is a product of protocols, varied values
and seeds; each of its points is a run under the virtual clock, which is one Spark task
(`spark_analysis.sweeps.tasks`).  Points run in waves, in each of them the longest first
(`spark_analysis.sweeps.waves`).  After a wave, or several short ones, one pass of the ordinary
queries over all their runs gives their summaries; of each point only that row is kept, and what it
took (and, if asked for, the delay of each delivery); its packets are dropped.

A point lies in a folder named by its key.  One that is finished is not run again, whatever spec
asks for it; one that has its frames is only analysed, and so is one whose row is of other versions
of the measures (`spark_analysis.measures.versions`), if its frames were kept; one that was killed
or whose run has failed starts from the beginning.

On a cluster, workers need the sweep's folder at the same path as on the driver.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pandas as pd
from pyspark.sql import SparkSession

from spark_analysis.engine.code import fingerprint
from spark_analysis.engine.session import plain_errors, spark_session
from spark_analysis.errors import AnalysisError, UnusableRunError
from spark_analysis.measures.versions import check_versions
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.rows import write_summaries
from spark_analysis.sweeps.spec import RunPoint, SweepError, SweepSpec, is_current, points
from spark_analysis.sweeps.tasks import (
    FAILURE,
    await_workers,
    drop_packets,
    failed,
    failure,
    is_local,
    note_failure,
    processor_seconds,
    ran,
    run_tasks,
    stopped,
)
from spark_analysis.sweeps.waves import Costs, is_due, take_wave, work

FEW: Final = 10
"""Runs that tell whether a failure is theirs, or that of the queries."""
PARTITIONS: Final = 16
"""Most partitions of the frames that are analysed together."""


@dataclass(frozen=True)
class Progress:
    """How far a sweep has come."""

    doing: str
    done: int
    failed: int
    total: int


@dataclass(frozen=True)
class Keep:
    """What is kept of a run besides its summary: its packets, its deliveries."""

    frames: bool
    deliveries: bool


@dataclass(frozen=True)
class SweepOutcome:
    """The end of a sweep: `results` has a row for each finished point.

    `failures` are the reasons why points failed, `problems` those of points that finished; by
    point, one line each.
    """

    spec: SweepSpec
    folder: Path
    results: pd.DataFrame
    failures: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> pd.DataFrame:
        """The results without runs that lost real time."""
        if "kept_real_time" not in self.results:
            return self.results
        return self.results[self.results["kept_real_time"].astype(object).ne(False)]


def run_sweep(
    spec: SweepSpec,
    folder: Path,
    *,
    master: str = "local[*]",
    keep_frames: bool = False,
    keep_deliveries: bool = False,
    only: Container[str] | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> SweepOutcome:
    """Run what a spec asks for and has not run yet, or `only` the points with these keys.

    Of a sweep in real time, only analyse what has run.
    Packets are kept only if `keep_frames`, each delivery's delay
    (`spark_analysis.sweeps.rows.DELIVERIES`) only if `keep_deliveries`; points that ran without
    keeping these run again.
    `progress` is called often and ends the sweep with what it raises; points that are finished by
    then are kept.  Raises `SweepError` and other `AnalysisError`.
    """
    plan = [point for point in points(spec) if only is None or point.key in only]
    sweep = SweepFolder(folder)
    keep = Keep(frames=keep_frames, deliveries=keep_deliveries)
    costs = Costs(_check(sweep, plan, keep, progress))
    try:
        with sweep.alone():
            sweep.note(spec)
            missing = _missing(sweep, plan, keep)
            if missing:
                check_versions()
                progress(Progress("starting Spark", len(plan) - len(missing), 0, len(plan)))
                with spark_session(master) as spark, plain_errors():
                    _run(spark, sweep, spec, plan, missing, costs, keep, progress)
            results = sweep.results(plan, spec.vary)
            failures, problems = sweep.remarks(plan)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise SweepError(f"cannot write the sweep: {error.strerror or error}{where}") from None
    return SweepOutcome(spec, folder, results, failures, problems)


def _missing(sweep: SweepFolder, plan: Sequence[RunPoint], keep: Keep) -> list[RunPoint]:
    """Return what is to be done; points in real time run by themselves (`testbed.campaign`)."""
    return [
        point
        for point in plan
        if not sweep.finished(point, deliveries=keep.deliveries, frames=keep.frames)
        and (not point.in_real_time or ran(sweep.path(point)))
    ]


def _check(
    sweep: SweepFolder, plan: Sequence[RunPoint], keep: Keep, progress: Callable[[Progress], None]
) -> dict[str, float]:
    """Make the scenarios of what is to be done, before that; return the work of each, by key.

    Raises `SpecError`.
    """
    missing, works = _missing(sweep, plan, keep), {}
    for number, point in enumerate(missing):
        doing = f"checking scenario {number + 1} of {len(missing)}"
        progress(Progress(doing, len(plan) - len(missing), 0, len(plan)))
        works[point.key] = work(point.scenario())
    return works


def _run(
    spark: SparkSession,
    sweep: SweepFolder,
    spec: SweepSpec,
    plan: Sequence[RunPoint],
    missing: Sequence[RunPoint],
    costs: Costs,
    keep: Keep,
    progress: Callable[[Progress], None],
) -> None:
    context, rest = spark.sparkContext, list(missing)
    done, lost = len(plan) - len(missing), 0
    for point in plan:
        costs.note(point, processor_seconds(sweep.path(point)))
    code = "" if is_local(context) else fingerprint()
    await_workers(context, lambda doing: progress(Progress(doing, done, 0, len(plan))))
    while rest:
        began, due, lost_before = time.monotonic(), False, lost
        to_analyse, kept = list[RunPoint](), set[Path]()
        while rest and not due:
            at_a_time = max(context.defaultParallelism, 1)
            wave, rest = take_wave(rest, at_a_time, costs)
            paths = [sweep.path(point) for point in wave]
            kept |= {path for path in map(sweep.path, filter(sweep.stale, wave)) if ran(path)}
            for path in paths:  # of an earlier attempt
                (path / FAILURE).unlink(missing_ok=True)
            new = [point for point in wave if not ran(sweep.path(point))]
            report = _Report(sweep, wave, done, lost, len(plan), progress)
            run_tasks(spark, [point.task(sweep.path(point), code) for point in new], report)
            _check_unchanged(sweep, spec, new)
            for point in new:
                costs.note(point, processor_seconds(sweep.path(point)))
            to_analyse += wave
            done += len(wave)
            lost += sum(map(failed, paths))
            due = is_due(len(to_analyse), time.monotonic() - began)
        progress(Progress("analysing", done, lost, len(plan)))
        # Runs leave little, and every partition is a task at each of many steps.
        spark.conf.set("spark.sql.shuffle.partitions", min(at_a_time, PARTITIONS))
        paths = [sweep.path(point) for point in to_analyse]
        _analyse(spark, [path for path in paths if ran(path)], keep, kept)
        lost = lost_before + sum(map(failed, paths))
        sweep.results(plan, spec.vary)
        progress(Progress("analysed", done, lost, len(plan)))


def _check_unchanged(sweep: SweepFolder, spec: SweepSpec, new: Sequence[RunPoint]) -> None:
    """Raise `SweepError` if what points that have just run are made of has changed.

    They run again: workers read code and files when they need them, and may have read either.
    """
    if all(map(is_current, {point.code: point for point in new}.values())):
        if {point.key for point in new} <= {point.key for point in points(spec)}:
            return
        what = "a file that the runs read"
    else:
        what = "the code of the runs"
    for point in new:
        shutil.rmtree(sweep.path(point), ignore_errors=True)
    raise SweepError(f"{what} has changed: begin again; those under way run once more")


class _Report:
    """Reports how far a sweep has come while a wave runs; ended points are not looked at again."""

    def __init__(
        self,
        sweep: SweepFolder,
        wave: Sequence[RunPoint],
        done: int,
        lost: int,
        total: int,
        progress: Callable[[Progress], None],
    ) -> None:
        """`done` and `lost` are the points that had ended, and had failed, before the wave."""
        self._sweep = sweep
        self._open = list(wave)
        self._done = done
        self._lost = lost
        self._total = total
        self._progress = progress

    def __call__(self, doing: str) -> None:
        ended = [point for point in self._open if self._sweep.ended(point)]
        if ended:
            self._done += len(ended)
            self._lost += sum(failed(self._sweep.path(point)) for point in ended)
            keys = {point.key for point in ended}
            self._open = [point for point in self._open if point.key not in keys]
        self._progress(Progress(doing, self._done, self._lost, self._total))


def _analyse(spark: SparkSession, runs: Sequence[Path], keep: Keep, kept: Container[Path]) -> None:
    """Summarise runs that have come to their end; one that cannot be summarised has failed.

    The packets of those in `kept` were kept when they ran, and still are; so are those of runs that
    fail, unless they are damaged.  If a `FEW` fail for one reason, which is then not theirs, none
    has failed, and `AnalysisError` is raised.
    """
    if not runs:
        return
    try:
        write_summaries(spark, runs, deliveries=keep.deliveries)
    except AnalysisError as error:
        if stopped(spark.sparkContext):
            raise
        if len(runs) == 1:
            if isinstance(error, UnusableRunError):
                shutil.rmtree(runs[0] / "metrics", ignore_errors=True)
            note_failure(runs[0], error)
            return
        few = runs[:: math.ceil(len(runs) / FEW)]
        for run in few:
            _analyse(spark, [run], keep, kept)
        if all(map(failed, few)) and len(set(map(failure, few))) == 1:
            for run in few:
                (run / FAILURE).unlink()
            raise AnalysisError(
                f"none of {len(few)} runs can be summarised: {error}; packets are kept, and the "
                "same command goes on from there"
            ) from None
        for run in set(runs).difference(few):
            _analyse(spark, [run], keep, kept)
        return
    for run in runs:
        if not keep.frames and run not in kept:
            drop_packets(run)

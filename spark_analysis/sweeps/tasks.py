"""Points of a sweep as Spark tasks.

A task leaves in its folder either a run's frames or `failed.txt`: an error in a run is written
there by its worker and does not end the job.  A run that ends its worker's process (the kernel
kills one that asks for too much memory) ends the job as well; points that the job had not finished
are then run again, one point a job, so that only the one to blame fails.
"""

from __future__ import annotations

import gc
import itertools
import math
import os
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from threading import Thread
from typing import Any, Final, Protocol

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

from emulation.backends.base import BackendError, Unwatched
from emulation.errors import ScenarioError
from emulation.scenario.runfolder import RunFolder, defects_of, read_record
from emulation.scenario.scenario import Scenario
from spark_analysis.captures.materialise import FRAMES_FOLDER, drop_decoded
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.engine.code import fingerprint
from spark_analysis.engine.session import plain_errors
from spark_analysis.errors import AnalysisError, first_line
from topologies.catalog import make_scenario

FAILURE: Final = "failed.txt"
COST: Final = "processor_seconds.txt"
"""In a run's folder: what the run took, without its analysis."""
SHORT: Final = 0.5
"""Processor seconds of a short run; ..."""
ASIDE: Final = 10
"""... what so many of them leave is collected at a time."""
POLL: Final = 0.3
"""Seconds between looks at how far a job has come."""
GATHERING: Final = 2.0
"""Seconds without a new worker after which all of a cluster's workers are taken to be there."""
PATIENCE: Final = 20
"""How often to look for the results of tasks that have ended."""


_short_runs = itertools.count(1)


@dataclass(frozen=True)
class Task:
    """One run and its folder, which is replaced, and then is a run folder with frames.

    `duration` is in seconds; `settings` are those that were set, with their types.  It runs under
    the virtual clock, or in a machine whose clock waits, from the `image` of that name.  A worker
    elsewhere must have the project whose `fingerprint` is `code`; if that is empty, it is here.
    """

    folder: Path
    topology: str
    protocol: str
    seed: int
    duration: float
    settings: Mapping[str, Any]
    image: str | None = None
    code: str = ""

    def run(self) -> None:
        """Run it, on a worker."""
        shutil.rmtree(self.folder, ignore_errors=True)  # of an attempt that Spark lost
        start = _spent()
        try:
            if self.code not in {"", fingerprint()}:
                raise BackendError(
                    "the project on this worker is not the one here: pack and send it again, or "
                    "copy it (docs/sweeps.md)"
                )
            scenario = make_scenario(
                self.topology,
                self.protocol,
                seed=self.seed,
                duration=self.duration,
                settings=dict(self.settings),
            )
            run = RunFolder.at(self.folder, scenario)
            if self.image is None:
                run_to_frames(scenario, run)
            else:
                _run_in_machine(scenario, run, self.image)
            refuse_defects(run)
            spent = _spent() - start  # a worker has one task at a time
            (self.folder / COST).write_text(f"{spent:.3f}\n", encoding="utf-8")
            _set_garbage_aside(spent)
        except Exception as error:  # noqa: BLE001  the other points go on
            note_failure(self.folder, error)


def _spent() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def _run_in_machine(scenario: Scenario, run: RunFolder, image: str) -> None:
    from emulation.vm.waiting import MachineBackend, image_name  # most workers never need these

    if image_name() != image:
        raise BackendError("there is another image since `vm build`: start again to run all in it")
    MachineBackend().execute(scenario, run, Unwatched())


def _set_garbage_aside(spent: float) -> None:
    """Keep PySpark from looking for garbage in all that this worker has, unless it is time to.

    It does so after every task; among the modules that a run needs, that takes longer than a short
    run.  A simulation returns to the collector what was set aside before it.
    """
    if spent < SHORT and next(_short_runs) % ASIDE:
        gc.freeze()


def processor_seconds(folder: Path) -> float:
    """Return what a run took; NaN if unknown."""
    try:
        return float((folder / COST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return math.nan


def ran(folder: Path) -> bool:
    """Return whether a run has come to its end, and its packets are there."""
    return (folder / "metrics" / FRAMES_FOLDER).exists() or _captured(RunFolder(folder))


def _captured(run: RunFolder) -> bool:
    """Return whether a run in real time has come to its end, and its captures are there."""
    if not run.captures.is_dir() or not any(run.captures.iterdir()):
        return False
    record = read_record(run, [])
    return record is not None and record.ended == "completed"


def drop_packets(folder: Path) -> None:
    """Remove the packets of a run.  Raises OSError."""
    drop_decoded(folder / "metrics")
    for capture in RunFolder(folder).captures.iterdir():
        capture.unlink()


def refuse_defects(run: RunFolder) -> None:
    """Raise `BackendError` if node apps raised exceptions: the run does not measure its protocol.

    Its packets are removed.  Raises OSError.
    """
    if (defects := defects_of(run)) is not None:
        drop_packets(run.path)
        raise BackendError(f"{defects} (logs: {run.logs}); correct the protocol")


def failed(folder: Path) -> bool:
    """Return whether a point has failed."""
    return (folder / FAILURE).exists()


def _missing(tasks: Sequence[Task], report: Callable[[str], None]) -> list[Task]:
    """Return tasks that have left nothing, after a while: shared folders show files late."""
    missing = list(tasks)
    for _ in range(PATIENCE):
        missing = [task for task in missing if not (ran(task.folder) or failed(task.folder))]
        if not missing:
            break
        report("waiting for files of the cluster's workers")
        time.sleep(POLL)
    return missing


def note_failure(folder: Path, error: Exception) -> None:
    """Write down why a point failed: the traceback, and last the reason in a line."""
    # Messages of other errors say little without the error's name ("'speed'").
    plain = isinstance(error, AnalysisError | BackendError | OSError | ScenarioError)
    reason = first_line(error) if plain else f"{type(error).__name__}: {first_line(error)}"
    folder.mkdir(parents=True, exist_ok=True)
    report = "".join(traceback.format_exception(error)) + f"\n{reason}\n"
    (folder / FAILURE).write_text(report, encoding="utf-8")


def failure(folder: Path) -> str | None:
    """Return why a point failed, in a line; None if it did not."""
    try:
        text = (folder / FAILURE).read_text(encoding="utf-8")
    except OSError:
        return None
    return next(iter(text.strip().splitlines()[-1:]), "it does not say why")


def await_workers(context: SparkContext, report: Callable[[str], None]) -> None:
    """Wait until the workers of a cluster have arrived; `report(what)` as in `run_tasks`."""
    if is_local(context):
        return
    last_cores, since = 0, time.monotonic()
    while not last_cores or time.monotonic() - since < GATHERING:
        report("waiting for the cluster's workers")
        time.sleep(POLL)
        cores = context.defaultParallelism if _has_executors(context) else 0
        if cores != last_cores:
            last_cores, since = cores, time.monotonic()


def run_tasks(spark: SparkSession, tasks: Sequence[Task], report: Callable[[str], None]) -> None:
    """Run tasks in parallel; `report(what)` is called while they run.

    What `report` raises ends the tasks and is raised.  Raises `AnalysisError` if Spark ends.
    """
    if not tasks:
        return
    run_jobs(spark.sparkContext, tasks, report, ran)
    for task in _missing(tasks, report):
        why = "its run is missing: a cluster's workers must share the sweep's folder"
        note_failure(task.folder, AnalysisError(why))


class Runnable(Protocol):
    """What a worker runs: it can be pickled, and leaves its results in its folder."""

    @property
    def folder(self) -> Path: ...

    def run(self) -> None: ...


def run_jobs(
    context: SparkContext,
    tasks: Sequence[Runnable],
    report: Callable[[str], None],
    is_done: Callable[[Path], bool],
    partitions: int | None = None,
) -> None:
    """Run tasks as one job; if that ends early, run each unfinished one as a job of its own.

    `report` and what is raised as in `run_tasks`; `is_done` tells of a task's folder, which is
    removed before.  A task has a partition of its own unless there are to be fewer `partitions`.
    """
    for task in tasks:
        shutil.rmtree(task.folder, ignore_errors=True)
    try:
        with plain_errors():
            _run_job(context, tasks, report, partitions)
    except AnalysisError as error:
        if stopped(context):
            raise
        if len(tasks) == 1:
            why = f"its process was lost, perhaps for want of memory ({error})"
            note_failure(tasks[0].folder, AnalysisError(why))
            return
        for task in tasks:
            if not is_done(task.folder) and not failed(task.folder):
                run_jobs(context, [task], report, is_done)


def _run_job(
    context: SparkContext,
    tasks: Sequence[Runnable],
    report: Callable[[str], None],
    partitions: int | None,
) -> None:
    """Run tasks as one job.  Raises what ends it."""
    group = f"sweep-{tasks[0].folder.name}"
    errors: list[Exception] = []

    def job() -> None:
        context.setJobGroup(group, "points of a sweep", interruptOnCancel=True)
        try:
            count = min(partitions or len(tasks), len(tasks))
            context.parallelize(tasks, count).foreach(methodcaller("run"))
        except Exception as error:  # noqa: BLE001  the waiting thread raises it
            errors.append(error)

    thread: Thread = InheritableThread(target=job, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            report("running" if _has_executors(context) else "waiting for the cluster's workers")
            thread.join(POLL)
    except BaseException:
        context.cancelJobGroup(group)
        raise
    if errors:
        raise errors[0]


def is_local(context: SparkContext) -> bool:
    return str(context.master).startswith("local")


def _has_executors(context: SparkContext) -> bool:
    """Return whether there is an executor for tasks."""
    if is_local(context):
        return True
    jvm_context = context._jsc
    assert jvm_context is not None
    return bool(jvm_context.sc().getExecutorMemoryStatus().size() > 1)  # one is the driver


def stopped(context: SparkContext) -> bool:
    """Return whether Spark has ended, so that nothing can be tried again."""
    jvm_context = context._jsc
    return jvm_context is None or bool(jvm_context.sc().isStopped())

"""Sweeps: one scenario with many values of its parameters, as Spark tasks.

Theory of operation.  A spec (`SweepSpec`) is a product of protocols, varied values and seeds;
each of its points is a run under the virtual clock, which is one Spark task (`sweep_tasks`).
Points run in waves.  After each, one pass of the ordinary jobs over all runs of the wave gives
their summaries; of each point only that row is kept, and its packets are dropped.

A point lies in a folder named after the hash of what it runs: topology, protocol, all parameters,
seed, duration, and the source code that makes and measures a run.  A point whose folder has a
summary is finished and not run again, whatever spec asks for it; one that has its frames is
only analysed; what was killed or has failed is begun anew.

    <sweep>/sweep.json  results.parquet  sweep.html  points/<hash>/scenario.json run.json ...

On a cluster, workers need the project and its virtual environment, and the sweep's folder, at the
same paths as on the driver.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import itertools
import json
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario
from emulation.workloads.registry import WORKLOAD
from nodeapp.parameters import Parameter, ParameterError, convert
from spark_analysis.captures.materialise import FRAMES_FOLDER
from spark_analysis.captures.session import ROOT, spark_session
from spark_analysis.errors import AnalysisError, plain_errors
from spark_analysis.summaries import summaries
from spark_analysis.sweeps.tasks import (
    FAILURE,
    Task,
    await_workers,
    failed,
    failure,
    note_failure,
    ran,
    run_tasks,
    stopped,
)
from topologies.catalog import all_parameters, make_scenario

SPEC: Final = "sweep.json"
LOCK: Final = ".lock"
RESULTS: Final = "results.parquet"
SUMMARY: Final = "summary.parquet"
WAVE: Final = 16
"""Tasks of a wave for each that runs at a time: fewer leave less on disk until the analysis, which
costs seconds a wave, more waste less at its end.  A run that has ended is not lost with its wave.
"""
PARTITIONS: Final = 16
"""Partitions that are made of a wave's frames, at most."""
_CODE: Final = (
    *("nodeapp", "emulation", "capture", "topologies"),
    *("spark_analysis/jobs", "spark_analysis/metrics", "spark_analysis/schemas.py"),
    *("spark_analysis/table.py", "spark_analysis/reading.py", "spark_analysis/summaries.py"),
)
"""What a point's summary follows from; how it is shown may change."""
_TYPES: Final = {int: "Int64", float: "float64", bool: "boolean", str: "object"}
"""Types of columns that may have gaps: not every protocol has every parameter."""


class SweepError(AnalysisError):
    """A sweep that cannot be written, or a spec that does not fit what is there."""


class SpecError(SweepError):
    """A spec that cannot be run; the message says what to change."""


@dataclass(frozen=True)
class SweepSpec:
    """What to run.  `settings` and the values of `vary` are as `--set` takes them."""

    topology: str
    protocols: tuple[str, ...]
    vary: Mapping[str, tuple[str, ...]]
    seeds: int = 3
    duration: float = 60.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def command(self) -> str:
        """Return the command that asks it."""
        words = ["./run_testbed.sh", "sweep", self.topology, *self.protocols]
        for key, values in self.vary.items():
            words += ["--vary", f"{key}={','.join(values)}"]
        words += ["--seeds", str(self.seeds), "--duration", f"{self.duration:.12g}"]
        for key, value in self.settings.items():
            words += ["--set", f"{key}={value}"]
        return shlex.join(words)


@dataclass(frozen=True)
class Point:
    """One run of a spec; `values` are the varied parameters that it has, as they are typed."""

    topology: str
    protocol: str
    seed: int
    duration: float
    settings: Mapping[str, Any]
    values: Mapping[str, Any]
    key: str

    def scenario(self) -> Scenario:
        """Return the scenario.  Raises `ScenarioError`."""
        return make_scenario(
            self.topology,
            self.protocol,
            seed=self.seed,
            duration=self.duration,
            settings=dict(self.settings),
        )

    def task(self, folder: Path) -> Task:
        """Return what runs it in a folder."""
        settings = dict(self.settings)
        return Task(folder, self.topology, self.protocol, self.seed, self.duration, settings)

    def __str__(self) -> str:
        values = "".join(f" {key}={value}" for key, value in self.values.items())
        return f"{self.protocol}{values} seed={self.seed}"


@dataclass(frozen=True)
class Progress:
    """How far a sweep is."""

    doing: str
    done: int
    failed: int
    total: int


@dataclass(frozen=True)
class Outcome:
    """What came of a sweep: `results` has a row a finished point.

    By point, in a line: why it failed, and what is to be said of one that has finished.
    """

    spec: SweepSpec
    folder: Path
    results: pd.DataFrame
    failures: Mapping[str, str]
    problems: Mapping[str, str] = field(default_factory=dict)


def points(spec: SweepSpec) -> list[Point]:
    """Return the points of a spec, each once; the first seed of all comes first.

    So a sweep that is stopped has whole curves of fewer seeds.

    Names and values are checked here, what they make together when a scenario is made of them.
    Raises `SpecError`.
    """
    if not spec.protocols:
        raise SpecError("name at least one protocol")
    if spec.seeds < 1:
        raise SpecError("--seeds is a number from 1")
    for key in spec.vary:
        if key in spec.settings:
            raise SpecError(f"{key} is both varied and set: leave one of them out")
    found: dict[str, Point] = {}
    workloads = spec.vary.get(WORKLOAD) or (str(spec.settings.get(WORKLOAD, "")),)
    try:
        known = {
            (protocol, workload): all_parameters(spec.topology, protocol, workload)
            for protocol in spec.protocols
            for workload in workloads
        }
        _check_keys(spec, known)
        for (protocol, workload), parameters in known.items():
            varied = {key: values for key, values in spec.vary.items() if key in parameters}
            common = {key: value for key, value in spec.settings.items() if key in parameters}
            for values in itertools.product(*varied.values()):
                chosen = dict(zip(varied, values, strict=True))
                if chosen.get(WORKLOAD, workload) != workload:
                    continue
                for point in _repeats(spec, protocol, parameters, common, chosen):
                    found.setdefault(point.key, point)  # 5 and 5.0 are one value
    except (ScenarioError, ParameterError) as error:
        raise SpecError(str(error)) from None
    return sorted(found.values(), key=lambda point: point.seed)


def _check_keys(spec: SweepSpec, known: Mapping[tuple[str, str], Mapping[str, Parameter]]) -> None:
    names = set[str]().union(*known.values())
    for key in (*spec.vary, *spec.settings):
        if key not in names:
            raise SpecError(
                f"no parameter {key!r} of {spec.topology} or {', '.join(spec.protocols)}; "
                f"there are: {', '.join(sorted(names))}"
            )


def _repeats(
    spec: SweepSpec,
    protocol: str,
    parameters: Mapping[str, Parameter],
    common: Mapping[str, Any],
    chosen: Mapping[str, Any],
) -> Iterator[Point]:
    """Yield the point of every seed."""
    settings = {**common, **chosen}
    values = convert(parameters.values(), settings)
    files = {}
    for key in settings:
        path = Path(str(values[key]))
        if parameters[key].type is str and not parameters[key].choices and path.is_file():
            settings[key] = str(path.resolve())  # workers have a current folder of their own
            files[key] = hashlib.sha256(path.read_bytes()).hexdigest()
    for seed in range(1, spec.seeds + 1):
        identity = {
            "code": code_digest(),
            "topology": spec.topology,
            "protocol": protocol,
            "parameters": {**values, **files},
            "seed": seed,
            "duration": float(spec.duration),
        }
        text = json.dumps(identity, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        of_point = {name: values[name] for name in chosen}
        yield Point(spec.topology, protocol, seed, spec.duration, settings, of_point, key)


@functools.cache
def code_digest() -> str:
    """Return a hash of the testbed's source code: other code may give other results."""
    sha = hashlib.sha256()
    for place in _CODE:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sha.update(file.relative_to(ROOT).as_posix().encode())
            sha.update(file.read_bytes())
    return sha.hexdigest()


class Sweep:
    """The folder of a sweep, which need not exist.  Raises `SweepError` where it is another's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._points = folder / "points"
        try:
            there = {path.name for path in folder.iterdir()} if folder.exists() else set()
        except OSError as error:
            raise SweepError(f"cannot write a sweep in {folder}: {error.strerror}") from None
        if SPEC not in there and there - {self._points.name, LOCK}:
            raise SweepError(f"{folder} is not the folder of a sweep: give another with --out")

    def path(self, point: Point) -> Path:
        """Return the run folder of a point."""
        return self._points / point.key

    def finished(self, point: Point) -> bool:
        """Return whether a point has been run and analysed."""
        return self._summary(point).exists()

    def ended(self, point: Point) -> bool:
        """Return whether nothing of a point is left to run."""
        return self.finished(point) or ran(self.path(point)) or failed(self.path(point))

    def _summary(self, point: Point) -> Path:
        return self.path(point) / "metrics" / SUMMARY

    def note(self, spec: SweepSpec) -> None:
        """Note the spec."""
        noted = {**asdict(spec), "code": code_digest()}
        scratch = self.folder / f".{SPEC}"
        scratch.write_text(json.dumps(noted, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self.folder / SPEC)

    def noted(self) -> tuple[SweepSpec, str] | None:
        """Return the spec noted last, and the hash of the code then."""
        try:
            noted = json.loads((self.folder / SPEC).read_text(encoding="utf-8"))
            code = noted.pop("code", "")
            noted["protocols"] = tuple(noted["protocols"])
            noted["vary"] = {key: tuple(values) for key, values in noted["vary"].items()}
            return SweepSpec(**noted), code
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError, AttributeError):
            path = self.folder / SPEC
            raise SweepError(f"{path} is damaged: give another folder with --out") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder, and keep others out for the block.

        Raises `SweepError` where there is one already, OSError where it cannot be made.
        """
        self._points.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SweepError(
                    f"{self.folder} is being worked on: wait for it, or give another with --out"
                ) from None
            yield

    def analyse(self, spark: SparkSession, points: Sequence[Point], keep_frames: bool) -> None:
        """Summarise runs that have come to their end; what cannot be summarised has failed."""
        if not points:
            return
        try:
            table = summaries(spark, [self.path(point) for point in points])
        except AnalysisError as error:
            if stopped(spark.sparkContext):
                raise
            if len(points) == 1:
                shutil.rmtree(self.path(points[0]) / "metrics", ignore_errors=True)
                note_failure(self.path(points[0]), error)
            for point in points if len(points) > 1 else ():
                self.analyse(spark, [point], keep_frames)
            return
        for point in points:
            scratch = self._summary(point).with_suffix(".tmp")
            table[table["run"] == point.key].to_parquet(scratch, index=False)
            scratch.replace(self._summary(point))
            if not keep_frames:
                shutil.rmtree(self.path(point) / "metrics" / FRAMES_FOLDER)

    def results(self, wanted: Sequence[Point], varied: Iterable[str]) -> pd.DataFrame:
        """Return the rows of the points that are finished, and write them.

        Columns `varied` are typed as the parameters are, with gaps where a protocol has none.
        """
        rows = [
            {**pq.read_table(self._summary(point)).to_pylist()[0], **point.values}
            for point in wanted
            if self.finished(point)
        ]
        if not rows:
            return pd.DataFrame()
        table = pd.DataFrame.from_records(rows)
        for key in varied:
            kind = type(next(point.values[key] for point in wanted if key in point.values))
            column = table[key] if key in table else pd.Series(None, table.index, dtype=object)
            gaps = bool(column.isna().any())
            table[key] = column.astype(_TYPES[kind] if gaps else kind)
        first = ["topology", "protocol", *varied, "seed"]
        table = table[[*first, *(name for name in table if name not in first)]]
        scratch = self.folder / f".{RESULTS}"
        table.to_parquet(scratch, index=False)
        scratch.replace(self.folder / RESULTS)
        return table

    def remarks(self, wanted: Sequence[Point]) -> tuple[dict[str, str], dict[str, str]]:
        """Return why points have failed, and what is to be said of those that are finished."""
        failures, problems = {}, {}
        for point in wanted:
            if self.finished(point):
                run = json.loads((self.path(point) / "run.json").read_text(encoding="utf-8"))
                if run["problems"]:
                    problems[str(point)] = _first(run["problems"])
            elif (reason := failure(self.path(point))) is not None:
                failures[str(point)] = f"{reason} ({self.path(point) / FAILURE})"
        return failures, problems


def _first(problems: Sequence[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else "")


def outdated(spec: SweepSpec, folder: Path) -> bool:
    """Return whether what ran for an earlier spec has to run again: the code has changed.

    Raises `SweepError` where the folder holds a spec that this one does not contain.
    """
    wanted = {point.key for point in points(spec)}
    earlier = Sweep(folder).noted()
    if earlier is None:
        return False
    before, code = earlier
    other = SweepError(
        f"{folder} holds another sweep ({before.command()}): ask for all of it and more, or give "
        "another folder with --out"
    )
    try:
        if any(point.key not in wanted for point in points(before)):
            raise other
    except SpecError:
        raise other from None
    return code != code_digest() and any((folder / "points").glob(f"*/metrics/{SUMMARY}"))


def complete(spec: SweepSpec, folder: Path) -> bool:
    """Return whether every point has been run and analysed.  Raises `SweepError`."""
    sweep = Sweep(folder)
    return all(sweep.finished(point) for point in points(spec))


def run_sweep(
    spec: SweepSpec,
    folder: Path,
    *,
    master: str = "local[*]",
    keep_frames: bool = False,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Run what a spec asks for and has not been run yet.

    `progress` is called often, and ends the sweep with what it raises; what is finished by then is
    kept.  Raises `SweepError` and other `AnalysisError`.
    """
    wanted = points(spec)
    sweep = Sweep(folder)
    _check(sweep, wanted, progress)
    try:
        with sweep.alone():
            sweep.note(spec)
            left = [point for point in wanted if not sweep.finished(point)]
            if left:
                progress(Progress("starting Spark", len(wanted) - len(left), 0, len(wanted)))
                with spark_session(master) as spark, plain_errors():
                    _run(spark, sweep, spec, wanted, left, keep_frames, progress)
            results = sweep.results(wanted, spec.vary)
            failures, problems = sweep.remarks(wanted)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise SweepError(f"cannot write the sweep: {error.strerror or error}{where}") from None
    return Outcome(spec, folder, results, failures, problems)


def _check(sweep: Sweep, wanted: Sequence[Point], progress: Callable[[Progress], None]) -> None:
    """Make the scenarios that are to run, before anything runs.  Raises `SpecError`."""
    left = [point for point in wanted if not sweep.finished(point)]
    for number, point in enumerate(left):
        doing = f"checking scenario {number + 1} of {len(left)}"
        progress(Progress(doing, len(wanted) - len(left), 0, len(wanted)))
        try:
            point.scenario()
        except ScenarioError as error:
            raise SpecError(f"{point}: {error}") from None


def _run(
    spark: SparkSession,
    sweep: Sweep,
    spec: SweepSpec,
    wanted: Sequence[Point],
    left: Sequence[Point],
    keep_frames: bool,
    progress: Callable[[Progress], None],
) -> None:
    context, rest = spark.sparkContext, list(left)
    done, lost = len(wanted) - len(left), 0
    await_workers(context, lambda doing: progress(Progress(doing, done, 0, len(wanted))))
    while rest:
        at_a_time = max(context.defaultParallelism, 1)
        wave, rest = rest[: WAVE * at_a_time], rest[WAVE * at_a_time :]
        # What a wave leaves is little, and every partition is a task at each of many steps.
        spark.conf.set("spark.sql.shuffle.partitions", min(at_a_time, PARTITIONS))
        paths = [sweep.path(point) for point in wave]
        for path in paths:  # of an earlier attempt
            (path / FAILURE).unlink(missing_ok=True)
        report = functools.partial(_report, sweep, wave, done, lost, len(wanted), progress)
        tasks = [point.task(path) for point, path in zip(wave, paths, strict=True)]
        run_tasks(spark, [task for task in tasks if not ran(task.folder)], report)
        report("analysing")
        sweep.analyse(spark, [point for point in wave if ran(sweep.path(point))], keep_frames)
        sweep.results(wanted, spec.vary)
        report("analysed")
        done += len(wave)
        lost += sum(map(failed, paths))


def _report(
    sweep: Sweep,
    wave: Sequence[Point],
    done: int,
    lost: int,
    total: int,
    progress: Callable[[Progress], None],
    doing: str,
) -> None:
    done += sum(map(sweep.ended, wave))
    lost += sum(failed(sweep.path(point)) for point in wave)
    progress(Progress(doing, done, lost, total))

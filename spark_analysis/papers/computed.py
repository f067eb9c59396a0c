"""Points that are not runs: rows that a function computes.

A closed form, a Monte Carlo or a measurement of graphs is a plain function of a module.  It takes
the parameters of a point as keywords, and `seed` if it draws anything, and returns a row (a mapping
of columns) or several.  Points run as Spark tasks or, if that is not worth the start of Spark
(`inline`), in this process.

A point is kept in a folder named after the hash of what makes its rows: the function, the
parameters, the seed, and the code of the function's module with what that imports.  Rows that
are there are not computed again, so functions live in modules that import nothing that judges them.

    <study>/results.parquet  points/<hash>/rows.json  processor_seconds.txt  code.json
                                        (or failed.txt)
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import shutil
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from emulation.scenario.provenance import code
from emulation.whole import whole, write_text
from spark_analysis.engine.code import Module, closure, key_of, project
from spark_analysis.engine.session import plain_errors, spark_session
from spark_analysis.sweeps.folder import RESULTS, alone
from spark_analysis.sweeps.spec import Point, SpecError, SweepError
from spark_analysis.sweeps.sweep import Progress
from spark_analysis.sweeps.tasks import (
    COST,
    FAILURE,
    await_workers,
    failed,
    failure,
    note_failure,
    run_jobs,
)

ROWS: Final = "rows.json"
CODE: Final = "code.json"
"""In a point's folder: the commit that made the rows; absent if unknown."""
POINT: Final = "point"
"""Column with the key of a row's point."""
SHARE: Final = 16
"""Partitions for each task that runs at a time: points may take very different times."""

Row = Mapping[str, Any]
Function = Callable[..., Row | Iterable[Row]]


@dataclass(frozen=True)
class Computed:
    """What to compute: a function at all combinations of values, and at seeds 1 to `seeds`.

    A function without a parameter `seed` is evaluated once, its rows have no seed.
    """

    function: Function
    vary: Mapping[str, tuple[Any, ...]]
    seeds: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    inline: bool = False
    """Compute in this process, not in Spark's."""


@dataclass(frozen=True, kw_only=True)
class ComputedPoint(Point):
    """One call of the function."""

    is_run = False
    function: Function
    arguments: Mapping[str, Any]

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Where it lies."""
        return self.arguments

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, with the parameters and the seed as columns."""
        of_seed = {} if self.seed is None else {"seed": self.seed}
        result = self.function(**self.parameters, **of_seed)
        several = [result] if isinstance(result, Mapping) else result
        return [{**self.parameters, **of_seed, **row} for row in several]

    def __str__(self) -> str:
        values = " ".join(f"{key}={value}" for key, value in self.parameters.items())
        seed = "" if self.seed is None else f" seed={self.seed}"
        return f"{self.function.__name__} {values}{seed}"


@dataclass(frozen=True)
class PointTask:
    """A point, and the folder that its rows go to."""

    folder: Path
    point: ComputedPoint

    def run(self) -> None:
        """Compute it, on a worker.  What goes wrong is written down and does not end the job."""
        shutil.rmtree(self.folder, ignore_errors=True)  # of an attempt that was lost
        self.folder.mkdir(parents=True)
        start = time.process_time()
        try:
            text = json.dumps(self.point.rows(), default=_as_json)
            spent = time.process_time() - start
            (self.folder / COST).write_text(f"{spent:.3f}\n", encoding="utf-8")
            if (made_by := code()) is not None:
                (self.folder / CODE).write_text(made_by.model_dump_json() + "\n", encoding="utf-8")
            write_text(self.folder / ROWS, text + "\n")
        except Exception as error:  # noqa: BLE001  the other points go on
            note_failure(self.folder, error)


@dataclass(frozen=True)
class Results:
    """The rows of all finished points, and why others failed, in a line by point."""

    rows: pd.DataFrame
    failures: Mapping[str, str]


def _as_json(value: Any) -> Any:
    if hasattr(value, "item"):  # NumPy's scalars
        return value.item()
    raise TypeError(f"a row holds numbers, strings and booleans, not {type(value).__name__}")


def computed_points(spec: Computed) -> list[ComputedPoint]:
    """Return the points, each once; the first seed of all comes first.  Raises `SpecError`."""
    function = spec.function
    if getattr(function, "__name__", "<lambda>") != getattr(function, "__qualname__", ""):
        raise SpecError(f"{function!r} is not a function of a module, so workers cannot import it")
    if spec.seeds < 1:
        raise SpecError("the number of seeds is at least 1")
    draws = "seed" in inspect.signature(function).parameters
    seeds: Sequence[int | None] = range(1, spec.seeds + 1) if draws else (None,)
    made_of, name = code_of(function), function.__name__
    by_key: dict[str, ComputedPoint] = {}
    for seed in seeds:
        for values in itertools.product(*spec.vary.values()):
            parameters = {**spec.settings, **dict(zip(spec.vary, values, strict=True))}
            identity = {"code": made_of, "function": name, "parameters": parameters, "seed": seed}
            text = json.dumps(identity, sort_keys=True, default=_as_json)
            key = hashlib.sha256(text.encode()).hexdigest()[:16]
            point = ComputedPoint(
                key=key, seed=seed, code=made_of, function=function, arguments=parameters
            )
            by_key.setdefault(key, point)
    return list(by_key.values())


def code_of(function: Function) -> str:
    """Return the hash of the code of a function's module, and of all that this imports.

    Raises OSError if there is no source.
    """
    name = function.__module__
    return _code_of_module(name) if name in project() else _code(name, _source(function))


@functools.cache
def _code_of_module(name: str) -> str:
    return _code(name, project()[name].text)


def _code(name: str, text: str) -> str:
    sources = {**project(), name: Module(name, text)}
    return key_of(sources, closure(sources, (name,)), protocol="")


def _source(function: Function) -> str:
    """Return the source of a module that is not the project's."""
    path = inspect.getsourcefile(function)
    if path is None:
        raise OSError(f"there is no source of {function.__qualname__}")
    return Path(path).read_text(encoding="utf-8")


def task(point: ComputedPoint, folder: Path) -> PointTask:
    """Return what computes a point of the study in `folder`."""
    return PointTask(folder / "points" / point.key, point)


def is_computed(point: ComputedPoint, folder: Path) -> bool:
    """Return whether the rows of a point are there."""
    return _has_rows(task(point, folder).folder)


def _has_rows(folder: Path) -> bool:
    return (folder / ROWS).exists()


def run_computed(
    spec: Computed,
    folder: Path,
    *,
    master: str = "local[*]",
    only: Container[str] | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Results:
    """Compute what has not been computed yet in `folder`, and return all rows.

    `only` limits both to the points with these keys.
    `progress` is called often, and ends the work with what it raises; what is finished is kept.
    Raises `SweepError`, also if somebody else works in `folder`, and other `AnalysisError`.
    """
    plan = [point for point in computed_points(spec) if only is None or point.key in only]
    try:
        with alone(folder):
            return _run_computed(spec, plan, folder, master, progress)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise SweepError(f"cannot write the points: {error.strerror or error}{where}") from None


def _run_computed(
    spec: Computed,
    plan: Sequence[ComputedPoint],
    folder: Path,
    master: str,
    progress: Callable[[Progress], None],
) -> Results:
    missing = [point for point in plan if not is_computed(point, folder)]
    tasks = [task(point, folder) for point in missing]
    done = len(plan) - len(missing)

    def report(doing: str) -> None:
        lost = sum(failed(point_task.folder) for point_task in tasks)
        ended = lost + sum(_has_rows(point_task.folder) for point_task in tasks)
        progress(Progress(doing, done + ended, lost, len(plan)))

    for point_task in tasks:  # of an earlier attempt
        (point_task.folder / FAILURE).unlink(missing_ok=True)
    if spec.inline:
        for point_task in tasks:
            report("computing")
            point_task.run()
    elif tasks:
        report("starting Spark")
        with spark_session(master) as spark, plain_errors():
            context = spark.sparkContext
            await_workers(context, report)
            partitions = SHARE * max(context.defaultParallelism, 1)
            run_jobs(context, tasks, report, _has_rows, partitions)
    report("computed")
    return _collect(plan, folder)


def kept_rows(point: ComputedPoint, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a computed point.

    Raises FileNotFoundError if it has none yet, and `SweepError` if they are damaged.
    """
    path = task(point, folder).folder / ROWS
    text = path.read_text(encoding="utf-8")
    try:
        return [{**row, POINT: point.key} for row in json.loads(text)]
    except (ValueError, TypeError):
        raise SweepError(f"{path} is damaged: remove it, and its point is run again") from None


def _collect(plan: Sequence[ComputedPoint], folder: Path) -> Results:
    rows: list[dict[str, Any]] = []
    failures = {}
    for point in plan:
        point_folder = task(point, folder).folder
        try:
            rows += kept_rows(point, folder)
        except FileNotFoundError:
            why = failure(point_folder) or "its rows are missing: workers must share this folder"
            failures[str(point)] = f"{why} ({point_folder / FAILURE})"
    table = pd.DataFrame.from_records(rows)
    if len(table):
        with whole(folder / RESULTS) as unfinished:
            table.to_parquet(unfinished, index=False)
    return Results(table, failures)

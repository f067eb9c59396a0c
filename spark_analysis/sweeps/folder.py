"""The folder of a sweep: what was asked for, its points, and their results.

    <sweep>/sweep.json  results.parquet  sweep.html  points/<key>/scenario.json run.json ...

A point whose folder has a complete summary by the current measures is finished, whichever spec
asks for it.  Points of older code have other keys; they stay until the folder is deleted.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from emulation.network.fidelity import OTHERS
from emulation.scenario.records import Fidelity
from emulation.scenario.runfolder import RunFolder, problems_of, read_fidelity, read_record
from emulation.whole import whole, write_text
from spark_analysis.captures.schemas import BOOLEAN, LONG, STRING, column
from spark_analysis.engine.tables import write
from spark_analysis.measures.summary import SUMMARY as SUMMARY_TABLE
from spark_analysis.sweeps.rows import DELIVERIES, SUMMARY, is_current, is_there
from spark_analysis.sweeps.spec import RunPoint, SpecError, SweepError, SweepSpec, points
from spark_analysis.sweeps.tasks import FAILURE, failed, failure, ran

SPEC: Final = "sweep.json"
PAGE: Final = "sweep.html"
LOCK: Final = ".lock"
RUNNING: Final = ".running"
"""Locked while points run in real time, also between their analyses."""
RESULTS: Final = "results.parquet"
_OF_POINT: Final = (
    column("topology", STRING, "topology of the scenario"),
    column("protocol", STRING, "publish/subscribe protocol"),
    column("seed", LONG, "number of the repetition, from 1"),
    column("drawn", LONG, "seed of the scenario; only with --draws, null if it is `seed`"),
    column("run", STRING, "name of the point's folder under points/"),
    column("command", STRING, "runs the point by itself, with captures, report and replay"),
    column("kept_real_time", BOOLEAN, "not under the virtual clock: verdict of fidelity checks"),
)
RESULT_COLUMNS: Final = StructType(
    [*_OF_POINT, *(c for c in SUMMARY_TABLE.schema if c.name not in {of.name for of in _OF_POINT})]
)
"""Columns of the results of every sweep; between `protocol` and `seed` are the varied ones."""
_TYPES: Final[dict[type, Any]] = {int: "Int64", float: "float64", bool: "boolean", str: "object"}
"""Types of columns that may have gaps: not every protocol has every parameter."""


class SweepFolder:
    """The folder of a sweep, which need not exist.  Raises `SweepError` if it is anything else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._points = folder / "points"
        self._rows: dict[str, dict[str, Any]] = {}
        try:
            there = {path.name for path in folder.iterdir()} if folder.exists() else set()
        except OSError as error:
            raise SweepError(f"cannot write a sweep in {folder}: {error.strerror}") from None
        if SPEC not in there and there - {self._points.name, LOCK, RUNNING}:
            raise SweepError(f"{folder} is not the folder of a sweep: give another with --out")

    def path(self, point: RunPoint) -> Path:
        """Return the run folder of a point."""
        return self._points / point.key

    def finished(self, point: RunPoint, *, deliveries: bool = False, frames: bool = False) -> bool:
        """Return whether a point has been run and analysed, and has what is to be kept."""
        return (
            is_current(self._summary(point))
            and (not deliveries or is_current(self._summary(point).with_name(DELIVERIES)))
            and (not frames or ran(self.path(point)))
        )

    def stale(self, point: RunPoint) -> bool:
        """Return whether other versions of the measures made a point's row."""
        return is_there(self._summary(point)) and not is_current(self._summary(point))

    def ended(self, point: RunPoint) -> bool:
        """Return whether a point needs no further run."""
        return self.finished(point) or ran(self.path(point)) or failed(self.path(point))

    def _summary(self, point: RunPoint) -> Path:
        return self.path(point) / "metrics" / SUMMARY

    def note(self, spec: SweepSpec) -> None:
        """Note the spec, and the code that makes the rows of each protocol now."""
        noted = {**asdict(spec), "code": _code(points(spec))}
        write_text(self.folder / SPEC, json.dumps(noted, indent=1) + "\n")

    def noted(self) -> tuple[SweepSpec, dict[str, list[str]]] | None:
        """Return the spec noted last and the hashes of the code then, by protocol.

        Sweeps of earlier versions have one hash for all; then none is returned.
        """
        try:
            noted = json.loads((self.folder / SPEC).read_text(encoding="utf-8"))
            code = noted.pop("code", {})
            noted["protocols"] = tuple(noted["protocols"])
            noted["draws"] = tuple(noted.get("draws", ()))
            noted["vary"] = {key: tuple(values) for key, values in noted["vary"].items()}
            return SweepSpec(**noted), code if isinstance(code, dict) else {}
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError, AttributeError):
            path = self.folder / SPEC
            raise SweepError(f"{path} is damaged: give another folder with --out") from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Make the folder, and keep others out for the block.

        Raises `SweepError` if somebody else works on it, OSError if it cannot be made.
        """
        self._points.mkdir(parents=True, exist_ok=True)
        with alone(self.folder):
            yield

    def chosen(self, plan: Sequence[RunPoint], name: str) -> Path:
        """Return the run folder of a finished point by the beginning of its name, or by its text.

        Raises `SweepError` if there is none, or several.
        """
        fit = [point for point in plan if point.key.startswith(name) or str(point) == name]
        if len(fit) != 1:
            raise SweepError(
                f"{len(fit)} points of this sweep are called {name}: take a name from the column "
                f"`run` of {PAGE}, or write it as {str(plan[0])!r}"
            )
        if not self.finished(fit[0]):
            raise SweepError(f"{fit[0]} has not run yet: run the sweep first, without --open")
        if fit[0].captured and not ran(self.path(fit[0])):
            raise SweepError(f"the packets of {fit[0]} were not kept: run it with --keep-frames")
        return self.path(fit[0])

    def row(self, point: RunPoint) -> dict[str, Any]:
        """Return the row of a finished point, which is read once.

        `seed` numbers the repetition; the seed of the scenario, if another (`SweepSpec.draws`),
        is in a column `drawn`.  Raises `SweepError`.
        """
        if point.key not in self._rows:
            path = self._summary(point)
            try:
                (row,) = pq.ParquetFile(path).read(use_threads=False).to_pylist()
            except (pa.ArrowException, OSError, ValueError):
                remedy = "remove it, and its point is run again"
                raise SweepError(f"{path} is damaged: {remedy}") from None
            self._rows[point.key] = {**row, **_of_point(point)}
            if point.captured:
                fidelity = self._fidelity(point)
                kept = None if fidelity is None else fidelity.kept_real_time
                self._rows[point.key]["kept_real_time"] = kept
        return self._rows[point.key]

    def _fidelity(self, point: RunPoint) -> Fidelity | None:
        """Return what checks say of a run; None if that is not known."""
        return read_fidelity(RunFolder(self.path(point)), [])

    def results(self, plan: Sequence[RunPoint], varied: Iterable[str]) -> pd.DataFrame:
        """Return the rows of the finished points as a table, and write it."""
        rows = [self.row(point) for point in plan if self.finished(point)]
        if not rows:
            return pd.DataFrame()
        table = as_table(rows, plan, varied)
        with whole(self.folder / RESULTS) as unfinished:
            arrow = pa.Table.from_pandas(table, preserve_index=False)
            write(arrow, RESULT_COLUMNS, unfinished)
        return table

    def problem(self, point: RunPoint) -> str:
        """Return what went wrong in a finished point's run, in a line; empty if nothing."""
        problems: list[str] = []
        record = read_record(RunFolder(self.path(point)), problems)
        problems += problems_of(record, damaged=bool(problems))
        fidelity = self._fidelity(point) if point.captured else None
        if fidelity is not None:
            others = [check for check in fidelity.checks if check.name == OTHERS and not check.ok]
            problems += [f"{check.name}: {check.value:g} %" for check in others]
            if fidelity.kept_real_time is False:
                problems.insert(
                    0, "lost real time or packets: it does not count; remove it to run it again"
                )
        if self.row(point).get("undecoded"):
            problems.append("packets were sent in fragments: frames by kind are not known")
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return problems[0] + more if problems else ""

    def remarks(self, plan: Sequence[RunPoint]) -> tuple[dict[str, str], dict[str, str]]:
        """Return why points failed, and what went wrong in those that finished."""
        failures, problems = {}, {}
        for point in plan:
            if self.finished(point):
                if problem := self.problem(point):
                    problems[str(point)] = problem
            elif (reason := failure(self.path(point))) is not None:
                failures[str(point)] = f"{reason} ({self.path(point) / FAILURE})"
        return failures, problems


@contextmanager
def alone(folder: Path, lock: str = LOCK) -> Iterator[None]:
    """Keep others out of a folder, which is made, for the block.

    Raises `SweepError` if somebody else works on it, OSError if it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / lock).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(
                f"{folder} is being worked on: wait for it, or give another with --out"
            ) from None
        yield


def as_table(
    rows: Sequence[Mapping[str, Any]], plan: Sequence[RunPoint], varied: Iterable[str]
) -> pd.DataFrame:
    """Return rows, at least one, of points of `plan` as a table.

    Columns `varied` are typed as the parameters are, with gaps if a protocol lacks one.
    """
    table = pd.DataFrame.from_records(rows)
    kinds = {key: type(value) for point in plan for key, value in point.values.items()}
    varied = [key for key in varied if key in kinds]
    for key in varied:
        kind: Any = kinds[key]
        column = table[key] if key in table else pd.Series(None, table.index, dtype=object)
        gaps = bool(column.isna().any())
        table[key] = column.astype(_TYPES[kind] if gaps else kind)
    first = ["topology", "protocol", *varied, "seed"]
    return table[[*first, *(name for name in table if name not in first)]]


def _of_point(point: RunPoint) -> dict[str, Any]:
    """Return the columns that a row has from its point rather than from its run."""
    drawn = {"drawn": point.drawn} if point.drawn != point.seed else {}
    return {"seed": point.seed, **drawn, "command": point.command(), **point.values}


def _code(asked: Sequence[RunPoint]) -> dict[str, list[str]]:
    """Return the hashes of the code that simulates points, by protocol."""
    protocols = dict.fromkeys(point.protocol for point in asked)
    return {
        protocol: sorted({point.code for point in asked if point.protocol == protocol})
        for protocol in protocols
    }


def outdated(spec: SweepSpec, folder: Path) -> tuple[str, ...]:
    """Return the protocols that ran for an earlier spec and have points to run again.

    Their code has changed, or a measure's has: then the points that kept no frames run again.
    Raises `SweepError` if the folder holds a spec that this one does not contain.
    """
    keys = {point.key for point in points(spec)}
    sweep = SweepFolder(folder)
    earlier = sweep.noted()
    if earlier is None:
        return ()
    before, code = earlier
    conflict = SweepError(
        f"{folder} holds another sweep ({before.command()}): ask for all of it and more, or give "
        "another folder with --out"
    )
    try:
        asked = points(before)
    except SpecError:
        raise conflict from None
    if any(point.key not in keys for point in asked):
        raise conflict
    if not any((folder / "points").glob(f"*/metrics/{SUMMARY}")):
        return ()
    unfinished = {point.protocol for point in asked if not sweep.finished(point)}
    again = {point.protocol for point in asked if sweep.stale(point) and not ran(sweep.path(point))}
    return tuple(
        protocol
        for protocol, hashes in _code(asked).items()
        if protocol in again or (protocol in unfinished and code.get(protocol) != hashes)
    )

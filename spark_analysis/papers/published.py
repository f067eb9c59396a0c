"""Points that are published with a page, so that others need not run them again.

    <page>.md   <page>/<study>.parquet

A file has the rows of one study, of all variations, as they are before `Study.derive`: what a run
or a computed point gave, what it cost, the commit that made it (`spark_analysis.papers.kept`), and
two columns that say what may be done with it.  `group` names the points that it was compared with
(`spark_analysis.papers.planned`), `source` is the hash of the code that its point follows from.
The file names the versions of the measures that made its runs' rows.  Equal rows make equal bytes.

A published row stands for a planned point if their keys are equal, and so parameters, seed,
duration and code.  The current measures (`spark_analysis.measures.versions`) must have made a run's
row, as no packets are published to remake it from.  A row is taken with its whole group or not at
all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from emulation.whole import whole
from spark_analysis.errors import AnalysisError, first_line
from spark_analysis.measures.summary import SUMMARY
from spark_analysis.measures.versions import differences, marked, versions_of
from spark_analysis.papers.computed import POINT
from spark_analysis.papers.kept import RUN
from spark_analysis.papers.paper import Paper
from spark_analysis.papers.planned import Part, Row, Rows
from spark_analysis.report.quantities import count

GROUP: Final = "group"
"""Column with the group of the row's point."""
SOURCE: Final = "source"
"""Column with the hash of the code that makes the row."""
FORMAT: Final = b"points of reproduce 1"
"""How the files identify themselves."""
SUFFIX: Final = ".parquet"
_OF_RUNS: Final = frozenset(field.name for field in SUMMARY.schema)
"""Columns that each run has, if only as null; in others null means that the row lacks them."""


class PublishedError(AnalysisError):
    """A file of published points that cannot be used; the message says what to do."""


Selected = Sequence[tuple[Part, Rows]]
"""Parts of a plan with the rows that they have."""


@dataclass(frozen=True)
class PointsFile:
    """The rows of a file, by the key of their point and its group, and the code that makes them."""

    path: Path
    study: str
    rows: Mapping[tuple[str, str], Sequence[Row]]
    sources: Mapping[str, str]
    """The hash of the code by the key of the point."""
    measures: str = ""
    """How the measures of its runs differ from the current ones, in words; empty if they do not."""

    def remarks(self, parts: Sequence[Part]) -> Iterator[str]:
        """Yield what is not taken from the file, and why."""
        of_study = [part for part in parts if part.study.name == self.study]
        planned = {key: point for part in of_study for key, point in part.points.items()}
        sources = {point.code for point in planned.values()}
        others = [source for key, source in self.sources.items() if key not in planned]
        old = sum(source not in sources for source in others)
        total = f"{count(len(self.sources))} points of {self.path} were made by other"
        if old:
            yield f"{count(old)} of {total} code: they are not used, but run again"
        if self.measures and len(others) < len(self.sources):
            yield (
                f"{count(len(self.sources) - len(others))} points of {self.path} are of other "
                f"versions of measures ({self.measures}): they are not used, but run again"
            )
        if len(others) > old:
            yield f"{count(len(others) - old)} of {total} parameters: they are not used"


class Known:
    """The points of published files.  If several have a point, the first counts."""

    def __init__(self, files: Iterable[PointsFile] = ()) -> None:
        self._files = tuple(files)
        self._rows: dict[tuple[str, str, str], Sequence[Row]] = {}
        for file in self._files:
            for (key, group), rows in () if file.measures else file.rows.items():
                self._rows.setdefault((file.study, key, group), rows)

    def groups(self, part: Part) -> dict[str, Rows]:
        """Return the rows of a part's groups that are complete here, by group."""
        study = part.study.name
        return {
            group: {key: self._rows[study, key, group] for key in keys}
            for group, keys in part.groups.items()
            if all((study, key, group) in self._rows for key in keys)
        }

    def remarks(self, parts: Sequence[Part]) -> list[str]:
        """Return what is not taken from the files, and why, in lines."""
        return [remark for file in self._files for remark in file.remarks(parts)]


def read_known(paper: Paper, folders: Iterable[Path]) -> Known:
    """Return the published points of a paper in folders.  Raises `PublishedError`."""
    return Known([file for folder in folders for file in _read_folder(paper, folder)])


def _read_folder(paper: Paper, folder: Path) -> list[PointsFile]:
    paths = sorted(folder.glob(f"[!.]*{SUFFIX}"))  # not what a killed command was writing
    if not paths:
        why = "has no points" if folder.is_dir() else "is not a folder"
        raise PublishedError(
            f"{folder} {why}: name the folder beside a page that --markdown wrote, "
            "such as docs/reproductions/NAME"
        )
    return [_read(paper, path) for path in paths]


def _read(paper: Paper, path: Path) -> PointsFile:
    try:
        table = pq.read_table(path, partitioning=None, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PublishedError(
            f"{path} cannot be read, get it again or move it away: {first_line(error)}"
        ) from None
    metadata = table.schema.metadata or {}
    of, study = (metadata.get(name, b"").decode(errors="replace") for name in (b"paper", b"study"))
    key = RUN if RUN in table.column_names else POINT
    if metadata.get(b"format") != FORMAT or not {key, GROUP, SOURCE} <= set(table.column_names):
        raise PublishedError(
            f"{path} has no points that this version's --markdown wrote: move it away, or name "
            "another folder with --known"
        )
    if of != paper.key:
        raise PublishedError(
            f"{path} has points of {of}, not of {paper.key}: name another folder with --known"
        )
    rows: dict[tuple[str, str], list[Row]] = {}
    sources: dict[str, str] = {}
    for row in table.to_pylist():
        group, source = row.pop(GROUP), row.pop(SOURCE)
        kept = {k: v for k, v in row.items() if v is not None or (key == RUN and k in _OF_RUNS)}
        rows.setdefault((row[key], group), []).append(kept)
        sources[row[key]] = source
    measures = differences(versions_of(metadata)) if key == RUN else ""
    return PointsFile(path, study, rows, sources, measures)


def write_points(paper: Paper, selected: Selected, folder: Path) -> list[Path]:
    """Write the rows of each study, every row once, and return the files.

    Incomplete groups are left out.  Raises `PublishedError`, OSError.
    """
    studies: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for part, rows in selected:
        of_study = studies.setdefault(part.study.name, {})
        for group, keys in part.groups.items():
            for key in keys if rows.keys() >= set(keys) else ():
                more = {GROUP: group, SOURCE: part.points[key].code}
                of_study.setdefault((key, group), [{**row, **more} for row in rows[key]])
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _write(paper, study, [row for of_point in points.values() for row in of_point], folder)
        for study, points in studies.items()
        if points
    ]


def _write(paper: Paper, study: str, rows: Sequence[Row], folder: Path) -> Path:
    path = folder / f"{study}{SUFFIX}"
    names = dict.fromkeys(name for row in rows for name in row)
    ordered = [*(name for name in names if name not in (GROUP, SOURCE)), GROUP, SOURCE]
    metadata = {b"format": FORMAT, b"paper": paper.key.encode(), b"study": study.encode()}
    columns = {name: _column(path, name, [row.get(name) for row in rows]) for name in ordered}
    table = pa.table(columns).replace_schema_metadata(metadata)
    if RUN in names:
        table = marked(table)
    with whole(path) as unfinished:
        pq.write_table(
            table, unfinished, compression="zstd", compression_level=9, write_page_checksum=True
        )
    return path


def _column(path: Path, name: str, values: list[Any]) -> pa.Array[Any]:
    try:
        column: pa.Array[Any] = pa.array(values, from_pandas=False)
        return column
    except pa.ArrowException as error:
        raise PublishedError(
            f"{path}: the rows' column {name!r} has values of several types: {first_line(error)}"
        ) from None

"""The points that a preset plans for a study in one variation, and their rows.

Runs and computed points are points alike (`spark_analysis.sweeps.spec`); a `PointSource` knows
how they are run and where their rows are.  Points of one **group** are taken together or not at
all. If a study keeps deliveries, a group is all systems at equal axes and seed: their rows have
means over what two of them delivered (`spark_analysis.papers.kept`), and so follow from one
another. Otherwise every point is a group of its own.

Rows are dictionaries until all of a study are there, whether they are read from its folder or from
published points: the table made of them is then the same, wherever they came from.
"""

from __future__ import annotations

import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from spark_analysis.engine.pandas_rows import records
from spark_analysis.papers.computed import (
    POINT,
    Computed,
    computed_points,
    is_computed,
    kept_rows,
    run_computed,
)
from spark_analysis.papers.kept import PROBLEM, RUN, beside, cost_and_code, with_pairs
from spark_analysis.papers.paper import STUDY, Paper, Preset, Study, Variation
from spark_analysis.sweeps.folder import SweepFolder, as_table
from spark_analysis.sweeps.spec import VIRTUAL, OnBackend, Point, RunPoint, SweepSpec, points
from spark_analysis.sweeps.sweep import Progress, run_sweep
from spark_analysis.sweeps.tasks import ran

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Rows by the key of their point."""


class PointSource(ABC, OnBackend):
    """The points of a study in one variation, and the folder that they are run in, if they are."""

    column: ClassVar[str]
    """The column of a row with the key of its point."""
    inline = False
    """Whether they run in this process, without Spark."""
    backend = VIRTUAL

    def __init__(self, points: Sequence[Point], folder: Path) -> None:
        self.points: Mapping[str, Point] = {point.key: point for point in points}
        """By key, in the order of their rows."""
        self.folder = folder

    @abstractmethod
    def finished(self) -> set[str]:
        """Return the keys of the points whose rows are there.  Raises `SweepError`."""

    @abstractmethod
    def read(self, keys: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of finished points, as they were made.  Raises OSError."""

    @abstractmethod
    def table(self, rows: Sequence[Row], keys: Sequence[str]) -> pd.DataFrame:
        """Return rows, at least one, of points with these keys as a table."""

    @abstractmethod
    def run(
        self, only: Collection[str], master: str, progress: Callable[[Progress], None]
    ) -> Mapping[str, str]:
        """Run those points of `only` that have no rows; return why some failed, by point."""


class Runs(PointSource):
    """Runs of a sweep; `deliveries`: the delay of each delivery is kept, to compare systems."""

    column = RUN

    def __init__(self, spec: SweepSpec, folder: Path, *, deliveries: bool) -> None:
        self._runs = {point.key: point for point in points(spec)}
        super().__init__(list(self._runs.values()), folder)
        self.backend = spec.backend
        self._spec = spec
        self._deliveries = deliveries

    def not_run(self, known: Container[str]) -> list[tuple[Path, RunPoint]]:
        """Return folder and point of those that have not run, but for `known` keys."""
        sweep, done = SweepFolder(self.folder), self.finished()
        paths = {key: sweep.path(run) for key, run in self._runs.items() if key not in known}
        return [
            (at, self._runs[key]) for key, at in paths.items() if key not in done and not ran(at)
        ]

    def finished(self) -> set[str]:
        if not (self._runs and self.folder.exists()):
            return set()
        sweep = SweepFolder(self.folder)
        return {
            key
            for key, run in self._runs.items()
            if sweep.finished(run, deliveries=self._deliveries)
        }

    def read(self, keys: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        sweep, rows = SweepFolder(self.folder), {}
        for key in keys:
            row = sweep.row(self._runs[key])
            if problem := sweep.problem(self._runs[key]):
                row[PROBLEM] = problem
            rows[key] = [row]
        return rows

    def table(self, rows: Sequence[Row], keys: Sequence[str]) -> pd.DataFrame:
        return as_table(rows, [self._runs[key] for key in keys], self._spec.vary)

    def run(
        self, only: Collection[str], master: str, progress: Callable[[Progress], None]
    ) -> Mapping[str, str]:
        return run_sweep(
            self._spec,
            self.folder,
            master=master,
            keep_deliveries=self._deliveries,
            only=only,
            progress=progress,
        ).failures


class Calls(PointSource):
    """Calls of a function."""

    column = POINT

    def __init__(self, spec: Computed, folder: Path) -> None:
        self._calls = {point.key: point for point in computed_points(spec)}
        super().__init__(list(self._calls.values()), folder)
        self._spec = spec
        self.inline = spec.inline

    def finished(self) -> set[str]:
        return {key for key, call in self._calls.items() if is_computed(call, self.folder)}

    def read(self, keys: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        return {key: kept_rows(self._calls[key], self.folder) for key in keys}

    def table(self, rows: Sequence[Row], keys: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame.from_records(rows)

    def run(
        self, only: Collection[str], master: str, progress: Callable[[Progress], None]
    ) -> Mapping[str, str]:
        return run_computed(
            self._spec, self.folder, master=master, only=only, progress=progress
        ).failures


def source_of(spec: SweepSpec | Computed, folder: Path, *, deliveries: bool = False) -> PointSource:
    """Return what a study's spec asks for.  Raises `SpecError`."""
    if isinstance(spec, Computed):
        return Calls(spec, folder)
    return Runs(spec, folder, deliveries=deliveries)


@dataclass(frozen=True)
class Part:
    """One study in one variation."""

    study: Study
    variation: Variation
    source: PointSource

    @property
    def name(self) -> str:
        """The study and the variation, for messages."""
        return f"{self.study.name}, {self.variation.name}"

    @property
    def points(self) -> Mapping[str, Point]:
        """All its points by key, in the order of their rows."""
        return self.source.points

    @functools.cached_property
    def group_of(self) -> Mapping[str, str]:
        """The name of each point's group, by the point's key."""
        names = {key: key for key in self.points}
        if self.study.deliveries:
            for keys in self._compared().values():
                name = hashlib.sha256(" ".join(sorted(keys)).encode()).hexdigest()[:16]
                names |= dict.fromkeys(keys, name)
        return names

    @functools.cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The keys of each group, by its name."""
        by_group: dict[str, list[str]] = {}
        for key, group in self.group_of.items():
            by_group.setdefault(group, []).append(key)
        return {name: tuple(keys) for name, keys in by_group.items()}

    def _compared(self) -> Mapping[tuple[Any, ...], list[str]]:
        """Return the keys of runs that `with_pairs` compares, by their axes and seed."""
        by_axes: dict[tuple[Any, ...], list[str]] = {}
        for key, point in self.points.items():
            at = (*(point.parameters.get(axis.column) for axis in self.study.axes), point.seed)
            by_axes.setdefault(at, []).append(key)
        return by_axes

    def read(self, keys: Iterable[str]) -> Rows:
        """Return the rows of finished points: what they cost, what made them, what went wrong.

        If the study keeps deliveries, they have the columns of `with_pairs`, over the runs among
        `keys`.  Nothing is written.  Raises OSError.
        """
        asked, folder = set(keys), self.source.folder
        rows = self.source.read([key for key in self.points if key in asked])
        for key, of_point in rows.items():
            more = cost_and_code(folder / "points" / key)
            rows[key] = [{**row, **more} for row in of_point]
        if self.study.deliveries and rows:
            axes = [axis.column for axis in self.study.axes]
            paired = with_pairs(self.table(rows), folder, axes)
            columns = [beside(str(name)) for name in paired["protocol"].unique()]
            for key, pairs in zip(paired[RUN], records(paired[columns]), strict=True):
                rows[key] = [{**row, **pairs} for row in rows[key]]
        return rows

    def table(self, rows: Rows) -> pd.DataFrame:
        """Return the table of rows of its points, in the order of the points; empty if none."""
        keys = [key for key in self.points if key in rows]
        chosen = [row for key in keys for row in rows[key]]
        return self.source.table(chosen, keys) if chosen else pd.DataFrame()

    def completed(self, rows: Rows) -> pd.DataFrame:
        """Return the table with the columns that the study derives, and its name."""
        table = self.table(rows)
        if not len(table):
            return table
        derive = self.study.derive
        return (table if derive is None else derive(table)).assign(**{STUDY: self.study.name})


def parts_of(paper: Paper, preset: Preset, folder: Path) -> list[tuple[Variation, list[Part]]]:
    """Return what a preset plans, the base first.  Raises `SpecError`."""
    return [
        (
            variation,
            [
                _part(paper.study(name), variation, spec, folder / name)
                for name, spec in paper.plan(preset, variation).items()
            ],
        )
        for variation in paper.ways(preset)
    ]


def _part(study: Study, variation: Variation, spec: SweepSpec | Computed, folder: Path) -> Part:
    return Part(study, variation, source_of(spec, folder, deliveries=study.deliveries))

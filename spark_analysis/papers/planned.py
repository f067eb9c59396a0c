"""The points that a preset plans of a study in one variation, and their rows.

Runs and computed points have the same here: a key, which stands for everything that their rows
follow from, perhaps a seed, and a group.  Points of one **group** are taken together or not at all.
If a study keeps deliveries, a group is all systems at equal axes and seed: their rows have means
over what two of them delivered (`spark_analysis.papers.kept`), and so follow from one another.
Otherwise every point is a group of its own.

Rows are dictionaries until all of a study are there, whether they are read from its folder or from
published points: the table made of them is then the same, whatever came from where.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from spark_analysis.engine.pandas_rows import records
from spark_analysis.papers.computed import (
    POINT,
    Computed,
    ComputedPoint,
    computed_points,
    is_computed,
    kept_rows,
)
from spark_analysis.papers.kept import PROBLEM, RUN, beside, cost_and_code, with_pairs
from spark_analysis.papers.paper import STUDY, Paper, Preset, Study, Variation
from spark_analysis.sweeps.folder import SweepFolder, as_table
from spark_analysis.sweeps.spec import Point, SweepSpec, points

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Rows by the key of their point."""


@dataclass(frozen=True)
class PlannedPoint:
    """A point; `seed` is None if no chance has a part in it.

    `source` is the hash of the code that makes its rows, which its key follows from too.
    """

    key: str
    seed: int | None
    group: str
    source: str


@dataclass(frozen=True)
class Part:
    """One study in one variation, and the folder that its points are run in, if they are."""

    study: Study
    variation: Variation
    spec: SweepSpec | Computed
    folder: Path

    @property
    def name(self) -> str:
        """The study and the variation, for messages."""
        return f"{self.study.name}, {self.variation.name}"

    @property
    def key(self) -> str:
        """The column of its rows with the key of their point."""
        return POINT if isinstance(self.spec, Computed) else RUN

    @functools.cached_property
    def calls(self) -> Mapping[str, ComputedPoint]:
        """Its computed points by key."""
        asked = computed_points(self.spec) if isinstance(self.spec, Computed) else []
        return {each.key: each for each in asked}

    @functools.cached_property
    def runs(self) -> Mapping[str, Point]:
        """Its runs by key."""
        asked = [] if isinstance(self.spec, Computed) else points(self.spec)
        return {each.key: each for each in asked}

    @functools.cached_property
    def points(self) -> Mapping[str, PlannedPoint]:
        """All its points by key, in the order of their rows.  Raises `SpecError`."""
        if isinstance(self.spec, Computed):
            return {key: PlannedPoint(key, p.seed, key, p.code) for key, p in self.calls.items()}
        names = {key: key for key in self.runs}
        if self.study.deliveries:
            for keys in self._compared().values():
                name = hashlib.sha256(" ".join(sorted(keys)).encode()).hexdigest()[:16]
                names |= dict.fromkeys(keys, name)
        return {
            key: PlannedPoint(key, point.seed, names[key], point.code)
            for key, point in self.runs.items()
        }

    @functools.cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The keys of each group, by its name."""
        found: dict[str, list[str]] = {}
        for point in self.points.values():
            found.setdefault(point.group, []).append(point.key)
        return {name: tuple(keys) for name, keys in found.items()}

    def _compared(self) -> Mapping[tuple[Any, ...], list[str]]:
        """Return the keys of runs that `with_pairs` compares, by their axes and seed."""
        found: dict[tuple[Any, ...], list[str]] = {}
        for key, run in self.runs.items():
            at = (*(run.values.get(axis.column) for axis in self.study.axes), run.seed)
            found.setdefault(at, []).append(key)
        return found

    def finished(self) -> set[str]:
        """Return the keys of the points whose rows are in the folder.  Raises `SweepError`."""
        done = {key for key, call in self.calls.items() if is_computed(call, self.folder)}
        if self.runs and self.folder.exists():
            sweep, deliveries = SweepFolder(self.folder), self.study.deliveries
            done |= {
                k for k, run in self.runs.items() if sweep.finished(run, deliveries=deliveries)
            }
        return done

    def read(self, keys: Iterable[str]) -> Rows:
        """Return the rows of finished points: what they cost, what made them, what went wrong.

        If the study keeps deliveries, they have the columns of `with_pairs`, over the runs among
        `keys`.  Nothing is written.  Raises OSError.
        """
        asked = set(keys)
        chosen = [key for key in self.points if key in asked]
        costs = {key: cost_and_code(self.folder / "points" / key) for key in chosen}
        if isinstance(self.spec, Computed):
            return {
                key: [{**row, **costs[key]} for row in kept_rows(self.calls[key], self.folder)]
                for key in chosen
            }
        sweep = SweepFolder(self.folder)
        rows = {key: {**sweep.row(self.runs[key]), **costs[key]} for key in chosen}
        for key, row in rows.items():
            if said := sweep.problem(self.runs[key]):
                row[PROBLEM] = said
        if self.study.deliveries and rows:
            axes = [axis.column for axis in self.study.axes]
            paired = with_pairs(
                self.table({k: [row] for k, row in rows.items()}), self.folder, axes
            )
            columns = [beside(str(each)) for each in paired["protocol"].unique()]
            for key, pairs in zip(paired[RUN], records(paired[columns]), strict=True):
                rows[key] |= pairs
        return {key: [row] for key, row in rows.items()}

    def table(self, rows: Rows) -> pd.DataFrame:
        """Return the table of rows of its points, in the order of the points; empty if none."""
        chosen = [row for key in self.points if key in rows for row in rows[key]]
        if not chosen:
            return pd.DataFrame()
        if isinstance(self.spec, Computed):
            return pd.DataFrame.from_records(chosen)
        runs = [run for key, run in self.runs.items() if key in rows]
        return as_table(chosen, runs, self.spec.vary)

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
                Part(paper.study(name), variation, spec, folder / name)
                for name, spec in paper.plan(preset, variation).items()
            ],
        )
        for variation in paper.ways(preset)
    ]

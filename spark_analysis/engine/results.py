"""The results of an analysis: the tables of one or several runs, and those of one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import Scenario
from spark_analysis.engine.pandas_rows import records

NOTHING_DUE: Final = "nothing was to be delivered: no published event had a subscriber"
"""A problem of a run."""


@dataclass(frozen=True)
class Analysis:
    """The tables of one or several runs, as pandas frames, by name.

    Columns, with units, are those of the `spark_analysis.engine.tables.Table` of that name; every
    table has a column `run`.  Nulls are pandas' own: NaN in numbers (which are float if a column
    has nulls), None in text and truth values.  `problems` are one-line messages by run: files
    skipped or cut off, captures that are missing, an estimated time 0.
    """

    runs: tuple[Run, ...]
    problems: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, pd.DataFrame]

    def table(self, name: str) -> pd.DataFrame:
        """Return the rows of all runs of the table called `name`."""
        return self.tables[name]

    def of(self, run: Run) -> Analysis:
        """Return the analysis of one of the runs alone."""
        tables = {
            name: table[table["run"] == run.name].reset_index(drop=True)
            for name, table in self.tables.items()
        }
        return Analysis((run,), {run.name: self.problems[run.name]}, tables)

    def with_problems(self, more: Mapping[str, Sequence[str]]) -> Analysis:
        """Return the analysis with more problems, by run."""
        names = [run.name for run in self.runs]
        problems = {name: (*self.problems.get(name, ()), *more.get(name, ())) for name in names}
        return replace(self, problems=problems)


class RunTables:
    """The part of an analysis that belongs to one run, which is what a report is made of."""

    def __init__(self, analysis: Analysis, run: Run) -> None:
        self.run = run
        self._analysis = analysis
        summary = self.table("summary")
        self.summary: Mapping[str, Any] = next(iter(records(summary)), {})
        problems = [*run.problems, *analysis.problems.get(run.name, ())]
        if self.summary.get("expected_all") == 0:
            problems.append(NOTHING_DUE)
        self.problems = tuple(dict.fromkeys(problems))

    def table(self, name: str) -> pd.DataFrame:
        """Return the run's rows of the table called `name`."""
        frame = self._analysis.table(name)
        return frame[frame["run"] == self.run.name].reset_index(drop=True)

    def value(self, column: str) -> float:
        """Return a number of the summary; NaN if it is null or missing."""
        value = self.summary.get(column)
        return math.nan if value is None or pd.isna(value) else float(value)

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        return self.run.scenario

    @property
    def names(self) -> Mapping[int, str]:
        """Names of the nodes by id."""
        return {node.id: node.name for node in self.scenario.nodes}

    @property
    def observed(self) -> float:
        """Seconds that were observed, from time 0; the scenario's duration if unknown."""
        observed = self.value("observed")
        return observed if observed > 0 else self.scenario.duration

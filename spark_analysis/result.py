"""What an analysis has found: the tables of one or several runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from emulation.scenario.runfolder import Run


@dataclass(frozen=True)
class Analysis:
    """The tables of one or several runs, as pandas frames, by name.

    Columns, with units, are those of the `spark_analysis.table.Table` of that name; every
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

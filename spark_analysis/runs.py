"""Runs for programs and notebooks: their tables as pandas frames, read when they are asked for.

    from spark_analysis import runs

    run = runs.load("runs/20260101-120000-roaming_field-flooding")
    run.summary["delivery_ratio"]
    run.delivery.groupby("receiver")["delay"].median()

Tables that an analysis has left as Parquet are read without Spark; if there are none yet, the run
is analysed first.  docs/data.md has all tables and their columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq

from emulation.errors import RunFolderError
from emulation.scenario.runfolder import Run, read_run
from emulation.scenario.scenario import Scenario
from spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    from collections.abc import Sequence


def load(path: str | Path) -> LoadedRun:
    """Return the run in a folder.  Raises `AnalysisError` if there is none."""
    try:
        return LoadedRun(read_run(Path(path)))
    except RunFolderError as error:
        raise AnalysisError(str(error)) from None


class LoadedRun:
    """One run: `run.delivery`, `run.delay`... are its tables, each read once.

    All raise `AnalysisError` if a run that has no tables yet cannot be analysed.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._tables: dict[str, pd.DataFrame] = {}

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self.run.name

    @property
    def scenario(self) -> Scenario:
        """What was to happen."""
        return self.run.scenario

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables."""
        self._analysed()
        found = (path.stem for path in self.run.metrics.glob("*.parquet") if path.is_file())
        return sorted(found)

    def table(self, name: str) -> pd.DataFrame:
        """Return a table; its columns are those of docs/data.md, without `run`."""
        if name not in self._tables:
            self._tables[name] = pq.read_table(self._file(name)).to_pandas().drop(columns="run")
        return self._tables[name]

    def units(self, name: str) -> Mapping[str, str]:
        """Return what each column of a table is, with its unit."""
        return {
            field.name: (field.metadata or {}).get(b"comment", b"").decode()
            for field in pq.read_schema(self._file(name))
        }

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The key figures, by name."""
        return dict(self.table("summary").iloc[0])

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return the table of that name."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.table(name)
        except KeyError:
            known = ", ".join(self.tables)
            raise AttributeError(f"no table {name!r}; there are: {known}") from None

    def __dir__(self) -> list[str]:
        """Name the tables as well, for completion in a notebook."""
        return [*super().__dir__(), *self.tables]

    def _file(self, name: str) -> Path:
        self._analysed()
        path = self.run.metrics / f"{name}.parquet"
        if not path.is_file():
            raise KeyError(name)
        return path

    def _analysed(self) -> None:
        if not (self.run.metrics / "summary.parquet").is_file():
            from spark_analysis.reports import analyse_and_report

            analyse_and_report([self.run.path])

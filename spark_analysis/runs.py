"""Runs for programs and notebooks: their tables as pandas frames, read when they are asked for.

    from spark_analysis import runs

    run = runs.load("runs/20260101-120000-roaming_field-flooding")
    run.summary["delivery_ratio"]
    run.delivery.groupby("receiver")["delay"].median()

Tables that an analysis has left as Parquet are read without Spark; if there are none yet, the run
is analysed first.  A run of `mn` has tables of its own.  docs/data.md has all tables and their
columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import pandas as pd
import pyarrow.parquet as pq

from emulation.errors import RunFolderError
from emulation.mn import record
from emulation.mn.record import is_script_run
from emulation.scenario.provenance import cause_of_death
from emulation.scenario.runfolder import Run, read_run
from emulation.scenario.scenario import Scenario
from spark_analysis import scratch
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.script import LAST

if TYPE_CHECKING:
    from collections.abc import Sequence


def load(path: str | Path) -> LoadedRun | LoadedScript:
    """Return the run in a folder, also one of `mn`.  Raises `AnalysisError` if there is none."""
    folder = Path(path).resolve()
    if is_script_run(folder):
        return LoadedScript(folder)
    try:
        return LoadedRun(read_run(folder))
    except RunFolderError as error:
        raise AnalysisError(str(error)) from None


class Loaded(ABC):
    """A run folder whose tables are attributes, each read once, when it is asked for."""

    def __init__(self, metrics: Path) -> None:
        self._metrics = metrics
        self._tables: dict[str, pd.DataFrame] = {}

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables."""
        self._analysed()
        return sorted(path.stem for path in self._metrics.glob("*.parquet") if path.is_file())

    def table(self, name: str) -> pd.DataFrame:
        """Return a table; its columns are those of docs/data.md, without `run`."""
        if name not in self._tables:
            read = pq.read_table(self._file(name)).to_pandas()
            self._tables[name] = read.drop(columns="run", errors="ignore")
        return self._tables[name]

    def units(self, name: str) -> Mapping[str, str]:
        """Return what each column of a table is, with its unit."""
        return {
            field.name: (field.metadata or {}).get(b"comment", b"").decode()
            for field in pq.read_schema(self._file(name))
        }

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return the table of that name."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.table(name)
        except KeyError:
            names = ", ".join(self.tables)
            raise AttributeError(
                f"no table {name!r}; there are: {names}; if a newer measure makes it, analyze the "
                "run again"
            ) from None

    def __dir__(self) -> list[str]:
        """Name the tables as well, for completion in a notebook."""
        return [*super().__dir__(), *self.tables]

    def _file(self, name: str) -> Path:
        self._analysed()
        path = self._metrics / f"{name}.parquet"
        if not path.is_file():
            raise KeyError(name)
        return path

    @abstractmethod
    def _analysed(self) -> None:
        """Make the tables if there are none.  Raises `AnalysisError`."""

    def _passing_folder(self) -> Path:
        """Return a folder for tables that are not kept: what they are made of may still grow."""
        stack = ExitStack()
        finalize(self, stack.close)
        return stack.enter_context(scratch.folder())


class LoadedRun(Loaded):
    """One run: `run.delivery`, `run.delay`... are its tables, each read once.

    For a run that has not ended they hold what was captured when the first one was asked for, or
    when it was analysed.
    All raise `AnalysisError` if a run that has no tables yet cannot be analysed.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run.metrics)
        self.run = run

    @property
    def tables(self) -> Sequence[str]:
        """Names of the tables that have rows; the others can be read as well."""
        return [name for name in super().tables if pq.read_metadata(self._file(name)).num_rows]

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self.run.name

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        return self.run.scenario

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The key figures, by name."""
        return dict(self.table("summary").iloc[0])

    def _file(self, name: str) -> Path:
        path = self._metrics / f"{name}.parquet"
        return path if path.is_file() else super()._file(name)

    def _analysed(self) -> None:
        if (self._metrics / "delivery.parquet").is_file():  # a sweep's point has a summary
            return
        from spark_analysis.reports import analyse_and_report

        record = self.run.record
        if record is None or record.ended != "running" or cause_of_death(record.owner):
            analyse_and_report([self.run.path])
            return
        into = self._passing_folder()
        analyse_and_report([self.run.path], out=into)
        self._metrics = into / self.name / "metrics"


class LoadedScript(Loaded):
    """A run of `mn`: `run.positions`, `run.signals`, `run.traffic`... are its tables.

    For a run that has not ended they hold what was recorded when the first one was asked for.  All
    raise `AnalysisError` if the script built no network.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "metrics")
        self._folder = folder
        self._tables_made = False
        """Whether the tables were made for this object."""

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return self._folder.name

    def _analysed(self) -> None:
        ended = record.read_ended(self._folder) is not None
        if self._tables_made or (ended and (self._metrics / f"{LAST}.parquet").is_file()):
            return
        from spark_analysis.script_reports import make

        into = self._metrics if ended else self._passing_folder()
        make(self._folder, into)
        self._metrics, self._tables_made = into, True

"""The part of an analysis that belongs to one run, which is what a report is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import Scenario
from spark_analysis.result import Analysis


class RunTables:
    """The part of an analysis that belongs to one run."""

    def __init__(self, analysis: Analysis, run: Run) -> None:
        self.run = run
        self._analysis = analysis
        self.problems = tuple(dict.fromkeys((*run.problems, *analysis.problems.get(run.name, ()))))
        summary = self.table("summary")
        self.summary: Mapping[str, Any] = {} if summary.empty else summary.iloc[0].to_dict()

    def table(self, name: str) -> pd.DataFrame:
        """Return the run's rows of the table called `name`."""
        frame = self._analysis.table(name)
        return frame[frame["run"] == self.run.name].reset_index(drop=True)

    def value(self, column: str) -> float:
        """Return a number of the summary; NaN where it is null or missing."""
        value = self.summary.get(column)
        return math.nan if value is None or pd.isna(value) else float(value)

    @property
    def scenario(self) -> Scenario:
        """What was to happen."""
        return self.run.scenario

    @property
    def names(self) -> Mapping[int, str]:
        """Names of the nodes by id."""
        return {node.id: node.name for node in self.scenario.nodes}

    @property
    def observed(self) -> float:
        """Seconds that the captures cover, from time 0; the scenario's duration if unknown."""
        captured = self.value("captured")
        return captured if captured > 0 else self.scenario.duration

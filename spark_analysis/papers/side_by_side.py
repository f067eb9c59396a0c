"""A paper's protocols in one table, by which a reader chooses: means of the base's points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from spark_analysis.papers.answer import mean
from spark_analysis.report.quantities import NOTHING
from spark_analysis.report.text_table import TextTable


@dataclass(frozen=True)
class MeanColumn:
    """The mean of a measure in a study, times `scale`, where other columns have the values `at`."""

    head: str
    study: str
    measure: str
    scale: float = 1.0
    at: Mapping[str, Any] = field(default_factory=dict)

    def text(self, points: pd.DataFrame, protocol: str) -> str:
        """Return the mean of a protocol, to three digits."""
        value = mean(self.study, self.measure, scale=self.scale, protocol=protocol, **self.at)
        return value(points, ()) or NOTHING


@dataclass(frozen=True)
class SideBySide:
    """A row for each protocol, by its key and name, and a column for each measure."""

    head: str
    """What the rows are."""
    rows: Mapping[str, str]
    columns: tuple[MeanColumn, ...]
    note: str

    def table(self, points: pd.DataFrame) -> TextTable | None:
        """Return the table, with the protocols that have points; None if none has."""
        rows = [
            [name, *cells]
            for protocol, name in self.rows.items()
            if set(cells := [column.text(points, protocol) for column in self.columns]) - {NOTHING}
        ]
        head = [self.head, *(column.head for column in self.columns)]
        return TextTable("Side by side", self.note, head, rows) if rows else None

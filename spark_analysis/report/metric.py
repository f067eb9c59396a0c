"""What a metric is: a number of a run, from the summary, and how it is written.

Metrics stand beside the queries that they are made of (`spark_analysis.measures`).  One that adds
a column to the summary is a `MeasuredMetric`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_analysis.errors import first_line

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables
    from spark_analysis.engine.tables import SummaryColumn

LARGE: Final = 999.5
"""From here on three digits would be written with an exponent."""


def significant(value: float) -> str:
    """Return a number as comparisons write it; how pages write it does not affect any row."""
    if math.isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < LARGE else f"{value:,.0f}"


def to_units(value: float) -> str:
    """Return a number without decimals: it is often a thousand or more."""
    return "–" if math.isnan(value) else f"{value:,.0f}"


@dataclass(frozen=True)
class AgreementBound:
    """How a metric tells whether two backends agree: the means of their runs are about the same.

    Only for metrics that runs of some protocols have: delivery, frames and delay, which all have,
    are compared in ways of their own (`spark_analysis.agreement`).
    """

    name: str
    """Of the criterion."""
    share: float
    """Greatest difference, as a share of the first backend's mean."""
    beside: str | None = None
    """A column of the summary that runs must have a value in as well; None: the metric's alone."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A column of the summary.  What is None is not shown there.

    Figures multiply values by `scale` and then write them in `unit`; tiles and comparisons write
    them as `text` does.
    """

    column: str
    title: str
    """Of its figure."""
    caption: str
    """Of its figure: what is measured, in a sentence."""
    unit: str
    text: Callable[[float], str]
    scale: float = 1.0
    top: float | None = None
    """Upper end of the axis, if values have one."""
    swept: bool = False
    """Sweeps have a figure of it and a column of their table."""
    if_known: bool = False
    """Sweeps and comparisons have it only if some run has a value, and a report only if its run."""
    tile: str | None = None
    """Label of its tile in the report of a run."""
    detail: Callable[[RunTables], str] = lambda tables: ""
    """Text below the value in the tile."""
    heading: str | None = None
    """Heading of its column in a comparison of runs."""
    of: str | None = None
    """The column of which it is a part, which comparisons name with it."""
    terminal: str | None = None
    """Words on the terminal, with `{value}` and other columns of the summary in them."""

    agreement: AgreementBound | None = None
    """Comparisons of two backends have it as a criterion, for runs that have a value."""

    def cell(self, tables: RunTables) -> str:
        """Return what a comparison says of a run."""
        value = tables.value(self.column)
        if self.of is None or math.isnan(value):
            return self.written(value)
        return f"{self.written(value)} of {self.written(tables.value(self.of))}"

    def written(self, value: float) -> str:
        """Return what `text` makes of a value, or how it fails: that costs nothing else."""
        return _safe(self.column, "text", self.text, value)

    def words(self, row: Mapping[str, Any]) -> str:
        """Return what the terminal says of a run; `row` is the run's of the summary."""
        value = row[self.column]
        is_number = value is not None and not math.isnan(value)
        text = f"{self.scale * value:.1f}" if is_number else "-"
        form = (self.terminal or "").format_map
        return _safe(self.column, "terminal text", form, {**row, "value": text})


@dataclass(frozen=True, kw_only=True)
class MeasuredMetric(Metric):
    """A metric with a column of its own in the summary; `column` is the name of the measure's."""

    measure: SummaryColumn


@dataclass(frozen=True)
class Tile:
    """One key figure."""

    label: str
    value: str
    detail: str = ""


def _safe(column: str, function: str, write: Callable[[Any], str], value: object) -> str:
    try:
        return write(value)
    except Exception as error:  # noqa: BLE001  a defect of one metric is its own
        return f"{function} of {column} raises {type(error).__name__}: {first_line(error)}"


def tiles(tables: RunTables, metrics: Iterable[Metric]) -> list[Tile]:
    """Return the key figures; metrics that only some runs have, only if this run has them."""
    return [
        Tile(
            metric.tile,
            metric.written(tables.value(metric.column)),
            _safe(metric.column, "detail", metric.detail, tables),
        )
        for metric in metrics
        if metric.tile is not None
        and not (metric.if_known and math.isnan(tables.value(metric.column)))
    ]

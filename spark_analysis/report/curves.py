"""Means with confidence intervals over a parameter: the figure of sweeps and of papers.

Values that are numbers are joined by lines, on a logarithmic axis if they are far apart; others
stand side by side, as points.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from spark_analysis.report import svg
from spark_analysis.report.confidence import Interval
from spark_analysis.report.figures import WIDTH, Drawing, empty_drawing, formatted
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import number, printable
from spark_analysis.report.scenario_text import plain

OF_MEANS: Final = "Mean with its 95 % confidence interval."
"""Ends the captions of figures drawn this way."""
MARKERS: Final = ("o", "s", "D", "^", "v", "P")
LINES: Final[tuple[Any, ...]] = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
APART: Final = 0.009
"""Share of the width by which curves stand apart, so that intervals do not hide each other."""
COLUMNS: Final = 2
"""Panels side by side."""
LABEL: Final = 52
"""Letters of a label that fit in the width of a figure."""
LEGEND: Final = 56
"""Letters of a legend that fit in the width of a figure."""
WIDE: Final = 20
"""Ratio of the last to the first value from which the axis is logarithmic."""
DECADES: Final = 100
"""Ratio of values below which a logarithmic axis has more than powers of ten."""


@dataclass(frozen=True)
class Quantity:
    """A column of the summary, and how figures write it.

    Values are multiplied by `scale` and then in `unit`.
    """

    column: str
    title: str
    caption: str
    unit: str
    scale: float = 1.0
    top: float | None = None
    """Upper end of the axis, if values have one."""
    signed: bool = False
    """Whether values may be below 0, as differences are."""
    logarithmic: bool = False
    """Whether the axis is; all values are above 0 then."""

    @classmethod
    def of(cls, metric: Metric) -> Self:
        """Return how figures write a metric."""
        return cls(
            metric.column, metric.title, metric.caption, metric.unit, metric.scale, metric.top
        )

    def text(self, value: float | None) -> str:
        """Return a value with its unit."""
        if value is None:
            return number(None)
        return f"{number(value * self.scale)} {self.unit}".strip()


Curve = Sequence[tuple[Any, Interval]]
"""Values of the parameter, ascending, with the mean of what was measured there."""


def of_panel(rows: pd.DataFrame, columns: Sequence[str], values: Sequence[Any]) -> pd.DataFrame:
    """Return the rows that have these values; one without a column's value is in every panel."""
    for column, value in zip(columns, values, strict=True):
        rows = rows[(rows[column] == value).fillna(False) | rows[column].isna()]
    return rows


def multiples(
    quantity: Quantity, parameter: str, panels: Mapping[str, Mapping[str, Curve]]
) -> Drawing:
    """Draw several sets of curves under their names, on axes of the same extent.

    A parameter that is not a number has its values side by side.
    """
    names = list(dict.fromkeys(name for series in panels.values() for name in series))
    every = [curve for series in panels.values() for curve in series.values()]
    if not any(every):
        return empty_drawing(quantity.title, quantity.caption, "No point of the sweep has this.")
    columns = min(len(panels), COLUMNS)
    ticks = _Ticks([x for curve in every for x, _ in curve], LABEL // columns)
    rows = -(-len(panels) // columns)
    legend = _legend_columns(names)
    tall = 300 if rows == 1 else 60 + 175 * rows
    with svg.style():
        figure = svg.new_figure(WIDTH, tall + 17 * -(-len(names) // legend) + ticks.extra)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes, (title, series) in zip(grid.flat, panels.items(), strict=False):
            for name, curve in series.items():
                _draw(axes, quantity, ticks, curve, names.index(name), len(names), name)
            if title:
                axes.set_title(printable(title))
        ticks.axis(grid[0][0], narrow=columns > 1)
        _value_axis(grid[0][0], quantity, [i for curve in every for _, i in curve])
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        for column in range(columns):  # the lowest one of a column has its ticks
            lowest = grid[(len(panels) - 1 - column) // columns][column]
            lowest.tick_params(labelbottom=True)
            ticks.slant(lowest)
        # At the axes if there is only one, since that says more clearly what it belongs to.
        if columns == rows == 1:
            grid[0][0].set_xlabel(textwrap.fill(parameter, LABEL))
            grid[0][0].set_ylabel(_says_what(quantity))
        else:
            figure.supxlabel(textwrap.fill(parameter, LABEL), fontsize=12)
            figure.supylabel(_says_what(quantity), fontsize=12)
        handles = {
            label: handle
            for axes in grid.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        # A label below all panels would lie in a legend there.
        side: Any = "outside lower center" if rows == columns == 1 else "outside upper center"
        named = [printable(name) for name in names if name]
        if named:  # the only curve may have no name
            figure.legend([handles[name] for name in named], named, loc=side, ncols=legend)
    described = " ".join(
        f"{', '.join(filter(None, (title, name)))}: "
        + ", ".join(f"{quantity.text(i.mean)} at {plain(x)}" for x, i in curve)
        + "."
        for title, series in panels.items()
        for name, curve in series.items()
    )
    values = _values(quantity, parameter, panels)
    return Drawing(figure, quantity.title, quantity.caption, described, values=values)


def _values(
    quantity: Quantity, parameter: str, panels: Mapping[str, Mapping[str, Curve]]
) -> pd.DataFrame:
    """Return the values that are drawn, at their true places and with whole intervals."""
    table = pd.DataFrame(
        [
            [title, name, x, *(end * quantity.scale for end in (i.mean, i.low, i.high)), i.count]
            for title, series in panels.items()
            for name, curve in series.items()
            for x, i in curve
        ],
        columns=["panel", "series", parameter, _says_what(quantity), "low", "high", "runs"],
    )
    ends = ["low", "high"]
    table[ends] = table[ends].astype(object).where(np.isfinite(table[ends].astype(float)), "")
    return table.drop(columns=[name for name in ("panel", "series") if not table[name].any()])


def _draw(
    axes: Axes, quantity: Quantity, ticks: _Ticks, curve: Curve, order: int, of: int, name: str
) -> None:
    means, low, high = (
        np.array([getattr(interval, end) for _, interval in curve]) * quantity.scale
        for end in ("mean", "low", "high")
    )
    known = np.isfinite(high)
    axes.errorbar(
        [ticks.at(x, order - (of - 1) / 2, of) for x, _ in curve], means,
        yerr=(np.where(known, means - low, 0.0), np.where(known, high - means, 0.0)),
        color=svg.SERIES[order % len(svg.SERIES)],
        marker=MARKERS[order % len(MARKERS)],
        linestyle=LINES[order // len(svg.SERIES) % len(LINES)] if ticks.numeric else "none",
        markersize=5, capsize=2.5, elinewidth=1.1, label=printable(name),
    )  # fmt: skip


def _legend_columns(names: Sequence[str]) -> int:
    """Return how many names fit beside each other."""
    return max(1, min(3, len(names), LEGEND // (max(map(len, names)) + 5)))


class _Ticks:
    """Where values of the parameter are: as numbers, or side by side if they are not numbers."""

    def __init__(self, values: Iterable[Any], room: int) -> None:
        """`room` is how many letters fit below the axes beside each other."""
        self._values = list(dict.fromkeys(values))
        self.numeric = all(
            isinstance(x, int | float) and not isinstance(x, bool) for x in self._values
        )
        if self.numeric:
            self._values.sort()
        first, last = self._values[0], self._values[-1]
        self._log = self.numeric and len(self._values) > 2 and 0 < WIDE * first <= last
        self._names = [plain(value) for value in self._values]
        self._slanted = not self.numeric and sum(len(name) + 2 for name in self._names) > room
        longest = max(map(len, self._names))
        self.extra = min(3 * longest, 60) if self._slanted else 0
        """CSS pixels that the names need below the axes."""

    def at(self, value: Any, step: float, of: int) -> float:
        """Return where a value is drawn, `step` steps beside its own position, of `of` curves."""
        if self._log:
            return float(value * (self._values[-1] / self._values[0]) ** (APART * step))
        if self.numeric:
            return float(value + APART * step * ((self._values[-1] - self._values[0]) or 1.0))
        return self._values.index(value) + step * min(0.12, 0.7 / of)

    def slant(self, axes: Axes) -> None:
        """Slant the names below axes, which may share those of others, if they need it."""
        if self._slanted:
            for label in axes.get_xticklabels():
                label.set(rotation=25, ha="right")

    def axis(self, axes: Axes, *, narrow: bool) -> None:
        """Write the values along the axis, all of them if they have room."""
        values = self._values
        if not self.numeric:
            axes.set_xticks(range(len(values)), [printable(name) for name in self._names])
            axes.set_xlim(-0.5, len(values) - 0.5)
            return
        if self._log:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        scaled = math.log if self._log else float
        width = (scaled(values[-1]) - scaled(values[0])) or 1.0
        room = (0.16 if narrow else 0.075) * width
        shown: list[Any] = []
        for value in values:
            if not shown or scaled(value) - scaled(shown[-1]) >= room:
                shown.append(value)
        axes.set_xticks(shown)
        axes.xaxis.set_minor_formatter(NullFormatter())
        formatted(axes.xaxis, plain)
        if len(values) == 1:
            axes.set_xlim(values[0] - 1, values[0] + 1)


def _value_axis(axes: Axes, quantity: Quantity, intervals: Sequence[Interval]) -> None:
    if quantity.logarithmic:
        axes.set_yscale("log")
        values = [interval.mean * quantity.scale for interval in intervals]
        if max(values) < DECADES * min(values):
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        formatted(axes.yaxis, number)
        return
    means = [interval.mean * quantity.scale for interval in intervals]
    ends = [interval.high * quantity.scale for interval in intervals if interval.known]
    # Intervals of few repetitions may be wider than anything measured: they are cut at the frame.
    reach = 1.5 * max(map(abs, means))
    top = 1.05 * min(max(means + ends), reach)
    if quantity.top is not None:
        top = min(top, quantity.top * 1.03)
    if quantity.signed:
        low = [interval.low * quantity.scale for interval in intervals if interval.known]
        axes.axhline(0, color=svg.MUTED, linewidth=0.8)
        axes.set_ylim(min(0.0, 1.05 * max(min(means + low), -reach)), max(0.0, top) or 1.0)
    else:
        axes.set_ylim(0, top or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 2.5, 5, 10)))
    formatted(axes.yaxis, number)


def _says_what(quantity: Quantity) -> str:
    """Return the label of the value axis: "ms" alone would not say of what."""
    if " " in quantity.unit or len(quantity.unit) > 5:
        return quantity.unit
    title = quantity.title.rpartition(": ")[2]  # the study stands before it
    title = title[:1].lower() + title[1:]
    return f"{title}, {quantity.unit}" if quantity.unit else title

"""What a figure shows, as numbers: the CSV that a reader of a page can save.

The numbers are read from the Matplotlib figure itself, so that every figure has them and they are
those that are drawn: lines, bars, error bars and collections of lines in the coordinates of their
axes.  Lines across a whole axis, shaded stretches and annotations are not values.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter

MOST: Final = 4_000
"""Most points of a collection of lines that are written; of more, only their number is."""
NAMED: Final = ("panel", "series", "part", "x", "y", "low", "high", "note")


class Written(FuncFormatter):
    """Ticks as text; values divided by `factor` are in the unit of the axis' label or `unit`."""

    def __init__(self, text: Any, factor: float = 1.0, unit: str = "") -> None:
        super().__init__(text)
        self.factor = factor
        self.unit = unit


class Row(NamedTuple):
    """A point: of a series in a panel, the end of a bar, or one of a line's, which is a `part`.

    `low` and `high` are the ends of an error bar, in the direction that it has.
    """

    panel: str
    series: str
    part: int | str
    x: float | str
    y: float | str
    low: float | str = ""
    high: float | str = ""
    note: str = ""


def as_csv(figure: Figure, notes: Mapping[str, str]) -> str:
    """Return what a figure shows as CSV with a header, empty if nothing is shown.

    One row per point; columns that would be empty are left out.  `notes` maps the `gid` of artists
    to notes for a reader.
    """
    panels = [axes for axes in figure.axes if axes.axison]
    labels = [(_label(figure, axes, "x"), _label(figure, axes, "y")) for axes in panels]
    alike = len(set(labels)) <= 1
    rows = [
        row
        for axes, label in zip(panels, labels, strict=True)
        for row in _rows(axes, _panel(axes, label, alike), notes)
    ]
    if not rows:
        return ""
    head = dict(zip(NAMED, NAMED, strict=True))
    if alike:
        head |= {key: text or key for key, text in zip("xy", labels[0], strict=True)}
    kept = [
        index
        for index, name in enumerate(NAMED)
        if name in "xy" or any(row[index] != "" for row in rows)
    ]
    return written(
        [[head[NAMED[index]] for index in kept], *([row[index] for index in kept] for row in rows)]
    )


def written(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; numbers have six digits, what is not a number is empty."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [_plain(value) for value in row] for row in rows
    )
    return file.getvalue()


def _plain(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return value


def _label(figure: Figure, axes: Axes, name: str) -> str:
    axis = axes.xaxis if name == "x" else axes.yaxis
    shared = figure.get_supxlabel() if name == "x" else figure.get_supylabel()
    if not axis.get_label_text():  # panels above each other share the lowest one's
        group = axes.get_shared_x_axes() if name == "x" else axes.get_shared_y_axes()
        texts = [panel.xaxis if name == "x" else panel.yaxis for panel in group.get_siblings(axes)]
        shared = next((other.get_label_text() for other in texts if other.get_label_text()), shared)
    text = (axis.get_label_text() or shared).replace("\n", " ")
    formatter = axis.get_major_formatter()
    if isinstance(formatter, Written) and formatter.unit:
        return f"{text}, {formatter.unit}"
    return text


def _panel(axes: Axes, label: tuple[str, str], alike: bool) -> str:
    title = axes.get_title("left") or axes.get_title()
    if alike:
        return title
    return ": ".join(filter(None, (title, " over ".join(filter(None, reversed(label))))))


def _rows(axes: Axes, panel: str, notes: Mapping[str, str]) -> Iterator[Row]:
    x, y = _scale(axes.xaxis), _scale(axes.yaxis)
    drawn: set[Any] = set()
    for container in axes.containers:
        if isinstance(container, BarContainer):
            yield from _bars(axes, container, panel, notes)
        elif isinstance(container, ErrorbarContainer):
            line, caps, _ = container.lines
            drawn |= {line, *caps}
            yield from _error_bars(axes, container, panel)
    for line in axes.lines:
        if line in drawn or line.get_transform() != axes.transData:
            continue
        for at_x, at_y in np.asarray(line.get_xydata(), float):
            yield Row(
                panel, _name(line), "", x(at_x), y(at_y), note=notes.get(str(line.get_gid()), "")
            )
    for lines in axes.collections:
        if not isinstance(lines, LineCollection) or _of_error_bars(axes, lines):
            continue
        segments = lines.get_segments()
        count = sum(len(segment) for segment in segments)
        if count > MOST:
            note = f"{count} points of {len(segments)} lines are too many for a page"
            yield Row(panel, _name(lines), "", "", "", note=note)
            continue
        for part, segment in enumerate(segments, start=1):
            for at_x, at_y in np.asarray(segment, float):
                yield Row(panel, _name(lines), part, x(at_x), y(at_y))


def _of_error_bars(axes: Axes, lines: LineCollection) -> bool:
    return any(
        lines in (container.lines[2] or ())
        for container in axes.containers
        if isinstance(container, ErrorbarContainer)
    )


def _bars(axes: Axes, bars: BarContainer, panel: str, notes: Mapping[str, str]) -> Iterator[Row]:
    upright = bars.orientation == "vertical"
    x, y = _scale(axes.xaxis), _scale(axes.yaxis)
    for bar in bars.patches:
        if not (bar.get_width() and bar.get_height()) and not (
            bar.get_width() if upright else bar.get_height()
        ):
            continue  # it is there for the legend alone
        if upright:
            at = x(bar.get_x() + bar.get_width() / 2), y(bar.get_height())
        else:
            at = x(bar.get_width()), y(bar.get_y() + bar.get_height() / 2)
        yield Row(panel, _name(bars), "", *at, note=notes.get(str(bar.get_gid()), ""))


def _error_bars(axes: Axes, bars: ErrorbarContainer, panel: str) -> Iterator[Row]:
    line, _, ranges = bars.lines
    along = 0 if bars.has_xerr else 1
    x, y = _scale(axes.xaxis), _scale(axes.yaxis)
    scale = (x, y)[along]
    ends: list[Any] = list(ranges[0].get_segments()) if ranges else []
    if line is None:  # the points are drawn as bars, in the middle of their ranges
        points = np.asarray([np.mean(end, axis=0) for end in ends], float).reshape(-1, 2)
    else:
        points = np.asarray(line.get_xydata(), float)
    if len(ends) != len(points):
        ends = [None] * len(points)
    for (at_x, at_y), end in zip(points, ends, strict=True):
        low = high = ""
        if end is not None and len(end) == 2 and end[0][along] != end[1][along]:
            low, high = (scale(float(value[along])) for value in end)
        yield Row(panel, _name(bars), "", x(at_x), y(at_y), low, high)


def _name(artist: Line2D | LineCollection | BarContainer | ErrorbarContainer) -> str:
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _scale(axis: Any) -> Any:
    """Return the function from a coordinate to the number or name that the axis shows."""
    names: dict[float, str] = {}
    locator, formatter = axis.get_major_locator(), axis.get_major_formatter()
    if axis.have_units() and hasattr(axis.units, "_mapping"):  # names were drawn as they are
        names = {float(at): str(name) for name, at in axis.units._mapping.items()}
    elif isinstance(locator, FixedLocator) and not isinstance(formatter, Written):
        ticks = axis.get_majorticklocs()
        texts = formatter.format_ticks(ticks)
        names = {float(at): text for at, text in zip(ticks, texts, strict=True) if text}
        if all(_is_number(text) for text in names.values()):
            names = {}
    factor = formatter.factor if isinstance(formatter, Written) else 1.0

    def value(at: float) -> float | str:
        nearest = min(names, key=lambda known: abs(known - at)) if names else math.inf
        # Series stand beside each other about the name that they share.
        return names[nearest] if abs(nearest - at) < 0.5 else float(at) / factor

    return value


def _is_number(text: str) -> bool:
    try:
        float(text.replace("−", "-"))
    except ValueError:
        return False
    return True

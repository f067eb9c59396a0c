"""Figures of missing deliveries by cause: over time, and where the events were last seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.ticker import MaxNLocator

from spark_analysis.report import svg
from spark_analysis.report.figures import (
    STEPS,
    WIDTH,
    Array,
    Drawing,
    in_parts,
    look,
    stacked_bars,
)
from spark_analysis.report.quantities import count, number

HEIGHT: Final = 460
MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_LARGEST: Final = 260.0
"""Square points of the largest mark."""
_SMALLEST: Final = 14.0


def over_time(start: Array, width: float, missing: Mapping[str, npt.NDArray[np.int64]]) -> Drawing:
    """Draw missing deliveries by time of publication, stacked by cause.

    `missing` has, for each cause, their number in each bucket of `width` seconds from `start` on.
    """
    with svg.style():
        figure = svg.new_figure(WIDTH, 300)
        axes = figure.add_subplot()
        bottom = np.zeros(len(start))
        for index, (cause, numbers) in enumerate(missing.items()):
            axes.bar(
                start + width / 2, numbers, 0.86 * width, bottom=bottom, edgecolor=svg.PAPER,
                linewidth=0.4, label=cause, **look(index),
            )  # fmt: skip
            bottom = bottom + numbers
        axes.set_xlim(float(start[0]), float(start[-1] + width))
        axes.set_xlabel("time of publication in the run, s")
        axes.set_ylabel(f"missing deliveries per {number(width)} s")
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True, steps=STEPS))
        figure.legend(loc="outside upper center", ncols=2)
    return Drawing(
        figure,
        "Missing deliveries over time",
        "Deliveries that were expected and not made, all events, by the time at which the event's "
        "publisher sent PUBLISH and the cause at the hop at which it was last seen.",
        " ".join(f"{cause}: {count(numbers.sum())}." for cause, numbers in missing.items()),
    )


def by_point(names: Sequence[str], expected: Array, missing: Mapping[str, Array]) -> Drawing:
    """Draw the share of deliveries missing at each point of a sweep, stacked by cause.

    `expected` has the deliveries expected at each of the points `names`, and `missing`, for each
    cause, how many are missing there.
    """
    none = np.full(len(names), np.nan)
    shares = {
        cause: np.divide(100 * numbers, expected, out=none.copy(), where=expected > 0)
        for cause, numbers in missing.items()
    }
    with svg.style():
        figure = svg.new_figure(WIDTH, 120 + 26 * len(names))
        axes = figure.add_subplot()
        stacked_bars(axes, names, shares)
        axes.set_xlabel("missing, % of deliveries")
        figure.legend(loc="outside upper center", ncols=2)
    return Drawing(
        figure,
        "Why deliveries are missing",
        "Deliveries expected and not made, all events of all seeds, by the cause at the hop at "
        "which the event was last seen on its way.",
        " ".join(f"{cause}: {count(numbers.sum())}." for cause, numbers in missing.items()),
        values=in_parts(names, shares, ("point", "cause", "missing, % of deliveries")),
    )


def places(
    points: Sequence[tuple[float, float, str]],
    causes: Sequence[str],
    nodes: npt.NDArray[np.float64],
    area: tuple[float, float, float, float],
) -> Drawing:
    """Draw where events were last seen: x and y in metres, and the cause; one for each delivery.

    `nodes` are where nodes start, an array (N, 2) of metres; `causes` are all, in order.
    """
    counted = Counter((round(x), round(y), cause) for x, y, cause in points)
    most = max(counted.values())
    corners = np.vstack([np.reshape(area, (2, 2)), nodes, [point[:2] for point in points]])
    low, high = corners.min(axis=0), corners.max(axis=0)
    margin = 0.04 * float(max((high - low).max(), 1.0))
    with svg.style():
        figure = svg.new_figure(WIDTH, HEIGHT)
        axes = figure.add_subplot()
        axes.set_aspect("equal")
        axes.set_xlim(low[0] - margin, high[0] + margin)
        axes.set_ylim(low[1] - margin, high[1] + margin)
        axes.set_xlabel("x, m")
        axes.set_ylabel("y, m")
        axes.plot(*nodes.T, ".", color=svg.MUTED, alpha=0.5, markersize=4, label="start of a node")
        for index, cause in enumerate(causes):
            mine = [(x, y, times) for (x, y, why), times in counted.items() if why == cause]
            x, y, times = np.array(mine, dtype=float).T
            axes.scatter(
                x, y, _SMALLEST + (_LARGEST - _SMALLEST) * (times - 1) / max(most - 1, 1),
                color=svg.SERIES[index % len(svg.SERIES)], alpha=0.6, linewidth=0,
                marker=MARKERS[index // len(svg.SERIES)], label=cause,
            )  # fmt: skip
        legend = figure.legend(loc="outside lower center", ncols=2)
        for handle in legend.legend_handles[1:]:
            handle.set_sizes([40.0])  # type: ignore[union-attr]
    return Drawing(
        figure,
        "Where events were lost",
        "The node at which each missing delivery's event was last seen on its way, where it was "
        f"then; the larger the mark, the more deliveries (at most {count(most)} in one place).",
        f"{count(len(points))} missing deliveries at {count(len({p[:2] for p in counted}))} "
        "places.",
        values=pd.DataFrame(
            [(*place, times) for place, times in sorted(counted.items())],
            columns=["x, m", "y, m", "cause", "deliveries"],
        ),
    )

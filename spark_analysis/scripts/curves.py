"""Curves of a script's figures: which of many are shown, what each looks like, values by second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from spark_analysis.report import svg

SERIES: Final = 12
"""Curves of one pair of axes at most: those with the most to show."""
LEGEND_WIDTH: Final = 64
"""Characters that a row of a legend has room for."""
LINE_WIDTH: Final = 6
"""Characters in whose room a legend draws the line of a curve."""
Curves = dict[str, tuple[Any, Any]]
"""By name: values along both axes."""
Numbers = npt.NDArray[np.float64]


def largest_value(curve: tuple[Any, Any]) -> float:
    """Return how far a curve is from 0, at most."""
    return float(np.max(np.abs(curve[1])))


def length(curve: tuple[Any, Any]) -> float:
    """Return the length of a way, metres."""
    return float(np.hypot(np.diff(curve[0]), np.diff(curve[1])).sum())


def chosen(curves: Curves, measure: Callable[[tuple[Any, Any]], float] = largest_value) -> Curves:
    """Return the `SERIES` curves of the largest `measure`, in the order in which they are given."""
    most = set(sorted(curves, key=lambda name: -measure(curves[name]))[:SERIES])
    return {name: curve for name, curve in curves.items() if name in most}


def look(rank: int) -> dict[str, Any]:
    """Return how the curve of a rank is drawn: colours first, then styles of line."""
    style = ("-", "--", ":")[rank // len(svg.SERIES) % 3]
    return {"linestyle": style, "color": svg.SERIES[rank % len(svg.SERIES)], "linewidth": 1.4}


def columns(names: Iterable[str]) -> int:
    """Return the columns of a legend with these names: from 1 to 4, as its width has room."""
    return max(1, min(4, LEGEND_WIDTH // (LINE_WIDTH + max(map(len, names)))))


def by_second(rows: pd.DataFrame, column: str, last: float) -> tuple[Numbers, Numbers]:
    """Return the seconds from 0 to `last`, or further, and the values of a column then, or 0."""
    seconds = rows["second"].to_numpy(int)
    values = np.zeros(max(int(last), int(seconds.max())) + 1)
    values[seconds] = rows[column].to_numpy(float)
    return np.arange(len(values), dtype=float), values

"""Curves of a script's figures: selection, appearance, and values by second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from spark_analysis.report import svg

SERIES: Final = 12
"""Most curves in one pair of axes: those with the largest values."""
LEGEND_WIDTH: Final = 64
"""Characters that fit in a row of a legend."""
LINE_WIDTH: Final = 6
"""Width of a curve's line in a legend, characters."""
Curves = dict[str, tuple[Any, Any]]
"""By name: values along both axes."""
Numbers = npt.NDArray[np.float64]


def largest_value(curve: tuple[Any, Any]) -> float:
    """Return the largest distance of a curve from 0."""
    return float(np.max(np.abs(curve[1])))


def length(curve: tuple[Any, Any]) -> float:
    """Return the length of a path, metres."""
    return float(np.hypot(np.diff(curve[0]), np.diff(curve[1])).sum())


def chosen(curves: Curves, measure: Callable[[tuple[Any, Any]], float] = largest_value) -> Curves:
    """Return the `SERIES` curves with the largest `measure`, in their original order."""
    most = set(sorted(curves, key=lambda name: -measure(curves[name]))[:SERIES])
    return {name: curve for name, curve in curves.items() if name in most}


def look(rank: int) -> dict[str, Any]:
    """Return the style of the curve of a rank: colours vary first, then line styles."""
    style = ("-", "--", ":")[rank // len(svg.SERIES) % 3]
    return {"linestyle": style, "color": svg.SERIES[rank % len(svg.SERIES)], "linewidth": 1.4}


def columns(names: Iterable[str]) -> int:
    """Return how many columns, 1 to 4, a legend with these names has room for."""
    return max(1, min(4, LEGEND_WIDTH // (LINE_WIDTH + max(map(len, names)))))


def by_second(rows: pd.DataFrame, column: str, last: float) -> tuple[Numbers, Numbers]:
    """Return the seconds from 0 to at least `last`, and the values of a column then, or 0."""
    seconds = rows["second"].to_numpy(int)
    values = np.zeros(max(int(last), int(seconds.max())) + 1)
    values[seconds] = rows[column].to_numpy(float)
    return np.arange(len(values), dtype=float), values

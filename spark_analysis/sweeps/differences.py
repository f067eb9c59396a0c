"""Differences between the protocols of a sweep, paired by what they share.

Runs of one seed, and of the same varied values, share every random draw (`sweeps.spec`), so
protocols are compared run by run: what placement and workload do to both cancels.  An interval of
the mean difference over the seeds says whether there is one.  The more comparisons are made, the
more of them chance would decide: the intervals of one quantity hold together at 95 % (Bonferroni),
over all pairs of protocols and all points.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from spark_analysis.engine.pandas_rows import native
from spark_analysis.report.confidence import LEVEL, Interval, mean_interval
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.pairing import difference

ROUNDING: Final = 1e-9
"""Share of a difference within which it is the same."""


@dataclass(frozen=True)
class Difference:
    """How much more of a quantity one protocol has than another, at one point of a sweep."""

    quantity: Quantity
    first: str
    second: str
    at: Mapping[str, Any]
    """Varied parameters and their values."""
    interval: Interval
    """First less second, unscaled; its level follows from `comparisons`."""
    comparisons: int
    """How many comparisons of this quantity are made."""

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out 0.

        If all seeds show the same difference, t says nothing; the sign test decides.
        """
        if self.interval.half_width <= ROUNDING * abs(self.interval.mean):
            chance = 2 * 0.5**self.interval.count
            return self.interval.mean != 0 and chance <= (1 - LEVEL) / self.comparisons
        return self.interval.low > 0 or self.interval.high < 0

    def facts(self) -> dict[str, Any]:
        """Return it for programs, in the units of the results."""
        return {
            "column": self.quantity.column,
            "first": self.first,
            "second": self.second,
            "at": dict(self.at),
            "mean": self.interval.mean,
            "low": self.interval.low,
            "high": self.interval.high,
            "seeds": self.interval.count,
            "comparisons": self.comparisons,
            "decided": self.decided,
        }


def differences(
    results: pd.DataFrame, quantities: Sequence[Quantity], varied: Sequence[str]
) -> list[Difference]:
    """Return the differences of all pairs of protocols, where at least two seeds are shared.

    A protocol that does not have a varied parameter is the same at all of its values.
    """
    results = _everywhere(results, varied)
    compared = []
    for quantity in quantities:
        at_points = [
            (first, second, point, values)
            for first, second in itertools.combinations(results["protocol"].unique(), 2)
            for point, values in _by_point(results, quantity.column, first, second, varied)
        ]
        level = 1 - (1 - LEVEL) / max(len(at_points), 1)
        compared += [
            Difference(quantity, first, second, point, mean_interval(values, level), len(at_points))
            for first, second, point, values in at_points
        ]
    return compared


def _everywhere(results: pd.DataFrame, varied: Sequence[str]) -> pd.DataFrame:
    """Return the results with rows that lack a varied parameter repeated at each of its values."""
    for name in varied:
        lacking = results[name].isna()
        values = results.loc[~lacking, [name]].drop_duplicates()
        if lacking.any() and len(values):
            repeated = results[lacking].drop(columns=name).merge(values, how="cross")
            results = pd.concat([results[~lacking], repeated], ignore_index=True)
    return results


def _by_point(
    results: pd.DataFrame, column: str, first: str, second: str, varied: Sequence[str]
) -> Iterable[tuple[dict[str, Any], list[float]]]:
    """Yield each point that both have with two seeds or more, and the differences there."""
    off = difference(results, column, first, second, varied)
    by_point: dict[tuple[Any, ...], list[float]] = {}
    for key, value in off.items():
        point = tuple(map(native, key[:-1])) if isinstance(key, tuple) else ()  # then the seed
        by_point.setdefault(point, []).append(float(value))
    for point, values in by_point.items():
        if len(values) > 1:
            yield dict(zip(varied, point, strict=True)), values

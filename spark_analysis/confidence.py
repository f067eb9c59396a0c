"""Confidence intervals of means, and of differences of means, over few repetitions.

Student's t; differences of independent groups with Welch's degrees of freedom (B. Welch, The
generalization of Student's problem when several different population variances are involved,
Biometrika 34, 1947).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scipy.special import stdtrit

LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of `count` values with the ends of its interval, infinite if one value is all."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def half_width(self) -> float:
        """Distance from the mean to either end."""
        return self.high - self.mean

    @property
    def known(self) -> bool:
        """Whether there are ends: there were at least two values."""
        return math.isfinite(self.high)


def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """Return how many standard errors an interval of `level` reaches to either side."""
    if not (freedom > 0 and 0 < level < 1):
        raise ValueError("needs degrees of freedom above 0 and a level between 0 and 1")
    return float(stdtrit(freedom, (1 + level) / 2))


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval of the mean of at least one value."""
    mean = statistics.fmean(values)
    count = len(values)
    if count < 2:
        return Interval(mean, -math.inf, math.inf, count)
    half = t_quantile(count - 1, level) * math.sqrt(statistics.variance(values) / count)
    return Interval(mean, mean - half, mean + half, count)


def difference_interval(
    ones: Sequence[float], others: Sequence[float], level: float = LEVEL
) -> Interval:
    """Return the interval of the difference of two means, of at least one value each.

    `count` is the number of values in the smaller group.
    """
    mean = statistics.fmean(ones) - statistics.fmean(others)
    count = min(len(ones), len(others))
    if count < 2:
        return Interval(mean, -math.inf, math.inf, count)
    squares = [statistics.variance(group) / len(group) for group in (ones, others)]
    total = sum(squares)
    if total == 0.0:
        return Interval(mean, mean, mean, count)
    # As shares of the whole, whose squares do not vanish if the variances are tiny.
    shares = ((s / total) ** 2 / (len(g) - 1) for s, g in zip(squares, (ones, others), strict=True))
    half = t_quantile(1 / sum(shares), level) * math.sqrt(total)
    return Interval(mean, mean - half, mean + half, count)

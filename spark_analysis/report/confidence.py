"""Confidence intervals of means over few repetitions: Student's t."""

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

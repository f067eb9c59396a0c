"""What papers claim, and whether it came out.

A claim is a statement of the paper and a rule, fixed before any run, that decides from the points
of a sweep whether it holds.  A rule compares systems at equal points (same scenario, speed and
seed): the mean of the differences with its 95 % confidence interval.  Where the interval lies on
the side that the paper says, the comparison holds; on the other side, it does not; where it
contains 0, these runs do not decide.  A claim holds if all its comparisons do, and does not if
any does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from spark_analysis.confidence import Interval, mean_interval


class Verdict(StrEnum):
    """Whether a claim came out."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not decided"


@dataclass(frozen=True)
class Comparison:
    """One part of a claim: in words, what was measured, and what that means."""

    text: str
    interval: Interval | None
    unit: str
    verdict: Verdict


@dataclass(frozen=True)
class Claim:
    """A statement of a paper.  `judge` takes the points of one scenario, see `points`."""

    key: str
    says: str
    source: str
    judge: Callable[[pd.DataFrame], Sequence[Comparison]]


@dataclass(frozen=True)
class Finding:
    """What came of a claim in one scenario."""

    claim: Claim
    scenario: str
    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds in this scenario."""
        verdicts = {comparison.verdict for comparison in self.comparisons}
        if Verdict.FAILS in verdicts:
            return Verdict.FAILS
        if Verdict.OPEN in verdicts or not verdicts:
            return Verdict.OPEN
        return Verdict.HOLDS


def judge(claims: Sequence[Claim], points: pd.DataFrame) -> list[Finding]:
    """Return a finding a claim and scenario.

    `points` has a row a run: scenario, protocol, speed (m/s), seed, and the columns of
    `spark_analysis.schemas.SUMMARY` that the claims ask for.
    """
    return [
        Finding(claim, str(scenario), tuple(claim.judge(rows)))
        for scenario, rows in points.groupby("scenario", sort=True)
        for claim in claims
    ]


def difference(points: pd.DataFrame, metric: str, one: str, other: str) -> pd.Series[float]:
    """Return the metric of one protocol less that of another, by speed and seed."""
    table = points.pivot_table(index=["speed", "seed"], columns="protocol", values=metric)
    if one not in table or other not in table:
        return pd.Series(dtype=float)
    return (table[one] - table[other]).dropna()


def above(
    points: pd.DataFrame,
    metric: str,
    one: str,
    other: str,
    *,
    scale: float = 1.0,
    unit: str = "",
    label: str = "",
) -> Comparison:
    """Compare: is the metric greater under `one` than under `other`?  Shown times `scale`."""
    values = difference(points, metric, one, other) * scale
    return positive(values.tolist(), f"{label or metric}: {one} above {other}", unit)


def positive(values: Sequence[float], text: str, unit: str) -> Comparison:
    """Judge whether the mean of `values` is above 0."""
    if len(values) == 0:
        return Comparison(f"{text} (no run has both)", None, unit, Verdict.OPEN)
    interval = mean_interval(values)
    if interval.low > 0:
        verdict = Verdict.HOLDS
    elif interval.high < 0:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.OPEN
    return Comparison(text, interval, unit, verdict)

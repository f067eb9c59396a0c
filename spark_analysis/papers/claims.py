"""What papers claim, and whether it holds.

A claim is a statement of the paper and a rule, fixed before any run, that decides from the points
of its studies whether it holds.  A rule compares values at equal points: equal values of the axes
and equal seed.

Values that share their random draws are one cluster.  What runs at several speeds with one seed has
the same placement and workload, so that these values are not independent: they are averaged to one
value, and only the clusters' values make the mean and its 95 % confidence interval.  Three seeds at
three speeds are three values, not nine.

If the interval lies on the side that the paper says, the comparison holds; on the other side, it
does not; if it contains 0, these runs do not decide.  One cluster has no interval and decides
nothing; a closed form has no draws, and decides by its sign (`exact`).  A claim holds if all its
comparisons do, and does not hold if any does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import pandas as pd

from spark_analysis.confidence import Interval, mean_interval

SEED: Final = "seed"


class Verdict(StrEnum):
    """Whether a claim holds."""

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
    """A statement of a paper, and the rule that decides it.

    `judge` takes points: a row a run or computed row, with the columns `study` and `seed`, those of
    the axes, and what was measured.  It gets those of one study at a time or, if the claim is
    `joint`, those of all its studies at once.  Columns that only other studies have are empty.
    """

    key: str
    statement: str
    source: str
    """Where the paper says it: section, figure."""
    judge: Callable[[pd.DataFrame], Sequence[Comparison]]
    studies: tuple[str, ...] = ()
    """Those it is about; all if there are none."""
    joint: bool = False


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds in a study, and by which comparisons; a joint claim has no study."""

    claim: Claim
    study: str
    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds."""
        verdicts = {comparison.verdict for comparison in self.comparisons}
        if Verdict.FAILS in verdicts:
            return Verdict.FAILS
        if Verdict.OPEN in verdicts or not verdicts:
            return Verdict.OPEN
        return Verdict.HOLDS


def judge(claims: Sequence[Claim], points: pd.DataFrame) -> list[Finding]:
    """Return a finding for each claim, and each of its studies that has points.

    A joint claim is judged if all its studies have points: a preset may leave some out.
    """
    findings = []
    for study, rows in points.groupby("study", sort=True):
        findings += [
            Finding(claim, str(study), tuple(claim.judge(rows)))
            for claim in claims
            if not claim.joint and study in (claim.studies or (study,))
        ]
    for claim in claims:
        rows = points[points["study"].isin(claim.studies)] if claim.studies else points
        if claim.joint and set(claim.studies) <= set(points["study"]):
            findings.append(Finding(claim, "", tuple(claim.judge(rows))))
    return findings


def difference(
    points: pd.DataFrame,
    metric: str,
    one: object,
    other: object,
    axes: Sequence[str],
    *,
    of: str = "protocol",
    draws: Sequence[str] = (SEED,),
) -> pd.Series[float]:
    """Return the metric where the column `of` is `one` less that where it is `other`.

    The series has an index of the axes and the draws: values at equal axes and draws are paired,
    what has no partner is left out.  Several rows at one point count as their mean.
    """
    keys = list(dict.fromkeys((*axes, *draws)))
    table = points.pivot_table(index=keys, columns=of, values=metric)
    if one not in table or other not in table:
        empty = pd.MultiIndex.from_tuples([], names=keys)
        return pd.Series(index=empty, dtype=float)
    gap: pd.Series[float] = (table[one] - table[other]).dropna()
    return gap


def values_of(
    points: pd.DataFrame, metric: str, axes: Sequence[str] = (), draws: Sequence[str] = (SEED,)
) -> pd.Series[float]:
    """Return a metric with an index of the axes and the draws, as `positive` takes it."""
    keys = list(dict.fromkeys((*axes, *draws)))
    return points.dropna(subset=[metric]).set_index(keys)[metric].astype(float)


def clusters(values: pd.Series[float], draws: Sequence[str] = (SEED,)) -> list[float]:
    """Return one value for each set of random draws: the mean of all that share them.

    `values` has the draws among the levels of its index.
    """
    if values.empty:
        return []
    return [float(value) for value in values.groupby(level=list(draws)).mean()]


def above(
    points: pd.DataFrame,
    metric: str,
    one: object,
    other: object,
    axes: Sequence[str],
    *,
    of: str = "protocol",
    draws: Sequence[str] = (SEED,),
    scale: float = 1.0,
    unit: str = "",
    label: str = "",
) -> Comparison:
    """Compare: is the metric greater with `one` than with `other`?  Shown times `scale`."""
    gap = difference(points, metric, one, other, axes, of=of, draws=draws) * scale
    return positive(gap, f"{label or metric}: {one} above {other}", unit, draws)


def positive(
    values: pd.Series[float] | Sequence[float],
    text: str,
    unit: str,
    draws: Sequence[str] = (SEED,),
) -> Comparison:
    """Judge whether the mean of `values` is above 0.

    A series has the draws in its index, and is averaged by them; a list has one value a cluster.
    """
    independent = _independent(values, draws)
    if not independent:
        return _nothing(text, unit)
    interval = mean_interval(independent)
    return Comparison(text, interval, unit, _side(interval.low, interval.high))


def within(
    values: pd.Series[float] | Sequence[float],
    low: float,
    high: float,
    text: str,
    unit: str,
    draws: Sequence[str] = (SEED,),
) -> Comparison:
    """Judge whether the mean of `values` is from `low` to `high`: is it about what is claimed?

    It is if all of its interval is (as two one-sided tests of equivalence have it), and is not if
    none of the interval is.
    """
    independent = _independent(values, draws)
    if not independent:
        return _nothing(text, unit)
    interval = mean_interval(independent)
    if low <= interval.low and interval.high <= high:
        verdict = Verdict.HOLDS
    elif interval.high < low or high < interval.low:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.OPEN
    return Comparison(text, interval, unit, verdict)


def exact(value: float, text: str, unit: str) -> Comparison:
    """Judge whether a number that chance has no part in, of a closed form, is above 0."""
    return Comparison(text, Interval(value, value, value, 1), unit, _side(value, value))


def _independent(
    values: pd.Series[float] | Sequence[float], draws: Sequence[str]
) -> Sequence[float]:
    return clusters(values, draws) if isinstance(values, pd.Series) else values


def _nothing(text: str, unit: str) -> Comparison:
    return Comparison(f"{text} (no run has both)", None, unit, Verdict.OPEN)


def _side(low: float, high: float) -> Verdict:
    if low > 0:
        return Verdict.HOLDS
    return Verdict.FAILS if high < 0 else Verdict.OPEN

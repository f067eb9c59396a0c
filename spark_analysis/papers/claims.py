"""What papers claim, and whether it holds.

A claim is a statement of the paper and a rule, fixed before any run, that decides from the points
of its studies whether it holds.  A rule compares values at equal points: equal values of the axes
and equal seed.

Values that share their random draws are one cluster.  What runs at several speeds with one seed may
have the same placement and workload, and then is not independent: the values of a seed are averaged
to one, and only the clusters' values make the mean and its 95 % confidence interval.  Three seeds
at three speeds are three values, not nine.

If the interval lies on the side that the paper says, the comparison holds; on the other side, it
does not.  A comparison may have a margin of equivalence, a difference too small to matter: if all
of the interval is within the margin, it is a tie, on whichever side it lies (two one-sided tests,
at 2.5 % each).  What is left, an interval that reaches over the margin to either side, is not
decided by these runs: it is too wide.  One cluster has no interval and decides nothing; a closed
form has no draws, and decides by its sign (`exact`).

A claim holds if all its comparisons do, and does not hold if any does not.  If none fails, and one
or several tie, it is a tie; if any is not decided, neither is the claim.  Comparisons by a
measure other than the paper's own (`Comparison.measure`) stand beside it and do not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import pandas as pd

from spark_analysis.report.confidence import Interval, mean_interval
from spark_analysis.report.quantities import number
from spark_analysis.sweeps.pairing import SEED, difference, grouped

CLOSED_FORM: Final = "closed form"
"""Measure of what a formula gives, or a model without the system: shown beside the others."""


class Verdict(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    TIE = "tie"
    OPEN = "not decided"


@dataclass(frozen=True)
class Comparison:
    """One part of a claim: its words, what was measured, and the verdict on it."""

    text: str
    interval: Interval | None
    unit: str
    verdict: Verdict
    lead: float = math.nan
    """How far it is on the paper's side, in half widths of the interval; NaN if there is none."""
    measure: str = ""
    """The measure, if not the paper's own; the comparison then decides nothing."""
    bound: str = ""
    """What the value is to be, in words; empty if that is above 0, or a factor on a side of 1."""
    note: str = ""
    """What else a reader has to know of it, such as which runs it leaves out."""
    extreme: bool = False
    """Whether the value is the largest of a sample: one above a bound refutes, others may come."""


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, and the rule that decides it.

    `judge` takes points: a row for each run or computed row, with the columns `study` and `seed`,
    those of the axes, and what was measured.  It gets the points of one study at a time or, if the
    claim is `joint`, of all its studies at once.  Columns that only other studies have are empty.
    """

    key: str
    statement: str
    source: str
    """Where the paper says it: section, figure."""
    judge: Callable[[pd.DataFrame], Sequence[Comparison]]
    studies: tuple[str, ...] = ()
    """Those that it is about; all if empty."""
    rule: str = ""
    """What its words are taken to mean, and why; fixed before any run."""
    joint: bool = False
    own: bool = False
    """Whether the paper does not say it: a check or a hypothesis of the reproduction, which counts
    apart."""


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds in a study, and by which comparisons; a joint claim has no study."""

    claim: Claim
    study: str
    comparisons: tuple[Comparison, ...]

    @property
    def verdict(self) -> Verdict:
        """Whether the claim holds, by the paper's own measure."""
        return self.by_measure.get("", Verdict.OPEN)

    @property
    def by_measure(self) -> Mapping[str, Verdict]:
        """The verdict by each measure; by the paper's own under an empty name."""
        measures = dict.fromkeys(part.measure for part in self.comparisons)
        return {
            measure: together(
                [part.verdict for part in self.comparisons if part.measure == measure]
            )
            for measure in measures
        }


def together(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim from those on its parts."""
    for verdict in (Verdict.FAILS, Verdict.OPEN, Verdict.TIE):
        if verdict in verdicts:
            return verdict
    return Verdict.HOLDS if verdicts else Verdict.OPEN


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


def trend(values: pd.Series[float], axis: str, *, seeds: int = 0) -> pd.Series[float]:
    """Return by how much values grow from the lowest to the highest value of an axis.

    That is the slope of the least-squares line through all values of one seed, times the extent of
    the axis.  Seeds that lack a point of it are left out, and if those are most of all `seeds`, the
    others are as well: what is judged may be why they lack it.  The series has an index of the
    seeds.
    """
    if values.empty:
        return values.groupby(level=[SEED]).mean()
    at = values.index.get_level_values(axis).to_numpy(float)
    lines: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(_levels(values, (SEED,))):
        lines.setdefault(key, []).append(row)
    extent, points = float(np.ptp(at)), len(set(at))
    heights = values.to_numpy(float)
    growth = {}
    for key, rows in sorted(lines.items()):
        if points > 1 and len(set(at[rows])) == points:
            off = at[rows] - at[rows].mean()
            slope = off @ (heights[rows] - heights[rows].mean()) / (off @ off)
            growth[key] = float(slope) * extent
    if len(growth) < max(len(lines), seeds) / 2:
        growth.clear()
    index = pd.MultiIndex.from_tuples(list(growth), names=[SEED])
    return pd.Series(list(growth.values()), index=index, dtype=float)


def _levels(values: pd.Series[float], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values that levels of the index have, row by row."""
    return zip(*(values.index.get_level_values(name).tolist() for name in names), strict=True)


def values_of(points: pd.DataFrame, metric: str, axes: Sequence[str] = ()) -> pd.Series[float]:
    """Return a metric with an index of the axes and the seed, as `positive` takes it."""
    keys = list(dict.fromkeys((*axes, SEED)))
    return points.dropna(subset=[metric]).set_index(keys)[metric].astype(float)


def clusters(values: pd.Series[float], draws: Sequence[str] = (SEED,)) -> list[float]:
    """Return one value for each set of random draws: the mean of all that share them.

    `values` has the draws among the levels of its index.
    """
    if values.empty:
        return []
    means = grouped(_levels(values, draws), values.tolist())
    return [means[key] for key in sorted(means)]


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
    margin: float = 0.0,
) -> Comparison:
    """Compare: is the metric greater with `one` than with `other`?  Shown times `scale`.

    `margin` is in the unit shown.
    """
    gap = difference(points, metric, one, other, axes, of=of, draws=draws) * scale
    return positive(gap, f"{label or metric}: {one} above {other}", unit, draws, margin=margin)


def positive(
    values: pd.Series[float] | Sequence[float],
    text: str,
    unit: str,
    draws: Sequence[str] = (SEED,),
    *,
    margin: float = 0.0,
    measure: str = "",
) -> Comparison:
    """Judge whether the mean of `values` is above 0, or within `margin` of it: a tie.

    A series has the draws in its index, and is averaged by them; a list has one value per cluster.
    """
    independent = _independent(values, draws)
    if not independent:
        return _nothing(text, unit, measure)
    interval = mean_interval(independent)
    verdict = _side(interval.low, interval.high, margin)
    return Comparison(text, interval, unit, verdict, _lead(interval), measure)


def at_most(
    values: pd.Series[float] | Sequence[float],
    bound: float,
    text: str,
    unit: str,
    draws: Sequence[str] = (SEED,),
    *,
    measure: str = "",
) -> Comparison:
    """Judge whether the mean of `values` is below a bound; it is shown as it is."""
    return _beside(values, bound, -1.0, text, unit, draws, measure)


def at_least(
    values: pd.Series[float] | Sequence[float],
    bound: float,
    text: str,
    unit: str,
    *,
    measure: str = "",
) -> Comparison:
    """Judge whether the mean of `values` is above a bound; it is shown as it is."""
    return _beside(values, bound, 1.0, text, unit, (SEED,), measure)


def _beside(
    values: pd.Series[float] | Sequence[float],
    bound: float,
    sign: float,
    text: str,
    unit: str,
    draws: Sequence[str],
    measure: str,
) -> Comparison:
    independent = _independent(values, draws)
    if not independent:
        return _nothing(text, unit, measure)
    gap = mean_interval([sign * (value - bound) for value in independent])
    words = f"{'at least' if sign > 0 else 'at most'} {number(bound)}"
    verdict = _side(gap.low, gap.high)
    return Comparison(text, mean_interval(independent), unit, verdict, _lead(gap), measure, words)


def times(
    both: pd.DataFrame,
    text: str,
    draws: Sequence[str] = (SEED,),
    *,
    above: float = 1.0,
    below: float | None = None,
    margin: float = 1.0,
    measure: str = "",
) -> Comparison:
    """Judge whether the factor from `other` to `one` is above a bound or, if given, below one.

    `both` is made by `pairs`; if a value is not positive, nothing is decided.  The factor is a
    geometric mean: logarithms are averaged by the draws.  It is a tie if the interval is within a
    factor of `margin` around the bound.
    """
    bound = above if below is None else below
    sign = 1.0 if below is None else -1.0
    if (both[["one", "other"]] <= 0).any(axis=None):
        why = f"{text} (a value is not above 0)"
        return Comparison(why, None, "times", Verdict.OPEN, measure=measure)
    logarithms = pd.Series(np.log(both["one"] / both["other"]))
    independent = clusters(logarithms, draws)
    if not independent:
        return _nothing(text, "times", measure)
    logs = mean_interval([sign * (value - math.log(bound)) for value in independent])
    verdict = _side(logs.low, logs.high, math.log(margin))
    with np.errstate(over="ignore"):  # of few clusters that are far apart
        ends = bound * np.exp(sign * np.array([logs.low, logs.mean, logs.high]))
    low, mean, high = sorted(ends.tolist())
    shown = Interval(mean, low, high, logs.count)
    words = f"{'above' if below is None else 'below'} {number(bound)}" if bound != 1 else ""
    return Comparison(text, shown, "times", verdict, _lead(logs), measure, words)


def within(
    values: pd.Series[float] | Sequence[float],
    low: float,
    high: float,
    text: str,
    unit: str,
    draws: Sequence[str] = (SEED,),
    *,
    measure: str = "",
) -> Comparison:
    """Judge whether the mean of `values` is from `low` to `high`: is it about what is claimed?

    Yes if all of its interval is (two one-sided tests of equivalence), no if none of it is.
    """
    independent = _independent(values, draws)
    if not independent:
        return _nothing(text, unit, measure)
    interval = mean_interval(independent)
    if low <= interval.low and interval.high <= high:
        verdict = Verdict.HOLDS
    elif interval.high < low or high < interval.low:
        verdict = Verdict.FAILS
    else:
        verdict = Verdict.OPEN
    inside = min(interval.mean - low, high - interval.mean)
    lead = _lead(
        Interval(inside, inside - interval.half_width, inside + interval.half_width, interval.count)
    )
    words = f"from {number(low)} to {number(high)}" if high < math.inf else f"from {number(low)} on"
    return Comparison(text, interval, unit, verdict, lead, measure, words)


def no_larger(
    value: float, most: float, text: str, unit: str, *, measure: str = "", of_sample: bool = False
) -> Comparison:
    """Judge whether a number is at most a bound: once above it refutes "never".

    If it is the largest of a sample, that it is not above says little of others.
    """
    verdict = Verdict.HOLDS if value <= most else Verdict.FAILS
    lead = math.copysign(math.inf, most - value)
    interval, bound = Interval(value, value, value, 1), f"at most {number(most)}"
    return Comparison(text, interval, unit, verdict, lead, measure, bound, extreme=of_sample)


def exact(value: float, text: str, unit: str) -> Comparison:
    """Judge whether a number without chance, from a closed form, is above 0."""
    interval = Interval(value, value, value, 1)
    return Comparison(text, interval, unit, _side(value, value), _lead(interval))


def _independent(
    values: pd.Series[float] | Sequence[float], draws: Sequence[str]
) -> Sequence[float]:
    return clusters(values, draws) if isinstance(values, pd.Series) else values


def _nothing(text: str, unit: str, measure: str = "") -> Comparison:
    return Comparison(f"{text} (too few runs)", None, unit, Verdict.OPEN, measure=measure)


def _lead(interval: Interval) -> float:
    """Return the mean in half widths: its sign is the side, its size how clear that is."""
    if not interval.known:
        return math.nan
    half = interval.half_width
    return interval.mean / half if half else math.copysign(math.inf, interval.mean)


def _side(low: float, high: float, margin: float = 0.0) -> Verdict:
    if -margin < low and high < margin:
        return Verdict.TIE
    if low > 0:
        return Verdict.HOLDS
    return Verdict.FAILS if high < 0 else Verdict.OPEN

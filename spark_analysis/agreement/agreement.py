"""Do two backends agree?  One scenario, run several times on both, compared by its captures.

Theory of operation.  Repeat i has the same placement, motion and workload on both backends; the
seeds of the nodes and of the channel differ between repeats, and are the same on both.  Repeats
therefore differ by chance, part of which (jitter, start times) both backends share: differences are
taken repeat by repeat, and a 95 % confidence interval over the repeats says how well their mean is
known.  Every criterion is a test of equivalence: the backends agree if the whole interval lies
within the margin, they differ if no part of it does, and otherwise it is not decided, and
`Criterion.needed` says how many repeats would decide if they varied as these do.

No criterion knows a backend by name: the delivery ratio, the frames that all radios sent while the
scenario lasted, the radio hops of a delivery, the median time that a delivery spent on the air, and
those of metrics that only runs of some protocols have (`report.metric.AgreementBound`).

Delay is split by the captures (`measures.stages`).  What the medium does with an event, from a
radio's transmission to a neighbour's reception, is compared.  The rest passes in nodes: the same
program on all backends, on processors that a virtual clock does not model.  It is shown, but
decides nothing.

A repeat in which a run lost real time measures the machine, and does not count.  If fewer than two
repeats are left, the verdict is that the machine was too slow, whatever the numbers say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_analysis.agreement.measures import OWN, Measures, Side
from spark_analysis.report.confidence import Interval, mean_interval, t_quantile

DELIVERY_MARGIN: Final = 0.02
"""Greatest difference of the delivery ratios."""
FRAMES_MARGIN: Final = 0.05
"""Greatest difference of the frames on the air, as a share of the first backend's."""
HOPS_MARGIN: Final = 0.05
"""Greatest difference of the mean hops of a delivery, as a share of the first backend's."""
AIR_MARGIN: Final = 0.1
"""Greatest difference of the median time on the air, as a share of the first backend's."""
AIR_PER_HOP: Final = 0.0003
"""The same, s per hop, if that is more: a medium in real time waits for its process to wake up."""
MOST_NEEDED: Final = 10_000
"""Nobody would wait for more repeats than this."""
LEAST_REPEATS: Final = 2
"""Repeats that an interval needs."""
NOTHING_MEASURED: Final = Interval(math.nan, math.nan, math.nan, 0)


class Answer(StrEnum):
    """Whether two backends agree in one criterion."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity on both sides, and the first less the second."""

    first: Interval
    second: Interval
    difference: Interval

    @property
    def measured(self) -> bool:
        """Whether both sides measured it in some repeat."""
        return math.isfinite(self.difference.mean)

    @property
    def relative(self) -> float:
        """The difference as a share of the first side's mean; 0 if both are 0."""
        if self.difference.mean == 0:
            return 0.0
        return self.difference.mean / self.first.mean if self.first.mean else math.inf


@dataclass(frozen=True)
class Criterion:
    """One quantity that is compared, and the margin of equivalence in the quantity's unit."""

    name: str
    quantity: ComparedQuantity
    margin: float
    why: str
    """One clause, with numbers, whatever the answer."""

    @property
    def answer(self) -> Answer:
        """Whether the whole interval of the difference is within the margin, or none of it."""
        difference = self.quantity.difference
        if not self.quantity.measured or not difference.known:
            return Answer.NOT_DECIDED
        off, chance = abs(difference.mean), difference.half_width
        if off + chance <= self.margin:
            return Answer.AGREES
        return Answer.DIFFERS if off - chance > self.margin else Answer.NOT_DECIDED

    @property
    def ok(self) -> bool:
        """Whether the backends agree."""
        return self.answer is Answer.AGREES

    @property
    def needed(self) -> int | None:
        """How many repeats would decide if they varied as these do; None if none would, or need.

        At most `MOST_NEEDED`, which a difference right at the margin would need.
        """
        if self.answer is not Answer.NOT_DECIDED or not self.quantity.measured:
            return None
        difference = self.quantity.difference
        if not difference.known:
            return LEAST_REPEATS
        distance = abs(self.margin - abs(difference.mean))
        deviation = (
            difference.half_width / t_quantile(difference.count - 1) * math.sqrt(difference.count)
        )
        count = difference.count + 1
        while count < MOST_NEEDED and t_quantile(count - 1) * deviation > distance * math.sqrt(
            count
        ):
            count += 1 + count // 50
        return min(count, MOST_NEEDED)


class AgreementOutcome(StrEnum):
    """The answer to all criteria together."""

    AGREE = "agree"
    DISAGREE = "disagree"
    NOT_DECIDED = "not decided"
    TOO_SLOW = "too slow"


@dataclass(frozen=True)
class Agreement:
    """The comparison of two backends."""

    first: Side
    second: Side
    counted: tuple[int, ...]
    """Repeats, from 0, whose runs all kept real time; all repeats if these are too few."""
    outcome: AgreementOutcome
    delivery: Criterion
    frames: Criterion
    hops: Criterion
    air: Criterion
    """Median time that a delivery spent on the air, s."""
    delay: ComparedQuantity
    """Median delay, s."""
    in_nodes: ComparedQuantity
    """Median time that a delivery spent in nodes, s."""
    kinds: Mapping[str, ComparedQuantity]
    """Frames on the air by message kind."""
    own: tuple[Criterion, ...] = ()
    """Criteria of the protocol's own metrics."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All criteria, in order."""
        return (self.delivery, self.frames, self.hops, self.air, *self.own)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both sides, with only the repeats that count."""
        return self.first.only(self.counted), self.second.only(self.counted)

    @property
    def needed(self) -> int | None:
        """How many repeats would decide all criteria; None unless more repeats would help.

        The same share of them is expected to be lost.
        """
        if self.outcome is not AgreementOutcome.NOT_DECIDED:
            return None
        needed = max((c.needed for c in self.criteria if c.needed is not None), default=0)
        return math.ceil(needed * len(self.first.runs) / len(self.counted)) if needed else None

    @property
    def slow(self) -> tuple[Measures, ...]:
        """Runs that lost real time."""
        runs = (*self.first.runs, *self.second.runs)
        return tuple(run for run in runs if run.kept_real_time is False)


def compare(first: Side, second: Side) -> Agreement:
    """Compare two sides with equally many runs, at least `LEAST_REPEATS`."""
    repeats = range(len(first.runs))
    kept = tuple(
        i
        for i in repeats
        if first.runs[i].kept_real_time is not False and second.runs[i].kept_real_time is not False
    )
    enough = len(kept) >= LEAST_REPEATS
    counted = kept if enough else tuple(repeats)
    a, b = first.only(counted), second.only(counted)
    kinds = {
        kind: compared(a, b, lambda run, kind=kind: float(run.frames.get(kind, 0)))  # type: ignore[misc]
        for kind in dict.fromkeys(kind for run in (*a.runs, *b.runs) for kind in sorted(run.frames))
    }
    hops = compared(a, b, lambda run: run.hops)
    criteria = (
        _delivery(compared(a, b, lambda run: run.delivery)),
        _relative(
            "frames on the air", "numbers", compared(a, b, lambda run: run.frames_total),
            FRAMES_MARGIN,
        ),
        _relative("hops", "means", hops, HOPS_MARGIN),
        _air(compared(a, b, lambda run: run.air), hops.first.mean),
    )  # fmt: skip
    own = tuple(
        _relative(
            OWN[column].name, "means",
            compared(a, b, lambda run, column=column: run.own.get(column, math.nan)),  # type: ignore[misc]
            OWN[column].share,
        )
        for column in OWN
        if _both_have(a, b, column)
    )  # fmt: skip
    answers = {criterion.answer for criterion in (*criteria, *own)}
    if not enough:
        outcome = AgreementOutcome.TOO_SLOW
    elif Answer.DIFFERS in answers:
        outcome = AgreementOutcome.DISAGREE
    elif Answer.NOT_DECIDED in answers:
        outcome = AgreementOutcome.NOT_DECIDED
    else:
        outcome = AgreementOutcome.AGREE
    return Agreement(
        first,
        second,
        counted,
        outcome,
        *criteria,
        delay=compared(a, b, lambda run: run.delay),
        in_nodes=compared(a, b, lambda run: run.in_nodes),
        kinds=kinds,
        own=own,
    )


def compared(first: Side, second: Side, of: Callable[[Measures], float]) -> ComparedQuantity:
    """Return a quantity over the repeats in which both sides have it."""
    pairs = [(of(a), of(b)) for a, b in zip(first.runs, second.runs, strict=True)]
    pairs = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    if not pairs:
        return ComparedQuantity(NOTHING_MEASURED, NOTHING_MEASURED, NOTHING_MEASURED)
    return ComparedQuantity(
        mean_interval([a for a, _ in pairs]),
        mean_interval([b for _, b in pairs]),
        mean_interval([a - b for a, b in pairs]),
    )


def _both_have(first: Side, second: Side, column: str) -> bool:
    """Return whether runs of both sides have a metric; some runs may lack it."""
    return all(any(column in run.own for run in side.runs) for side in (first, second))


def _delivery(quantity: ComparedQuantity) -> Criterion:
    why = (
        f"the ratios differ by {100 * abs(quantity.difference.mean):.2f} percentage points, "
        f"at most {100 * DELIVERY_MARGIN:g} are allowed"
    )
    return _criterion("delivery", quantity, DELIVERY_MARGIN, why)


def _relative(name: str, what: str, quantity: ComparedQuantity, share: float) -> Criterion:
    """Return the criterion of a quantity whose margin is a share of the first side's mean."""
    why = (
        f"the {what} differ by {100 * abs(quantity.relative):.2f} %, "
        f"at most {100 * share:g} % are allowed"
    )
    return _criterion(name, quantity, share * quantity.first.mean, why)


def _air(quantity: ComparedQuantity, hops: float) -> Criterion:
    """`hops` is the mean of a delivery on the first side."""
    margin = max(AIR_MARGIN * quantity.first.mean, AIR_PER_HOP * hops)
    why = (
        f"the medians differ by {1e3 * abs(quantity.difference.mean):.3f} ms, "
        f"at most {1e3 * margin:.3f} ms are allowed"
    )
    return _criterion("time on the air", quantity, margin, why)


def _criterion(name: str, quantity: ComparedQuantity, margin: float, why: str) -> Criterion:
    why = why if quantity.measured else "there is nothing to measure"
    return Criterion(name, quantity, margin, why)

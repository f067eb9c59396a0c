"""Do two backends agree?  One scenario, run several times on both, compared by its captures.

Theory of operation.  Repeat i has the same placement, motion and workload on both backends; the
seeds of the nodes and of the channel differ between repeats, and are the same on both.  Repeats
therefore differ by chance, part of which (jitter, start times) both backends share:
differences are taken repeat by repeat, and an interval of confidence over the repeats says how
well their mean is known.  Delivery and frames are tests of equivalence: the backends agree if the
whole interval lies within what is allowed, they differ if no part of it does, and else it is not
decided, and `Criterion.needed` says how many repeats would decide if they varied as these do.
Three criteria, none of which knows a backend by name, and those of metrics that only runs of some
protocols have (`report.metric.AgreementBound`), which are tests of equivalence as well:

*Delivery*: the mean ratios differ by at most `DELIVERY_BOUND`.

*Frames on the air*: the mean numbers of frames that all radios sent while the scenario lasted
differ by at most `FRAMES_BOUND` of the first backend's.

*Delay*: the mean of the repeats' median delays differs by no more than the slower backend's own
overhead explains (`spark_analysis.agreement.overhead`: time that its nodes take, delivery by
delivery, and its medium's lateness), and the half width of the interval of the difference; unless
that, or the half width of the interval of what is explained, is more than `DELAY_CHANCE` of the
quicker backend's median: then chance is too large to tell.  A difference that overhead explains
only if it is as large as its interval permits, or as random waits may hide, is not decided.

A repeat whose run lost real time measures the machine, and does not count.  If fewer than two
repeats are left, the verdict is that the machine was too slow, whatever the numbers say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spark_analysis.agreement.measures import OWN, Measures, Side
from spark_analysis.agreement.overhead import (
    ComparedQuantity,
    Explained,
    Matched,
    Overhead,
    compared,
    explain,
    half_width,
)
from spark_analysis.report.confidence import Interval, t_quantile

DELIVERY_BOUND: Final = 0.02
"""Greatest difference of the delivery ratios."""
FRAMES_BOUND: Final = 0.05
"""Greatest difference of the frames on the air, as a share of the first backend's."""
DELAY_CHANCE: Final = 0.1
"""Greatest half width of the difference of the median delays, as a share of the quicker one."""
MOST_NEEDED: Final = 10_000
"""Repeats above which nobody would wait for a decision."""
LEAST_REPEATS: Final = 2
"""Repeats that an interval needs."""


class Answer(StrEnum):
    """Whether two backends agree in one criterion."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Criterion:
    """One quantity that is compared, and the bound; `quantity` and `bound` in the same unit."""

    name: str
    quantity: ComparedQuantity
    bound: float
    why: str
    """One sentence, with numbers, whatever the answer."""
    chance_allowed: float | None = None
    """Greatest half width of a criterion whose bound has the half width in it."""
    unknown: float = 0.0
    """By how much such a bound may be larger, as what explains the difference is not known well."""
    chance_explained: float = 0.0
    """Half width of the interval of what explains the difference."""

    @property
    def answer(self) -> Answer:
        """Whether the whole interval of the difference is within the bound, or none of it."""
        off, chance = abs(self.quantity.difference.mean), self._chance
        if not math.isfinite(off):
            return Answer.DIFFERS
        if not self.quantity.difference.known:
            return Answer.NOT_DECIDED
        if self.chance_allowed is not None:
            if off > self.bound:
                within = off <= self.bound + self.unknown
                return Answer.NOT_DECIDED if within else Answer.DIFFERS
            return Answer.AGREES if chance <= self.chance_allowed else Answer.NOT_DECIDED
        if off + chance <= self.bound:
            return Answer.AGREES
        return Answer.DIFFERS if off - chance > self.bound else Answer.NOT_DECIDED

    @property
    def _chance(self) -> float:
        """What chance may be: the half width of the difference, or of what explains it."""
        return max(half_width(self.quantity.difference), self.chance_explained)

    @property
    def ok(self) -> bool:
        """Whether the backends agree."""
        return self.answer is Answer.AGREES

    @property
    def needed(self) -> int | None:
        """Repeats that would decide, if they varied as these do; None if it is decided.

        At most `MOST_NEEDED`, which the difference right at the bound would need.
        """
        if self.answer is not Answer.NOT_DECIDED:
            return None
        difference = self.quantity.difference
        if not difference.known:
            return LEAST_REPEATS
        margin, chance = self.chance_allowed, self._chance
        if abs(difference.mean) > self.bound and self.unknown:
            margin, chance = abs(difference.mean) - self.bound, self.unknown
        margin = margin or abs(self.bound - abs(difference.mean))
        spread = chance / t_quantile(difference.count - 1)
        deviation = spread * math.sqrt(difference.count)
        count = difference.count + 1
        while count < MOST_NEEDED and t_quantile(count - 1) * deviation > margin * math.sqrt(count):
            count += 1 + count // 50
        return min(count, MOST_NEEDED)


class AgreementOutcome(StrEnum):
    """The answer to the whole."""

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
    delay: Criterion
    kinds: Mapping[str, ComparedQuantity]
    """Frames on the air by message kind."""
    hops: ComparedQuantity
    overhead: tuple[Overhead, ...]
    explained: Interval
    """s of the difference in median delay that overhead explains, over the repeats."""
    own: tuple[Criterion, ...] = ()
    """Of the protocol's own metrics."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All of them, in order."""
        return (self.delivery, self.frames, self.delay, *self.own)

    @property
    def needed(self) -> int | None:
        """Repeats that would decide all criteria; None if nothing, or too little, is open.

        As many more of them are lost as of these.
        """
        if self.outcome is not AgreementOutcome.NOT_DECIDED:
            return None
        wanted = max((each.needed for each in self.criteria if each.needed is not None), default=0)
        return math.ceil(wanted * len(self.first.runs) / len(self.counted)) if wanted else None

    @property
    def slow(self) -> tuple[Measures, ...]:
        """Runs that lost real time."""
        runs = (*self.first.runs, *self.second.runs)
        return tuple(run for run in runs if run.kept_real_time is False)

    @property
    def slower(self) -> Side:
        """The side with the longer delays."""
        return self.second if self.delay.quantity.difference.mean < 0 else self.first


def compare(first: Side, second: Side, matched: Sequence[Matched]) -> Agreement:
    """Return the comparison of two sides with as many runs each, at least `LEAST_REPEATS`.

    `matched` has an entry for each repeat, without the stages that no delivery has.
    """
    repeats = range(len(first.runs))
    kept = tuple(
        i
        for i in repeats
        if first.runs[i].kept_real_time is not False and second.runs[i].kept_real_time is not False
    )
    enough = len(kept) >= LEAST_REPEATS
    counted = kept if enough else tuple(repeats)
    a = Side(first.name, tuple(first.runs[i] for i in counted))
    b = Side(second.name, tuple(second.runs[i] for i in counted))
    hops = compared(a, b, lambda run: run.hops)
    delay = compared(a, b, lambda run: run.delay)
    explained = explain(a, b, delay, [matched[i] for i in counted])
    quicker = b if delay.difference.mean >= 0 else a
    kinds = {
        kind: compared(a, b, lambda run, kind=kind: float(run.frames.get(kind, 0)))  # type: ignore[misc]
        for kind in dict.fromkeys(kind for run in (*a.runs, *b.runs) for kind in sorted(run.frames))
    }
    criteria = (
        _delivery(compared(a, b, lambda run: run.delivery)),
        _frames(compared(a, b, lambda run: run.frames_total)),
        _delay(delay, explained, quicker),
    )
    own = tuple(_own(a, b, column) for column in OWN if _both_have(a, b, column))
    every = (*criteria, *own)
    if not enough:
        outcome = AgreementOutcome.TOO_SLOW
    elif all(criterion.ok for criterion in every):
        outcome = AgreementOutcome.AGREE
    elif any(criterion.answer is Answer.DIFFERS for criterion in every):
        outcome = AgreementOutcome.DISAGREE
    else:
        outcome = AgreementOutcome.NOT_DECIDED
    return Agreement(
        first,
        second,
        counted,
        outcome,
        *criteria,
        kinds,
        hops,
        explained.parts,
        explained.shift,
        own,
    )


def _delivery(quantity: ComparedQuantity) -> Criterion:
    off = abs(quantity.difference.mean)
    why = (
        f"the ratios differ by {100 * off:.2f} percentage points, "
        f"at most {100 * DELIVERY_BOUND:g} are allowed"
    )
    return Criterion("delivery", quantity, DELIVERY_BOUND, _known(off, why))


def _frames(quantity: ComparedQuantity) -> Criterion:
    off = abs(quantity.relative)
    why = f"the numbers differ by {100 * off:.2f} %, at most {100 * FRAMES_BOUND:g} % are allowed"
    bound = FRAMES_BOUND * quantity.first.mean
    return Criterion("frames on the air", quantity, bound, _known(off, why))


def _both_have(first: Side, second: Side, column: str) -> bool:
    """Return whether runs of both sides have a metric; single ones may lack it."""
    return all(any(column in run.own for run in side.runs) for side in (first, second))


def _own(first: Side, second: Side, column: str) -> Criterion:
    quantity = compared(first, second, lambda run: run.own.get(column, math.nan))
    off, allowed = abs(quantity.relative), OWN[column].share
    why = f"the means differ by {100 * off:.2f} %, at most {100 * allowed:g} % are allowed"
    return Criterion(OWN[column].name, quantity, allowed * quantity.first.mean, why)


def _delay(quantity: ComparedQuantity, explained: Explained, quicker: Side) -> Criterion:
    off, chance = abs(quantity.difference.mean), half_width(quantity.difference)
    delays = quicker.values(lambda run: run.delay)
    allowed = DELAY_CHANCE * statistics.fmean(delays) if delays else 0.0
    shift, wide = max(0.0, explained.shift.mean), half_width(explained.shift)
    unknown = explained.unknown + wide
    why = (
        f"the medians differ by {1e3 * off:.3f} ms, of which overhead explains "
        f"{1e3 * shift:.3f} ± {1e3 * wide:.3f} ms and chance {1e3 * chance:.3f} ms"
    )
    if off > shift + chance and explained.unknown > 0:
        why += f" (or up to {1e3 * unknown:.3f} ms more: waits are drawn at random)"
    why = _known(off, why)
    return Criterion("median delay", quantity, shift + chance, why, allowed, unknown, wide)


def _known(off: float, why: str) -> str:
    return why if math.isfinite(off) else "there is nothing to measure"

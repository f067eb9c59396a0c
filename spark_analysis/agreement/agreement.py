"""Do two backends agree?  One scenario, run several times on both, compared by its captures.

Theory of operation.  Repeat i has the same placement, motion and workload on both backends; the
seeds of the nodes and of the channel differ between repeats, and are the same on both.  Repeats
therefore differ by chance, part of which (jitter, start times) both backends share:
differences are taken repeat by repeat, and an interval of confidence over the repeats says how
well their mean is known.  Delivery and frames are tests of equivalence: the backends agree if the
whole interval lies within what is allowed, they differ if no part of it does, and else it is not
decided, and `Criterion.needed` says how many repeats would decide if they varied as these do.
Three criteria, none of which knows a backend by name, and those of metrics that only runs of some
protocols have (`spark_analysis.metric.AgreementBound`), which are tests of equivalence as well:

*Delivery*: the mean ratios differ by at most `DELIVERY_BOUND`.

*Frames on the air*: the mean numbers of frames that all radios sent while the scenario lasted
differ by at most `FRAMES_BOUND` of the first backend's.

*Delay*: the mean of the repeats' median delays differs by no more than the slower backend's own
overhead explains, and the half width of the interval of the difference; unless that is more than
`DELAY_CHANCE` of the quicker backend's median: then chance is too large to tell.  Real nodes take
time beyond what the protocol says: a process is woken, Python runs, a frame goes through sockets
and devices.  The captures show how much (`jobs.stages`): of every stage of an event's way, by how
much the same step of the same delivery is longer on the slower backend, median.  A delivery over h
hops has one `originate`, one `medium`, h - 1 `forward` and h - 1 `relay`, and one `notify`.  What
overhead explains is the median of the quicker backend's delays, each lengthened by the overhead of
its way, less their median as it is.  Ways are those of the quicker backend, so one that takes
longer ways is not excused; a stage in which the slower backend is the quicker one counts against
the others; a backend that measures no fidelity claims no overhead.

Stages add up to the delay, so whatever is wrong would be excused by the stage it is in, were there
no other measure of what execution can cost.  On the medium no step is excused by more than the
lateness with which that backend's own medium says it delivered frames (99 of 100 frames): what
goes beyond is the radio model.  A forwarder does what a publisher's and a subscriber's node do, it
takes a frame in and sends one, so no forward is excused by more than both of these together, and
by `TIMER` if it waits on purpose: what goes beyond is the protocol.

How long a step is on purpose may be drawn at random, and drawn otherwise on the other backend: then
the same step differs by that as well, and its overhead is known no better than the interval of that
difference.  A difference of delays that overhead explains only if it is as large as the interval
and its limit permit is not decided.

A repeat whose run lost real time measures the machine, and does not count.  If fewer than two
repeats are left, the verdict is that the machine was too slow, whatever the numbers say.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spark_analysis.agreement.measures import OWN, Measures, Side
from spark_analysis.confidence import Interval, mean_interval, t_quantile
from spark_analysis.jobs.stages import DelayStage

DELIVERY_BOUND: Final = 0.02
"""Greatest difference of the delivery ratios."""
FRAMES_BOUND: Final = 0.05
"""Greatest difference of the frames on the air, as a share of the first backend's."""
DELAY_CHANCE: Final = 0.1
"""Greatest half width of the difference of the median delays, as a share of the quicker one."""
MOST_NEEDED: Final = 10_000
"""Repeats above which nobody would wait for a decision."""
TIMER: Final = 0.0002
"""Seconds by which a node may end a wait late: the kernel's timer slack, and a process's waking."""
LEAST_REPEATS: Final = 2
"""Repeats that an interval needs."""


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity on both sides, and first less second."""

    first: Interval
    second: Interval
    difference: Interval

    @property
    def relative(self) -> float:
        """The difference as a share of the first side's mean; 0 if both are 0."""
        if self.difference.mean == 0:
            return 0.0
        return self.difference.mean / self.first.mean if self.first.mean else math.inf


@dataclass(frozen=True)
class Overhead:
    """What one stage excuses; seconds."""

    stage: DelayStage
    median: ComparedQuantity
    """Median steps of the repeats; the difference is that of the same steps (`Matched`)."""
    excess: float
    """How much longer the slower side's step is, or shorter; 0 for a side without overhead."""
    limit: float
    """Greatest excess that counts; infinite if nothing limits it."""
    most: float
    """The greatest excess that the interval of the difference permits."""

    @property
    def counts(self) -> float:
        """What counts of the excess."""
        return min(self.excess, self.limit)

    @property
    def may_count(self) -> float:
        """What may count of it at most."""
        return min(self.most, self.limit)


def along_the_way(overhead: Sequence[Overhead], hops: float) -> float:
    """Return the overhead, s, of a delivery over so many hops."""
    return sum(part.counts * times(part.stage, hops) for part in overhead)


def unknown_along_the_way(overhead: Sequence[Overhead], hops: float) -> float:
    """Return by how much that may be larger, s."""
    return sum((part.may_count - part.counts) * times(part.stage, hops) for part in overhead)


def times(stage: DelayStage, hops: float) -> float:
    """Return how often a stage comes in a delivery over so many hops."""
    return hops - 1 if stage in (DelayStage.FORWARD, DelayStage.RELAY) else 1


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

    @property
    def answer(self) -> Answer:
        """Whether the whole interval of the difference is within the bound, or none of it."""
        off, chance = abs(self.quantity.difference.mean), half_width(self.quantity.difference)
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
        margin, chance = self.chance_allowed, half_width(difference)
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
    explained: float
    """s of the difference in median delay that overhead explains."""
    own: tuple[Criterion, ...] = ()
    """Of the protocol's own metrics."""

    @property
    def criteria(self) -> tuple[Criterion, ...]:
        """All of them, in order."""
        return (self.delivery, self.frames, self.delay, *self.own)

    @property
    def needed(self) -> int | None:
        """Repeats that would decide all criteria; None if they are decided."""
        wanted = [each.needed for each in self.criteria if each.needed is not None]
        return max(wanted, default=None)

    @property
    def slow(self) -> tuple[Measures, ...]:
        """Runs that lost real time."""
        runs = (*self.first.runs, *self.second.runs)
        return tuple(run for run in runs if run.kept_real_time is False)

    @property
    def slower(self) -> Side:
        """The side with the longer delays."""
        return self.second if self.delay.quantity.difference.mean < 0 else self.first


Matched = Mapping[DelayStage, float]
"""By how much the same step is longer in the first run of a repeat than in the second, s."""


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
    hops = _quantity(a, b, lambda run: run.hops)
    delay = _quantity(a, b, lambda run: run.delay)
    overhead = _overhead(a, b, delay, [matched[i] for i in counted])
    quicker = b if delay.difference.mean >= 0 else a
    explained = _explained(quicker, overhead)
    kinds = {
        kind: _quantity(a, b, lambda run, kind=kind: float(run.frames.get(kind, 0)))  # type: ignore[misc]
        for kind in dict.fromkeys(kind for run in (*a.runs, *b.runs) for kind in sorted(run.frames))
    }
    criteria = (
        _delivery(_quantity(a, b, lambda run: run.delivery)),
        _frames(_quantity(a, b, lambda run: run.frames_total)),
        _delay(delay, explained, unknown_along_the_way(overhead, _hops(quicker)), quicker),
    )
    own = tuple(_own(a, b, column) for column in OWN if _all_have(a, b, column))
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
        first, second, counted, outcome, *criteria, kinds, hops, overhead, explained, own
    )


def half_width(interval: Interval) -> float:
    """Return how far an interval reaches to either side; 0 if it is not known."""
    width = (interval.high - interval.low) / 2
    return width if math.isfinite(width) else 0.0


def _quantity(first: Side, second: Side, of: Callable[[Measures], float]) -> ComparedQuantity:
    pairs = [(of(a), of(b)) for a, b in zip(first.runs, second.runs, strict=True)]
    pairs = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    if not pairs:
        return ComparedQuantity(_NOTHING, _NOTHING, _NOTHING)
    return ComparedQuantity(
        mean_interval([a for a, _ in pairs]),
        mean_interval([b for _, b in pairs]),
        mean_interval([a - b for a, b in pairs]),
    )


_NOTHING: Final = Interval(math.nan, math.nan, math.nan, 0)


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


def _hops(side: Side) -> float:
    """Return the hops of a delivery, mean; 1 if there is none."""
    return max(1.0, statistics.fmean(side.values(lambda run: run.hops) or [1.0]))


def _all_have(first: Side, second: Side, column: str) -> bool:
    return all(column in run.own for run in (*first.runs, *second.runs))


def _own(first: Side, second: Side, column: str) -> Criterion:
    quantity = _quantity(first, second, lambda run: run.own[column])
    off, allowed = abs(quantity.relative), OWN[column].share
    why = f"the means differ by {100 * off:.2f} %, at most {100 * allowed:g} % are allowed"
    return Criterion(OWN[column].name, quantity, allowed * quantity.first.mean, why)


def _delay(
    quantity: ComparedQuantity, explained: float, unknown: float, quicker: Side
) -> Criterion:
    off, chance = abs(quantity.difference.mean), half_width(quantity.difference)
    delays = quicker.values(lambda run: run.delay)
    allowed = DELAY_CHANCE * statistics.fmean(delays) if delays else 0.0
    why = (
        f"the medians differ by {1e3 * off:.3f} ms, of which overhead explains "
        f"{1e3 * explained:.3f} ms and chance {1e3 * chance:.3f} ms"
    )
    if off > explained + chance and unknown > 0:
        why += f" (or up to {1e3 * unknown:.3f} ms more: waits are drawn at random)"
    why = _known(off, why)
    return Criterion("median delay", quantity, explained + chance, why, allowed, unknown)


def _known(off: float, why: str) -> str:
    return why if math.isfinite(off) else "there is nothing to measure"


def _overhead(
    first: Side, second: Side, delay: ComparedQuantity, matched: Sequence[Matched]
) -> tuple[Overhead, ...]:
    """Return what the stages excuse of the slower side's longer delays."""
    sign = -1.0 if delay.difference.mean < 0 else 1.0
    slower = first if sign > 0 else second
    real_time = any(run.kept_real_time is not None for run in slower.runs)
    medians = {}
    for stage in DelayStage:
        same = [repeat[stage] for repeat in matched if stage in repeat]
        if same:
            steps = _quantity(first, second, lambda run, stage=stage: _p50(run, stage))  # type: ignore[misc]
            medians[stage] = replace(steps, difference=mean_interval(same))
    excess = {
        stage: sign * median.difference.mean if real_time else 0.0
        for stage, median in medians.items()
    }
    waits = _waits(medians, sign)
    limits = _limits(slower, excess, waits)
    drawn = {DelayStage.FORWARD} if waits and real_time else set()
    return tuple(
        Overhead(
            stage,
            median,
            excess[stage],
            limits.get(stage, math.inf),
            excess[stage] + (half_width(median.difference) if stage in drawn else 0.0),
        )
        for stage, median in medians.items()
    )


def _p50(run: Measures, stage: DelayStage) -> float:
    return run.stages[stage].p50 if stage in run.stages else math.nan


def _explained(quicker: Side, overhead: Sequence[Overhead]) -> float:
    """Return by how much overhead would shift the median delay of the quicker side; mean."""
    shifts = [
        statistics.median(delay + along_the_way(overhead, hops) for hops, delay in run.deliveries)
        - statistics.median(delay for _, delay in run.deliveries)
        for run in quicker.runs
        if run.deliveries
    ]
    return max(0.0, statistics.fmean(shifts)) if shifts else 0.0


def _waits(medians: Mapping[DelayStage, ComparedQuantity], sign: float) -> bool:
    """Return whether forwarders wait on purpose: longer than nodes need, on the quicker side."""
    quicker = {
        stage: (median.second if sign > 0 else median.first).mean
        for stage, median in medians.items()
    }
    needed = quicker.get(DelayStage.ORIGINATE, 0.0) + quicker.get(DelayStage.NOTIFY, 0.0)
    return quicker.get(DelayStage.FORWARD, 0.0) > needed


def _limits(
    slower: Side, excess: Mapping[DelayStage, float], waits: bool
) -> dict[DelayStage, float]:
    """Return how much of a step's excess counts, by measures of their own."""
    nodes = sum(
        max(0.0, excess.get(stage, 0.0)) for stage in (DelayStage.ORIGINATE, DelayStage.NOTIFY)
    )
    late = max(slower.values(lambda run: run.late_p99), default=math.inf)
    return {
        DelayStage.MEDIUM: late,
        DelayStage.RELAY: late,
        DelayStage.FORWARD: nodes + (TIMER if waits else 0.0),
    }

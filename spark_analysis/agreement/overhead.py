"""What the longer delays of a backend owe to time that its nodes and its medium take.

Theory of operation.  Real nodes take time beyond what the protocol says: a process is woken, Python
runs, a frame goes through sockets and devices.  The captures show how long each node on the way of
each delivery had it (`measures.stages`): the *node time* of one over h hops is one `originate`,
h - 1 `forward` and one `notify`.  A backend's median delay less the median of its deliveries'
(delay less node time) is what node time does to its median; what overhead explains in a repeat is
that of the slower backend less that of the quicker one.  It is worked out delivery by delivery and
not from medians of the stages, since times of nodes are skewed: the median of a sum of many is more
than the sum of their medians.

Stages add up to the delay, so whatever is wrong would be excused by the stage it is in, were there
no other measure of what execution can cost.  Hence, on either side alike and by what the slower
one's captures say:

- A node on the way counts for no longer than twice what 99 of 100 subscribers' nodes take
  (`NODE_SHARE`): it takes a message in as these do, and sends one.  What is longer than that is a
  wait of the protocol, as for a route.
- The forwards of the slower side, mean, count for no more beyond the quicker one's than what its
  publishers' and subscribers' nodes take together beyond the quicker one's: what goes beyond is the
  protocol.  All its forwards are scaled down to that.
- If the slower side's ways are longer, its forwards count only for the share that the quicker
  side's ways have of them: a backend that takes longer ways is not excused.
- A backend that measures no fidelity does not run in real time, and claims no overhead.

Forwarders that wait on purpose, longer than nodes need on the quicker side, hide node time in that
wait.  What counts of each forward is then by how much the same forward of the same delivery is
longer on the slower backend (`stages.matched`), median, up to the medians of what publishers'
and subscribers' nodes take together, and `TIMER`.  The wait may be drawn at random, and drawn
otherwise on the other backend: then the same forward differs by that as well, and its overhead is
known no better than the interval of that difference.  So it is with publishers that wait.

On the medium a step counts for as much as the same step is longer on the slower backend, median,
and for no more than the lateness with which that backend's own medium says it delivered frames (99
of 100 frames): what goes beyond is the radio model.  A step that is *shorter* there counts for
nothing.  Who takes 0.4 ms to send a frame on finds the channel free more often than who does so at
once, so node time takes the place of waiting for the channel; that shortens the delay itself, which
is what is compared, and to take it off what nodes took as well would count it twice.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from spark_analysis.agreement.measures import DeliveryWay, Measures, Side
from spark_analysis.measures.stages import DelayStage
from spark_analysis.report.confidence import Interval, mean_interval

TIMER: Final = 0.0002
"""Seconds by which a node may end a wait late: the kernel's timer slack, and a process's waking."""
NODE_SHARE: Final = 99
"""Percentile of the subscribers' nodes above which no time at a node is execution."""
NODES: Final = (DelayStage.ORIGINATE, DelayStage.FORWARD, DelayStage.NOTIFY)
"""Stages in which a node has the event; in the others the medium has."""

Matched = Mapping[DelayStage, float]
"""By how much the same step is longer in the first run of a repeat than in the second, s."""

NOTHING_MEASURED: Final = Interval(math.nan, math.nan, math.nan, 0)
NO_TIME: Final = Interval(0.0, 0.0, 0.0, 0)


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
    """How much longer the slower side's step is, or shorter; 0 for a side without overhead.

    At nodes that do not wait, mean of what is no wait; else the median difference.
    """
    limit: float
    """Greatest excess that counts; infinite if nothing limits it."""
    most: float
    """The greatest excess that the interval of the difference permits."""

    @property
    def counts(self) -> float:
        """What counts of the excess."""
        least = -math.inf if self.stage in NODES else 0.0
        return max(least, min(self.excess, self.limit))

    @property
    def may_count(self) -> float:
        """What may count of it at most."""
        return min(self.most, self.limit)


@dataclass(frozen=True)
class Explained:
    """What overhead explains of the difference of two sides' median delays."""

    parts: tuple[Overhead, ...]
    """By stage, in the order in which a delivery has them."""
    shift: Interval
    """s by which overhead makes the slower side's median longer, over the repeats."""
    unknown: float
    """s by which it may be more, as waits hide it."""


def compared(first: Side, second: Side, of: Callable[[Measures], float]) -> ComparedQuantity:
    """Return a quantity of the repeats in which both sides have it."""
    pairs = [(of(a), of(b)) for a, b in zip(first.runs, second.runs, strict=True)]
    pairs = [(a, b) for a, b in pairs if math.isfinite(a) and math.isfinite(b)]
    if not pairs:
        return ComparedQuantity(NOTHING_MEASURED, NOTHING_MEASURED, NOTHING_MEASURED)
    return ComparedQuantity(
        mean_interval([a for a, _ in pairs]),
        mean_interval([b for _, b in pairs]),
        mean_interval([a - b for a, b in pairs]),
    )


def half_width(interval: Interval) -> float:
    """Return how far an interval reaches to either side; 0 if it is not known."""
    width = (interval.high - interval.low) / 2
    return width if math.isfinite(width) else 0.0


def along_the_way(parts: Sequence[Overhead], hops: float) -> float:
    """Return the overhead, s, of a delivery over so many hops, mean."""
    return sum(part.counts * times(part.stage, hops) for part in parts)


def times(stage: DelayStage, hops: float) -> float:
    """Return how often a stage comes in a delivery over so many hops."""
    return hops - 1 if stage in (DelayStage.FORWARD, DelayStage.RELAY) else 1


def explain(
    first: Side, second: Side, delay: ComparedQuantity, matched: Sequence[Matched]
) -> Explained:
    """Return what overhead explains of a difference in `delay`, by the runs that count."""
    sign = -1.0 if delay.difference.mean < 0 else 1.0
    slower, quicker = (first, second) if sign > 0 else (second, first)
    real_time = any(run.kept_real_time is not None for run in slower.runs)
    medians = _medians(first, second, matched)
    if not real_time:
        parts = tuple(Overhead(stage, each, 0.0, math.inf, 0.0) for stage, each in medians.items())
        return Explained(parts, NO_TIME, 0.0)
    longer = {stage: sign * each.difference.mean for stage, each in medians.items()}
    waiting = _waiting(medians, sign)
    cap = _cap(slower)
    means = {stage: (_mean(slower, stage, cap), _mean(quicker, stage, cap)) for stage in NODES}
    excess = {
        stage: longer[stage]
        if stage not in NODES or stage in waiting
        else means[stage][0] - means[stage][1]
        for stage in medians
    }
    limits = _limits(slower, longer if DelayStage.FORWARD in waiting else excess, waiting)
    parts = tuple(
        Overhead(
            stage,
            median,
            excess[stage],
            limits.get(stage, math.inf),
            excess[stage]
            + (
                half_width(median.difference)
                if stage in waiting and stage is DelayStage.FORWARD
                else 0.0
            ),
        )
        for stage, median in medians.items()
    )
    counts = {part.stage: part.counts for part in parts}
    # What each step at a node counts for, of its time: all, or a share if the mean is limited.
    forward, other = means[DelayStage.FORWARD]
    scale = (counts.get(DelayStage.FORWARD, 0.0) + other) / forward if forward else 1.0
    of_ways = min(1.0, (_hops(quicker) - 1) / (_hops(slower) - 1)) if _hops(slower) > 1 else 1.0
    fixed = {stage: counts[stage] for stage in counts if stage not in NODES or stage in waiting}

    once = sum(fixed.get(stage, 0.0) for stage in (DelayStage.ORIGINATE, DelayStage.MEDIUM))
    each_hop = sum(fixed.get(stage, 0.0) for stage in (DelayStage.FORWARD, DelayStage.RELAY))
    ends = [s for s in (DelayStage.ORIGINATE, DelayStage.NOTIFY) if s not in waiting]
    forwards = [s for s in (DelayStage.FORWARD,) if s not in waiting]

    def lengthened(way: DeliveryWay) -> float:
        """Return the node time of a delivery on the slower side, and the medium's lateness."""
        further = each_hop * (way.hops - 1) + scale * _counted(way, forwards, cap)
        return once + _counted(way, ends, cap) + of_ways * further

    def as_long(way: DeliveryWay) -> float:
        """Return the node time of a delivery on the quicker side."""
        return _counted(way, ends, cap) + _counted(way, forwards, cap)

    shifts = [
        _shift(a.ways, lengthened) - _shift(b.ways, as_long)
        for a, b in zip(slower.runs, quicker.runs, strict=True)
        if a.ways and b.ways
    ]
    unknown = sum(
        (part.may_count - part.counts) * times(part.stage, _hops(quicker))
        for part in parts
        if part.stage in waiting
    )
    return Explained(parts, mean_interval(shifts) if shifts else NO_TIME, unknown)


def _medians(
    first: Side, second: Side, matched: Sequence[Matched]
) -> dict[DelayStage, ComparedQuantity]:
    """Return the median steps of all stages that both sides have in the same deliveries."""
    medians = {}
    for stage in DelayStage:
        same = [repeat[stage] for repeat in matched if stage in repeat]
        if same:
            steps = compared(first, second, lambda run, stage=stage: _p50(run, stage))  # type: ignore[misc]
            medians[stage] = replace(steps, difference=mean_interval(same))
    return medians


def _p50(run: Measures, stage: DelayStage) -> float:
    return run.stages[stage].p50 if stage in run.stages else math.nan


def _waiting(medians: Mapping[DelayStage, ComparedQuantity], sign: float) -> Collection[DelayStage]:
    """Return the stages in which nodes wait on purpose: longer than they need, on the quicker side.

    A publisher's node needs no more than twice what a subscriber's does.
    """
    quicker = {
        stage: (median.second if sign > 0 else median.first).mean
        for stage, median in medians.items()
    }
    originate, notify = (
        quicker.get(stage, 0.0) for stage in (DelayStage.ORIGINATE, DelayStage.NOTIFY)
    )
    waiting = set()
    if originate > 2 * notify:
        waiting.add(DelayStage.ORIGINATE)
        originate = notify
    if quicker.get(DelayStage.FORWARD, 0.0) > originate + notify:
        waiting.add(DelayStage.FORWARD)
    return waiting


def _cap(slower: Side) -> float:
    """Return for how long a step at a node counts at most, s."""
    notified = [way.notify for run in slower.runs for way in run.ways]
    return 2 * float(np.percentile(notified, NODE_SHARE)) if notified else 0.0


def _steps(way: DeliveryWay, stage: DelayStage) -> Sequence[float]:
    match stage:
        case DelayStage.ORIGINATE:
            return (way.originate,)
        case DelayStage.NOTIFY:
            return (way.notify,)
        case _:
            return way.forwards


def _mean(side: Side, stage: DelayStage, cap: float) -> float:
    """Return the mean of all steps of a stage at nodes, s, each up to what counts at most."""
    steps = itertools.chain.from_iterable(
        _steps(way, stage) for run in side.runs for way in run.ways
    )
    counted = [min(step, cap) for step in steps]
    return statistics.fmean(counted) if counted else 0.0


def _counted(way: DeliveryWay, stages: Collection[DelayStage], cap: float) -> float:
    """Return what counts of a delivery's time at nodes in some stages, s."""
    return sum(min(step, cap) for stage in stages for step in _steps(way, stage))


def _shift(ways: Sequence[DeliveryWay], overhead: Callable[[DeliveryWay], float]) -> float:
    """Return by how much `overhead` makes the median delay longer, s."""
    delays = [way.delay for way in ways]
    without = [way.delay - overhead(way) for way in ways]
    return statistics.median(delays) - statistics.median(without)


def _hops(side: Side) -> float:
    """Return the hops of a delivery, mean; 1 if there is none."""
    return max(1.0, statistics.fmean(side.values(lambda run: run.hops) or [1.0]))


def _limits(
    slower: Side, excess: Mapping[DelayStage, float], waiting: Collection[DelayStage]
) -> dict[DelayStage, float]:
    """Return how much of a step's excess counts, by measures of their own."""
    nodes = sum(
        max(0.0, excess.get(stage, 0.0)) for stage in (DelayStage.ORIGINATE, DelayStage.NOTIFY)
    )
    late = max(slower.values(lambda run: run.late_p99), default=math.inf)
    return {
        DelayStage.MEDIUM: late,
        DelayStage.RELAY: late,
        DelayStage.FORWARD: nodes + (TIMER if DelayStage.FORWARD in waiting else 0.0),
    }

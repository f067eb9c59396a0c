"""Waves of a sweep: which points run together, and which of them begin first.

The last task of a wave runs while processors that have nothing left to do wait for it.  If the
longest tasks begin first, little is left to wait for: all of them take at most a third more than in
the best order (R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM Journal on Applied
Mathematics 17(2), 1969).  Waves are made in the order of the points, first seeds first, and only
the order within a wave is by length, so a sweep that is stopped still has whole curves.

What a point will take is estimated from those that have run: what its other seeds took, or else
what its protocol took for a node's work, or else only by that work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from math import isnan
from statistics import fmean
from typing import Final

from emulation.scenario.scenario import Scenario
from spark_analysis.sweeps.spec import RunPoint

WAVE: Final = 16
"""Fewest tasks of a wave for each that runs at a time: fewer leave less on disk until the
analysis, which costs seconds per wave, more waste less time at its end.  A run that has ended is
not lost with its wave."""
LENGTH: Final = 60.0
"""Seconds that waves run between two analyses, which take many seconds each."""
MOST: Final = 1024
"""Tasks up to which a wave is filled, and after which no other begins before the analysis."""


def work(scenario: Scenario) -> float:
    """Return how much a run has to do: nodes, times seconds and operations of the workload.

    It compares runs of one protocol; what a node does in a second differs between protocols.
    """
    brokers = len(scenario.nodes) + len(scenario.access_points)
    return brokers * (scenario.duration + len(scenario.workload))


class Costs:
    """What points took, and what others are expected to take; seconds of a processor."""

    def __init__(self, works: Mapping[str, float]) -> None:
        """`works` has the `work` of points by their keys; others count as no work."""
        self._works = works
        self._repeats: dict[Hashable, list[float]] = defaultdict(list)
        self._spent: dict[str, float] = defaultdict(float)
        self._done: dict[str, float] = defaultdict(float)

    def note(self, point: RunPoint, seconds: float) -> None:
        """Note what a point took; NaN if unknown."""
        if isnan(seconds):
            return
        self._repeats[_but_for_seed(point)].append(seconds)
        if point.key in self._works:
            self._spent[point.protocol] += seconds
            self._done[point.protocol] += self._works[point.key]

    def is_estimated(self, point: RunPoint) -> bool:
        """Return whether something like it has run: its protocol, if not the point itself."""
        return _but_for_seed(point) in self._repeats or self._done.get(point.protocol, 0.0) > 0

    def expected(self, point: RunPoint) -> float:
        """Return what a point is expected to take; if nothing has run, a number to compare."""
        if repeats := self._repeats.get(_but_for_seed(point)):
            return fmean(repeats)
        return self._works.get(point.key, 0.0) * self._rate(point.protocol)

    def _rate(self, protocol: str) -> float:
        if done := self._done.get(protocol):
            return self._spent[protocol] / done
        done = sum(self._done.values())
        return sum(self._spent.values()) / done if done else 1.0


def _but_for_seed(point: RunPoint) -> Hashable:
    return (point.protocol, tuple(sorted((key, str(value)) for key, value in point.values.items())))


def is_due(points: int, seconds: float) -> bool:
    """Return whether so many points, run in so many seconds, are to be analysed before others."""
    return points >= MOST or seconds >= LENGTH


def take_wave(
    rest: Sequence[RunPoint], at_a_time: int, costs: Costs
) -> tuple[list[RunPoint], list[RunPoint]]:
    """Return the points of the next wave, longest first, and those that are left for later ones.

    A wave of short points is filled up to `LENGTH`; but only with points whose cost can be
    estimated, as others may leave any amount on disk.
    """
    size = min(WAVE * at_a_time, len(rest))
    room = LENGTH * at_a_time - sum(map(costs.expected, rest[:size]))
    while size < min(MOST, len(rest)) and costs.is_estimated(rest[size]):
        room -= costs.expected(rest[size])
        if room < 0:
            break
        size += 1
    if len(rest) - size < WAVE * at_a_time // 4:  # not worth an analysis of its own
        size = len(rest)
    return sorted(rest[:size], key=costs.expected, reverse=True), list(rest[size:])

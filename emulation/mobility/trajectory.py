"""Trajectories: piecewise-linear motion in the plane, of one node and of many together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Position2D = tuple[float, float]
"""x and y, metres."""


class Waypoint(NamedTuple):
    """At `time` seconds into the run the node is at (x, y) metres."""

    time: float
    x: float
    y: float


def until(waypoints: Sequence[Waypoint], seconds: float) -> tuple[Waypoint, ...]:
    """Return a trajectory cut off after `seconds`, at the node's position then."""
    kept = tuple(point for point in waypoints if point.time <= seconds)
    if len(kept) == len(waypoints):
        return kept
    return (*kept, Waypoint(seconds, *Trace([waypoints]).position(0, seconds)))


def from_zero(waypoints: Sequence[Waypoint]) -> tuple[Waypoint, ...]:
    """Return a trajectory without the part before time 0, at which it has a waypoint then."""
    if waypoints[0].time > 0:
        return tuple(waypoints)
    start = Waypoint(0.0, *Trace([waypoints]).position(0, 0.0))
    return (start, *(point for point in waypoints if point.time > 0))


class Trace:
    """Piecewise-linear trajectories of N nodes, evaluated together.

    A node stands at its first waypoint before that waypoint's time, and at its last one after it.
    It jumps between two waypoints of the same time.

    All waypoints are concatenated in arrays, so the time that `positions` takes hardly depends on
    the number of nodes.  Each node's leg is cached, because time mostly advances a little; results
    do not depend on that.
    """

    def __init__(self, trajectories: Sequence[Sequence[Waypoint]]) -> None:
        counts = np.array([len(points) for points in trajectories], dtype=np.intp)
        self.moving: bool = bool((counts > 1).any())
        points = np.array(
            list(itertools.chain.from_iterable(trajectories)), dtype=np.float64
        ).reshape(-1, 3)
        self._first = np.cumsum(counts) - counts
        self._last = self._first + counts - 1
        self._times, self._positions = points[:, 0].copy(), points[:, 1:].copy()
        # A leg goes from its waypoint to the next; after a node's last there is no motion.
        self._ways = np.zeros_like(self._positions)
        self._ways[:-1] = np.diff(self._positions, axis=0)
        self._ways[self._last] = 0.0
        self._spans = np.ones_like(self._times)
        self._spans[:-1] = np.diff(self._times)
        self._spans[self._last] = 1.0
        self._spans[self._spans <= 0] = 1.0  # a jump: a leg of no duration
        self._from = self._times.copy()
        self._from[self._first] = -np.inf
        self._until = np.empty_like(self._times)
        self._until[:-1] = self._times[1:]
        self._until[self._last] = np.inf
        self._legs = self._first.copy()

    def __len__(self) -> int:
        return len(self._first)

    def positions(self, time: float) -> npt.NDArray[np.float64]:
        """Return an array (N, 2) of metres: where every node is `time` seconds into the run."""
        if not self.moving:
            return self._positions.copy()
        legs = self._legs
        gone = np.flatnonzero((time < self._from[legs]) | (time >= self._until[legs]))
        if len(gone):
            legs[gone] = self._find(gone, time)
        shares = np.maximum(time - self._times[legs], 0.0) / self._spans[legs]
        shares[legs == self._last] = 0.0
        positions: npt.NDArray[np.float64] = (
            self._positions[legs] + shares[:, None] * self._ways[legs]
        )
        return positions

    def _find(self, nodes: npt.NDArray[np.intp], time: float) -> npt.NDArray[np.intp]:
        """Return the legs of nodes: for each the last that begins by `time`, by bisection."""
        low, high = self._first[nodes], self._last[nodes]
        while (low < high).any():
            middle = (low + high + 1) // 2
            begun = self._times[middle] <= time
            low, high = np.where(begun, middle, low), np.where(begun, high, middle - 1)
        return low

    def _leg(self, node: int, time: float) -> int:
        first, last = self._first[node], self._last[node]
        begun = int(np.searchsorted(self._times[first : last + 1], time, side="right"))
        return int(first) + max(0, begun - 1)

    def position(self, node: int, time: float) -> Position2D:
        """Return where the node at index `node` is, metres, `time` seconds into the run."""
        leg = self._leg(node, time)
        share = 0.0
        if leg != self._last[node]:
            share = max(time - self._times[leg], 0.0) / self._spans[leg]
        x, y = self._positions[leg] + share * self._ways[leg]
        return float(x), float(y)

    def velocity(self, node: int, time: float) -> tuple[float, float]:
        """Return the velocity, metres a second, of the node at index `node`."""
        leg = self._leg(node, time)
        if time < self._times[leg] or leg == self._last[node]:
            return 0.0, 0.0
        vx, vy = self._ways[leg] / self._spans[leg]
        return float(vx), float(vy)

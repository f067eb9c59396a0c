"""Replay: nodes that move along predetermined trajectories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from emulation.mobility.base import Generators
from emulation.mobility.trajectory import Position2D, Waypoint


class Replay:
    """Moves node i along the i-th trajectory, without randomness."""

    road_map: ClassVar[None] = None

    def __init__(self, tracks: Sequence[tuple[Waypoint, ...]]) -> None:
        self._tracks = list(tracks)

    def __len__(self) -> int:
        return len(self._tracks)

    @property
    def area(self) -> tuple[float, float, float, float]:
        """The box around all trajectories, at least a metre wide and high."""
        x0, x1 = _span([point.x for track in self._tracks for point in track])
        y0, y1 = _span([point.y for track in self._tracks for point in track])
        return x0, y0, x1, y1

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return the initial positions of the first `count` nodes."""
        return [(track[0].x, track[0].y) for track in self._tracks[:count]]

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the trajectories of the first nodes, for any positions and duration."""
        return self._tracks[: len(positions)]


def _span(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    return (low, high) if high - low >= 1.0 else (middle - 0.5, middle + 0.5)

"""Replay: nodes that move along trajectories that are known beforehand."""

from __future__ import annotations

import random
from collections.abc import Sequence

from emulation.mobility.trajectory import Waypoint


class Replay:
    """Moves node i along the i-th trajectory; chance has no part in it."""

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

    def places(self, count: int, rng: random.Random) -> list[tuple[float, float]]:
        """Return where the first `count` nodes begin."""
        return [(track[0].x, track[0].y) for track in self._tracks[:count]]

    def trajectories(
        self, places: Sequence[tuple[float, float]], duration: float, rng: random.Random
    ) -> list[tuple[Waypoint, ...]]:
        """Return the trajectories of the first nodes, whatever their `places` and the duration."""
        return self._tracks[: len(places)]


def _span(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    return (low, high) if high - low >= 1.0 else (middle - 0.5, middle + 0.5)

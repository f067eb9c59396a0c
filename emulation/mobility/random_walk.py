"""Random walk: every second another direction and speed, reflected at the borders.

Camp, Boleng and Davies (docs/papers.md#random-walk), with a constant time per step.
"""

from __future__ import annotations

import math
import random
from typing import ClassVar

from emulation.mobility.base import LonerModel
from emulation.mobility.trajectory import Position2D, Waypoint


class RandomWalk(LonerModel):
    """A random walk in a rectangle."""

    name: ClassVar[str] = "RandomWalk"

    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        x0, y0, x1, y1 = self.area
        x, y = start
        points = [Waypoint(0.0, x, y)]
        for second in range(1, math.ceil(duration) + 1):
            angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(self.min_speed, self.max_speed)
            x = _reflected(x + speed * math.cos(angle), x0, x1)
            y = _reflected(y + speed * math.sin(angle), y0, y1)
            points.append(Waypoint(float(second), x, y))
        return tuple(points)


def _reflected(coordinate: float, low: float, high: float) -> float:
    """Return a coordinate reflected at the borders."""
    span = high - low
    rest = (coordinate - low) % (2 * span)
    return low + (rest if rest <= span else 2 * span - rest)

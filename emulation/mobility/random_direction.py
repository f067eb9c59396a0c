"""Random direction mobility: straight to the border at one speed, then in another direction.

Royer, Melliar-Smith and Moser (docs/papers.md#random-direction).
"""

from __future__ import annotations

import math
import random
from typing import ClassVar, Final

from emulation.mobility.base import SLOWEST, LonerModel
from emulation.mobility.trajectory import Position2D, Waypoint

_NO_WAY: Final = 1e-6
"""Metres within which a border counts as reached."""


class RandomDirection(LonerModel):
    """Random direction motion in a rectangle."""

    name: ClassVar[str] = "RandomDirection"

    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        x0, y0, x1, y1 = self.area
        slowest = max(self.min_speed, SLOWEST)
        x, y = self.inside(*start)
        time, points = 0.0, [Waypoint(0.0, x, y)]
        while time < duration:
            angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(slowest, self.max_speed)
            dx, dy = math.cos(angle), math.sin(angle)
            reach = min(_until(x, dx, x0, x1), _until(y, dy, y0, y1))
            if reach < _NO_WAY:
                continue  # out of the area
            x, y, time = x + reach * dx, y + reach * dy, time + reach / speed
            points.append(Waypoint(time, *self.inside(x, y)))
        return tuple(points)


def _until(coordinate: float, direction: float, low: float, high: float) -> float:
    """Return the distance to a border along a direction."""
    if abs(direction) < 1e-12:
        return math.inf
    return max(0.0, ((high if direction > 0 else low) - coordinate) / direction)

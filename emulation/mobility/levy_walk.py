"""Truncated Levy walk: flights and pauses whose lengths follow power laws between bounds.

Rhee et al. (docs/papers.md#levy-walk), with the exponents and bounds of Mininet-WiFi.  Speeds
depend only on flights, sqrt(metres) / 10 m/s: the speed bounds of other models do not apply.
"""

from __future__ import annotations

import math
import random
from typing import ClassVar, Final

from emulation.mobility.base import LonerModel
from emulation.mobility.trajectory import Position2D, Waypoint

FLIGHT: Final = (-2.6, 1.0, 50.0)
"""Exponent and bounds, metres, of flights, and ..."""
PAUSE: Final = (-1.8, 1.0, 100.0)
"""... of pauses, seconds."""


class LevyWalk(LonerModel):
    """Flights and pauses in a rectangle; no flight is longer than its shorter side.

    Raises ValueError if even the shortest flight does not fit everywhere.
    """

    name: ClassVar[str] = "TruncatedLevyWalk"

    def __post_init__(self) -> None:
        super().__post_init__()
        x0, y0, x1, y1 = self.area
        needed = 2 * FLIGHT[1]
        if min(x1 - x0, y1 - y0) < needed:
            raise ValueError(
                f"the area, {x1 - x0:g} m by {y1 - y0:g} m, is too small for flights of "
                f"{FLIGHT[1]:g} m: give it at least {needed:g} m each way (min_x, max_x, min_y, "
                "max_y)"
            )

    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        x0, y0, x1, y1 = self.area
        exponent, shortest, longest = FLIGHT
        longest = min(longest, x1 - x0, y1 - y0)
        x, y = start
        points, time = [Waypoint(0.0, x, y)], 0.0
        while time < duration:
            flight = _power_law(exponent, shortest, longest, rng)
            angle = rng.uniform(0, 2 * math.pi)
            to_x, to_y = x + flight * math.cos(angle), y + flight * math.sin(angle)
            if not (x0 <= to_x <= x1 and y0 <= to_y <= y1):
                continue  # another direction
            x, y, time = to_x, to_y, time + flight / (math.sqrt(flight) / 10)
            points.append(Waypoint(time, x, y))
            time += _power_law(*PAUSE, rng)
            points.append(Waypoint(time, x, y))
        return tuple(points)


def _power_law(exponent: float, least: float, most: float, rng: random.Random) -> float:
    """Return a number whose density is a power between bounds."""
    low, high = least ** (exponent + 1), most ** (exponent + 1)
    return float((low + (high - low) * rng.random()) ** (1 / (exponent + 1)))

"""Gauss-Markov mobility: speed and direction depend on those a second ago.

Liang and Haas (docs/papers.md#gauss-markov).  With memory a, a mean m and the deviation s,

    v(t+1) = a v(t) + (1 - a) m + sqrt(1 - a^2) s w,   w standard normal,

for speeds, which are kept within their bounds, and for directions, with s in radians.  The mean
direction is a node's first one, and points to the middle of the area after a border.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from emulation.mobility.base import SLOWEST, LonerModel
from emulation.mobility.trajectory import Position2D, Waypoint
from nodeapp.parameters import Param


@dataclass(frozen=True)
class GaussMarkov(LonerModel):
    """Gauss-Markov motion in a rectangle.

    Raises ValueError if the mean speed is outside the bounds.
    """

    name: ClassVar[str] = "GaussMarkov"

    memory: Annotated[
        float,
        Param("share of speed and direction kept from one second to the next", low=0, high=1),
    ] = 0.99
    velocity_mean: Annotated[
        float, Param("m/s, mean of speeds; 0: in the middle of their bounds", low=0, high=1000)
    ] = 0.0
    variance: Annotated[
        float, Param("deviation of speeds, m/s, and of directions, radians", low=0, high=1000)
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        mean = self.velocity_mean
        if mean and not self.min_speed <= max(mean, SLOWEST) <= self.max_speed:
            raise ValueError(
                f"velocity_mean={mean:g}: speeds are from min_v={self.min_speed:g} to "
                f"max_v={self.max_speed:g} m/s: give a mean in this range, or other bounds"
            )

    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        """Return the waypoints of one node that begins at `start`."""
        x0, y0, x1, y1 = self.area
        x, y = start
        mean = self.velocity_mean or (self.min_speed + self.max_speed) / 2
        alpha, speed, angle = self.memory, mean, rng.uniform(0, 2 * math.pi)
        mean_angle = angle
        points = [Waypoint(0.0, x, y)]
        rest = math.sqrt(1 - alpha * alpha) * self.variance
        for second in range(1, math.ceil(duration) + 1):
            speed = alpha * speed + (1 - alpha) * mean + rest * rng.gauss(0, 1)
            speed = min(max(speed, self.min_speed), self.max_speed)
            angle = alpha * angle + (1 - alpha) * mean_angle + rest * rng.gauss(0, 1)
            nx, ny = x + speed * math.cos(angle), y + speed * math.sin(angle)
            if not (x0 <= nx <= x1 and y0 <= ny <= y1):
                angle = mean_angle = math.atan2((y0 + y1) / 2 - y, (x0 + x1) / 2 - x)
                nx, ny = x + speed * math.cos(angle), y + speed * math.sin(angle)
            x, y = self.inside(nx, ny)
            points.append(Waypoint(float(second), x, y))
        return tuple(points)

"""Random waypoint mobility (Johnson and Maltz 1996; Broch et al., MobiCom 1998).

A node picks a destination uniformly in a rectangle and a speed uniformly in an interval, goes
there in a straight line, pauses, and picks again.  The distribution of positions and speeds drifts
from the uniform start towards a stationary one that favours the centre and slow nodes (Yoon, Liu
and Noble, INFOCOM 2003; Navidi and Camp 2004); `discard` lets that much motion pass unseen.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from emulation.mobility.trajectory import Position2D, Waypoint


@dataclass(frozen=True, slots=True)
class RandomWaypoint:
    """Random waypoint motion in a rectangle.

    `area` is (x0, y0, x1, y1) in metres, speeds are metres a second, `pause` and `discard` are
    seconds.  Raises ValueError for a minimum speed of 0 with a positive maximum: such a model
    never reaches a stationary regime.
    """

    name: ClassVar[str] = "RandomWayPoint"
    road_map: ClassVar[None] = None

    area: tuple[float, float, float, float]
    min_speed: float
    max_speed: float
    pause: float = 0.0
    discard: float = 0.0

    def __post_init__(self) -> None:
        if self.max_speed > 0 and not 0 < self.min_speed <= self.max_speed:
            raise ValueError("the minimum speed must be above 0 and at most the maximum speed")

    @classmethod
    def in_area(
        cls,
        area: tuple[float, float, float, float],
        min_v: float,
        max_v: float,
        *,
        pause: float = 0.0,
    ) -> Self:
        """Return the model for the keywords of `setMobilityModel`."""
        return cls(area, min_v, max_v, pause)

    def position(self, rng: random.Random) -> Position2D:
        """Return a uniformly distributed position in the area."""
        x0, y0, x1, y1 = self.area
        return rng.uniform(x0, x1), rng.uniform(y0, y1)

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return `count` uniformly distributed positions in the area."""
        return [self.position(rng) for _ in range(count)]

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, rng: random.Random
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of nodes that are at `positions` when `discard` begins."""
        return [self.trajectory(start, duration, rng) for start in positions]

    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        """Return the waypoints of one node that is at `start` when `discard` begins."""
        time, (x, y) = -self.discard, start
        if self.max_speed <= 0:
            return (Waypoint(0.0, x, y),)
        points = [Waypoint(time, x, y)]
        while time < duration:
            next_x, next_y = self.position(rng)
            speed = rng.uniform(self.min_speed, self.max_speed)
            time += math.hypot(next_x - x, next_y - y) / speed
            x, y = next_x, next_y
            points.append(Waypoint(time, x, y))
            if self.pause > 0:
                time += self.pause
                points.append(Waypoint(time, x, y))
        return _from_zero(points)


def _from_zero(points: list[Waypoint]) -> tuple[Waypoint, ...]:
    """Drop what lies before time 0, putting a waypoint there."""
    first = max(index for index, point in enumerate(points) if point.time <= 0)
    before, after = points[first], points[first + 1]
    share = -before.time / (after.time - before.time)
    start = Waypoint(
        0.0, before.x + share * (after.x - before.x), before.y + share * (after.y - before.y)
    )
    return (start, *points[first + 1 :])

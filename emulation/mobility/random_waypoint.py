"""Random waypoint mobility (Johnson and Maltz 1996; Broch et al., MobiCom 1998).

A node picks a destination uniformly in a rectangle and a speed uniformly in an interval, goes
there in a straight line, pauses, and picks again.  The distribution of positions and speeds drifts
from the uniform start towards a stationary one that favours the centre and slow nodes (Yoon, Liu
and Noble, INFOCOM 2003; Navidi and Camp 2004); `discard` lets that much motion pass unseen.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Annotated, ClassVar

from emulation.mobility.base import LonerModel
from emulation.mobility.trajectory import Position2D, Waypoint, from_zero
from nodeapp.parameters import Param


@dataclass(frozen=True)
class RandomWaypoint(LonerModel):
    """Random waypoint motion in a rectangle.

    A node rests at a waypoint for `pause` seconds, plus `min_wt` to `max_wt` if either is above 0;
    `discard` is seconds.  Raises ValueError for a minimum speed of 0 with a positive maximum: such
    a model never reaches a stationary regime.
    """

    name: ClassVar[str] = "RandomWayPoint"

    pause: Annotated[float, Param("s at every waypoint", low=0, high=3600)] = 0.0
    discard: float = 0.0
    min_wt: Annotated[float, Param("least s of rest at a waypoint", low=0, high=86_400)] = 0.0
    max_wt: Annotated[
        float, Param("most s of rest at a waypoint, if above min_wt", low=0, high=86_400)
    ] = 0.0

    def __post_init__(self) -> None:
        if self.max_speed > 0 and not 0 < self.min_speed <= self.max_speed:
            raise ValueError("the minimum speed must be above 0 and at most the maximum speed")

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
        return from_zero(self._rested(points, rng))

    def _rested(self, points: list[Waypoint], rng: random.Random) -> list[Waypoint]:
        """Return a trajectory with rests at its waypoints, which delay all that follows."""
        longest = max(self.min_wt, self.max_wt)
        if longest <= 0:
            return points
        rested, way = 0.0, points[:1]
        for time, x, y in points[1:]:
            way.append(Waypoint(time + rested, x, y))
            rested += rng.uniform(self.min_wt, longest)
            way.append(Waypoint(time + rested, x, y))
        return way

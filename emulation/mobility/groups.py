"""Motion in groups: members are drawn to the centre of their group.

Theory of operation.  The centre of a group moves straight for a while at one speed, then in another
direction, and turns back at borders.  A member takes the centre's step, a random one of its own
(1 m/s), and one towards the centre of `aggregation` metres a second.  The stages of aggregation
repeat; in a stage of 0 the centre stands still and members walk at random.  Nodes are assigned to
groups in turn.

Departures from Mininet-WiFi: a step is one second; centres turn back at the borders.
"""

from __future__ import annotations

import abc
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from emulation.mobility.base import FieldModel, Generators
from emulation.mobility.trajectory import Position2D, Waypoint
from nodeapp.parameters import Param

OWN_STEP: Final = 1.0
"""Speed of a member's random walk, metres a second."""
Stage = tuple[float, float]
"""Duration, seconds, and the aggregation during it."""


@dataclass(frozen=True)
class GroupModel(FieldModel):
    """Groups in a rectangle; the speed bounds apply to their centres."""

    n_groups: Annotated[
        int, Param("groups, to which nodes are assigned in turn", low=1, high=5000)
    ] = 1

    @property
    @abc.abstractmethod
    def stages(self) -> list[Stage]:
        """The stages of aggregation."""

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of members that begin at `positions`; at speed 0 they stay there."""
        if self.max_speed <= 0:
            return [(Waypoint(0.0, *start),) for start in positions]
        steps = math.ceil(duration)
        centres = [
            self._centre(steps, generators("group", number))
            for number in range(min(self.n_groups, len(positions)))
        ]
        return [
            self._member(start, centres[number % self.n_groups], generators("node", number))
            for number, start in enumerate(positions)
        ]

    def _aggregation(self, second: float) -> float:
        """Return the aggregation at the given time."""
        stages = self.stages
        rest = second % sum(length for length, _ in stages)
        for length, aggregation in stages:
            if rest < length:
                return aggregation
            rest -= length
        return stages[-1][1]

    def _centre(self, steps: int, rng: random.Random) -> list[Position2D]:
        """Return the positions of a group's centre, second by second."""
        x0, y0, x1, y1 = self.area
        x, y = self.position(rng)
        left = dx = dy = 0.0
        positions = [(x, y)]
        for second in range(steps):
            if self._aggregation(second) > 0:
                if left <= 0:
                    left = rng.uniform(0, max(x1 - x0, y1 - y0))
                    speed = rng.uniform(self.min_speed, self.max_speed)
                    angle = rng.uniform(0, 2 * math.pi)
                    dx, dy = speed * math.cos(angle), speed * math.sin(angle)
                if not x0 <= x + dx <= x1:
                    dx = -dx
                if not y0 <= y + dy <= y1:
                    dy = -dy
                x, y, left = x + dx, y + dy, left - math.hypot(dx, dy)
            positions.append(self.inside(x, y))
        return positions

    def _member(
        self, start: Position2D, centre: Sequence[Position2D], rng: random.Random
    ) -> tuple[Waypoint, ...]:
        x, y = start
        points = [Waypoint(0.0, x, y)]
        for second in range(len(centre) - 1):
            angle = rng.uniform(0, 2 * math.pi)
            x, y = x + OWN_STEP * math.cos(angle), y + OWN_STEP * math.sin(angle)
            aggregation = self._aggregation(second)
            if aggregation > 0:
                (was_x, was_y), (is_x, is_y) = centre[second : second + 2]
                away = max(math.dist((x, y), (is_x, is_y)), 1e-9)
                pull = min(aggregation, away) / away
                x += is_x - was_x + pull * (is_x - x)
                y += is_y - was_y + pull * (is_y - y)
            x, y = self.inside(x, y)
            points.append(Waypoint(second + 1.0, x, y))
        return tuple(points)

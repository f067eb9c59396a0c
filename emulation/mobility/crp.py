"""A group that moves along a series of points and back: Mininet-WiFi's CRP.

Members walk about the centre at random, as in the reference point group model
(docs/papers.md#reference-point-group).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Final

from emulation.mobility.base import FieldModel, Generators
from emulation.mobility.random_walk import RandomWalk
from emulation.mobility.trajectory import Position2D, Trace, Waypoint
from nodeapp.parameters import Param

RADIUS: Final = 10.0
"""Distance from the centre within which members walk, metres."""
BESIDE: Final = RandomWalk((-RADIUS, -RADIUS, RADIUS, RADIUS), 0.1, 1.0)
"""The walk of a member relative to the centre."""


@dataclass(frozen=True)
class Crp(FieldModel):
    """A group in a rectangle, whose centre moves at the maximum speed.

    Raises ValueError for fewer than two points, or one outside the area.
    """

    name: ClassVar[str] = "CRP"

    pointlist: Annotated[
        str, Param("points as x y, metres, separated by ;: a group goes there and back")
    ] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            outside = any(self.inside(*point) != point for point in self.points)
        except (ValueError, TypeError):
            outside = True
        if outside or len(set(self.points)) < 2:
            raise ValueError(
                "give two points or more within the area: pointlist='x y; x y', metres"
            )

    @cached_property
    def points(self) -> list[Position2D]:
        texts = [text.split() for text in self.pointlist.split(";") if text.strip()]
        return [(float(x), float(y)) for x, y in texts]

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return `count` positions about the first point."""
        (x, y), beside = self.points[0], BESIDE.positions(count, rng)
        return [self.inside(x + dx, y + dy) for dx, dy in beside]

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of members that begin at `positions`; at speed 0 they stay there."""
        if self.max_speed <= 0:
            return [(Waypoint(0.0, *start),) for start in positions]
        centre = list(self._centre(duration))
        tracks = []
        for number, (x, y) in enumerate(positions):
            start = BESIDE.inside(x - centre[0].x, y - centre[0].y)
            walk = BESIDE.trajectory(start, duration, generators("node", number))
            both = Trace([centre, walk])
            times = sorted({point.time for point in (*centre, *walk)})
            sums = (both.positions(time).sum(axis=0) for time in times)
            tracks.append(
                tuple(
                    Waypoint(time, *self.inside(float(dx), float(dy)))
                    for time, (dx, dy) in zip(times, sums, strict=True)
                )
            )
        return tracks

    def _centre(self, duration: float) -> Iterator[Waypoint]:
        """Yield the centre's waypoints; a tour takes at least a second."""
        length = sum(itertools.starmap(math.dist, itertools.pairwise(self.points)))
        speed, time = min(self.max_speed, length), 0.0
        yield Waypoint(time, *self.points[0])
        there_and_back = itertools.cycle((*self.points, *self.points[-2:0:-1]))
        for (x, y), (next_x, next_y) in itertools.pairwise(there_and_back):
            if time >= duration:
                return
            time += math.dist((x, y), (next_x, next_y)) / speed
            yield Waypoint(time, next_x, next_y)

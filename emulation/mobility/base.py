"""What a mobility model is: it turns a seeded generator into one trajectory of waypoints a node."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from emulation.mobility.road_map import RoadMap
from emulation.mobility.trajectory import Position2D, Waypoint


class Mobility(Protocol):
    """Moves all nodes together: where one goes may depend on the others.

    `area` is (x0, y0, x1, y1), metres; nobody leaves it.
    """

    @property
    def area(self) -> tuple[float, float, float, float]:
        """Where the nodes move."""
        ...

    @property
    def road_map(self) -> RoadMap | None:
        """The streets to which the nodes are bound; None if they are not."""
        ...

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return where `count` nodes begin if nobody sets their positions."""
        ...

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, rng: random.Random
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of the nodes that begin at `positions`.

        They reach from time 0 to `duration` seconds or more.
        """
        ...

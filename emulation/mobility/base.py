"""What a mobility model is: it turns a seeded generator into one trajectory of waypoints a node."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from emulation.mobility.trajectory import Waypoint

Place = tuple[float, float]


class Mobility(Protocol):
    """Moves all nodes together: where one goes may depend on the others.

    `area` is (x0, y0, x1, y1), metres; nobody leaves it.
    """

    @property
    def area(self) -> tuple[float, float, float, float]:
        """Where the nodes move."""
        ...

    def places(self, count: int, rng: random.Random) -> list[Place]:
        """Return where `count` nodes begin when nobody says where."""
        ...

    def trajectories(
        self, places: Sequence[Place], duration: float, rng: random.Random
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of every node, from time 0 to `duration` seconds or more."""
        ...

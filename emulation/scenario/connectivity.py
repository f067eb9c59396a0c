"""Which stations can reach each other over stations within the radio range of each other.

A graph of the nodes at one moment, as `RadioSpec.range` has it: fading, obstacles and interference
have no part in it.  Topologies ask it for placements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from emulation.mobility.trajectory import Position2D
from emulation.radio.spec import RadioSpec

Positions = Sequence[Position2D] | np.ndarray[Any, Any]
"""N positions, or an array (N, 2) of metres."""


def partitions(radio: RadioSpec, positions: Positions) -> list[int]:
    """Return how many stations each part of the network has, the largest first.

    A radio without a range reaches everywhere.
    """
    points = np.asarray(positions, dtype=float).reshape(-1, 2)
    reach = radio.range or math.inf
    x, y = points.T
    within = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= reach**2
    left = np.ones(len(points), dtype=bool)
    sizes = []
    while left.any():
        part = np.zeros(len(points), dtype=bool)
        part[left.argmax()] = True
        frontier = part
        while frontier.any():
            frontier = within[frontier].any(axis=0) & ~part
            part = part | frontier
        left &= ~part
        sizes.append(int(part.sum()))
    return sorted(sizes, reverse=True)


def connected(radio: RadioSpec, positions: Positions) -> bool:
    """Return whether every station can reach every other."""
    return len(partitions(radio, positions)) == 1

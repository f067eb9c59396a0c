"""Which stations can reach each other over hops within radio range.

The graph of the nodes at one moment, by `RadioSpec.range`: it ignores fading, obstacles and
interference.  Topologies use it for placements.
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
    """Return the number of stations in each part of the network, the largest first.

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

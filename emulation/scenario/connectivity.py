"""Which stations can reach each other over hops within radio range.

The graph of the nodes at one moment, by `RadioSpec.range`: it ignores fading, obstacles and
interference.  Topologies use it for placements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from emulation.mobility.trajectory import Position2D
from emulation.radio.spec import RadioSpec

Positions = Sequence[Position2D] | np.ndarray[Any, Any]
"""N positions, or an array (N, 2) of metres."""


BATCH: Final = 256
"""Points whose neighbours are sought at once: memory grows with this times the number of points."""


def parts(positions: Positions, reach: float) -> list[int]:
    """Return the number of points in each part of the graph of those within `reach` of each other.

    The largest part comes first.
    """
    left = np.asarray(positions, dtype=float).reshape(-1, 2)
    sizes = []
    while len(left):
        waiting, left = left[:1], left[1:]
        size = 1
        while len(waiting):
            some, waiting = waiting[:BATCH, None], waiting[BATCH:]
            dx, dy = np.moveaxis(some - left, 2, 0)
            near = (dx**2 + dy**2 <= reach**2).any(axis=0)
            size += int(near.sum())
            waiting, left = np.concatenate([waiting, left[near]]), left[~near]
        sizes.append(size)
    return sorted(sizes, reverse=True)


def partitions(radio: RadioSpec, positions: Positions) -> list[int]:
    """Return the number of stations in each part of the network, the largest first.

    A radio without a range reaches everywhere.
    """
    return parts(positions, radio.range or math.inf)


def connected(radio: RadioSpec, positions: Positions) -> bool:
    """Return whether every station can reach every other."""
    return len(partitions(radio, positions)) == 1

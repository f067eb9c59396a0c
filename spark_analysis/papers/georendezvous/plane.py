"""Detours on a continuous plane: points, straight paths, neither cells nor hops nor routing.

A publisher, a subscriber and the rendezvous points are uniform on a unit square; the path over a
rendezvous point is the sum of two straight lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spark_analysis.papers.georendezvous.graph import OF, REPLICAS

PAIRS: Final = 2000
"""Pairs that make one value."""
ACROSS: Final = 17
"""Cells across the square of 600 nodes."""


def _drawn(replicas: int, seed: int) -> tuple[Any, Any, Any]:
    """Return the direct paths, those over rendezvous points, and how near these are."""
    rng = np.random.default_rng(seed)
    publisher, subscriber = rng.random((2, PAIRS, 1, 2))
    points = rng.random((PAIRS, replicas, 2))
    last = np.linalg.norm(points - subscriber, axis=2)
    over = np.linalg.norm(points - publisher, axis=2) + last
    return np.linalg.norm(publisher - subscriber, axis=2)[:, 0], over, last


def _ratios(through: Any, direct: Any) -> dict[str, float]:
    return {
        "ratio": float(through.mean() / direct.mean()),
        "ratio_each": float((through / direct).mean()),
    }


def plane_by_replicas(seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each number of rendezvous points how long the shortest path over one is."""
    direct, over, _ = _drawn(max(REPLICAS), seed)
    for replicas in REPLICAS:
        through = over[:, :replicas].min(axis=1)
        yield {"replicas": replicas, "method": "plane", **_ratios(through, direct)}


def plane_by_nearest(seed: int) -> Iterator[dict[str, Any]]:
    """Yield the same over the 1, 2, ... of `OF` points that are nearest to the subscriber."""
    direct, over, last = _drawn(OF, seed)
    order = np.take_along_axis(over, last.argsort(axis=1), axis=1)
    for tried in range(1, OF + 1):
        through = order[:, :tried].min(axis=1)
        yield {"tried": tried, "method": "plane", **_ratios(through, direct)}


def plane_by_moves(seed: int) -> Iterator[dict[str, Any]]:
    """Yield the same by number of points, in cell hash routing's moves over populated cells.

    A hop leads to any of eight adjacent cells, so a path is as long as the larger of its two
    extents.  `moves` has such paths of any length, `cells` whole hops between `ACROSS` by `ACROSS`
    cells, where a node of the same cell is one hop away, too.
    """
    rng = np.random.default_rng(seed)
    publisher, subscriber = rng.random((2, PAIRS, 1, 2))
    points = rng.random((PAIRS, max(REPLICAS), 2))
    for method in ("moves", "cells"):
        if method == "cells":
            publisher, subscriber, points = (
                np.floor(place * ACROSS) for place in (publisher, subscriber, points)
            )
        direct = np.abs(publisher - subscriber).max(axis=2)[:, 0]
        first, last = (np.abs(points - end).max(axis=2) for end in (publisher, subscriber))
        if method == "cells":
            direct, last = np.maximum(direct, 1.0), np.maximum(last, 1.0)
        over = first + last
        for replicas in REPLICAS:
            through = over[:, :replicas].min(axis=1)
            yield {"replicas": replicas, "method": method, **_ratios(through, direct)}

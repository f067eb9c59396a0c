"""Road maps: where vehicles can be, and the waypoints that a topic may hash to.

Geographic publish/subscribe with a map hashes a topic to the "waypoint track" nearest to a
uniformly distributed coordinate, so that vehicles can serve it (docs/papers.md#six-schemes, section
3.6: "waypoint information (i.e. road maps)").  The paper does not say how far apart its
waypoints are; here they are the intersections, the ends and the bends of the roads and points
between these, at most `spacing` metres apart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from emulation.mobility.trajectory import Position2D

Segment = tuple[Position2D, Position2D]

_MILLIMETRES = 3
"""Decimals to which waypoints are rounded, so that close ones become one."""
_NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class RoadMap:
    """Streets as polylines, metres: the middle of each street."""

    streets: tuple[tuple[Position2D, ...], ...]

    def segments(self) -> Iterator[Segment]:
        """Return the straight pieces of all streets."""
        for street in self.streets:
            yield from itertools.pairwise(street)

    def waypoints(self, spacing: float) -> tuple[Position2D, ...]:
        """Return intersections, ends, bends and points at most `spacing` metres apart, sorted.

        Raises ValueError for a spacing that is not above 0.
        """
        if not spacing > 0:
            raise ValueError("the spacing of waypoints must be above 0 m")
        segments = list(self.segments())
        positions: set[Position2D] = set()
        for segment in segments:
            breaks = {0.0, 1.0}
            breaks.update(share for other in segments for share in _crossing(segment, other))
            for begin, end in itertools.pairwise(sorted(breaks)):
                parts = max(1, math.ceil((end - begin) * math.dist(*segment) / spacing - _NEARLY))
                for part in range(parts + 1):
                    positions.add(_along(segment, begin + (end - begin) * part / parts))
        return tuple(sorted(positions))


def _along(segment: Segment, share: float) -> Position2D:
    (x0, y0), (x1, y1) = segment
    # Adding 0.0 turns -0.0, which is printed differently, into 0.0.
    return (
        round(x0 + share * (x1 - x0), _MILLIMETRES) + 0.0,
        round(y0 + share * (y1 - y0), _MILLIMETRES) + 0.0,
    )


def _crossing(segment: Segment, other: Segment) -> Iterator[float]:
    """Yield where along a segment, 0 to 1, another one crosses or touches it."""
    (x0, y0), (x1, y1) = segment
    (u0, v0), (u1, v1) = other
    dx, dy, du, dv = x1 - x0, y1 - y0, u1 - u0, v1 - v0
    area = dx * dv - dy * du
    if abs(area) <= _NEARLY * math.hypot(dx, dy) * math.hypot(du, dv):
        return  # parallel: streets that share a stretch share its ends
    share = ((u0 - x0) * dv - (v0 - y0) * du) / area
    of_other = ((u0 - x0) * dy - (v0 - y0) * dx) / area
    if -_NEARLY <= share <= 1 + _NEARLY and -_NEARLY <= of_other <= 1 + _NEARLY:
        yield min(1.0, max(0.0, share))

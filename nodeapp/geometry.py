"""Plane geometry of geographic routing: Gabriel graph, right-hand rule, crossings.

Points are (x, y) in metres.  Degenerate positions (two nodes at one point, three on a line, four
on a circle) would need a special rule in each of these; instead, nodes add `nudge` of their id to
the position they announce, so that such cases do not arise: the idea is the symbolic perturbation
of Edelsbrunner and Mücke, with real numbers.

Sources: docs/papers.md#gpsr, docs/papers.md#gabriel-graph, docs/papers.md#simulation-of-simplicity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

Point = tuple[float, float]

NUDGE: Final = 1e-3
"""Metres: the side of the square in which a node's nudge lies."""
_TURN: Final = 2.0 * math.pi


def nudge(node: int) -> Point:
    """Return the nudge of a node, metres: below a millimetre, the same wherever it is computed.

    The two coordinates are those of the additive recurrence of the plastic number (Roberts 2018),
    which spreads successive ids evenly.
    """
    return NUDGE * (node * 0.7548776662466927 % 1.0), NUDGE * (node * 0.5698402909980532 % 1.0)


def squared_distance(a: Point, b: Point) -> float:
    """Return the square of the distance of two points."""
    dx, dy = a[0] - b[0], a[1] - b[1]
    return dx * dx + dy * dy


def bearing(a: Point, b: Point) -> float:
    """Return the direction from `a` to `b`, radians counter-clockwise from the x axis."""
    return math.atan2(b[1] - a[1], b[0] - a[0])


def gabriel_neighbours(own: Point, neighbours: Mapping[int, Point]) -> dict[int, Point]:
    """Return the neighbours to which the Gabriel graph has an edge from `own`.

    There is one if no other node lies in the disc whose diameter is the edge, its circle included
    (Gabriel and Sokal).  If links are those of a unit disk, both ends come to the same result
    from their own neighbours; the graph is planar and as connected as the network.
    """
    ox, oy = own
    # A node in the disc is nearer than the edge's other end, and the nearest is the likeliest.
    nearer = sorted(
        ((ox - x) * (ox - x) + (oy - y) * (oy - y), x, y, node)
        for node, (x, y) in neighbours.items()
    )
    edges = set()
    for _, x, y, node in nearer:
        for _, wx, wy, other in nearer:
            if other == node:
                edges.add(node)
                break
            # The angle at w over the diameter is a right one on the circle, wider inside.
            if (ox - wx) * (x - wx) + (oy - wy) * (y - wy) <= 0.0:
                break
    return {node: point for node, point in neighbours.items() if node in edges}


def next_counterclockwise(
    own: Point, reference: float, neighbours: Mapping[int, Point], last: int | None = None
) -> int | None:
    """Return the neighbour next counter-clockwise about `own` from the bearing `reference`.

    The one at the reference itself comes last: a dead end is left the way it was entered.  So does
    the node `last`, which has moved off the reference since that was taken.  None if there are no
    neighbours.  (The right-hand rule of GPSR, section 2.2.)
    """
    best, best_turn = None, math.inf
    for node, position in neighbours.items():
        turn = _TURN if node == last else (bearing(own, position) - reference) % _TURN or _TURN
        if turn < best_turn:
            best, best_turn = node, turn
    return best


def crossing(a: Point, b: Point, start: Point, end: Point) -> Point | None:
    """Return where the edge from `a` to `b` crosses the segment from `start` to `end`, or None.

    A point on the line of the segment counts as being on its right.
    """
    dx, dy = end[0] - start[0], end[1] - start[1]
    side_a = dx * (a[1] - start[1]) - dy * (a[0] - start[0])
    side_b = dx * (b[1] - start[1]) - dy * (b[0] - start[0])
    if (side_a > 0.0) == (side_b > 0.0):
        return None
    if side_b == 0.0:
        x, y = b  # exactly: the edge may end at `start`, which is not beyond itself
    else:
        share = side_a / (side_a - side_b)
        x, y = a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])
    along = dx * (x - start[0]) + dy * (y - start[1])
    return (x, y) if 0.0 <= along <= dx * dx + dy * dy else None


def nearest(point: Point, candidates: Mapping[int, Point]) -> tuple[int | None, float]:
    """Return the candidate nearest to `point` and its squared distance; (None, inf) for none."""
    best, best_distance = None, math.inf
    px, py = point
    for node, (x, y) in candidates.items():
        distance = (x - px) * (x - px) + (y - py) * (y - py)
        if distance < best_distance:
            best, best_distance = node, distance
    return best, best_distance

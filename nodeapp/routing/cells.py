"""Cells of cell hash routing: the grid, the planar graph of cells, and the path of a message.

The plane is cut into equal squares.  A cell is the pair of its column and row, and a populated cell
a virtual node at the cell's centre, linked to the populated ones of the eight cells around it.  If
the side is at most the radio range over 2 sqrt(2) (`largest_side`), any two nodes in adjacent cells
hear each other.  Links between nodes of cells that are not adjacent are never used.

**Planar graph.**  Of the edges between adjacent cells those along a diagonal are dropped if one of
the two cells beside it is populated.  This is the Gabriel graph of the centres, since these two lie
on the circle over the diagonal and no other centre lies within it.  Two edges could cross only as
the two diagonals of a square of four cells, and then both are dropped; so it is planar.  A dropped
diagonal has a path around it over the populated cell beside it; so it connects what the cells'
graph connects.  Both ends of a diagonal know both cells beside it, and agree.

**Order.**  Of two cells the one nearer to the target is that with the smaller `rank`: by the
distance of the centres, then by column and row.  That breaks ties as a target would that is moved
from its centre by an infinitesimal step to the west, and a far smaller one to the south (the
symbolic perturbation of Edelsbrunner and Mücke): ranks are distances to a point in general
position.

**Path** (`step`).  Greedy: to the adjacent cell nearest to the target, if that is nearer than this
one.  If none is, the message enters perimeter mode here, at x, and walks the border of the face of
the planar graph in which the target's direction lies, by the right-hand rule, until a cell is
nearer than x: greedy again.  About to take the first edge once more, it has toured the face.

**It converges**, to the populated cell nearest to the target of all that adjacent cells connect
with the start (the home cell; the target's own if that is populated):

  * Say an edge ab crosses the segment from x to the target d, and neither a nor b is nearer than
    x.  Then a and b lie outside the circle about d through x, whose chord on ab cuts x off from d;
    the angle axb is wider than a right one, x lies within the circle over ab, and ab would not be
    an edge of a Gabriel graph.  So the border of the first face that the segment passes has a
    nearer cell, and there is no need to change faces.
  * If a tour meets no nearer cell, no edge crosses that segment, so the face holds d.  By the same
    argument, with the nearest cell v in the place of x, no edge separates v from d: v is on the
    border of the face that holds d.  The tour has met it, so x is v.
  * Each walk begins nearer to d than the one before, so there are finitely many.

Sources: docs/papers.md#georendezvous, section 2.1; docs/papers.md#cell-hash-routing;
docs/papers.md#routing-with-guaranteed-delivery; of the home perimeter docs/papers.md#ght.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final, NamedTuple

from nodeapp.geometry import Point

Cell = tuple[int, int]
"""Column and row, counted from the origin; those west and south of it are negative."""

AROUND: Final = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
"""The eight directions, counter-clockwise from the east."""
_INDEX: Final = {direction: index for index, direction in enumerate(AROUND)}


def largest_side(radio_range: float) -> float:
    """Return the side of the largest cells whose neighbours hear each other, metres.

    The farthest points of two cells that touch at a corner are two diagonals apart.
    """
    return radio_range / (2.0 * math.sqrt(2.0))


class CellGrid(NamedTuple):
    """The cells: the side, metres, and the point at which the corner of cell (0, 0) is."""

    side: float
    origin: Point

    def cell(self, point: Point) -> Cell:
        """Return the cell that a point lies in; its south and west borders belong to it."""
        x, y = point
        return int((x - self.origin[0]) // self.side), int((y - self.origin[1]) // self.side)

    def centre(self, cell: Cell) -> Point:
        """Return the centre of a cell, metres."""
        return (
            self.origin[0] + (cell[0] + 0.5) * self.side,
            self.origin[1] + (cell[1] + 0.5) * self.side,
        )


def adjacent(one: Cell, other: Cell) -> bool:
    """Return whether two cells share a side or a corner."""
    return one != other and abs(one[0] - other[0]) <= 1 and abs(one[1] - other[1]) <= 1


def rank(cell: Cell, target: Cell) -> tuple[int, Cell]:
    """Return a key that orders cells by how near they are to a target, the nearest first."""
    dx, dy = cell[0] - target[0], cell[1] - target[1]
    return dx * dx + dy * dy, cell


def planar(own: Cell, populated: Collection[Cell]) -> list[Cell]:
    """Return the populated adjacent cells to which the planar graph has an edge."""
    x, y = own
    edges = []
    for cell in populated:
        dx, dy = cell[0] - x, cell[1] - y
        if dx and dy and ((x + dx, y) in populated or (x, y + dy) in populated):
            continue
        edges.append(cell)
    return edges


class Walk(NamedTuple):
    """A message in perimeter mode: where it entered, the second cell of the face, the last one."""

    entry: Cell
    first: Cell
    came: Cell


class Step(NamedTuple):
    """What to do with a message: the next cell, or None if this is the home cell of its target.

    `walk` is None in greedy mode.
    """

    cell: Cell | None
    walk: Walk | None = None


HOME: Final = Step(None)


def step(own: Cell, populated: Collection[Cell], target: Cell, walk: Walk | None) -> Step:
    """Return where a message goes from the cell `own`.

    `populated` are the populated ones of the adjacent cells, each once.  All that it depends on is
    there: the own cell and which of the adjacent ones have a node.
    """
    here = rank(own, target)
    if walk is None or here < rank(walk.entry, target):
        if own == target or not populated:
            return HOME
        best = min(populated, key=lambda cell: rank(cell, target))
        if rank(best, target) < here:
            return Step(best)
        return _enter(own, populated, target)
    edges = planar(own, populated)
    if not adjacent(own, walk.came) or (own == walk.entry and walk.first not in edges):
        return _enter(own, populated, target)  # nodes have moved: there is no such face any more
    back = _INDEX[walk.came[0] - own[0], walk.came[1] - own[1]]
    following = _next(own, back + 1, edges)
    if following is None or (own == walk.entry and following == walk.first):
        return HOME
    return Step(following, walk._replace(came=own))


def _enter(own: Cell, populated: Collection[Cell], target: Cell) -> Step:
    """Take the first edge counter-clockwise from the direction of the target."""
    # A populated cell in exactly that direction would be nearer, so none is.
    turn = math.atan2(target[1] - own[1], target[0] - own[0]) / (math.pi / 4)
    first = _next(own, math.floor(turn + 1e-9) + 1, planar(own, populated))
    return HOME if first is None else Step(first, Walk(own, first, own))


def _next(own: Cell, start: int, edges: Collection[Cell]) -> Cell | None:
    """Return the end of the first edge counter-clockwise from the direction with index `start`."""
    for index in range(start, start + 8):
        dx, dy = AROUND[index % 8]
        if (own[0] + dx, own[1] + dy) in edges:
            return own[0] + dx, own[1] + dy
    return None

"""A grid of cells over the stations: which of them may be within reach of a position.

Theory of operation.  Stations are sorted by the cell they are in, row of cells by row, so that the
cells that a circle covers are one stretch of that order in each row.  Cells are half a reach wide:
smaller ones would fit the circle better and cost more stretches.
"""

from __future__ import annotations

import math

import numpy as np

from emulation.radio.propagation import Floats, Indices


class Grid:
    """The stations at `xy`, an array (N, 2) of metres, for look-ups within `reach` metres."""

    def __init__(self, xy: Floats, reach: float) -> None:
        self._reach = reach
        self._corner = xy.min(axis=0)
        extent = float((xy.max(axis=0) - self._corner).max())
        # Not many more cells than stations: a reach of zero must not take all memory.
        self._cell = max(reach / 2, extent / math.sqrt(len(xy)), 1e-3)
        column, row = np.floor((xy - self._corner) / self._cell).astype(np.int64).T
        self._columns = int(column.max()) + 1
        self._rows = int(row.max()) + 1
        cell = row * self._columns + column
        self._order: Indices = np.argsort(cell, kind="stable")
        cells = np.arange(self._rows * self._columns + 1)
        self._starts = np.searchsorted(cell[self._order], cells).tolist()

    def near(self, x: float, y: float) -> Indices:
        """Return the stations within reach of (x, y), and some beyond, in ascending order."""
        x0, y0 = self._corner.tolist()
        left, right = self._span(x - x0, self._columns)
        bottom, top = self._span(y - y0, self._rows)
        starts, width = self._starts, self._columns
        stretches = [
            self._order[starts[row * width + left] : starts[row * width + right + 1]]
            for row in range(bottom, top + 1)
        ]
        found: Indices = np.concatenate(stretches)
        found.sort()
        return found

    def _span(self, at: float, cells: int) -> tuple[int, int]:
        first = int((at - self._reach) // self._cell)
        last = int((at + self._reach) // self._cell)
        return min(max(first, 0), cells - 1), min(max(last, 0), cells - 1)

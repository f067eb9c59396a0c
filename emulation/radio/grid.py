"""A grid of cells to look up which stations may be within reach of a position.

Theory of operation.  Stations are sorted by the cell they are in, row of cells by row, so that the
cells that a circle covers are one stretch of that order in each row.  Cells are half a reach wide:
smaller ones would fit the circle better but take more stretches.
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
        self._cell = max(reach / 2 * (1 + 1e-9), extent / math.sqrt(len(xy)), 1e-3)
        self._spans = np.arange(-2, 3) if self._cell < reach else np.arange(-1, 2)
        """From a cell to those that have stations within reach of it, to either side."""
        column, row = np.floor((xy - self._corner) / self._cell).astype(np.int64).T
        self._columns = int(column.max()) + 1
        self._rows = int(row.max()) + 1
        cell = row * self._columns + column
        self._column, self._row = column, row
        self.order: Indices = np.argsort(cell, kind="stable")
        """The stations, cell by cell."""
        counts = np.bincount(cell, minlength=self._rows * self._columns)
        self._starts: Indices = np.concatenate((np.zeros(1, np.intp), np.cumsum(counts)))
        self._list: list[int] | None = None
        """`_starts`, for single look-ups."""
        self._places: list[int] | None = None

    def place(self, station: int) -> int:
        """Return the index of a station in `order`."""
        if self._places is None:
            places = np.empty(len(self.order), np.intp)
            places[self.order] = np.arange(len(self.order))
            self._places = [int(place) for place in places.tolist()]
        return self._places[station]

    def pairs(self, stations: Indices) -> tuple[Indices, Indices]:
        """Return the stations within reach of each of several stations, and some beyond, unordered.

        Two arrays: indices into `stations`, and the stations near the one there (itself included).
        """
        beyond = self._spans[-1]
        rows = self._row[stations][:, None] + self._spans
        column = self._column[stations]
        left = np.maximum(column - beyond, 0)[:, None]
        right = np.minimum(column + beyond, self._columns - 1)[:, None] + 1
        first = np.clip(rows, 0, self._rows - 1) * self._columns
        begin = self._starts[first + left]
        lengths = self._starts[first + right] - begin
        lengths[(rows < 0) | (rows >= self._rows)] = 0
        flat = lengths.ravel()
        ends = np.cumsum(flat)
        at = np.arange(ends[-1]) + np.repeat(begin.ravel() - (ends - flat), flat)
        which = np.repeat(np.arange(len(stations)), lengths.sum(axis=1))
        return which, self.order[at]

    def near(self, x: float, y: float) -> Indices:
        """Return the stations within reach of (x, y), and some beyond, in ascending order."""
        x0, y0 = self._corner.tolist()
        left, right = self._span(x - x0, self._columns)
        bottom, top = self._span(y - y0, self._rows)
        if self._list is None:
            self._list = [int(start) for start in self._starts.tolist()]
        starts, width = self._list, self._columns
        stretches = [
            self.order[starts[row * width + left] : starts[row * width + right + 1]]
            for row in range(bottom, top + 1)
        ]
        stations: Indices = np.concatenate(stretches)
        stations.sort()
        return stations

    def _span(self, at: float, cells: int) -> tuple[int, int]:
        first = int((at - self._reach) // self._cell)
        last = int((at + self._reach) // self._cell)
        return min(max(first, 0), cells - 1), min(max(last, 0), cells - 1)

"""Where the brokers of a mesh are: cells, paths through them, and an acyclic graph.

All nodes know the base stations and their positions (the paper, section II.A).  The cell of a
broker is the area nearer to it than to any other; on a regular grid these are the paper's squares.
Neighbours are brokers within the range of the mesh radios, on that grid the eight around.

Source: docs/papers.md#mesh-prediction.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from nodeapp.geometry import Point, squared_distance
from nodeapp.pubsub.base import Environment

_EDGE: Final = 1e-9
"""Share of a path within which two crossings count as one: at a corner of cells."""


class Passage(NamedTuple):
    """A broker whose cell a path passes, and the share of the path at which it enters that cell."""

    broker: int
    enters: float


class BrokerMap:
    """The brokers of a mesh: `positions` by id, and `neighbours` by id, each in order of id."""

    def __init__(self, brokers: tuple[tuple[int, float, float], ...], mesh_range: float) -> None:
        self.positions: Mapping[int, Point] = {node: (x, y) for node, x, y in brokers}
        self._ordered = sorted(self.positions)
        self._size = mesh_range
        self._boxes: dict[tuple[int, int], list[int]] = {}
        for node in self._ordered:
            self._boxes.setdefault(self._box(self.positions[node]), []).append(node)
        reach = mesh_range * mesh_range
        self.neighbours: Mapping[int, tuple[int, ...]] = {
            node: tuple(
                sorted(
                    other
                    for other in self._near(self._box(point), 1)
                    if other != node and squared_distance(point, self.positions[other]) <= reach
                )
            )
            for node, point in self.positions.items()
        }
        self._graph: Mapping[int, tuple[int, ...]] | None = None

    def _box(self, point: Point) -> tuple[int, int]:
        return math.floor(point[0] / self._size), math.floor(point[1] / self._size)

    def _near(self, box: tuple[int, int], rings: int) -> list[int]:
        column, row = box
        return [
            node
            for x in range(column - rings, column + rings + 1)
            for y in range(row - rings, row + rings + 1)
            for node in self._boxes.get((x, y), ())
        ]

    def nearest(self, point: Point) -> int:
        """Return the broker in whose cell a point is; of equally near ones that of lowest id."""

        def far(node: int) -> tuple[float, int]:
            return squared_distance(point, self.positions[node]), node

        box, rings = self._box(point), 1
        while (2 * rings + 1) ** 2 <= len(self.positions):
            nearest = min(self._near(box, rings), key=far, default=None)
            # What is not in these boxes is farther than they reach on each side.
            if nearest is not None and far(nearest)[0] <= (rings * self._size) ** 2:
                return nearest
            rings *= 2
        return min(self.positions, key=far)

    def way(self, start: Point, end: Point) -> list[Passage]:
        """Return the cells that the straight line passes, in order; the first is entered at 0."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        current, share = self.nearest(start), 0.0
        passages = [Passage(current, 0.0)]
        for _ in range(len(self.positions)):
            best, best_share = self._next(start, end, current, share, self.neighbours[current])
            there = start[0] + best_share * dx, start[1] + best_share * dy
            mine = squared_distance(there, self.positions[current])
            if squared_distance(there, self.positions[self.nearest(there)]) < mine * (1 - _EDGE):
                # A cell between has a broker that is out of range.
                best, best_share = self._next(start, end, current, share, self._ordered)
            if not best:
                break
            if best_share <= share + _EDGE and len(passages) > 1:
                passages.pop()  # of no length: the path leads through a corner
            share = max(best_share, share)
            current = best
            passages.append(Passage(current, share))
        return passages

    def _next(
        self, start: Point, end: Point, current: int, share: float, others: Iterable[int]
    ) -> Passage:
        """Return which of other cells a path enters next, and at which share of it.

        That of broker 0, at the path's end, if it enters none.
        """
        dx, dy = end[0] - start[0], end[1] - start[1]
        x, y = self.positions[current]
        best, best_share = 0, 1.0
        for other in others:
            ox, oy = self.positions[other]
            gain = 2.0 * (dx * (ox - x) + dy * (oy - y))
            if gain <= 0.0:
                continue
            # The distance to both is equal there.
            crosses = (squared_distance(start, (ox, oy)) - squared_distance(start, (x, y))) / gain
            if crosses < best_share and crosses >= share - _EDGE:
                best, best_share = other, crosses
        return Passage(best, best_share)

    @property
    def graph(self) -> Mapping[int, tuple[int, ...]]:
        """An acyclic graph of all brokers that mesh links connect: the neighbours in it, by id.

        It is the shortest-path tree to the broker nearest to the middle; of several parents a
        broker has that of lowest id.  Every broker computes the same tree.
        """
        if self._graph is None:
            links: dict[int, list[int]] = {node: [] for node in self.positions}
            seen: set[int] = set()
            for root in self._roots():
                if root in seen:
                    continue
                seen.add(root)
                waiting = deque([root])
                while waiting:
                    node = waiting.popleft()
                    for other in self.neighbours[node]:
                        if other not in seen:
                            seen.add(other)
                            links[node].append(other)
                            links[other].append(node)
                            waiting.append(other)
            self._graph = {node: tuple(sorted(linked)) for node, linked in links.items()}
        return self._graph

    def _roots(self) -> list[int]:
        """Return the brokers, the nearest to the middle of all first."""
        xs, ys = zip(*self.positions.values(), strict=True)
        middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
        return sorted(
            self.positions, key=lambda node: (squared_distance(middle, self.positions[node]), node)
        )


@functools.lru_cache(maxsize=4)  # a simulator has thousands of nodes in one mesh
def _broker_map(brokers: tuple[tuple[int, float, float], ...], mesh_range: float) -> BrokerMap:
    return BrokerMap(brokers, mesh_range)


def broker_map_of(environment: Environment) -> BrokerMap:
    """Return where the brokers of an environment are."""
    return _broker_map(environment.brokers, environment.mesh_range)

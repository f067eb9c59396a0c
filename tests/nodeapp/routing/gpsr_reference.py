"""A second GPSR, for static graphs, written from Karp and Kung's paper alone.

It shares nothing with `nodeapp.routing.gpsr`: the planar graph is taken out of the Delaunay
triangulation of all nodes (a Gabriel graph is a part of it), faces are orbits of half-edges, and
who reaches whom is scipy's.  A frame is one function call, not messages between nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import Delaunay, cKDTree

Points = npt.NDArray[np.float64]


class StaticGraph:
    """A unit-disk graph of `points`, shape (n, 2), with links up to `reach`, and its faces."""

    def __init__(self, points: Points, reach: float) -> None:
        self.points = points
        count = len(points)
        pairs = cKDTree(points).query_pairs(reach, output_type="ndarray")
        self.component = connected_components(_matrix(pairs, count), directed=False)[1]
        self.linked: list[npt.NDArray[np.intp]] = _adjacent(pairs, count)
        self.planar_edges = self._gabriel(reach)
        planar = _adjacent(self.planar_edges, count)
        self.planar_component = connected_components(
            _matrix(self.planar_edges, count), directed=False
        )[1]
        # Half-edges in the order of their angles: the next of (u, v) on its face is the edge of v
        # that comes first counterclockwise after (v, u) (the right-hand rule).
        self._around: list[list[int]] = []
        for node, others in enumerate(planar):
            way = points[others] - points[node]
            order = np.argsort(np.arctan2(way[:, 1], way[:, 0]))
            self._around.append([int(other) for other in others[order]])

    def _gabriel(self, reach: float) -> npt.NDArray[np.intp]:
        """Return the pairs within reach whose circle, with both ends on it, holds no node."""
        triangles = Delaunay(self.points).simplices
        sides = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2))
        edges = np.unique(sides, axis=0)
        one, other = self.points[edges[:, 0]], self.points[edges[:, 1]]
        radius = np.linalg.norm(one - other, axis=1) / 2
        nearest, _ = cKDTree(self.points).query((one + other) / 2)
        kept: npt.NDArray[np.intp] = edges[(nearest >= radius * (1 - 1e-9)) & (2 * radius <= reach)]
        return kept

    def euler(self) -> tuple[int, int]:
        """Return V - E + F and 1 + C of the planar graph, which are equal if it is planar.

        Isolated nodes count as components without half-edges: the outer face is theirs.
        """
        edges = {(u, v) for u, around in enumerate(self._around) for v in around}
        faces = 0
        while edges:
            faces += 1
            edge = start = next(iter(edges))
            while True:
                edges.discard(edge)
                edge = self.next_edge(*edge)
                if edge == start:
                    break
        components = len(set(self.planar_component.tolist()))
        alone = sum(not around for around in self._around)
        # Each component with edges has an outer orbit of its own; they are one face.
        faces -= components - alone - 1
        return len(self.points) - len(self.planar_edges) + faces, 1 + components

    def next_edge(self, before: int, here: int) -> tuple[int, int]:
        """Return the half-edge after (before, here) on its face."""
        around = self._around[here]
        return here, around[(around.index(before) + 1) % len(around)]

    def first_edge(self, node: int, goal: int) -> tuple[int, int]:
        """Return the half-edge that comes first counterclockwise after the line to a goal."""
        line = self.points[goal] - self.points[node]
        turns = [
            (float(np.arctan2(_cross(line, way), line @ way)) % (2 * np.pi), other)
            for other in self._around[node]
            for way in (self.points[other] - self.points[node],)
        ]
        return node, min(turns)[1]

    def route(self, source: int, goal: int) -> list[int] | None:
        """Return the nodes that a frame passes; None if it tours a face without end."""
        points = self.points
        away = np.linalg.norm(points - points[goal], axis=1)
        path = [source]
        while path[-1] != goal:
            here = path[-1]
            linked = self.linked[here]
            if goal in linked:
                path.append(goal)
                break
            best = linked[np.argmin(away[linked])] if len(linked) else here
            if away[best] < away[here]:
                path.append(int(best))
                continue
            if not self._around[here]:
                return None
            walked = self._perimeter(here, goal, away)
            if walked is None:
                return None
            path += walked
        return path

    def _perimeter(
        self, entered: int, goal: int, away: npt.NDArray[np.float64]
    ) -> list[int] | None:
        """Return the nodes from the one where a frame entered to one that is nearer to the goal."""
        edge = first = self.first_edge(entered, goal)
        face = away[entered]
        walked = []
        for _ in range(8 * len(self.points) ** 2):
            here = edge[1]
            walked.append(here)
            if away[here] < away[entered] or goal in self.linked[here]:
                return walked
            edge = self.next_edge(*edge)
            if edge == first:
                return None
            for _ in self._around[here]:
                crossed = self._crossing(edge, entered, goal)
                if entered in edge or crossed is None or crossed >= face:
                    break
                face = crossed
                edge = first = self.next_edge(edge[1], here)
        return None

    def _crossing(self, edge: tuple[int, int], entered: int, goal: int) -> float | None:
        """Return how far from the goal an edge crosses the line to it; None if it does not."""
        start, line = self.points[entered], self.points[goal] - self.points[entered]
        one, way = self.points[edge[0]], self.points[edge[1]] - self.points[edge[0]]
        turn = _cross(line, way)
        if turn == 0.0:
            return None
        along = _cross(one - start, way) / turn
        across = _cross(one - start, line) / turn
        if not (0.0 <= along <= 1.0 and 0.0 <= across <= 1.0):
            return None
        return float((1.0 - along) * np.linalg.norm(line))


def _cross(one: Points, other: Points) -> float:
    return float(one[0] * other[1] - one[1] * other[0])


def _matrix(pairs: npt.NDArray[np.intp], count: int) -> coo_array:
    return coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))


def _adjacent(pairs: Iterable[Iterable[int]], count: int) -> list[npt.NDArray[np.intp]]:
    others: list[list[int]] = [[] for _ in range(count)]
    for one, other in pairs:
        others[one].append(int(other))
        others[other].append(int(one))
    return [np.array(sorted(each), dtype=np.intp) for each in others]


def sampled_pairs(graph: StaticGraph, rng: np.random.Generator, most: int) -> list[tuple[int, int]]:
    """Return at most so many random pairs of nodes, connected or not."""
    pairs = list(itertools.permutations(range(len(graph.points)), 2))
    chosen = rng.choice(len(pairs), size=min(most, len(pairs)), replace=False)
    return [pairs[index] for index in chosen]

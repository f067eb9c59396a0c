"""The paper's networks, pairs and trees, and the paths of cell hash routing on them as a graph.

What the protocol does with frames is done here by the same functions, with what all nodes know:
`nodeapp.routing.cells.step` for the next cell and `draw` for the node in it.  So the hops are those
of the protocol if every node knows its neighbours, which a study checks
(`spark_analysis.papers.georendezvous.runs`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from nodeapp.geometry import Point, nudge, squared_distance
from nodeapp.pubsub.topic_hash import replica_location
from nodeapp.routing.cell_hash_routing import draw
from nodeapp.routing.cells import AROUND, Cell, CellGrid, adjacent, largest_side, rank, step
from topologies.uniform_field import UniformField

RANGE: Final = 250.0
PAIRS: Final = 20
"""Pairs of a publisher and a subscriber in each network (section 4)."""
Event = tuple[int, int]
"""Publisher and sequence number."""


class Pair(NamedTuple):
    """A publisher and its subscribers, node ids; `topic` and `event` are theirs alone."""

    topic: str
    event: Event
    subscribers: tuple[int, ...]

    @property
    def publisher(self) -> int:
        """Node id of the publisher."""
        return self.event[0]


def drawn_seed(nodes: int, seed: int) -> int:
    """Return the seed of a network: networks of different sizes share no draws."""
    return seed * 10_000 + nodes


class CellNetwork:
    """One network: positions by node id, metres, and the cells that they lie in."""

    def __init__(self, nodes: int, seed: int, *, border: bool = True) -> None:
        self.seed = drawn_seed(nodes, seed)
        topology = UniformField(self.seed, 1.0, {"nodes": nodes, "range": RANGE, "border": border})
        assert topology.area is not None
        self.area = topology.area
        self.positions: dict[int, Point] = {
            number: (waypoints[0].x, waypoints[0].y)
            for number, waypoints in enumerate(topology._trajectories(), start=1)
        }
        self.grid = CellGrid(largest_side(RANGE), (self.area[0], self.area[1]))
        self.members: dict[Cell, list[int]] = {}
        self.cell_of: dict[int, Cell] = {}
        for node, (x, y) in self.positions.items():
            dx, dy = nudge(node)
            cell = self.cell_of[node] = self.grid.cell((x + dx, y + dy))
            self.members.setdefault(cell, []).append(node)
        self._around: dict[Cell, list[Cell]] = {}
        self._homes: dict[Cell, Cell] = {}

    def pairs(self, count: int = PAIRS) -> list[Pair]:
        """Return pairs of nodes, uniformly drawn."""
        rng = random.Random(f"{self.seed}/pairs")
        chosen = [rng.sample(sorted(self.positions), 2) for _ in range(count)]
        return [
            Pair(f"pair{number}-{self.seed}", (publisher, 2 * number + 1), (subscriber,))
            for number, (publisher, subscriber) in enumerate(chosen)
        ]

    def trees(self, subscribers: int, count: int) -> list[Pair]:
        """Return publishers with so many subscribers each, uniformly drawn."""
        rng = random.Random(f"{self.seed}/trees/{subscribers}")
        chosen = [rng.sample(sorted(self.positions), 1 + subscribers) for _ in range(count)]
        return [
            Pair(f"tree{number}-{subscribers}-{self.seed}", (publisher, 2 * number + 1), (*rest,))
            for number, (publisher, *rest) in enumerate(chosen)
        ]

    # Paths.

    def around(self, cell: Cell) -> list[Cell]:
        """Return the populated adjacent cells."""
        cells = self._around.get(cell)
        if cells is None:
            x, y = cell
            cells = [(x + dx, y + dy) for dx, dy in AROUND if (x + dx, y + dy) in self.members]
            self._around[cell] = cells
        return cells

    def home(self, target: Cell) -> Cell:
        """Return the populated cell that is nearest to a target."""
        if target in self.members:
            return target
        nearest = self._homes.get(target)
        if nearest is None:
            nearest = self._homes[target] = min(self.members, key=lambda cell: rank(cell, target))
        return nearest

    def targets(self, topic: str, replicas: int) -> list[Cell]:
        """Return the cells that a topic's replicas hash to."""
        return [
            self.grid.cell(replica_location(topic, replica, self.area))
            for replica in range(replicas)
        ]

    def to_home(self, start: int, target: Cell, event: Event) -> list[int]:
        """Return the nodes that an event passes from a node to the home cell of a target.

        The home cell knows its role from an earlier advertisement.
        """
        own, walk, home = self.cell_of[start], None, self.home(target)
        way = [start]
        while own != home:
            following = step(own, self.around(own), target, walk)
            assert following.cell is not None
            own, walk = following.cell, following.walk
            way.append(draw(*event, self.members[own]))
        return way

    def to_node(self, start: int, end: int, event: Event) -> list[int]:
        """Return the nodes that an event passes from one node to another."""
        if start == end:
            return [start]
        own, walk, target = self.cell_of[start], None, self.grid.cell(self.positions[end])
        way = [start]
        while own != target and not adjacent(own, target):
            following = step(own, self.around(own), target, walk)
            assert following.cell is not None
            own, walk = following.cell, following.walk
            way.append(draw(*event, self.members[own]))
        return [*way, end]

    def nearest(self, node: int, targets: Sequence[Cell]) -> list[int]:
        """Return the replicas, ordered by how near the centres of their cells are to a node."""
        (x, y), (dx, dy) = self.positions[node], nudge(node)
        own = x + dx, y + dy
        distances = [squared_distance(own, self.grid.centre(cell)) for cell in targets]
        return sorted(range(len(targets)), key=lambda replica: (distances[replica], replica))

    # The graph of the radio.

    def linked(self) -> npt.NDArray[np.bool_]:
        """Return which nodes hear each other, an array (n, n) in the order of the ids."""
        points = np.array([self.positions[node] for node in sorted(self.positions)])
        x, y = points.T
        linked: npt.NDArray[np.bool_] = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= RANGE**2
        np.fill_diagonal(linked, val=False)
        return linked


def hops_from(linked: npt.NDArray[np.bool_], source: int) -> npt.NDArray[np.int64]:
    """Return the hops of the shortest paths from a node, by index; -1 where none leads."""
    hops = np.full(len(linked), -1)
    hops[source] = 0
    frontier = np.array([source])
    distance = 0
    while len(frontier):
        distance += 1
        reached = linked[frontier].any(axis=0) & (hops < 0)
        hops[reached] = distance
        frontier = np.flatnonzero(reached)
    return hops


def transmissions(ways: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Yield sender and receiver of every hop of several paths."""
    for way in ways:
        yield from itertools.pairwise(way)

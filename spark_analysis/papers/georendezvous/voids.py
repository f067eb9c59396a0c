"""What voids do to the paths of cell hash routing: the same networks with better paths.

A greedy path runs into voids, goes around them, and is longer than the shortest path over populated
cells.  Of several paths over rendezvous cells the shortest one is taken, which avoids that.  Two
switches turn this off: shortest paths over the populated cells, and paths as if no cell were empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final

from nodeapp.routing.cells import Cell
from spark_analysis.papers.georendezvous.graph import REPLICAS
from spark_analysis.papers.georendezvous.networks import CellNetwork

METHODS: Final = ("shortest", "full")


def without_voids(nodes: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each number of rendezvous cells how long paths are, by `method`.

    `shortest` has the shortest paths over populated cells, `full` those if every cell were
    populated.  Publishers, subscribers and rendezvous cells are those of `graph.by_replicas`.
    """
    network = CellNetwork(nodes, seed)
    for method in METHODS:
        direct, over = [], []
        for pair in network.pairs():
            start, end = (network.cell_of[node] for node in (pair.publisher, pair.subscribers[0]))
            homes = [network.home(cell) for cell in network.targets(pair.topic, max(REPLICAS))]
            if method == "shortest":
                first, last = _hops(network, start), _hops(network, end)
            else:
                first, last = ({goal: _moves(cell, goal) for goal in (*homes, end)}
                               for cell in (start, end))  # fmt: skip
            # A node of the same cell is a hop away, too.
            direct.append(max(first[end], 1))
            over.append([first[home] + max(last[home], 1) for home in homes])
        for replicas in REPLICAS:
            through = fmean(min(hops[:replicas]) for hops in over)
            yield {
                "replicas": replicas,
                "method": method,
                "through": through,
                "direct": fmean(direct),
                "ratio": through / fmean(direct),
            }


def _hops(network: CellNetwork, start: Cell) -> dict[Cell, int]:
    """Return the hops of the shortest paths over populated cells."""
    hops, queue = {start: 0}, deque([start])
    while queue:
        cell = queue.popleft()
        for neighbour in network.around(cell):
            if neighbour not in hops:
                hops[neighbour] = hops[cell] + 1
                queue.append(neighbour)
    return hops


def _moves(start: Cell, end: Cell) -> int:
    """Return the hops between two cells if all are populated."""
    return max(abs(start[0] - end[0]), abs(start[1] - end[1]))

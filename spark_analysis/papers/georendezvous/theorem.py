"""Theorem 3.1 on the networks: its constants, its bound, and what it bounds.

Distances are hops of shortest paths in the radio's graph, as in the theorem.  Delta is the largest
|N(X, 2r)| / |N(X, r)| of the nodes X looked at and of all r from 1; epsilon is E[l] / L.  The nodes
looked at are the publishers and subscribers of the network's pairs and the nodes nearest to its
four corners, from which the diameter L, too, is the largest distance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from spark_analysis.papers.georendezvous.networks import CellNetwork, hops_from

SHARES: Final = (0.25, 0.5, 1.0)
"""k: the path over a rendezvous node is at most (1 + 2k) times the direct one."""


def theorem(nodes: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each k the bound on P(l_r <= l + 2kl), and that probability.

    It is the mean over the pairs of the share of all nodes that are such rendezvous nodes.
    """
    network = CellNetwork(nodes, seed)
    linked = network.linked()
    pairs = [(pair.publisher, pair.subscribers[0]) for pair in network.pairs()]
    looked = dict.fromkeys([node for pair in pairs for node in pair] + _corners(network))
    hops = {node: hops_from(linked, node - 1) for node in looked}
    growth = max(_growth(distances) for distances in hops.values())
    diameter = int(max(distances.max() for distances in hops.values()))
    ends = {node for pair in pairs for node in pair}  # the corners are far from everybody
    mean = float(np.mean([hops[node][hops[node] > 0] for node in ends]))
    epsilon = mean / diameter
    for share in SHARES:
        probabilities = []
        for publisher, subscriber in pairs:
            direct = hops[publisher][subscriber - 1]
            over = hops[publisher] + hops[subscriber]
            probabilities.append(float((over <= direct + 2 * share * direct).mean()))
        bound = growth ** (math.log2(share * epsilon) - 1)
        yield {
            "k": share,
            "growth": growth,
            "diameter": diameter,
            "epsilon": epsilon,
            "bound": bound,
            "probability": float(np.mean(probabilities)),
        }


def _corners(network: CellNetwork) -> list[int]:
    x0, y0, x1, y1 = network.area
    return [
        min(network.positions, key=lambda node: math.dist(network.positions[node], corner))
        for corner in ((x0, y0), (x0, y1), (x1, y0), (x1, y1))
    ]


def _growth(hops: Any) -> float:
    """Return the largest |N(X, 2r)| / |N(X, r)| of a node X with these distances to all nodes."""
    within = np.cumsum(np.bincount(hops))
    radii = np.arange(1, len(within))
    doubled = np.minimum(2 * radii, len(within) - 1)
    return float((within[doubled] / within[radii]).max(initial=1.0))

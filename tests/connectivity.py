"""How well connected the nodes of a scenario stay while they move."""

from __future__ import annotations

import numpy as np

from emulation.scenario.connectivity import partitions
from emulation.scenario.scenario import Scenario


def connected_share(scenario: Scenario, samples: int = 30) -> float:
    """Return the share of `samples` moments of a run at which all nodes are connected."""
    moments = _partitions(scenario, samples)
    return sum(len(sizes) == 1 for sizes in moments) / len(moments)


def connected_pairs(scenario: Scenario, samples: int = 30) -> float:
    """Return the share of pairs of nodes that are connected, mean of `samples` moments of a run."""
    nodes = len(scenario.nodes)
    moments = _partitions(scenario, samples)
    pairs = sum(size * (size - 1) for sizes in moments for size in sizes)
    return pairs / (nodes * (nodes - 1) * len(moments))


def _partitions(scenario: Scenario, samples: int) -> list[list[int]]:
    trace = scenario.trace()
    times = np.linspace(0.0, scenario.duration, samples if trace.moving else 1)
    return [partitions(scenario.radio, trace.positions(float(time))) for time in times]

"""GPSR beside an independent one, on 500 random static graphs."""

from __future__ import annotations

import numpy as np
import pytest

from nodeapp.geometry import gabriel_neighbours
from tests.nodeapp.routing.gpsr_reference import StaticGraph, sampled_pairs
from tests.nodeapp.routing.test_gpsr import RANGE, GpsrField

GRAPHS = 500
PAIRS = 30
"""Of each graph; those that are not connected must fail."""


def random_graph(rng: np.random.Generator) -> GpsrField:
    """Return a field from a connected crowd to a network in pieces."""
    count = int(rng.integers(4, 40))
    side = RANGE * np.sqrt(count) * rng.uniform(0.35, 0.8)
    return GpsrField([(float(x), float(y)) for x, y in rng.uniform(0.0, side, (count, 2))])


@pytest.mark.parametrize("part", range(2))
def test_the_same_ways_as_an_independent_implementation(part: int) -> None:
    rng = np.random.default_rng(part)
    reached = unreached = in_perimeter = 0
    for _ in range(GRAPHS // 2):
        field = random_graph(rng)
        points = np.array([each.router.neighbours.position() for each in field.stations])
        graph = StaticGraph(points, RANGE)
        kept = {
            (min(node, other), max(node, other))
            for node, station in enumerate(field.stations, start=1)
            for other in gabriel_neighbours(
                station.router.neighbours.position(), station.router.neighbours.positions()
            )
        }
        assert kept == {(int(one) + 1, int(other) + 1) for one, other in graph.planar_edges}
        assert (graph.component == graph.planar_component).all()  # as connected as the network
        assert len(set(graph.euler())) == 1
        for source, goal in sampled_pairs(graph, rng, PAIRS):
            connected = graph.component[source] == graph.component[goal]
            path = graph.route(source, goal)
            assert (path is not None) == connected
            arrived = field.route(field.stations[source], goal + 1, tuple(points[goal]))
            assert arrived == ([goal + 1] if connected else [])
            if path is not None:
                assert field.path == [node + 1 for node in path]
            reached += connected
            unreached += not connected
        in_perimeter += any(station.counters["perimeter hops"] for station in field.stations)
    assert min(reached, unreached, in_perimeter) > 100


def test_the_papers_rule_for_the_entry_changes_nothing_while_nodes_stand_still() -> None:
    rng = np.random.default_rng(100)
    for _ in range(100):
        field = random_graph(rng)
        points = [station.point for station in field.stations]
        counts = GpsrField(points, entry_counts=True)
        for source, goal in sampled_pairs(StaticGraph(np.array(points), RANGE), rng, 6):
            at = field.stations[goal].router.neighbours.position()
            field.route(field.stations[source], goal + 1, at)
            counts.route(counts.stations[source], goal + 1, at)
            assert counts.path == field.path

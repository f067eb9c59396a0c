"""Shortest ways, beside which deliveries are laid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from emulation.scenario.scenario import Scenario
from spark_analysis.metrics.path_stretch import shortest_hops
from topologies.catalog import make_scenario


def rows(scenario: Scenario) -> list[tuple[str, int, int, int]]:
    return list(shortest_hops(cast("Any", SimpleNamespace(name="run", scenario=scenario))))


def test_shortest_ways_are_those_between_publishers_and_subscribers() -> None:
    settings = {"topics": 1, "subscribers": 2}
    scenario = make_scenario("uniform_field", "flooding", seed=1, duration=20, settings=settings)
    found = rows(scenario)
    assert len(found) == 2
    at = {node.id: node.waypoints[0] for node in scenario.nodes}
    for _, publisher, subscriber, hops in found:
        one, two = at[publisher], at[subscriber]
        apart = ((one.x - two.x) ** 2 + (one.y - two.y) ** 2) ** 0.5
        assert (hops == 1) == (apart <= 250.0)
        assert hops >= apart / 250.0


def test_nodes_that_move_have_none() -> None:
    settings = {"speed": 3}
    assert (
        rows(make_scenario("uniform_field", "flooding", seed=1, duration=20, settings=settings))
        == []
    )

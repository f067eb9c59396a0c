"""Shortest ways, beside which deliveries are laid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.scenario import NodeSpec, Scenario
from spark_analysis.measures.path_stretch import shortest_hops
from topologies.catalog import make_scenario


def rows(scenario: Scenario, driven: tuple[NodeSpec, ...] = ()) -> list[tuple[str, int, int, int]]:
    run = SimpleNamespace(name="run", scenario=scenario, driven=driven or scenario.nodes)
    return list(shortest_hops(cast("Any", run)))


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


def test_nodes_that_are_moved_at_the_prompt_have_none() -> None:
    settings = {"topics": 1, "subscribers": 2}
    scenario = make_scenario("uniform_field", "flooding", seed=1, duration=20, settings=settings)
    assert rows(scenario)
    first, *others = scenario.nodes
    moved = first.model_copy(update={"waypoints": (*first.waypoints, Waypoint(5.0, 1.0, 1.0))})
    assert rows(scenario, (moved, *others)) == []


def test_nodes_that_move_have_none() -> None:
    settings = {"speed": 3}
    assert (
        rows(make_scenario("uniform_field", "flooding", seed=1, duration=20, settings=settings))
        == []
    )

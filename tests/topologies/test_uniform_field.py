"""The field of static nodes: its degree, its connectivity, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulation.errors import ScenarioError
from nodeapp.routing.cells import CellGrid, largest_side
from topologies.catalog import make_scenario
from topologies.uniform_field import UniformField, cells_connected, side_of


def positions(nodes: int, seed: int, **settings: Any) -> np.ndarray[Any, Any]:
    topology = UniformField(seed, 1.0, {"nodes": nodes, **settings})
    return np.array([track[0][1:3] for track in topology._trajectories()])


def mean_degree(points: np.ndarray[Any, Any]) -> float:
    squared = ((points[:, None] - points) ** 2).sum(axis=-1)
    return float((squared <= 250.0**2).sum(axis=1).mean()) - 1


@pytest.mark.parametrize(("nodes", "border"), [(80, True), (600, True), (600, False)])
def test_the_mean_degree_is_what_is_asked_for(nodes: int, border: bool) -> None:
    found = np.mean([mean_degree(positions(nodes, seed, border=border)) for seed in range(12)])
    if border:
        assert found == pytest.approx(45.0, rel=0.03)
    else:  # only in the middle: the mean over all is lower
        assert 35.0 < found < 41.0
        points = np.concatenate([positions(nodes, seed, border=False) for seed in range(1)])
        side = side_of(nodes, 45.0, 250.0, border=False)
        squared = ((points[:, None] - points) ** 2).sum(axis=-1) <= 250.0**2
        inner = (np.abs(points - side / 2) < side / 2 - 250.0).all(axis=1)
        assert squared.sum(axis=1)[inner].mean() - 1 == pytest.approx(45.0, rel=0.1)


def test_networks_stand_still_are_connected_in_cells_and_do_not_collide() -> None:
    scenario = make_scenario("uniform_field", "georendezvous", seed=3, duration=20, settings={})
    assert len(scenario.nodes) == 80
    assert all(len(node.waypoints) == 1 for node in scenario.nodes)
    grid = CellGrid(largest_side(250.0), (0.0, 0.0))
    assert cells_connected(grid, [node.waypoints[0][1:3] for node in scenario.nodes])
    assert scenario.radio.propagation.model == "unit-disk"
    assert scenario.radio.propagation.collisions is False
    width = scenario.area[2] - scenario.area[0]
    assert all(0 <= v <= width for node in scenario.nodes for v in node.waypoints[0][1:3])


def test_nodes_can_move() -> None:
    settings = {"speed": 2, "nodes": 50, "degree": 20}
    scenario = make_scenario("uniform_field", "flooding", seed=1, duration=20, settings=settings)
    assert all(len(node.waypoints) > 1 for node in scenario.nodes)


def test_cells_apart_are_not_connected() -> None:
    grid = CellGrid(10.0, (0.0, 0.0))
    assert cells_connected(grid, [(5, 5), (15, 15), (5, 6)])
    assert not cells_connected(grid, [(5, 5), (25, 5)])


@pytest.mark.parametrize(
    ("protocol", "settings", "why"),
    [
        ("flooding", {"nodes": 40}, "40 nodes cannot have 45 neighbours each"),
        ("flooding", {"nodes": 60, "degree": 2}, "all disconnected in cells: raise degree"),
        (
            "georendezvous",
            {"cell_size": 100},
            "cell_size: 100 m does not fit a radio range of 250 m",
        ),
        ("georendezvous", {"replicas": 0}, "replicas: 0 is below 1"),
        ("georendezvous", {"replicas": 2, "nearest": 3}, "nearest: 3 of 2 rendezvous cells"),
        ("georendezvous", {"range": 2000, "nodes": 60, "degree": 45, "cell_size": 5000}, "at most"),
    ],
)
def test_what_cannot_be_is_refused(protocol: str, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        make_scenario("uniform_field", protocol, seed=1, duration=20, settings=settings)


def test_an_area_smaller_than_a_cell_is_refused() -> None:
    settings = {"nodes": 8, "side": 50, "speed": 0}
    with pytest.raises(ScenarioError, match=r"50 m by 50 m is smaller than a cell of 88\.3883 m"):
        make_scenario("roaming_field", "georendezvous", seed=1, duration=20, settings=settings)

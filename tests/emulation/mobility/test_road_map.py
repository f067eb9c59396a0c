from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.mobility.freeway import FreewayMobility
from emulation.mobility.manhattan import ManhattanMobility
from emulation.mobility.road_map import RoadMap
from emulation.mobility.traffic import Rules

RULES = Rules(0, 10, 1, 20)


def test_waypoints_are_crossings_ends_bends_and_points_between() -> None:
    bent = RoadMap((((0.0, 0.0), (100.0, 0.0), (100.0, 30.0)), ((40.0, -10.0), (40.0, 10.0))))
    assert bent.waypoints(1000) == (
        (0.0, 0.0), (40.0, -10.0), (40.0, 0.0), (40.0, 10.0), (100.0, 0.0), (100.0, 30.0),
    )  # fmt: skip
    assert bent.waypoints(30) == (
        (0.0, 0.0), (20.0, 0.0), (40.0, -10.0), (40.0, 0.0), (40.0, 10.0), (70.0, 0.0),
        (100.0, 0.0), (100.0, 30.0),
    )  # fmt: skip


def test_a_spacing_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        RoadMap((((0.0, 0.0), (1.0, 0.0)),)).waypoints(0)


coordinate = st.integers(-500, 500).map(float)
streets = st.lists(
    st.lists(st.tuples(coordinate, coordinate), min_size=2, max_size=4, unique=True).map(tuple),
    min_size=1,
    max_size=4,
)


@given(streets, st.floats(20, 400))
def test_waypoints_lie_on_streets_and_leave_no_gap(
    polylines: list[tuple[tuple[float, float], ...]], spacing: float
) -> None:
    road_map = RoadMap(tuple(polylines))
    waypoints = road_map.waypoints(spacing)
    assert list(waypoints) == sorted(set(waypoints))
    for waypoint in waypoints:
        assert min(off(waypoint, a, b)[0] for a, b in road_map.segments()) < 2e-3
    for a, b in road_map.segments():
        along = sorted(
            at for distance, at in (off(waypoint, a, b) for waypoint in waypoints)
            if distance < 2e-3
        )  # fmt: skip
        assert along[0] < 2e-3
        assert along[-1] > math.dist(a, b) - 2e-3
        assert all(y - x <= spacing + 5e-3 for x, y in itertools.pairwise(along))


def off(
    point: tuple[float, float], a: tuple[float, float], b: tuple[float, float]
) -> tuple[float, float]:
    """Return how far a point is from a segment and how far along that its nearest point is."""
    length = math.dist(a, b)
    dx, dy = (b[0] - a[0]) / length, (b[1] - a[1]) / length
    at = min(length, max(0.0, (point[0] - a[0]) * dx + (point[1] - a[1]) * dy))
    return math.dist(point, (a[0] + dx * at, a[1] + dy * at)), at


def test_a_manhattan_map_has_its_intersections() -> None:
    road_map = ManhattanMobility((0.0, 0.0, 1008.0, 1008.0), RULES, blocks=4, lanes=1).road_map
    crossings = set(itertools.product((4.0, 254.0, 504.0, 754.0, 1004.0), repeat=2))
    assert set(road_map.waypoints(250.0)) == crossings
    assert crossings < set(road_map.waypoints(50.0))
    assert len(road_map.waypoints(50.0)) == 25 + 40 * 4


def test_freeways_cross_in_the_middle() -> None:
    road_map = FreewayMobility((0.0, 0.0, 1000.0, 600.0), RULES, roads=2).road_map
    assert road_map.waypoints(10_000) == (
        (0.0, 300.0), (500.0, 0.0), (500.0, 300.0), (500.0, 600.0), (1000.0, 300.0),
    )  # fmt: skip

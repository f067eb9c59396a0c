from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.geometry import (
    NUDGE,
    bearing,
    crossing,
    gabriel_neighbours,
    nearest,
    next_counterclockwise,
    nudge,
)

coordinates = st.floats(-1000, 1000)
points = st.tuples(coordinates, coordinates)


def test_nudges_are_small_and_differ() -> None:
    nudges = [nudge(node) for node in range(1, 5000)]
    assert len(set(nudges)) == len(nudges)
    assert all(0 <= x < NUDGE and 0 <= y < NUDGE for x, y in nudges)


def test_the_right_hand_rule_sweeps_counter_clockwise() -> None:
    around = {1: (1.0, 0.0), 2: (0.0, 1.0), 3: (-1.0, 0.0), 4: (0.0, -1.0)}
    assert next_counterclockwise((0, 0), bearing((0, 0), (1, 0)), around) == 2
    assert next_counterclockwise((0, 0), math.radians(-100), around) == 4
    assert next_counterclockwise((0, 0), math.radians(100), around) == 3
    # The edge that a dead end was entered by comes last, and is all there is.
    assert next_counterclockwise((0, 0), 0.0, {1: (1.0, 0.0)}) == 1
    assert next_counterclockwise((0, 0), 0.0, {}) is None


def test_gabriel_edges_have_empty_discs() -> None:
    around = {1: (10.0, 0.0), 2: (5.0, 1.0), 3: (5.0, 6.0), 4: (-3.0, 0.0)}
    assert set(gabriel_neighbours((0.0, 0.0), around)) == {2, 4}
    # On the circle counts as inside: of a square neither diagonal stays.
    square = {1: (1.0, 0.0), 2: (1.0, 1.0), 3: (0.0, 1.0)}
    assert set(gabriel_neighbours((0.0, 0.0), square)) == {1, 3}


@pytest.mark.parametrize(
    ("a", "b", "point"),
    [
        ((5, -5), (5, 5), (5, 0)),
        ((5, 5), (5, -5), (5, 0)),
        ((5, 1), (5, 5), None),
        ((-1, -5), (-1, 5), None),
        ((11, -5), (11, 5), None),
        ((5, 0), (5, 5), (5, 0)),  # a point on the line is on its right
        ((5, 0), (5, -5), None),
        ((2, 0), (4, 0), None),
    ],
)
def test_crossings(
    a: tuple[float, float], b: tuple[float, float], point: tuple[float, float] | None
) -> None:
    assert crossing(a, b, (0, 0), (10, 0)) == point


@given(points, points, points)
def test_an_edge_at_the_start_crosses_there_exactly_or_not_at_all(
    start: tuple[float, float], end: tuple[float, float], other: tuple[float, float]
) -> None:
    assert crossing(start, other, start, end) in (None, start)
    assert crossing(other, start, start, end) in (None, start)


def test_the_nearest_of_none_is_none() -> None:
    assert nearest((0, 0), {}) == (None, math.inf)
    assert nearest((0, 0), {1: (3, 4), 2: (0, 6)}) == (1, 25)


def test_the_node_a_frame_came_from_is_last_however_it_has_moved() -> None:
    around = {1: (1.0, 0.001), 2: (0.0, 1.0)}
    assert next_counterclockwise((0.0, 0.0), 0.0, around) == 1
    assert next_counterclockwise((0.0, 0.0), 0.0, around, last=1) == 2
    assert next_counterclockwise((0.0, 0.0), 0.0, {1: around[1]}, last=1) == 1

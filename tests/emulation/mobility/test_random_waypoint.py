import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.mobility.trajectory import Trace, Waypoint, until

AREA = (-50.0, 10.0, 450.0, 310.0)


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    low=st.floats(0.1, 20),
    more=st.floats(0, 20),
    pause=st.sampled_from([0.0, 3.0]),
    discard=st.sampled_from([0.0, 100.0]),
)
def test_speed_area_and_span(
    seed: int, low: float, more: float, pause: float, discard: float
) -> None:
    model = RandomWaypoint(AREA, low, low + more, pause, discard)
    rng = random.Random(seed)
    track = model.trajectory(model.position(rng), 200.0, rng)
    assert track[0].time == 0.0
    assert track[-1].time >= 200.0
    for point in track:
        assert AREA[0] <= point.x <= AREA[2]
        assert AREA[1] <= point.y <= AREA[3]
    for before, after in itertools.pairwise(track):
        distance = math.hypot(after.x - before.x, after.y - before.y)
        if distance:
            speed = distance / (after.time - before.time)
            assert low * (1 - 1e-6) <= speed <= (low + more) * (1 + 1e-6)


def test_same_seed_same_motion() -> None:
    model = RandomWaypoint(AREA, 1, 3)
    tracks = [model.trajectory((0.0, 20.0), 100.0, random.Random(5)) for _ in range(2)]
    assert tracks[0] == tracks[1]


def test_speed_zero_stands_still() -> None:
    track = RandomWaypoint(AREA, 0, 0).trajectory((3.0, 20.0), 100.0, random.Random(1))
    assert not Trace([track]).moving


def test_speeds_that_never_settle_are_refused() -> None:
    with pytest.raises(ValueError, match="minimum speed"):
        RandomWaypoint(AREA, 0, 5)


def test_a_trajectory_ends_where_the_node_is_then() -> None:
    track = (Waypoint(0, 0, 0), Waypoint(10, 100, 0), Waypoint(20, 100, 50))
    assert until(track, 15) == (*track[:2], Waypoint(15, 100, 25))
    assert until(track, 5) == (track[0], Waypoint(5, 50, 0))
    assert until(track, 20) == track
    assert until(track, 99) == track

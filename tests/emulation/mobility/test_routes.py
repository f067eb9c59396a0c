"""What navigators say on a trajectory, and ways that do not keep to it."""

from __future__ import annotations

import math
import random

from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.mobility.routes import Leg, deviating, legs
from emulation.mobility.trajectory import Waypoint

TRACK = (
    Waypoint(0, 0, 0),
    Waypoint(5, 0, 0),
    Waypoint(15, 100, 0),
    Waypoint(18, 100, 0),
    Waypoint(28, 100, 50),
)


def test_at_each_arrival_the_next_destination_is_said() -> None:
    assert legs(TRACK) == [
        Leg(0, 100, 0, 10.0, 3, 5),
        Leg(15, 100, 50, 5.0, 0, 3),
        Leg(28, 100, 50, 0.0, 0.0, 0.0),  # it stays
    ]


def test_who_never_moves_says_nothing() -> None:
    assert legs((Waypoint(0, 1, 2),)) == []
    assert legs((Waypoint(0, 1, 2), Waypoint(9, 1, 2))) == []


def test_without_deviations_the_way_is_the_plan() -> None:
    area = (0.0, 0.0, 1000.0, 1000.0)
    model = RandomWaypoint(area, 2.0, 5.0, pause=4.0)
    plan = model.trajectory((500.0, 500.0), 600.0, random.Random(1))
    way, said = deviating(plan, area, 0.0, 0.0, random.Random(2))
    assert len(said) == len(legs(plan))
    for one, other in zip(said, legs(plan), strict=True):
        assert all(math.isclose(a, b, abs_tol=1e-6) for a, b in zip(one, other, strict=True))
    ends = {(round(x, 3), round(y, 3)) for _, x, y in way}
    assert ends == {(round(x, 3), round(y, 3)) for _, x, y in plan}


def test_who_turns_early_arrives_where_nobody_said_and_says_so_then() -> None:
    area = (0.0, 0.0, 100.0, 100.0)
    way, said = deviating(TRACK, area, 1.0, 0.0, random.Random(3))
    assert [(leg.x, leg.y) for leg in said[:2]] == [(100, 0), (100, 50)]
    arrivals = [point for point in way if (point.x, point.y) in {(100, 0), (100, 50)}]
    assert not arrivals
    # The corner of the first leg is on it, between a tenth and nine tenths.
    assert way[2].y == 0
    assert 10 <= way[2].x <= 90
    times = [point.time for point in way]
    assert times == sorted(times)
    assert said[1].time == way[3].time  # the next route is told on arrival


def test_speeds_that_are_off_change_when_and_not_where() -> None:
    way, said = deviating(TRACK, (0.0, 0.0, 100.0, 100.0), 0.0, 0.5, random.Random(4))
    assert {(x, y) for _, x, y in way} == {(0, 0), (100, 0), (100, 50)}
    assert said[0].speed == 10.0
    assert 5.0 <= 100 / (way[2].time - way[1].time) <= 15.0
    assert way[2].time != 15

"""The freeway and the Manhattan model: maps, and the rules that vehicles keep."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulation.mobility.base import shared
from emulation.mobility.freeway import FreewayMobility
from emulation.mobility.manhattan import LEFT, RIGHT, STRAIGHT, ManhattanMobility
from emulation.mobility.traffic import LANE_WIDTH, Lane, Rules, Traffic, Vehicle
from emulation.mobility.trajectory import Trace, Waypoint

AREA = (0.0, 0.0, 600.0, 500.0)
Model = FreewayMobility | ManhattanMobility


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    top = draw(st.floats(0.5, 60))
    return Rules(
        min_speed=top * draw(st.sampled_from([0.0, 0.5, 1.0])),
        max_speed=top,
        acceleration=top * draw(st.sampled_from([0.0, 0.1, 1.0])),
        safety_distance=draw(st.sampled_from([0.0, 20.0, 100.0])),
    )


@st.composite
def models(draw: st.DrawFn) -> Model:
    if draw(st.booleans()):
        roads, lanes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        return FreewayMobility(AREA, draw(rules()), roads, lanes, one_way=draw(st.booleans()))
    blocks, lanes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return ManhattanMobility(AREA, draw(rules()), blocks, lanes, draw(st.sampled_from([0.0, 90.0])))


def started(model: Model, count: int, seed: int) -> Traffic:
    rng = random.Random(seed)
    return model.traffic(model.positions(count, rng), rng)


def lane_of(lanes: tuple[Lane, ...], begin: Waypoint, end: Waypoint) -> Lane | None:
    """Return a lane on which a vehicle drives from one waypoint to the other."""
    for lane in lanes:
        off_begin, at_begin = lane.nearest((begin.x, begin.y))
        off_end, at_end = lane.nearest((end.x, end.y))
        if max(off_begin, off_end) < 1e-6 and at_end >= at_begin - 1e-6:
            return lane
    return None


def left_lane(vehicle: Vehicle, before: tuple[int, float]) -> bool:
    """Return whether a vehicle has left its lane, or jumped back to its start."""
    lane, offset = before
    return vehicle.lane != lane or vehicle.offset < offset - 1e-6


@settings(max_examples=60, deadline=None)
@given(model=models(), count=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_vehicles_keep_to_lanes_speeds_and_distances(model: Model, count: int, seed: int) -> None:
    traffic = started(model, count, seed)
    limits = model.rules
    for _ in range(40):
        speeds = [vehicle.speed for vehicle in traffic.vehicles]
        pairs = [
            (ahead, behind, ahead.offset - behind.offset)
            for queue in traffic.queues
            for ahead, behind in itertools.pairwise(queue)
        ]
        before_step = [(vehicle.lane, vehicle.offset) for vehicle in traffic.vehicles]
        traffic.step()
        for vehicle, before in zip(traffic.vehicles, speeds, strict=True):
            assert limits.min_speed - 1e-9 <= vehicle.speed <= limits.max_speed + 1e-9
            assert vehicle.speed - before <= limits.acceleration + 1e-9
        for ahead, behind, gap in pairs:
            if any(left_lane(each, before_step[each.number]) for each in (ahead, behind)):
                continue
            left = ahead.offset - behind.offset
            assert left >= min(gap, limits.safety_distance) - 1e-6
            if left < limits.safety_distance - 1e-6:
                assert behind.speed <= ahead.speed + 1e-9
        for number, queue in enumerate(traffic.queues):
            assert all(vehicle.lane == number for vehicle in queue)
            assert all(a.offset >= b.offset - 1e-6 for a, b in itertools.pairwise(queue))
        assert sum(map(len, traffic.queues)) == count


@settings(max_examples=40, deadline=None)
@given(model=models(), count=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_trajectories_are_continuous_ways_along_lanes(model: Model, count: int, seed: int) -> None:
    traffic = started(model, count, seed)
    tracks = traffic.trajectories(45.5)
    limits = model.rules
    x0, y0, x1, y1 = model.area
    for track in tracks:
        assert track[0].time == 0.0
        assert len(track) == 1 or track[-1].time == 46.0
        for point in track:
            assert x0 <= point.x <= x1
            assert y0 <= point.y <= y1
        for begin, end in itertools.pairwise(track):
            if begin.time == end.time and isinstance(model, FreewayMobility) and model.one_way:
                assert any(
                    (lane.position(lane.length), lane.position(0.0)) == (begin[1:], end[1:])
                    for lane in traffic.lanes
                )
                continue
            assert end.time > begin.time
            assert lane_of(traffic.lanes, begin, end) is not None
            span = end.time - begin.time
            way = math.dist(begin[1:], end[1:])
            assert limits.min_speed * span - 1e-6 <= way <= limits.max_speed * span + 1e-6


@pytest.mark.parametrize(
    "model",
    [
        FreewayMobility(AREA, Rules(0, 30, 3, 20), 3, 2),
        ManhattanMobility(AREA, Rules(0, 20, 2, 20), 3, lanes=1),
        ManhattanMobility(AREA, Rules(0, 20, 2, 20), 3, lanes=2, margin=50.0),
    ],
    ids=["freeway", "manhattan", "manhattan-wide"],
)
class TestEither:
    def test_the_seed_decides(self, model: Model) -> None:
        first, again, other = (started(model, 20, seed).trajectories(100.0) for seed in (1, 1, 2))
        assert first == again != other

    def test_ways_on_join_where_lanes_meet(self, model: Model) -> None:
        lanes = started(model, 1, 1).lanes
        for lane in lanes:
            assert lane.length == lane.junctions[-1].turns[-1].offset
            assert lane.junctions[-1].straight == 0
            offsets = [junction.offset for junction in lane.junctions]
            assert offsets == sorted(offsets)
            for junction in lane.junctions:
                for turn in junction.turns:
                    there = lanes[turn.lane].position(turn.onto)
                    assert math.dist(lane.position(turn.offset), there) < 1e-9
                    assert -1e-9 <= turn.onto <= lanes[turn.lane].length

    def test_a_vehicle_alone_changes_its_speed_by_the_acceleration_at_most(
        self, model: Model
    ) -> None:
        traffic = started(model, 1, 3)
        (vehicle,) = traffic.vehicles
        changes = []
        for _ in range(300):
            before = vehicle.speed
            traffic.step()
            changes.append(abs(vehicle.speed - before))
        assert 0.5 * model.rules.acceleration < max(changes) <= model.rules.acceleration

    def test_vehicles_at_full_speed_need_waypoints_at_turns_only(self, model: Model) -> None:
        steady = dataclasses.replace(model, rules=Rules(10, 10, 0, 20))
        (track,) = started(steady, 1, 1).trajectories(300.0)
        legs = list(itertools.pairwise(track))
        assert 2 < len(legs) < 80
        for (a, b), (_, c) in itertools.pairwise(legs):
            # Each leg is across the one before.
            assert math.isclose(a.x, b.x) != math.isclose(b.x, c.x)

    def test_who_may_not_move_stands(self, model: Model) -> None:
        tracks = type(model)(AREA, Rules(0, 0, 0, 20)).trajectories(
            [(10.0, 10.0)], 60.0, shared(random.Random(1))
        )
        assert not math.dist(tracks[0][0][1:], tracks[0][-1][1:])

    def test_sixty_vehicles_for_a_quarter_of_an_hour_take_less_than_a_second(
        self, model: Model
    ) -> None:
        began = time.process_time()
        tracks = started(model, 60, 1).trajectories(900.0)
        assert time.process_time() - began < 1.0
        assert Trace(tracks).moving


def test_vehicles_of_one_direction_begin_their_road_anew() -> None:
    model = FreewayMobility((0.0, 0.0, 1000.0, 400.0), Rules(20, 20, 0, 20), 1, 2, one_way=True)
    positions = [(990.0, 198.0), (500.0, 194.0), (970.0, 198.0)]
    first, second, third = model.trajectories(positions, 60.0, shared(random.Random(1)))
    assert first[:3] == (Waypoint(0, 990, 198), Waypoint(0.5, 1000, 198), Waypoint(0.5, 0, 198))
    assert [each.y for each in (*first, *third)] == [198.0] * (len(first) + len(third))
    trace = Trace([first, second, third])
    assert trace.positions(0.499)[0] == pytest.approx([999.98, 198])
    assert trace.positions(40.0) == pytest.approx(np.array([[790.0, 198], [300, 194], [770, 198]]))


def test_freeway_vehicles_come_back_on_the_other_side() -> None:
    model = FreewayMobility((0.0, 0.0, 1000.0, 400.0), Rules(20, 20, 0, 20), roads=1, lanes=2)
    (track,) = model.trajectories([(900.0, 180.0)], 20.0, shared(random.Random(1)))
    # The nearest lane is the outer one eastward, 1.5 lanes to the right of the middle.
    assert track[0] == Waypoint(0.0, 900.0, 200 - 1.5 * LANE_WIDTH)
    assert track[1:3] == (
        Waypoint(5.0, 1000.0, 200 - 1.5 * LANE_WIDTH),
        Waypoint(5.6, 1000.0, 200 + 1.5 * LANE_WIDTH),
    )
    assert track[3][1:] == pytest.approx((1000 - 20 * 14.4, 200 + 1.5 * LANE_WIDTH))


def test_a_fast_vehicle_stays_behind_a_slow_one() -> None:
    model = FreewayMobility((0.0, 0.0, 10_000.0, 400.0), Rules(0, 50, 0, 25), roads=1, lanes=1)
    traffic = model.traffic([(100.0, 198.0), (400.0, 198.0)], random.Random(1))
    behind, ahead = traffic.vehicles
    assert behind.lane == ahead.lane
    behind.speed, ahead.speed = 50.0, 5.0
    gaps = []
    for _ in range(20):
        traffic.step()
        gaps.append(ahead.offset - behind.offset)
    assert gaps[:3] == [255.0, 210.0, 165.0]
    assert gaps[-1] == pytest.approx(25.0)
    assert behind.speed == ahead.speed == 5.0


def test_a_vehicle_that_turns_in_front_of_another_slows_it_down() -> None:
    """Northward traffic meets a vehicle that has turned right, out of the eastward lane."""
    model = ManhattanMobility((0.0, 0.0, 1000.0, 1000.0), Rules(0, 40, 0, 30), blocks=1, lanes=1)
    traffic = model.traffic([(700.0, 2.0), (998.0, 20.0)], random.Random(1))
    crossing, northward = traffic.vehicles
    assert traffic.lanes[crossing.lane].dx == traffic.lanes[northward.lane].dy == 1.0
    crossing.offset = traffic.lanes[crossing.lane].length - 5
    northward.offset = 0.0
    crossing.speed, northward.speed = 10.0, 3.0
    traffic.step()
    # It came onto the lane at 0 m after half a second, 1.5 m behind the other: no faster than that.
    assert crossing.lane == northward.lane
    assert (northward.offset, crossing.offset) == pytest.approx((3.0, 1.5))
    assert crossing.speed == 3.0


def test_those_behind_make_way_for_a_vehicle_that_turns_in() -> None:
    model = ManhattanMobility((0.0, 0.0, 1000.0, 1000.0), Rules(0, 40, 0, 30), blocks=2, lanes=1)
    middle = 500.0
    traffic = model.traffic(
        [(493.0, 498.0), (498.0, middle + 28), (498.0, middle + 53)], random.Random(1)
    )
    turning, second, third = traffic.vehicles
    assert second.lane == third.lane != turning.lane
    turning.exit = next(
        turn
        for junction in traffic.lanes[turning.lane].junctions
        for turn in junction.turns
        if turn.lane == second.lane
    )
    far = traffic.lanes[second.lane].junctions[-1].turns[-1]
    second.exit = third.exit = far  # straight on
    turning.speed, second.speed, third.speed = 10.0, 40.0, 40.0
    traffic.step()
    # After half a second it was 10 m ahead of the second, which was 25 m ahead of the third.
    assert [each.speed for each in (turning, second, third)] == [10.0, 10.0, 10.0]
    assert turning.offset - second.offset == pytest.approx(10.0)
    assert second.offset - third.offset == pytest.approx(25.0)
    assert traffic.queues[second.lane] == [turning, second, third]
    assert second.track[-1] == pytest.approx((0.5, 498.0, middle + 8))


def test_ways_at_intersections_are_drawn_as_in_the_framework() -> None:
    model = ManhattanMobility((0.0, 0.0, 10_000.0, 10_000.0), Rules(0, 0, 0, 0), blocks=20, lanes=1)
    middle = (5000.0 - LANE_WIDTH / 2, 4800.0)  # southward between two inner intersections
    traffic = model.traffic([middle] * 4000, random.Random(5))
    heading = traffic.lanes[traffic.vehicles[0].lane]
    assert (heading.dx, heading.dy) == (0.0, -1.0)
    ways = {STRAIGHT: 0, "left": 0, "right": 0}
    for vehicle in traffic.vehicles:
        if vehicle.exit.offset - vehicle.offset > 500:
            ways[STRAIGHT] += 1
        else:
            ways["right" if traffic.lanes[vehicle.exit.lane].dx < 0 else "left"] += 1
    assert ways[STRAIGHT] / 4000 == pytest.approx(STRAIGHT, abs=0.03)
    assert ways["left"] / 4000 == pytest.approx(LEFT, abs=0.03)
    assert ways["right"] / 4000 == pytest.approx(RIGHT, abs=0.03)


def test_all_streets_are_driven_along() -> None:
    model = ManhattanMobility(AREA, Rules(20, 20, 0, 0), blocks=2, lanes=1)
    trace = Trace(started(model, 30, 4).trajectories(600.0))
    for (ax, ay), (bx, by) in model.road_map.streets:
        middle = (ax + bx) / 2 + (50 if ay == by else 0), (ay + by) / 2 + (50 if ax == bx else 0)
        distances = [
            min(math.dist(position, middle) for position in trace.positions(moment))
            for moment in range(600)
        ]
        assert min(distances) < 20


def test_a_vehicle_that_turns_keeps_to_its_lane() -> None:
    model = ManhattanMobility(AREA, Rules(10, 20, 2, 20), blocks=3, lanes=2)
    traffic = started(model, 40, 6)
    assert len(traffic.lanes) == 2 * 2 * (4 + 4)

    def aside(lane: Lane) -> float:
        """Return how far a lane is from the middle of its street."""
        middle = lane.position(lane.length / 2)
        return min(
            abs(middle[1] - ay) if lane.dx else abs(middle[0] - ax)
            for (ax, ay), (bx, by) in model.road_map.streets
            if (ay == by) == bool(lane.dx)
        )

    outer = [aside(traffic.lanes[each.lane]) for each in traffic.vehicles]
    assert {round(each, 6) for each in outer} == {0.5 * LANE_WIDTH, 1.5 * LANE_WIDTH}
    began = [vehicle.lane for vehicle in traffic.vehicles]
    for _ in range(100):
        traffic.step()
    assert any(each.lane != lane for each, lane in zip(traffic.vehicles, began, strict=True))
    assert [aside(traffic.lanes[each.lane]) for each in traffic.vehicles] == pytest.approx(outer)


def test_streets_leave_the_margin_and_have_all_their_lanes_inside() -> None:
    area = (0.0, 0.0, 1900.0, 1900.0)
    model = ManhattanMobility(area, Rules(10, 20, 2, 20), blocks=5, lanes=2, margin=450.0)
    ends = np.array(model.road_map.streets)
    assert (ends.min(), ends.max()) == (458.0, 1442.0)  # the middle of streets 16 m wide
    tracks = started(model, 60, 2).trajectories(300.0)
    positions = np.array([waypoint[1:] for track in tracks for waypoint in track])
    assert 450 <= positions.min() < 456
    assert 1444 < positions.max() <= 1450


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rules(5, 3, 0, 0), "minimum speed"),
        (lambda: Rules(0, 3, -1, 0), "acceleration"),
        (lambda: FreewayMobility(AREA, Rules(0, 1, 1, 1), roads=20, lanes=8), "lower roads"),
        (lambda: ManhattanMobility(AREA, Rules(0, 1, 1, 1), blocks=80), "lower blocks"),
        (lambda: ManhattanMobility(AREA, Rules(0, 1, 1, 1), blocks=0), "blocks"),
        (lambda: ManhattanMobility(AREA, Rules(0, 1, 1, 1), lanes=0), "lanes"),
        (lambda: ManhattanMobility(AREA, Rules(0, 1, 1, 1), margin=240), "lower lanes or margin"),
    ],
)
def test_what_cannot_be_driven_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("roads", "lanes"), [(0, 2), (2, 0), (-1, 1)])
def test_a_freeway_has_a_road_and_a_lane(roads: int, lanes: int) -> None:
    with pytest.raises(ValueError, match="at least one road and one lane"):
        FreewayMobility(AREA, Rules.of(1.0, 2.0, 0.0, 20.0), roads, lanes)

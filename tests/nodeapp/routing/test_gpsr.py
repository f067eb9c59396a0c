"""GPSR on static unit-disk graphs: every reachable node is reached, the nearest node serves."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.geometry import Point, gabriel_neighbours, squared_distance
from nodeapp.host import Position
from nodeapp.kinds import CommonKind
from nodeapp.routing.gpsr import Gpsr
from nodeapp.routing.gpsr_parameters import GpsrParameters
from nodeapp.routing.neighbours import encode_hello
from nodeapp.wire import ANY_NODE, Frame, GeoRoute, WireError, decode

RANGE = 100.0


class GpsrStation:
    """A host whose transmissions wait in the field's queue; its clock stands still."""

    def __init__(
        self, field: GpsrField, node_id: int, point: Point, parameters: GpsrParameters
    ) -> None:
        self.field = field
        self.node_id = node_id
        self.point = point
        self.rng = random.Random(node_id)
        self.counters: Counter[str] = Counter()
        self.arrived: list[Frame] = []
        self.captures = False
        self.router = Gpsr(self, parameters, RANGE, self.counters, self.deliver, self.capture)

    def now(self) -> float:
        return 0.0

    def position(self) -> Position:
        return Position(*self.point)

    def send(self, to: int, datagram: bytes) -> None:
        self.field.queue.append((self.node_id, to, decode(datagram)))

    def watch_links(self, failed: Callable[[int, bytes], None]) -> bool:
        raise AssertionError("not asked for")

    def withdraw(self, to: int) -> list[bytes]:
        raise AssertionError("not asked for")

    def overhear(self, heard: Callable[[Frame, int], None]) -> bool:
        raise AssertionError("not asked for")

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Any:
        raise AssertionError("routing of a frame needs no timers")

    def notify(self, event: Any, hops: int) -> None:
        raise AssertionError("routing knows no events")

    def deliver(self, frame: Frame, location: Point) -> None:
        self.arrived.append(frame)

    def capture(self, frame: Frame, location: Point) -> bool:
        if self.captures:
            self.arrived.append(frame)
        return self.captures


class GpsrField:
    """Stations that know all their neighbours."""

    def __init__(self, points: list[Point], **parameters: Any) -> None:
        self.queue: deque[tuple[int, int, Frame]] = deque()
        self.stations = [
            GpsrStation(self, node, point, GpsrParameters(ttl=255, **parameters))
            for node, point in enumerate(points, start=1)
        ]
        self.path: list[int] = []
        for sender in self.stations:
            x, y = sender.router.neighbours.position()
            hello = Frame(CommonKind.HELLO, sender.node_id, body=encode_hello(x, y, 0.0, 0.0))
            for station in self.stations:
                if station is not sender and math.dist(station.point, sender.point) <= RANGE:
                    station.router.neighbours.hello_received(hello, sender.node_id)

    def component(self, start: GpsrStation) -> list[GpsrStation]:
        reached, waiting = {start.node_id}, [start]
        while waiting:
            for node in waiting.pop().router.neighbours.current():
                if node not in reached:
                    reached.add(node)
                    waiting.append(self.stations[node - 1])
        return [self.stations[node - 1] for node in sorted(reached)]

    def route(
        self,
        source: GpsrStation,
        destination: int,
        location: Point,
        after_each_hop: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """Send a frame, and return the ids of the stations at which it arrived."""
        for station in self.stations:
            station.arrived.clear()
        self.path = [source.node_id]
        source.router.send(Frame(CommonKind.EVENT, source.node_id, destination, hops=0), location)
        while self.queue:
            sender, to, frame = self.queue.popleft()
            self.path.append(to)
            assert frame.hops == len(self.path) - 1
            self.stations[to - 1].router.receive(frame, sender)
            after_each_hop()
        return [station.node_id for station in self.stations if station.arrived]


def scattered(count: int, spread: float, seed: int) -> list[Point]:
    rng = random.Random(seed)
    side = spread * RANGE * math.sqrt(count)
    return [(rng.uniform(0, side), rng.uniform(0, side)) for _ in range(count)]


random_fields = st.builds(scattered, st.integers(2, 40), st.floats(0.2, 0.8), st.integers(0, 2**32))
# Positions on a lattice: nodes at one point, in a line, on a circle.
lattice_points = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(
    lambda cell: (cell[0] * RANGE / 2, cell[1] * RANGE / 2)
)
fields = random_fields | st.lists(lattice_points, min_size=2, max_size=25)


@given(fields, st.data())
def test_every_reachable_node_is_reached(points: list[Point], data: st.DataObject) -> None:
    field = GpsrField(points)
    source = data.draw(st.sampled_from(field.stations))
    component = field.component(source)
    for target in field.stations:
        arrived = field.route(source, target.node_id, target.router.neighbours.position())
        if target in component:
            assert arrived == [target.node_id]
        else:
            assert arrived == []
            unreachable = sum(each.counters["destination unreachable"] for each in field.stations)
            assert unreachable == 1
            for station in field.stations:
                station.counters.clear()


@given(fields, st.floats(-0.3, 1.3), st.floats(-0.3, 1.3), st.data())
def test_the_nearest_node_serves_a_location(
    points: list[Point], x: float, y: float, data: st.DataObject
) -> None:
    field = GpsrField(points)
    source = data.draw(st.sampled_from(field.stations))
    component = field.component(source)
    if len(component) < len(field.stations):
        field = GpsrField([station.point for station in component])
        source = field.stations[component.index(source)]
    width, height = (max(point[axis] for point in points) for axis in (0, 1))
    location = (x * width + 0.123, y * height + 0.456)
    (served,) = field.route(source, ANY_NODE, location)
    distances = {
        each.node_id: squared_distance(each.router.neighbours.position(), location)
        for each in field.stations
    }
    assert distances[served] == min(distances.values())


@given(fields)
def test_the_gabriel_graph_is_symmetric_planar_and_connected(points: list[Point]) -> None:
    field = GpsrField(points)
    spots = {each.node_id: each.router.neighbours.position() for each in field.stations}
    edges = set()
    for station in field.stations:
        known = station.router.neighbours.positions()
        kept = gabriel_neighbours(spots[station.node_id], known)
        edges |= {(station.node_id, node) for node in kept}
    assert all((b, a) in edges for a, b in edges)

    def turn(a: int, b: int, c: int) -> float:
        (ax, ay), (bx, by), (cx, cy) = spots[a], spots[b], spots[c]
        return (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)

    for (a, b), (c, d) in itertools.combinations({(a, b) for a, b in edges if a < b}, 2):
        if len({a, b, c, d}) == 4:
            crosses = turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0
            assert not crosses
    # As connected as the network.
    for station in field.stations:
        reached, waiting = {station.node_id}, [station.node_id]
        while waiting:
            here = waiting.pop()
            for node in (b for a, b in edges if a == here and b not in reached):
                reached.add(node)
                waiting.append(node)
        assert reached == {each.node_id for each in field.component(station)}


def test_greedy_takes_the_neighbour_nearest_to_the_location() -> None:
    field = GpsrField([(0, 0), (60, 0), (90, 0), (150, 0), (180, 0)])
    assert field.route(field.stations[0], 5, (180, 0)) == [5]
    assert field.path == [1, 3, 5]


def test_a_void_is_walked_around() -> None:
    # A horseshoe open to the left: greedy from 1 stops at 2.
    around = [(80, 80), (150, 130), (230, 130), (300, 80), (300, 0)]
    field = GpsrField([(0, 0), (80, 0), *around])
    assert field.route(field.stations[0], 7, (300, 0)) == [7]
    assert field.path == [1, 2, 3, 4, 5, 6, 7]
    assert sum(station.counters["perimeter hops"] for station in field.stations) > 0


def test_the_destination_among_the_neighbours_is_sent_to_wherever_the_location_is() -> None:
    field = GpsrField([(0, 0), (90, 0), (-50, 0)])
    assert field.route(field.stations[0], 3, (500, 0)) == [3]
    assert field.path == [1, 3]


def test_a_nearest_node_that_moves_towards_the_location_still_recognises_its_own_tour() -> None:
    # A ring around nothing; 2 is nearest to a location outside of it, and creeps towards that.
    ring = [(80 * math.cos(turn), 80 * math.sin(turn)) for turn in (2.0, 0.1, 5.0, 4.0, 3.0, 1.0)]
    field = GpsrField(ring)
    creeping = field.stations[1]

    def creep() -> None:
        creeping.point = (creeping.point[0] + 0.001, creeping.point[1])

    assert field.route(field.stations[0], ANY_NODE, (400, 8), after_each_hop=creep) == [2]
    assert len(field.path) <= 1 + 2 * len(ring)


@pytest.mark.parametrize("counts", [False, True])
def test_the_entry_restores_greedy_mode_once_it_has_moved_if_it_counts(counts: bool) -> None:
    # A ring around a void with a spur; D is in the void, 1 drives towards it by 1 m a hop.
    ring = [(85 * math.cos(turn), 85 * math.sin(turn)) for turn in (0, 1, 2, 3, 4, 5)]
    field = GpsrField([(80, 0), *ring[1:], (170, 0)], entry_counts=counts)
    first = field.stations[0]

    def drive() -> None:
        first.point = (first.point[0] - 0.1, 0.0)

    assert field.route(field.stations[6], 99, (20.0, 1.0), after_each_hop=drive) == []
    assert (len(field.path) > 2 * len(ring) + 2) == counts  # tours the void again and again


def test_a_tour_ends_where_it_would_take_its_first_edge_again() -> None:
    # A ring around a void with a spur; D is in the void, and 1 is the nearest to it.
    ring = [(85 * math.cos(turn), 85 * math.sin(turn)) for turn in (0, 1, 2, 3, 4, 5)]
    field = GpsrField([(80, 0), *ring[1:], (170, 0)])
    first = field.stations[0]
    for destination in (99, ANY_NODE):
        arrived = field.route(field.stations[6], destination, (20.0, 1.0))
        # Greedy to 1, which enters perimeter mode, and once around the void.
        assert field.path[:2] == [7, 1]
        assert sorted(field.path[2:]) == [1, 2, 3, 4, 5, 6]
        assert field.path[-1] == 1
        assert arrived == ([1] if destination == ANY_NODE else [])
    assert first.counters["destination unreachable"] == 1
    assert first.counters["served as the nearest node"] == 1


@pytest.mark.parametrize("once", [False, True])
def test_a_walk_over_an_edge_that_its_other_end_does_not_have(once: bool) -> None:
    # 2 believes that 1 is where it was before, behind 3 and 4, and so has no planar edge to it.
    field = GpsrField([(0, 0), (80, 0), (150, -40), (150, 40)], edges_once=once)
    second = field.stations[1]
    before = Frame(CommonKind.HELLO, 1, body=encode_hello(178.0, 0.0, 0.0, 0.0))
    second.router.neighbours.hello_received(before, 1)
    arrived = field.route(field.stations[0], ANY_NODE, (-900, 5))
    counted = sum((station.counters for station in field.stations), Counter[str]())
    assert field.path[:5] == [1, 2, 4, 3, 2]  # not over 1 again, where its first edge is
    if once:
        assert len(field.path) == 5
        assert arrived == [2]
        assert counted["walks that closed without their first edge"] == 1
    else:
        assert len(field.path) == 256
        assert arrived == []
        assert counted["time to live used up"] == 1


@given(fields, st.floats(-0.3, 1.3), st.data())
def test_edges_once_changes_nothing_if_positions_are_right(
    points: list[Point], x: float, data: st.DataObject
) -> None:
    location = (x * max(point[0] for point in points) + 0.123, 0.456)
    number = data.draw(st.integers(0, len(points) - 1))
    taken = []
    for once in (False, True):
        field = GpsrField(points, edges_once=once)
        arrived = field.route(field.stations[number], ANY_NODE, location)
        taken.append((arrived, field.path))
    assert taken[0] == taken[1]


def test_a_lone_node_serves_every_location_and_reaches_nobody() -> None:
    field = GpsrField([(0, 0)])
    assert field.route(field.stations[0], ANY_NODE, (500, 0)) == [1]
    assert field.route(field.stations[0], 9, (500, 0)) == []
    assert field.stations[0].counters["destination unreachable"] == 1


def test_a_capturing_node_ends_the_journey() -> None:
    field = GpsrField([(0, 0), (90, 0), (180, 0), (270, 0)])
    field.stations[2].captures = True
    assert field.route(field.stations[0], 4, (270, 0)) == [3]


def test_the_time_to_live_ends_a_journey() -> None:
    field = GpsrField([(90 * i, 0) for i in range(6)])
    first = field.stations[0]
    first.router = Gpsr(
        first, GpsrParameters(ttl=3), RANGE, first.counters, first.deliver, first.capture
    )
    hello = Frame(CommonKind.HELLO, 2, body=encode_hello(90, 0, 0, 0))
    first.router.neighbours.hello_received(hello, 2)
    assert field.route(first, 6, (450, 0)) == []
    assert field.path == [1, 2, 3, 4]
    assert field.stations[3].counters["time to live used up"] == 1


def test_a_perimeter_frame_from_an_unknown_sender_starts_its_walk_again() -> None:
    field = GpsrField([(0, 0), (0, 90)])
    station = field.stations[0]
    route = GeoRoute(500, 0, (-1.0, 0.0), (-1.0, 0.0), (9, 1)).encode()
    # A node nearer to D than the entry would make it greedy again; so the entry is put nearer.
    near = GeoRoute(500, 0, (400.0, 0.0), (400.0, 0.0), (9, 1)).encode()
    for extension in (route, near):
        station.router.receive(Frame(CommonKind.EVENT, 9, 7, ttl=9, route=extension), 9)
        assert field.queue.pop()[1] == 2
    assert station.counters["perimeter re-entered"] == 1


@given(st.binary(max_size=60))
def test_a_malformed_extension_is_refused(route: bytes) -> None:
    field = GpsrField([(0, 0), (50, 0)])
    try:
        field.stations[0].router.receive(Frame(CommonKind.EVENT, 2, 9, ttl=9, route=route), 2)
    except WireError:
        pass
    else:
        assert len(route) in (17, 61)


@pytest.mark.parametrize("count", [2, 10, 60])
def test_a_long_chain_with_a_bend_is_followed(count: int) -> None:
    points = [(90.0 * i, 0.0) for i in range(count)]
    points += [(90.0 * (count - 1), 90.0 * i) for i in range(1, count)]
    field = GpsrField(points)
    assert field.route(field.stations[0], len(points), points[-1]) == [len(points)]

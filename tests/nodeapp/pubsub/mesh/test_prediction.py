"""Cells on a way, Algorithm 1, and the graph of the map, by what the paper says of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.pubsub.mesh.broker_map import BrokerMap
from nodeapp.pubsub.mesh.prediction import ClientStatus, PredictedPath

SIDE, CELL = 7, 250.0
BROKERS = tuple(
    (row * SIDE + column + 1, (column + 0.5) * CELL, (row + 0.5) * CELL)
    for row in range(SIDE)
    for column in range(SIDE)
)
MAP = BrokerMap(BROKERS, 1.6 * CELL)
COORDINATE = st.floats(1, SIDE * CELL - 1).filter(lambda metres: metres % CELL != 0)  # no edge
POINT = st.tuples(COORDINATE, COORDINATE)


def cell(x: float, y: float) -> int:
    return int(y // CELL) * SIDE + int(x // CELL) + 1


def test_neighbours_are_the_eight_around() -> None:
    assert MAP.neighbours[9] == (1, 2, 3, 8, 10, 15, 16, 17)
    assert MAP.neighbours[1] == (2, 8, 9)


@given(POINT, POINT)
def test_a_way_passes_the_cells_in_order(
    start: tuple[float, float], end: tuple[float, float]
) -> None:
    passages = MAP.way(start, end)
    shares = [passage.enters for passage in passages]
    assert shares == sorted(shares)
    assert passages[0].broker == cell(*start)
    ends = [*shares[1:], 1.0]
    for passage, leaves in zip(passages, ends, strict=True):
        if leaves - passage.enters > 1e-6:
            middle = (passage.enters + leaves) / 2
            x, y = (a + middle * (b - a) for a, b in zip(start, end, strict=True))
            assert passage.broker == cell(x, y)


@given(
    brokers=st.lists(POINT, min_size=1, max_size=30, unique=True),
    mesh_range=st.sampled_from([50.0, 250.0, 2000.0]),
    start=POINT,
    end=POINT,
)
def test_cells_are_those_of_any_map(
    brokers: list[tuple[float, float]],
    mesh_range: float,
    start: tuple[float, float],
    end: tuple[float, float],
) -> None:
    places = tuple((node, *point) for node, point in enumerate(brokers, start=1))
    irregular = BrokerMap(places, mesh_range)

    def beyond(point: tuple[float, float], broker: int) -> float:
        """Return how much farther a broker is than the nearest one, metres."""
        least = min(math.dist(point, each) for each in brokers)
        return math.dist(point, irregular.positions[broker]) - least

    assert beyond(start, irregular.nearest(start)) < 1e-6
    passages = irregular.way(start, end)
    ends = [*(passage.enters for passage in passages[1:]), 1.0]
    for passage, leaves in zip(passages, ends, strict=True):
        middle = (passage.enters + leaves) / 2
        x, y = (a + middle * (b - a) for a, b in zip(start, end, strict=True))
        assert beyond((x, y), passage.broker) < 1e-3


def test_the_graph_of_the_map_joins_all_brokers_without_a_circle() -> None:
    graph = MAP.graph
    links = {frozenset((one, other)) for one, found in graph.items() for other in found}
    assert len(links) == len(BROKERS) - 1
    reached, waiting = {1}, [1]
    while waiting:
        for other in graph[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    assert len(reached) == len(BROKERS)


EAST = ClientStatus((125.0, 125.0), (1625.0, 125.0), 10.0, 30.0, 20.0)
"""It stays for 20 s, goes for 150 s, and stays for 30 s."""


@pytest.mark.parametrize(
    ("time", "delay", "broker"),
    [
        (0.0, 0.0, 1),  # in the serving broker's own cell: line 6.2 with i = Cur_GIND
        (19.0, 0.0, 1),
        (33.0, 0.0, 2),
        (60.0, 0.0, 3),
        (169.0, 0.0, 7),
        (180.0, 0.0, 7),  # it pauses at D
        (201.0, 0.0, 7),  # line 6.1: the pause is over
        (1e6, 0.0, 7),
        (33.0, 1.0, 2),  # T' = 1 s later it is in the second cell still
        (31.0, 1.0, 1),  # T' is 0 for the first one, and it is there still
        (55.0, 4.0, 3),  # the second cell is left by the time that an event is there
        (33.0, 100.0, 7),  # hops slower than the client: nobody fits before D
    ],
)
def test_algorithm_1(time: float, delay: float, broker: int) -> None:
    assert PredictedPath(MAP, EAST).forwarding_broker(time, delay) == broker


def test_a_client_that_stays_is_where_it_is() -> None:
    still = ClientStatus((300.0, 300.0), (300.0, 300.0), 0.0, 0.0, 0.0)
    assert PredictedPath(MAP, still).forwarding_broker(100.0, 0.01) == cell(300.0, 300.0)


@given(POINT, POINT, st.floats(1, 50), st.floats(0, 30), st.floats(0, 400))
def test_without_delay_the_broker_is_that_of_the_predicted_position(
    start: tuple[float, float],
    end: tuple[float, float],
    speed: float,
    remaining: float,
    time: float,
) -> None:
    status = ClientStatus(start, end, speed, 10.0, remaining)
    x, y = status.position(time)
    found = PredictedPath(MAP, status).forwarding_broker(time, 0.0)
    border = min(abs(x / CELL - round(x / CELL)), abs(y / CELL - round(y / CELL)))
    assert found == cell(x, y) or border < 1e-6
    assert math.dist(MAP.positions[found], (x, y)) <= CELL

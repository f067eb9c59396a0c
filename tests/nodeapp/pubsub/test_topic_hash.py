from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.geometry import squared_distance
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.topic_hash import CellHash, LocationHash, NodeHash, TopicHash, WaypointHash
from nodeapp.wire import ANY_NODE
from tests.nodeapp.strategies import texts

AREA = (-500.0, 100.0, 1500.0, 400.0)
waypoints = st.lists(
    st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=1, max_size=30
).map(tuple)


@given(texts)
def test_a_coordinate_lies_in_the_area(topic: str) -> None:
    node, (x, y) = LocationHash(Environment(AREA, 250.0))(topic)
    assert node == ANY_NODE
    assert -500.0 <= x <= 1500.0
    assert 100.0 <= y <= 400.0


@given(texts, st.floats(10.0, 2000.0))
def test_a_cell_holds_the_coordinate_and_is_heard_across(topic: str, reach: float) -> None:
    environment = Environment(AREA, reach)
    node, (x, y) = CellHash(environment)(topic)
    wanted_x, wanted_y = LocationHash(environment)(topic).location
    assert node == ANY_NODE
    assert -500.0 <= x <= 1500.0
    assert 100.0 <= y <= 400.0
    half = reach / math.sqrt(8) / 2
    assert abs(x - wanted_x) <= half + 1e-9
    assert abs(y - wanted_y) <= half + 1e-9
    # Corner to corner over two cells that touch is within the range.
    assert 4 * half * math.sqrt(2) <= reach * (1 + 1e-9)


def test_topics_of_one_cell_share_its_middle() -> None:
    apply = CellHash(Environment((0.0, 0.0, 1000.0, 1000.0), 250.0))
    points = {apply(f"topic {number}").location for number in range(5000)}
    assert len(points) == 12**2  # 1000 / 88.4 = 11.3 cells a side, the last one narrower


@given(texts, waypoints, st.randoms())
def test_a_waypoint_is_the_nearest_to_the_coordinate_whatever_their_order(
    topic: str, points: tuple[tuple[float, float], ...], rng: object
) -> None:
    environment = Environment(AREA, 250.0, points)
    node, location = WaypointHash(environment)(topic)
    wanted = LocationHash(environment)(topic).location
    assert node == ANY_NODE
    assert location in points
    assert squared_distance(location, wanted) == min(
        squared_distance(each, wanted) for each in points
    )
    shuffled = list(points)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    again = WaypointHash(Environment(AREA, 250.0, tuple(shuffled)))
    assert again(topic) == again(topic) == (ANY_NODE, location)


@given(texts, st.integers(1, 2**24))
def test_a_node_id_is_one_of_a_node(topic: str, nodes: int) -> None:
    node, _ = NodeHash(Environment(AREA, 250.0, (), nodes))(topic)
    assert 1 <= node <= nodes


@pytest.mark.parametrize("topic_hash", [LocationHash, NodeHash])
def test_topics_spread_evenly(topic_hash: type[TopicHash]) -> None:
    apply = topic_hash(Environment(AREA, 250.0, (), 20))
    found: Counter[object] = Counter()
    for number in range(4000):
        node, (x, y) = apply(f"topic {number}")
        found[node, int((x + 500) // 500), int((y - 100) // 60)] += 1
    assert len(found) == 20
    # 200 each; 5 standard deviations.
    assert all(abs(times - 200) < 70 for times in found.values())

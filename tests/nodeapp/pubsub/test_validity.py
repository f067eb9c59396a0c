"""Publisher and subscriber of a topic share a decision point, and it reaches them (3.3).

On hundreds of static networks: whichever node sends to a location, the frames arrive at one node,
and what that node sends to any other arrives there.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp.geometry import Point
from nodeapp.wire import ANY_NODE
from tests.nodeapp.routing.test_gpsr import RANGE, GpsrField, fields


@pytest.mark.slow
@given(fields, st.floats(-0.3, 1.3), st.floats(-0.3, 1.3), st.data())
@settings(max_examples=250)
def test_all_nodes_of_a_connected_network_share_the_node_that_serves_a_location(
    points: list[Point], x: float, y: float, data: st.DataObject
) -> None:
    field = GpsrField(points)
    component = field.component(field.stations[0])
    if len(component) < len(field.stations):
        field = GpsrField([station.point for station in component])
    width, height = (max(point[axis] for point in points) for axis in (0, 1))
    location = x * (width + RANGE), y * (height + RANGE)
    publisher, subscriber = (data.draw(st.sampled_from(field.stations)) for _ in range(2))
    (serving,) = field.route(publisher, ANY_NODE, location)
    assert field.route(subscriber, ANY_NODE, location) == [serving]
    server = field.stations[serving - 1]
    if server is not subscriber:
        at = subscriber.router.neighbours.position()
        assert field.route(server, subscriber.node_id, at) == [subscriber.node_id]

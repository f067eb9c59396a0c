"""Proximity selection of decision points (docs/papers.md#six-schemes, section 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from nodeapp.geometry import Point
from nodeapp.host import Position
from nodeapp.pubsub.messages import TopicKind
from nodeapp.wire import ANY_NODE, FLAG_REPLICA
from tests.nodeapp.network import AS_PUBLISHED
from tests.nodeapp.pubsub.schemes import (
    WARM_UP,
    around,
    connected_network_of,
    count,
    each_geographic_scheme,
    hashed,
    network_of,
    point,
    stored,
)

LOCATION = hashed("traffic")
EVENTS = 120


def swinging(period: float, phase: float) -> Callable[[float], Position]:
    """Return the position by time of a node that swings 20 m to either side of `LOCATION`."""

    def at(time: float) -> Position:
        angle = 2 * math.pi * (time / period + phase)
        speed = 20.0 * 2 * math.pi / period
        x, y = LOCATION[0] + 20.0 * math.cos(angle), LOCATION[1] + (5.0 if phase else -5.0)
        return Position(x, y, -speed * math.sin(angle), 0.0)

    return at


def oscillating(scheme: str, period: float, proximity: float) -> tuple[int, int]:
    """Return how many of `EVENTS` arrive and how many were processed.

    Two nodes take turns in being the nearest to `LOCATION`, four times a period; they and the
    publisher and the subscriber are connected all the time, and no frame is lost.
    """
    ends = [around(LOCATION, 200.0, math.pi), around(LOCATION, 200.0, 0.0)]
    network = network_of(
        [*ends, swinging(period, 0.0), swinging(period, 0.25)],
        scheme,
        parameters={"proximity": proximity, "hello_interval": 0.2},
    )
    publisher, subscriber, *_ = network.nodes.values()
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(EVENTS):
        publisher.publish("traffic")
        network.run(0.37)
    network.run(2)
    assert set(subscriber.notified().values()) == {1}
    assert count(network, "duplicates") == 0
    processed = count(network, "processed as broker") + count(network, "processed as publisher")
    return len(subscriber.notified()), processed


@pytest.mark.parametrize("scheme", ["broker-gpsr", "rendezvous-gpsr"])
@pytest.mark.parametrize("period", [0.5, 1, 2, 8, 32])
def test_oscillation_loses_nothing_if_any_near_node_may_serve(scheme: str, period: float) -> None:
    assert oscillating(scheme, period, 0.5) == (EVENTS, EVENTS)


@pytest.mark.parametrize(("scheme", "share"), [("broker-gpsr", 0.7), ("rendezvous-gpsr", 0.8)])
def test_oscillation_loses_events_if_only_the_nearest_node_serves(
    scheme: str, share: float
) -> None:
    # The nodes change every half second, refreshes come every second.
    arrived, processed = oscillating(scheme, 2, 0.0)
    assert 0.3 * EVENTS < arrived < share * EVENTS
    assert processed == EVENTS  # by a node that did not know the subscriber, or by its list


def site(scheme: str) -> tuple[str, Point]:
    """Return a topic and the location that it hashes to, in the middle of the area or near that."""
    if not scheme.endswith("map"):
        return "traffic", LOCATION
    topics = (f"t{number}" for number in range(1000))
    waypoint = (400.0, 400.0)
    return next(t for t in topics if math.dist(hashed(t), waypoint) < 150.0), waypoint


@each_geographic_scheme
def test_a_captured_subscription_is_broadcast_once_and_stored_by_the_neighbours(
    scheme: str,
) -> None:
    topic, location = site(scheme)
    ring = [around(location, 120.0, 1.2 * turn) for turn in range(5)]
    network = network_of([*ring, around(location, 300.0, 0.0)], scheme)
    network.nodes[6].subscribe(topic)
    network.run(WARM_UP)
    assert [stored(network.nodes[number]) for number in range(1, 6)] == [1] * 5
    frames = network.frames(TopicKind.SUBSCRIPTION)
    sent = [frame for frame in frames if frame.destination == ANY_NODE and frame.hops == 1]
    replicas = [frame for frame in frames if frame.flags & FLAG_REPLICA]
    assert len(replicas) == len(sent)
    assert {frame.originator for frame in replicas} == {6}


@each_geographic_scheme
@pytest.mark.parametrize("serve_voids", [True, False])
def test_a_location_that_nobody_is_near_is_served_by_the_nearest_node_or_not_at_all(
    scheme: str, serve_voids: bool
) -> None:
    topic, location = site(scheme)
    ring = [around(location, 230.0, 2 * math.pi * turn / 9) for turn in range(9)]
    network = network_of(ring, scheme, parameters={"serve_voids": serve_voids})
    network.nodes[1].subscribe(topic)
    network.run(WARM_UP)
    network.nodes[5].publish(topic)
    network.run(2)
    assert len(network.nodes[1].notified()) == serve_voids
    assert (count(network, "dropped at a void") > 0) != serve_voids


@each_geographic_scheme
@pytest.mark.parametrize("serve_voids", [True, False])
@pytest.mark.parametrize("radius", [110.0, 140.0])
def test_if_only_the_nearest_node_serves_the_same_locations_are_voids(
    scheme: str, serve_voids: bool, radius: float
) -> None:
    # Half the radio range is 125 m; a ring, no two of its nodes as near to the location.
    topic, _ = site(scheme)
    location = point(network_of([(0.0, 0.0)], scheme).nodes[1]).topic_hash(topic).location
    ring = [around(location, radius + turn, 2 * math.pi * turn / 7) for turn in range(7)]
    network = network_of(
        ring, scheme, parameters={"proximity": 0, "serve_voids": serve_voids, **AS_PUBLISHED}
    )
    network.nodes[3].subscribe(topic)
    network.run(WARM_UP)
    network.nodes[5].publish(topic)
    network.run(2)
    served = serve_voids or radius < 125.0
    assert network.nodes[3].notified() == ({(5, 1): 1} if served else {})
    assert (count(network, "dropped at a void") > 0) != served
    assert (stored(network.nodes[1]) == 1) == served  # the nearest, and nobody else
    assert sum(stored(node) for node in network.nodes.values()) == served
    assert not [f for f in network.frames(TopicKind.SUBSCRIPTION) if f.flags & FLAG_REPLICA]


@pytest.mark.slow
@each_geographic_scheme
@pytest.mark.parametrize("published", [False, True])
def test_the_nearest_node_alone_serves_a_connected_network(scheme: str, published: bool) -> None:
    parameters = {"proximity": 0, **(AS_PUBLISHED if published else {})}
    network = connected_network_of(30, scheme, seed=6, parameters=parameters)
    for number in range(1, 11):
        network.nodes[number].subscribe("traffic")
    network.run(WARM_UP)
    for number in range(11, 21):
        network.nodes[number].publish("traffic")
        network.run(0.5)
    network.run(2)
    for number in range(1, 11):
        assert network.nodes[number].notified() == {(n, 1): 1 for n in range(11, 21)}


@pytest.mark.parametrize("decision", ["broker", "rendezvous"])
def test_a_map_keeps_locations_on_the_road(decision: str) -> None:
    # A road along one side of the area: most coordinates are far from it (3.6).
    road = tuple((100.0 * number, 100.0) for number in range(8))
    topics = [f"t{number}" for number in range(10)]
    delivered = {}
    for routing in ("gpsr", "gpsr-map"):
        scheme = f"{decision}-{routing}"
        network = network_of(road, scheme, parameters={"serve_voids": False}, waypoints=road)
        for number, topic in enumerate(topics, start=1):
            network.nodes[8].subscribe(topic, number=number)
        network.run(WARM_UP)
        for topic in topics:
            network.nodes[1].publish(topic)
        network.run(2)
        delivered[routing] = len(network.nodes[8].notified())
    near = [min(math.dist(hashed(topic), point) for point in road) for topic in topics]
    assert delivered == {"gpsr": sum(each <= 125.0 for each in near), "gpsr-map": len(topics)}
    assert delivered["gpsr"] < 5

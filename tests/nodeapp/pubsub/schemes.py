"""Networks for tests of the six schemes (docs/papers.md#six-schemes)."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping

import pytest

from nodeapp.client_port import ClientTable
from nodeapp.geometry import Point
from nodeapp.host import Position
from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.topic_hash import LocationHash
from tests.nodeapp.network import SimHost, SimNetwork, create_service, random_points

Trajectory = Point | Callable[[float], Position]

GEOGRAPHIC = tuple(
    f"{point}-gpsr{hashing}"
    for point in ("broker", "rendezvous")
    for hashing in ("", "-cell", "-map")
)
NODE_BASED = ("broker-aodv", "rendezvous-aodv")
SCHEMES = (*GEOGRAPHIC, *NODE_BASED)
each_scheme = pytest.mark.parametrize("scheme", SCHEMES)
each_geographic_scheme = pytest.mark.parametrize("scheme", GEOGRAPHIC)

WARM_UP = 6.0  # seconds: beacons of all neighbours, subscriptions at their decision point
CROSSROADS = tuple(itertools.product((100.0, 400.0, 700.0), (100.0, 400.0, 700.0)))
"""Waypoints of a map."""


def network_of(
    trajectories: Iterable[Trajectory],
    scheme: str,
    *,
    seed: int = 0,
    loss: float = 0.0,
    parameters: Mapping[str, object] | None = None,
    waypoints: tuple[Point, ...] = CROSSROADS,
) -> SimNetwork:
    """Return a network of nodes on `trajectories`, which know it and the map."""
    trajectories = list(trajectories)
    network = SimNetwork(seed=seed, loss=loss, side=800.0)
    network.environment = dataclasses.replace(
        network.environment, waypoints=waypoints, nodes=len(trajectories)
    )
    for trajectory in trajectories:
        network.add(trajectory, scheme, parameters)
    return network


def connected_network_of(
    count: int,
    scheme: str,
    *,
    seed: int,
    loss: float = 0.0,
    parameters: Mapping[str, object] | None = None,
) -> SimNetwork:
    """Return a network of nodes that stand at random points and are connected."""
    rng = random.Random(seed)
    while True:
        points = random_points(count, rng, 800.0)
        network = network_of(points, scheme, seed=seed, loss=loss, parameters=parameters)
        if network.connected():
            return network


def point(node: SimHost) -> DecisionPoint:
    assert isinstance(node.service, DecisionPoint)
    return node.service


def stored(node: SimHost) -> int:
    """Return how many subscriptions the node has as a decision point."""
    return len(point(node).subscriptions)


def count(network: SimNetwork, counter: str) -> int:
    return sum(node.service.counters[counter] for node in network.nodes.values())


def restart(network: SimNetwork, node: SimHost, scheme: str) -> SimHost:
    """Replace a node that failed by one that knows nothing but its subscriptions."""
    local = node.service.local
    fresh = SimHost(network, node.node_id, node.trajectory)
    fresh.service = create_service(scheme, fresh, {}, network.environment)
    fresh.clients = ClientTable(fresh, fresh.service, fresh.to_client, dict)
    network.nodes[node.node_id] = fresh
    fresh.clients.start()
    fresh.service.start()
    for number, subscription in enumerate(local, start=1):
        assert fresh.subscribe(*map(str, subscription.filter.predicates), number=number) is None
    return fresh


def hashed(topic: str) -> Point:
    """Return the location that a topic hashes to in the networks that `network_of` returns."""
    return LocationHash(SimNetwork(side=800.0).environment)(topic).location


def around(middle: Point, radius: float, angle: float) -> Point:
    return middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)

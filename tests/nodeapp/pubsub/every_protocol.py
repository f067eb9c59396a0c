"""A small network of any protocol of the registry, with who publishes and who subscribes."""

from __future__ import annotations

import dataclasses

from nodeapp.predicates import Value
from nodeapp.pubsub.registry import PROTOCOLS, service_of
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.mesh.lab import MeshNetwork
from tests.nodeapp.pubsub.schemes import CROSSROADS

EVERY_PROTOCOL = tuple(PROTOCOLS)
EVENT: dict[str, Value] = {"topic": "news", "stock": "B", "price": 5}
"""An event that each of them can carry, ..."""
FILTER = ("topic=news", "stock=B", "price<100")
"""... and a filter that it matches."""


def network_of(protocol: str) -> tuple[SimNetwork, list[SimHost], list[SimHost]]:
    """Return a network in which all is known, with two publishers and two subscribers."""
    network, publishers, subscribers = (
        _mesh(protocol) if service_of(protocol).needs_routes else _stations(protocol)
    )
    network.run(2.0)
    for host in subscribers:
        assert host.subscribe(*FILTER) is None
        network.run(2.0)
    network.run(15.0)
    return network, publishers, subscribers


def _mesh(protocol: str) -> tuple[SimNetwork, list[SimHost], list[SimHost]]:
    network = MeshNetwork(3, protocol)
    clients = [network.client((125.0, 125.0)), network.client((600.0, 600.0))]
    return network, [network.nodes[5], network.nodes[3]], clients


def _stations(protocol: str) -> tuple[SimNetwork, list[SimHost], list[SimHost]]:
    network = SimNetwork(seed=3)
    wired = service_of(protocol).promises.wired
    network.environment = dataclasses.replace(
        network.environment, wired=wired, nodes=4, waypoints=CROSSROADS
    )
    hosts = [network.add((50.0 * number, 0.0), protocol) for number in range(4)]
    return network, hosts[:2], hosts[2:]

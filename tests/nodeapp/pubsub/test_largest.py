"""The largest event gets through, whatever a protocol puts it into; a larger one is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from nodeapp import wire
from nodeapp.events import MAX_EVENT, Event
from nodeapp.predicates import Value
from nodeapp.pubsub.registry import PROTOCOLS, service_of
from nodeapp.wire import Frame, Kind
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.mesh.lab import MeshNetwork

ATTRIBUTES: dict[str, Value] = {"topic": "news", "stock": "B", "price": 5}


def of_mesh(protocol: str) -> tuple[SimNetwork, SimHost, list[SimHost]]:
    network = MeshNetwork(3, protocol)
    return network, network.nodes[5], [network.client((125.0, 125.0))]


def of_stations(protocol: str) -> tuple[SimNetwork, SimHost, list[SimHost]]:
    network = SimNetwork(seed=3)
    wired = service_of(protocol).is_overlay
    network.environment = dataclasses.replace(network.environment, wired=wired, nodes=3)
    hosts = [network.add((50.0 * number, 0.0), protocol) for number in range(3)]
    return network, hosts[0], hosts[1:]


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if not name.endswith("-map")])
def test_the_largest_event_arrives_and_a_larger_one_is_refused(protocol: str) -> None:
    make: Callable[[str], tuple[SimNetwork, SimHost, list[SimHost]]] = of_stations
    if service_of(protocol).needs_routes:
        make = of_mesh
    network, publisher, subscribers = make(protocol)
    network.run(2.0)
    for host in subscribers:
        assert host.subscribe("topic=news", "stock=B", "price<100") is None
        network.run(2.0)
    network.run(15.0)
    for sequence, size in ((1, MAX_EVENT), (2, MAX_EVENT + 1)):
        room = size - len(Event(publisher.node_id, sequence, ATTRIBUTES).encode())
        payload = bytes(room - 2)  # whose length is told in two bytes more
        event = Event(publisher.node_id, sequence, ATTRIBUTES, payload=payload)
        assert len(event.encode()) == size
        frame = Frame(Kind.PUBLISH, 9, 0, event.publisher, sequence, hops=0, body=event.encode())
        answer = publisher.request(frame)
        network.run(15.0)
        assert answer == (
            None
            if size <= MAX_EVENT
            else f"an event of {size} bytes: at most {MAX_EVENT} fit a datagram"
        )
        for host in subscribers:
            assert host.notified()[publisher.node_id, sequence] == (size <= MAX_EVENT)
    assert not any(host.service.counters["internal errors"] for host in network.nodes.values())
    assert MAX_EVENT < wire.MAX_BODY

"""Peers that join, and what they refuse to be told."""

from __future__ import annotations

from typing import Any

from nodeapp.pubsub.overlay.messages import OverlayKind, heartbeat
from nodeapp.wire import Frame
from tests.nodeapp.pubsub.overlay.test_peers import (
    got,
    overlay_of,
    restart,
    service,
    subscribe_all,
)


def test_a_peer_that_got_in_by_another_looks_no_more_for_its_bootstrap_peer() -> None:
    parameters: dict[str, Any] = {
        "bootstrap": "1", "query_timeout": 0.5, "join_attempts": 2, "heartbeat_interval": 5.0
    }  # fmt: skip
    network = overlay_of(3, **parameters)
    for host in network.nodes.values():
        assert host.subscribe("stock=A", f"price<{300 * host.node_id}") is None
        network.run(0.5)
    network.run(10.0)
    for node in (1, 3):
        network.nodes[node].failed = True
    host = restart(network, 3, "join", **parameters)
    assert host.subscribe("stock=A", "price<900") is None
    membership = service(host).membership
    while not service(host).trouble():
        network.run(0.01)
    membership.joining.again(membership.around.me, [2])
    while 2 not in membership.around.links():
        network.run(0.01)
    for number in range(40):
        network.run(0.5)
        assert host.publish("stock=A", f"price={number}") is None
    network.run(1.0)
    assert got(network, 3, 40) == {2, 3}


def test_filters_that_together_fit_no_datagram_are_refused() -> None:
    network = overlay_of(2, space="stock:A:Z:25,price:0:1000:1000")
    host = network.nodes[1]
    assert host.subscribe("price<300") is None
    assert "more than 8000 cells together" in str(
        host.subscribe("price>=500", "price<700", number=2)
    )
    assert network.nodes[2].subscribe("price<200") is None
    network.run(5.0)
    assert host.publish("stock=B", "price=100") is None
    network.run(1.0)
    assert got(network, 1, 1) == {1, 2}


def test_nobody_is_no_peer() -> None:
    network = overlay_of(2, "mirinae", wired=False)
    subscribe_all(network)
    network.run(5.0)
    before = network.nodes[1].service.counters["malformed"]
    network.nodes[1].hear(
        Frame(OverlayKind.HEARTBEAT, 0, 1, hops=1, body=heartbeat((), ())).encode(), 2
    )
    assert network.nodes[1].service.counters["malformed"] == before + 1
    network.run(60.0)

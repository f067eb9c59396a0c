"""Events on a tree whose root a neighbour has invented."""

from __future__ import annotations

from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.routing.neighbours import encode_hello
from nodeapp.routing.tree_beacon import TreeBeacon
from nodeapp.wire import Frame, Kind
from tests.nodeapp.routing.tree_lab import GraphNetwork

LIAR, ROOT = 99, 1
"""A neighbour of node 6 that is no dispatcher, and a root that never was."""


def test_events_arrive_while_a_neighbour_invents_epochs_and_after() -> None:
    ring = {(n, n + 1) for n in range(2, 12)} | {(2, 12)}
    network = GraphNetwork(ring)
    network.add_services(12, "subscription-forwarding")
    network.nodes[ROOT].failed = True
    network.run(40.0)
    receivers = (4, 9, 12)
    victim, sent = network.nodes[6], 0
    assert isinstance(victim.service, SubscriptionForwarding)
    for number in range(240):
        if number % 40 == 0:  # a client renews its lease
            for node in receivers:
                assert network.nodes[node].subscribe("cars") is None
        if number < 120:
            beacon = TreeBeacon(ROOT, 10**9 + 1000 * number, 0, 1, children=(6,))
            said = Frame(Kind.HELLO, LIAR, route=beacon.encode(), body=encode_hello(0, 0, 0, 0))
            victim.hear(said.encode(), LIAR)
        if 40 <= number < 120 or number >= 200:  # not while roots change
            assert network.nodes[2].publish("cars") is None
            sent += 1
        if number == 110:
            assert victim.service.tree.place.parent == LIAR
        network.run(0.5)
    network.run(2.0)
    for node in receivers:
        assert sorted(network.nodes[node].notified().values()) == [1] * sent
    assert victim.service.tree.place.root == 2

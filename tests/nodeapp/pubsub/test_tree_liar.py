"""Events on a tree of whose root a neighbour has invented something."""

from __future__ import annotations

from nodeapp.kinds import CommonKind
from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.pubsub.table_messages import MAX_SESSION, TableKind, Update
from nodeapp.routing.neighbours import encode_hello
from nodeapp.routing.tree_beacon import MAX_EPOCH, TreeBeacon
from nodeapp.wire import Frame
from tests.nodeapp.routing.tree_lab import GraphNetwork

LIAR, ROOT = 99, 1
"""A neighbour of node 6 that is no dispatcher, and a root that never was."""
RECEIVERS = (4, 9, 12)


def ring_of_dispatchers() -> GraphNetwork:
    """Return the nodes 2 to 12 in a ring, after their tree has formed."""
    network = GraphNetwork({(n, n + 1) for n in range(2, 12)} | {(2, 12)})
    network.add_services(12, "subscription-forwarding")
    network.nodes[ROOT].failed = True
    network.run(40.0)
    return network


def renew(network: GraphNetwork) -> None:
    """Let the clients of the receivers renew their leases."""
    for node in RECEIVERS:
        assert network.nodes[node].subscribe("cars") is None


def test_events_arrive_while_a_neighbour_invents_epochs_and_after() -> None:
    network = ring_of_dispatchers()
    victim, sent = network.nodes[6], 0
    assert isinstance(victim.service, SubscriptionForwarding)
    for number in range(240):
        if number % 40 == 0:
            renew(network)
        if number < 120:
            beacon = TreeBeacon(ROOT, 10**9 + 1000 * number, 0, 1, children=(6,))
            said = Frame(
                CommonKind.HELLO, LIAR, route=beacon.encode(), body=encode_hello(0, 0, 0, 0)
            )
            victim.hear(said.encode(), LIAR)
        if 40 <= number < 120 or number >= 200:  # not while roots change
            assert network.nodes[2].publish("cars") is None
            sent += 1
        if number == 110:
            assert victim.service.tree.place.parent == LIAR
        network.run(0.5)
    network.run(2.0)
    for node in RECEIVERS:
        assert sorted(network.nodes[node].notified().values()) == [1] * sent
    assert victim.service.tree.place.root == 2


def test_events_arrive_again_after_an_epoch_of_a_live_root_that_nothing_follows() -> None:
    network = ring_of_dispatchers()
    victim = network.nodes[6]
    beacon = TreeBeacon(2, MAX_EPOCH, 0, 1, children=(6,))
    said = Frame(CommonKind.HELLO, LIAR, route=beacon.encode(), body=encode_hello(0, 0, 0, 0))
    victim.hear(said.encode(), LIAR)
    for number in range(50):
        if number % 20 == 0:
            renew(network)
        network.run(1.0)
    for _ in range(20):
        assert network.nodes[2].publish("cars") is None
        network.run(0.5)
    network.run(2.0)
    for node in RECEIVERS:
        assert sorted(network.nodes[node].notified().values()) == [1] * 20


def test_an_invented_session_of_a_link_is_forgotten() -> None:
    network = GraphNetwork({(1, 2)})
    network.add_services(2, "subscription-forwarding")
    network.run(40.0)
    one, two = network.nodes.values()
    assert two.subscribe("cars") is None
    network.run(1.0)
    body = Update(MAX_SESSION, 0, True, [], []).encode()
    one.hear(Frame(TableKind.SUBSCRIPTION_UPDATE, 2, 1, body=body).encode(), 2)
    assert one.publish("cars") is None
    network.run(1.0)
    assert two.subscribe("planes", number=2) is None
    assert not two.notified(), "it says that node 2 wants nothing"
    network.run(10.0)
    sent = len(network.frames(TableKind.SUBSCRIPTION_UPDATE))
    for topic in ("cars", "planes"):
        assert one.publish(topic) is None
        network.run(1.0)
    assert sorted(two.notified().values()) == [1, 1]
    assert isinstance(one.service, SubscriptionForwarding)
    assert one.service.counters["older session"] > 0
    network.run(5.0)
    assert len(network.frames(TableKind.SUBSCRIPTION_UPDATE)) == sent, "they agree again"

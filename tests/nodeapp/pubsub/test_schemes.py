"""What all six schemes (docs/papers.md#six-schemes) have in common."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings

from nodeapp.events import Event
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import RefusedError
from nodeapp.pubsub.registry import PROTOCOLS
from nodeapp.wire import BROADCAST, Frame, WireError
from tests.nodeapp.network import SimNetwork
from tests.nodeapp.pubsub.schemes import (
    GEOGRAPHIC,
    NODE_BASED,
    SCHEMES,
    WARM_UP,
    connected_network_of,
    count,
    each_geographic_scheme,
    each_scheme,
    network_of,
    point,
    restart,
    stored,
)
from tests.nodeapp.strategies import hostile

TOPICS = ("traffic", "weather", "news")


def test_the_six_of_the_paper_are_there_and_those_of_cells() -> None:
    assert {*GEOGRAPHIC, *NODE_BASED} == {
        f"{decision}-{routing}"
        for decision in ("broker", "rendezvous")
        for routing in ("aodv", "gpsr", "gpsr-cell", "gpsr-map")
    }
    assert set(SCHEMES) < set(PROTOCOLS)


@pytest.mark.slow
@each_scheme
@pytest.mark.parametrize("seed", range(2))
def test_all_subscribers_of_a_connected_network_get_every_event_once(
    scheme: str, seed: int
) -> None:
    network = connected_network_of(30, scheme, seed=seed)
    rng = random.Random(seed)
    subscribers = rng.sample(sorted(network.nodes), 12)
    for node in subscribers:
        assert network.nodes[node].subscribe(TOPICS[node % 3]) is None
    network.run(WARM_UP)
    published = {topic: set[tuple[int, int]]() for topic in TOPICS}
    for _ in range(2):
        for number, node in enumerate(rng.sample(sorted(network.nodes), 8)):
            topic = TOPICS[number % 3]
            sequence = 1 + sum(
                node == publisher for ids in published.values() for publisher, _ in ids
            )
            assert network.nodes[node].publish(topic) is None
            published[topic].add((node, sequence))
            network.run(0.3)
    network.run(3)
    expected = arrived = 0
    for node in subscribers:
        notified = network.nodes[node].notified()
        wanted = published[TOPICS[node % 3]]
        assert set(notified) <= wanted
        assert set(notified.values()) == {1}
        expected, arrived = expected + len(wanted), arrived + len(notified)
    # AODV drops a frame whose route, not symmetric, has expired further on (RFC 3561, 6.11).
    assert arrived >= (0.95 * expected if scheme.endswith("aodv") else expected)
    for node in set(network.nodes) - set(subscribers):
        assert not network.nodes[node].notified()


@each_scheme
def test_each_event_is_processed_by_one_node_and_sent_to_those_it_admits(scheme: str) -> None:
    network = connected_network_of(25, scheme, seed=7)
    wanted = {1: (), 2: ("speed>10",), 3: ("speed>50",)}
    for node, words in wanted.items():
        network.nodes[node].subscribe("traffic", *words, attributes=["role=police"])
    network.nodes[4].subscribe("traffic", attributes=["role=press"])
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    start = network.time
    for _ in range(3):
        network.nodes[9].publish("traffic", "speed=20", policy=["role=police"])
        network.run(2)
    told = {node.node_id for node in network.nodes.values() if node.notified()}
    assert told == {1, 2}
    role = "processed as broker" if scheme.startswith("broker") else "processed as publisher"
    assert count(network, role) == 3
    assert count(network, "duplicates") == 0
    events = network.frames(CommonKind.EVENT, start)
    assert {1, 2} <= {frame.destination for frame in events} | {9}
    assert {3, 4, 5, BROADCAST}.isdisjoint(
        frame.destination for frame in events if frame.originator != frame.publisher
    )


@each_scheme
def test_a_subscription_that_is_not_refreshed_lapses(scheme: str) -> None:
    network = connected_network_of(15, scheme, seed=2)
    stays, leaves, publisher = (network.nodes[n] for n in (3, 7, 11))
    stays.subscribe("traffic")
    leaves.subscribe("traffic")
    network.run(WARM_UP)
    publisher.publish("traffic")
    network.run(2)
    assert leaves.notified() == {(11, 1): 1}
    leaves.unsubscribe()
    network.run(8)  # the timeout, and for a rendezvous the age of the list
    start = network.time
    publisher.publish("traffic")
    network.run(2)
    assert stays.notified() == {(11, 1): 1, (11, 2): 1}
    assert leaves.notified() == {(11, 1): 1}
    assert leaves.node_id not in {f.destination for f in network.frames(CommonKind.EVENT, start)}


def serving(network: SimNetwork) -> list[int]:
    """Return the nodes that have served as a decision point."""
    roles = ("processed as broker", "answered as rendezvous")
    return [
        number
        for number, node in network.nodes.items()
        if any(node.service.counters[role] for role in roles)
    ]


@each_geographic_scheme
def test_another_node_takes_over_from_a_decision_point_that_failed(scheme: str) -> None:
    network = connected_network_of(40, scheme, seed=5, parameters={"proximity": 0})
    subscriber, publisher = network.nodes[1], network.nodes[2]
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    publisher.publish("traffic")
    network.run(1)
    (first,) = serving(network)
    assert first > 2
    network.nodes[first].failed = True
    network.run(10)  # its beacons time out, refreshes find the next nearest
    publisher.publish("traffic")
    network.run(2)
    assert subscriber.notified() == {(2, 1): 1, (2, 2): 1}
    assert len(serving(network)) > 1


@each_scheme
def test_a_decision_point_that_restarts_learns_all_it_needs_from_refreshes(scheme: str) -> None:
    network = connected_network_of(25, scheme, seed=9)
    for number in (4, 5, 6):
        network.nodes[number].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[2].publish("traffic", sequence=1)
    network.run(1)
    served = [network.nodes[number] for number in serving(network)]
    assert served
    for node in served:
        node.failed = True
    network.run(5)
    for node in served:
        restart(network, node, scheme)
    assert sum(stored(network.nodes[node.node_id]) for node in served) <= len(served)
    network.run(10)
    network.nodes[2].publish("traffic", sequence=2)
    network.run(2)
    for number in (4, 5, 6):
        assert network.nodes[number].notified()[2, 2] == 1


@each_scheme
def test_losses_bring_no_duplicates(scheme: str) -> None:
    network = connected_network_of(20, scheme, seed=7, loss=0.1)
    for number in range(1, 9):
        network.nodes[number].subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(20):
        network.nodes[15].publish("traffic")
        network.run(0.5)
    received = [network.nodes[number].notified() for number in range(1, 9)]
    assert all(set(each.values()) <= {1} for each in received)
    assert any(received)


@each_scheme
def test_a_lone_node_serves_itself(scheme: str) -> None:
    network = network_of([(0.0, 0.0)], scheme)
    node = network.nodes[1]
    node.subscribe("traffic")
    network.run(WARM_UP)
    node.publish("traffic")
    network.run(1)
    assert node.notified() == {(1, 1): 1}
    assert stored(node) == 1
    assert count(network, "malformed") == 0


@each_scheme
def test_whatever_part_a_node_has_it_may_have_the_others_too(scheme: str) -> None:
    network = network_of([(400.0, 400.0), (500.0, 400.0), (600.0, 400.0)], scheme)
    for node in network.nodes.values():
        node.subscribe("traffic")
    network.run(WARM_UP)
    for node in network.nodes.values():
        node.publish("traffic")
        network.run(1)
    for node in network.nodes.values():
        assert node.notified() == {(1, 1): 1, (2, 1): 1, (3, 1): 1}


@each_scheme
def test_what_no_frame_can_carry_is_refused_with_a_reason(scheme: str) -> None:
    network = network_of([(0.0, 0.0)], scheme)
    node = network.nodes[1]
    assert "give the filter a topic" in str(node.subscribe("speed>5"))
    assert "give the event a topic" in str(node.publish("speed=5"))
    node.service.publish(Event(1, 90, {"topic": "t" * 4096}))
    with pytest.raises(RefusedError, match="a topic of more than 4096 bytes"):
        node.service.publish(Event(1, 91, {"topic": "t" * 4097}))
    long = [f"a{number}!={'x' * 1000}" for number in range(57)]
    assert "a filter and attributes of more than" in str(node.subscribe("traffic", *long))


@each_scheme
def test_the_longest_filter_is_served(scheme: str) -> None:
    network = network_of([(400.0, 400.0), (500.0, 400.0)], scheme)
    one, other = network.nodes.values()
    topic = "t" * 1024
    assert one.subscribe(topic, *(f"a{number}!={'x' * 1000}" for number in range(53))) is None
    network.run(WARM_UP)
    other.publish(topic)
    network.run(2)
    assert not one.notified()  # a0 does not exist
    other.publish(topic, *(f"a{number}=y" for number in range(53)))
    network.run(2)
    assert one.notified() == {(2, 2): 1}


@each_scheme
@given(body=hostile)
@settings(max_examples=30)
def test_no_body_is_more_than_malformed(scheme: str, body: bytes) -> None:
    network = network_of([(400.0, 400.0)], scheme)
    node = point(network.nodes[1])
    for kind in node.arrivals:
        with contextlib.suppress(WireError):
            node.arrived(Frame(kind, 2, 1, publisher=2, sequence=9, body=body))
    assert len(node.subscriptions) == 0


@each_scheme
def test_a_run_repeats_exactly(scheme: str) -> None:
    def run() -> list[tuple[float, int, int, bytes]]:
        network = connected_network_of(15, scheme, seed=11)
        network.nodes[3].subscribe("traffic")
        network.run(WARM_UP)
        network.nodes[4].publish("traffic")
        network.run(2)
        return network.sent

    assert run() == run()

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from nodeapp.host import Position
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.topic_hash import LocationHash
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_REPLICA, Frame
from tests.nodeapp.network import SimNetwork, connected_network
from tests.nodeapp.pubsub.schemes import WARM_UP, around, stored


def hashed_in(network: SimNetwork, topic: str) -> tuple[float, float]:
    return LocationHash(network.environment)(topic).location


@pytest.mark.parametrize("proximity", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_all_subscribers_of_a_connected_network_get_every_event_once(
    seed: int, proximity: float
) -> None:
    network = connected_network(40, "broker-gpsr", seed=seed, proximity=proximity)
    rng = random.Random(seed)
    subscribers = rng.sample(sorted(network.nodes), 12)
    topics = ["traffic", "weather", "news"]
    for node in subscribers:
        assert network.nodes[node].subscribe(topics[node % 3]) is None
    network.run(WARM_UP)
    published = {topic: set[tuple[int, int]]() for topic in topics}
    for number, node in enumerate(rng.sample(sorted(network.nodes), 12)):
        topic = topics[number % 3]
        assert network.nodes[node].publish(topic) is None
        published[topic].add((node, 1))
        network.run(0.3)
    network.run(1)
    for node in subscribers:
        notified = network.nodes[node].notified()
        assert set(notified) == published[topics[node % 3]]
        assert set(notified.values()) == {1}
    for node in set(network.nodes) - set(subscribers):
        assert not network.nodes[node].notified()


def test_content_and_policy_are_evaluated_at_the_broker() -> None:
    network = connected_network(30, "broker-gpsr", seed=7)
    wanted = {1: (), 2: ("speed>10",), 3: ("speed>50",)}
    for node, words in wanted.items():
        network.nodes[node].subscribe("traffic", *words, attributes=["role=police"])
    network.nodes[4].subscribe("traffic", attributes=["role=press"])
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    start = network.time
    network.nodes[9].publish("traffic", "speed=20", policy=["role=police"])
    network.run(1)
    told = {node.node_id for node in network.nodes.values() if node.notified()}
    assert told == {1, 2}
    dispatched = {f.destination for f in network.frames(CommonKind.EVENT, start)} - {ANY_NODE}
    assert dispatched <= {1, 2}  # those that are refused are not even sent to


def test_one_node_processes_an_event_and_does_not_broadcast_it() -> None:
    network = connected_network(60, "broker-gpsr", seed=3)
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    start = network.time
    network.nodes[9].publish("traffic")
    network.run(1)
    assert sum(n.service.counters["processed as broker"] for n in network.nodes.values()) == 1
    events = network.frames(CommonKind.EVENT, start)
    assert events
    assert all(frame.destination != BROADCAST for frame in events)


def test_all_nodes_within_k_hold_a_captured_subscription() -> None:
    network = SimNetwork()
    location = hashed_in(network, "traffic")
    for angle in range(5):
        network.add(around(location, 120.0, angle * 1.2), "broker-gpsr")
    subscriber = network.add(around(location, 300.0, 0.0), "broker-gpsr")
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    assert [stored(network.nodes[n]) for n in range(1, 6)] == [1] * 5
    replicas = [f for f in network.frames(TopicKind.SUBSCRIPTION) if f.flags & FLAG_REPLICA]
    captured = {f.originator for f in replicas}
    assert captured == {subscriber.node_id}
    assert all(frame.destination == BROADCAST and not frame.route for frame in replicas)


def test_publisher_subscriber_and_broker_may_be_one_node() -> None:
    network = SimNetwork()
    location = hashed_in(network, "traffic")
    node = network.add(location, "broker-gpsr")
    other = network.add(around(location, 200.0, 1.0), "broker-gpsr")
    node.subscribe("traffic")
    other.subscribe("traffic")
    network.run(WARM_UP)
    node.publish("traffic")
    network.run(1)
    other.publish("traffic")
    network.run(1)
    assert node.notified() == {(1, 1): 1, (2, 1): 1}
    assert other.notified() == {(1, 1): 1, (2, 1): 1}


def test_a_lone_node_serves_itself() -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), "broker-gpsr")
    node.subscribe("traffic")
    network.run(WARM_UP)
    node.publish("traffic")
    network.run(1)
    assert node.notified() == {(1, 1): 1}
    assert stored(node) == 1


@pytest.mark.parametrize("what", ["the filter", "the event"])
def test_what_has_no_topic_is_refused_with_a_reason(what: str) -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), "broker-gpsr")
    refusal = node.subscribe("speed>5") if what == "the filter" else node.publish("speed=5")
    assert refusal is not None
    assert f"give {what} a topic" in refusal


def test_the_events_hops_add_up_over_the_broker() -> None:
    network = SimNetwork()
    x, y = hashed_in(network, "traffic")
    for i in range(-2, 3):
        network.add((x + 200.0 * i, y), "broker-gpsr")
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(1)
    (notice,) = [reply for reply in network.nodes[5].replies if reply.kind == ClientKind.NOTIFY]
    assert notice.hops == 4


def test_subscriptions_lapse_after_their_timeout() -> None:
    network = SimNetwork()
    x, y = hashed_in(network, "traffic")
    broker = network.add((x, y), "broker-gpsr", {"subscription_timeout": 5})
    subscriber = network.add((x + 200, y), "broker-gpsr")
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    assert stored(broker) == 1
    subscriber.unsubscribe()
    network.run(4)
    assert stored(broker) == 1
    network.run(3)
    assert stored(broker) == 0
    broker.publish("traffic")
    network.run(1)
    assert not subscriber.notified()


def test_refreshes_repair_the_failure_of_a_broker() -> None:
    network = SimNetwork()
    location = hashed_in(network, "traffic")
    publisher = network.add(around(location, 200.0, math.pi), "broker-gpsr", {"proximity": 0})
    subscriber = network.add(around(location, 200.0, 0.0), "broker-gpsr", {"proximity": 0})
    for distance, angle in ((5.0, 0.0), (30.0, 1.5), (30.0, -1.5)):
        network.add(around(location, distance, angle), "broker-gpsr", {"proximity": 0})
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    publisher.publish("traffic")
    network.run(1)
    assert subscriber.notified() == {(1, 1): 1}
    assert network.nodes[3].service.counters["processed as broker"] == 1
    network.nodes[3].failed = True
    network.run(10)  # beacons of the failed node time out, refreshes find the next nearest
    publisher.publish("traffic")
    network.run(1)
    assert subscriber.notified() == {(1, 1): 1, (1, 2): 1}


def orbit(
    location: tuple[float, float], radius: float, period: float, phase: float
) -> Callable[[float], Position]:
    """Return the position by time of a node that swings through `location` along a line."""

    def at(time: float) -> Position:
        angle = 2 * math.pi * (time / period + phase)
        speed = radius * 2 * math.pi / period
        x = location[0] + radius * math.cos(angle)
        return Position(x, location[1] + 10 * phase, -speed * math.sin(angle), 0.0)

    return at


def oscillating(proximity: float) -> tuple[int, int]:
    """Return how many of how many events arrive while the nearest node changes all the time."""
    network = SimNetwork()
    location = hashed_in(network, "traffic")
    parameters = {"proximity": proximity, "hello_interval": 0.2}
    publisher = network.add(around(location, 220.0, math.pi), "broker-gpsr", parameters)
    subscriber = network.add(around(location, 220.0, 0.0), "broker-gpsr", parameters)
    for number in range(6):
        network.add(orbit(location, 100.0, 8.0, number / 6), "broker-gpsr", parameters)
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(60):
        publisher.publish("traffic")
        network.run(0.37)
    notified = subscriber.notified()
    assert set(notified.values()) == {1}
    return len(notified), 60


def test_proximity_keeps_oscillating_brokers_from_losing_events() -> None:
    with_proximity, published = oscillating(0.5)
    without, _ = oscillating(0.0)
    assert with_proximity >= 0.98 * published
    assert without < 0.9 * with_proximity


def wandering(rng: random.Random, side: float, speed: float) -> Callable[[float], Position]:
    """Return a random waypoint walk."""
    legs = [(0.0, rng.uniform(0, side), rng.uniform(0, side))]
    while legs[-1][0] < 200:
        time, x, y = legs[-1]
        nx, ny = rng.uniform(0, side), rng.uniform(0, side)
        legs.append((time + math.dist((x, y), (nx, ny)) / speed, nx, ny))

    def at(time: float) -> Position:
        for (t0, x0, y0), (t1, x1, y1) in itertools.pairwise(legs):
            if time < t1:
                share = (time - t0) / (t1 - t0)
                vx, vy = (x1 - x0) / (t1 - t0), (y1 - y0) / (t1 - t0)
                return Position(x0 + share * (x1 - x0), y0 + share * (y1 - y0), vx, vy)
        raise AssertionError("the walk is too short")

    return at


def test_moving_nodes_get_nearly_all_events_and_none_twice() -> None:
    network = SimNetwork(side=800.0, seed=4)
    rng = random.Random(4)
    for _ in range(40):
        network.add(wandering(rng, 800.0, 5.0), "broker-gpsr")
    subscribers = [network.nodes[n] for n in range(1, 11)]
    for node in subscribers:
        node.subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(40):
        network.nodes[20].publish("traffic")
        network.run(0.5)
    network.run(1)
    received = [node.notified() for node in subscribers]
    assert all(set(each.values()) <= {1} for each in received)
    assert sum(map(len, received)) >= 0.93 * 40 * len(subscribers)


def test_losses_bring_no_duplicates() -> None:
    network = SimNetwork(side=600.0, seed=5, loss=0.2)
    rng = random.Random(5)
    for _ in range(25):
        network.add((rng.uniform(0, 600), rng.uniform(0, 600)), "broker-gpsr")
    for number in range(1, 9):
        network.nodes[number].subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(20):
        network.nodes[15].publish("traffic")
        network.run(0.5)
    for number in range(1, 9):
        assert set(network.nodes[number].notified().values()) <= {1}


def test_malformed_subscriptions_are_counted() -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), "broker-gpsr")
    good = bytes.fromhex("8282fb") + bytes(8) + b"\xfb" + bytes(8)
    nan = bytes.fromhex("8282fb7ff8000000000000fb") + bytes(8)
    bodies = [b"", good, nan + b"\x82\x80\xa0", good + b"\x82\x80\xa0", good + b"\xff"]
    for body in bodies:
        frame = Frame(TopicKind.SUBSCRIPTION, 9, BROADCAST, flags=FLAG_REPLICA, body=body)
        node.hear(frame.encode(), 9)
    assert node.service.counters["malformed"] == len(bodies)
    assert stored(node) == 0


def test_an_internal_error_costs_one_refresh(monkeypatch: pytest.MonkeyPatch) -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), "broker-gpsr", {"refresh_interval": 1.0})
    service = node.service
    assert isinstance(service, DecisionPoint)
    refreshed: list[float] = []

    def refresh() -> None:
        refreshed.append(network.time)
        if len(refreshed) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(service, "refresh", refresh)
    with pytest.raises(ZeroDivisionError):  # a node app tells it and goes on
        network.run(2.0)
    network.run(3.0)
    assert len(refreshed) >= 3

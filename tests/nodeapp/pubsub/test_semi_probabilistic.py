"""Semi-probabilistic forwarding over ideal links: its two ends, its mean, its choices."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import Filter, Subscription, parse_attributes
from nodeapp.kinds import CommonKind, Kind
from nodeapp.pubsub.interests import MAX_SUBSCRIPTION, InterestKind, InterestTable, encode_interests
from nodeapp.pubsub.semi_probabilistic import SemiProbabilistic
from nodeapp.wire import BROADCAST, MAX_ADDRESSEES, Frame
from tests.nodeapp.network import SimNetwork, random_points
from tests.nodeapp.strategies import hostile

NAME = "semi-probabilistic"
ADDRESSING = ("unicast", "list")
each_addressing = pytest.mark.parametrize("addressing", ADDRESSING)
WARM_UP = 6.0  # seconds: beacons of all neighbours, subscriptions everywhere


def network_of(
    points: list[tuple[float, float]], *, seed: int = 0, loss: float = 0.0, **parameters: Any
) -> SimNetwork:
    network = SimNetwork(seed=seed, loss=loss)
    for point in points:
        network.add(point, NAME, parameters)
    return network


def line(count: int, **parameters: Any) -> SimNetwork:
    """Return nodes in a row, each in range of the next ones only."""
    return network_of([(200.0 * index, 0.0) for index in range(count)], **parameters)


@st.composite
def connected_points(draw: st.DrawFn) -> list[tuple[float, float]]:
    """Points of which each but the first is in range of one before it."""
    rng = draw(st.randoms(use_true_random=False))
    points = [(500.0, 500.0)]
    for _ in range(draw(st.integers(1, 14))):
        x, y = rng.choice(points)
        points.append((x + rng.uniform(-170, 170), y + rng.uniform(-170, 170)))
    return points


def events_sent(network: SimNetwork, since: float = 0.0) -> list[tuple[int, int]]:
    """Return (sender, receiver) of every transmission of an event."""
    return [
        (sender, to)
        for time, sender, to, datagram in network.sent
        if time >= since and wire.decode(datagram).kind == CommonKind.EVENT
    ]


def table_of(network: SimNetwork, node: int) -> InterestTable:
    service = network.nodes[node].service
    assert isinstance(service, SemiProbabilistic)
    return service.table


def told(network: SimNetwork) -> dict[int, int]:
    """Return how often each node's client was told, all events together."""
    return {node.node_id: sum(node.notified().values()) for node in network.nodes.values()}


@settings(max_examples=40, deadline=None)
@given(connected_points(), st.sampled_from(ADDRESSING), st.integers(0, 9), st.integers(0, 3))
def test_with_a_fraction_of_1_everybody_gets_an_event_once(
    points: list[tuple[float, float]], addressing: str, seed: int, horizon: int
) -> None:
    network = network_of(points, seed=seed, addressing=addressing, horizon=horizon, fraction=1)
    for node in network.nodes.values():
        assert node.subscribe("traffic") is None
    network.run(WARM_UP)
    publisher = 1 + seed % len(points)
    assert network.nodes[publisher].publish("traffic") is None
    network.run(3)
    for node in network.nodes.values():
        assert node.notified() == {(publisher, 1): 1}


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    connected_points(),
    st.sampled_from(ADDRESSING),
    st.integers(0, 9),
    st.data(),
    st.sampled_from([0.05, 0.0, 0.5]),
)
def test_with_the_horizon_at_the_diameter_and_a_fraction_of_0_subscribers_get_events_once(
    points: list[tuple[float, float]],
    addressing: str,
    seed: int,
    data: st.DataObject,
    jitter: float,
) -> None:
    network = network_of(
        points,
        seed=seed,
        addressing=addressing,
        horizon=len(points),
        fraction=0,
        refresh_interval=2,
        max_jitter=jitter,
    )
    subscribers = data.draw(st.sets(st.sampled_from(sorted(network.nodes)), min_size=1))
    for subscriber in subscribers:
        network.nodes[subscriber].subscribe("traffic", number=1)
        network.nodes[subscriber].subscribe("traffic", "speed>10", number=2)
    network.run(WARM_UP + 8)
    for number in range(8):  # at any time of a refresh
        publisher = data.draw(st.sampled_from(sorted(network.nodes)))
        network.nodes[publisher].publish("traffic", "speed=20", sequence=100 + number)
        network.run(0.4)
    network.run(8)
    for node in network.nodes.values():
        got = node.notified()
        assert set(got.values()) <= {1}
        assert len(got) == (8 if node.node_id in subscribers else 0)
    assert not any(node.service.counters["sent at random"] for node in network.nodes.values())


def test_without_a_subscriber_nothing_is_sent_by_a_fraction_of_0() -> None:
    network = line(4, horizon=8, fraction=0)
    network.nodes[4].subscribe("news")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(2)
    assert events_sent(network) == []
    network.nodes[1].publish("news")
    network.run(2)
    assert events_sent(network) == [(1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("horizon", [0, 1, 2, 3])
def test_subscriptions_are_known_within_the_horizon_and_at_their_distance(horizon: int) -> None:
    network = line(6, horizon=horizon)
    network.nodes[1].subscribe("traffic")
    network.run(30)
    for node in network.nodes:
        entries = [
            (origin, near, far) for _, origin, near, far in table_of(network, node).entries()
        ]
        distance = node - 1
        here = (1, distance, distance)  # subscriber, neighbour towards it, hops
        assert (here in entries) == (0 < distance <= horizon)
        assert all(origin == 1 for origin, _, _ in entries)
    assert bool(network.frames(InterestKind.INTERESTS)) == (horizon > 0)


def test_events_take_at_least_the_fraction_of_the_other_links_rounded_up() -> None:
    star = [(500.0, 500.0), *[(500.0 + 40 * (i % 4), 500.0 + 40 * (i // 4)) for i in range(11)]]
    for fraction, links in ((0.0, 0), (0.01, 1), (0.1, 2), (0.5, 6), (0.95, 11), (1.0, 11)):
        network = network_of(star, horizon=0, fraction=fraction, ttl=1)
        network.run(WARM_UP)
        network.nodes[1].publish("traffic")
        assert len(events_sent(network)) == links, fraction
        assert len({to for _, to in events_sent(network)}) == links
    network = network_of(star[:11], horizon=0, fraction=0.3, ttl=1)
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    assert len(events_sent(network)) == 3  # of 10, although 0.3 * 10 is above 3 in binary


def test_subscriptions_count_towards_the_fraction() -> None:
    star = [(500.0 + 40 * (i % 4), 500.0 + 40 * (i // 4)) for i in range(11)]
    for subscribers, links in ((0, 3), (2, 3), (3, 3), (7, 7)):
        network = network_of(star, horizon=1, fraction=0.3, ttl=1)
        for node in range(2, 2 + subscribers):
            network.nodes[node].subscribe("traffic")
        network.run(WARM_UP)
        network.nodes[1].publish("traffic")
        receivers = {to for _, to in events_sent(network)}
        assert len(receivers) == links
        assert receivers >= set(range(2, 2 + subscribers))


def choices(seed: int) -> list[tuple[int, int]]:
    rng = random.Random(3)
    points = random_points(25, rng, 700.0)
    network = network_of(points, seed=seed, horizon=1, fraction=0.4)
    network.nodes[7].subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(5):
        network.nodes[3].publish("traffic")
        network.run(1)
    return events_sent(network)


def test_the_seed_decides_the_choices() -> None:
    assert choices(1) == choices(1)
    assert choices(1) != choices(2)


def delivered(horizon: int, fraction: float) -> float:
    """Return the mean share of subscribers that get an event, over graphs and publishers."""
    got = wanted = 0
    for seed in range(4):
        rng = random.Random(seed)
        network = network_of(
            random_points(40, rng, 1000.0), seed=seed, horizon=horizon, fraction=fraction
        )
        subscribers = rng.sample(sorted(network.nodes), 12)
        for node in subscribers:
            network.nodes[node].subscribe("traffic")
        network.run(WARM_UP)
        for publisher in range(1, 9):
            network.nodes[publisher].publish("traffic")
            network.run(0.5)
            wanted += len(set(subscribers) - {publisher}) + (publisher in subscribers)
        got += sum(told(network).values())
    return got / wanted


@pytest.mark.slow
def test_delivery_grows_with_the_fraction_and_with_the_horizon() -> None:
    by_fraction = [delivered(1, fraction) for fraction in (0.0, 0.2, 0.4, 1.0)]
    assert by_fraction == sorted(by_fraction)
    assert by_fraction[0] < by_fraction[2] - 0.2
    by_horizon = [delivered(horizon, 0.2) for horizon in (0, 2, 8)]
    assert by_horizon == sorted(by_horizon)
    assert by_horizon[0] < by_horizon[2] - 0.1


def test_ends_of_subscriptions_are_told_at_once_and_silence_is_forgotten() -> None:
    network = line(4, horizon=3, refresh_interval=5, subscription_timeout=12)
    network.nodes[1].subscribe("traffic", number=1)
    network.nodes[1].subscribe("news", number=2)
    network.run(WARM_UP)
    tables = [table_of(network, node) for node in network.nodes]
    assert len(tables[3]) == len(list(tables[3].entries())) == 2
    network.nodes[1].unsubscribe(1)
    network.run(0.5)
    assert len(tables[3]) == 1
    network.nodes[1].unsubscribe(2)
    network.run(0.5)
    assert list(tables[3].entries()) == []
    network.nodes[1].subscribe("traffic", number=3)
    network.run(1)
    assert len(tables[3]) == 1
    network.nodes[1].failed = True
    network.run(20)
    assert [len(table) for table in tables[1:]] == [0, 0, 0]


def test_another_way_is_taken_when_the_neighbour_of_the_best_one_is_gone() -> None:
    square = [(0.0, 0.0), (200.0, 0.0), (0.0, 200.0), (200.0, 200.0)]
    network = network_of(square, horizon=4, fraction=0, refresh_interval=100, max_jitter=0.01)
    network.nodes[4].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(0.5)
    (first,) = {to for sender, to in events_sent(network) if sender == 1}
    network.nodes[first].failed = True
    network.run(8)  # until it is no neighbour any more
    network.nodes[1].publish("traffic")
    network.run(0.5)
    assert told(network)[4] == 2


@each_addressing
def test_bodies_stay_untouched_and_lists_name_who_shall_take_a_frame(addressing: str) -> None:
    star = [(500.0 + 10 * (i % 9), 500.0 + 10 * (i // 9)) for i in range(81)]
    network = network_of(star, horizon=0, fraction=1, ttl=1, addressing=addressing)
    for node in network.nodes.values():
        node.subscribe("traffic")
    network.run(WARM_UP)
    start = network.time
    network.nodes[1].publish("traffic", "speed=5")
    network.run(0.5)
    sent = [each for each in network.sent if each[0] >= start and each[1] == 1]
    frames = [(to, wire.decode(datagram)) for _, _, to, datagram in sent]
    events = [(to, frame) for to, frame in frames if frame.kind == CommonKind.EVENT]
    assert len({frame.body for _, frame in events}) == 1
    if addressing == "unicast":
        assert sorted(to for to, _ in events) == list(range(2, 82))
        assert not any(frame.route for _, frame in events)
    else:
        assert {to for to, _ in events} == {BROADCAST}
        lists = [wire.decode_addressees(frame.route) for _, frame in events]
        assert [len(each) for each in lists] == [MAX_ADDRESSEES, 80 - MAX_ADDRESSEES]
        assert sorted(node for each in lists for node in each) == list(range(2, 82))
    assert told(network) == dict.fromkeys(network.nodes, 1)


def test_who_is_not_in_the_list_does_not_take_the_frame() -> None:
    network = network_of([(0.0, 0.0), (10.0, 0.0), (20.0, 0.0)], fraction=0, addressing="list")
    network.nodes[2].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(1)
    assert len(events_sent(network)) == 1
    assert told(network) == {1: 0, 2: 1, 3: 0}
    counters = network.nodes[3].service.counters
    assert counters["not addressed"] == 1
    assert counters["duplicates"] == 0


def test_a_list_is_a_frame_a_node_and_unicasts_are_a_frame_a_link() -> None:
    counts: Counter[str] = Counter()
    for addressing in ADDRESSING:
        rng = random.Random(4)
        network = network_of(random_points(20, rng, 500.0), fraction=1, addressing=addressing)
        for node in network.nodes.values():
            node.subscribe("traffic")
        network.run(WARM_UP)
        network.nodes[1].publish("traffic")
        network.run(2)
        counts[addressing] = len(events_sent(network))
        links = sum(
            network.in_range(one, other)
            for one in network.nodes.values()
            for other in network.nodes.values()
            if one is not other
        )
        if addressing == "unicast":  # each link but the incoming one; the publisher has none
            assert counts[addressing] == links - (len(network.nodes) - 1)
        else:  # one frame a node that has a link left
            assert counts[addressing] <= len(network.nodes)
        assert set(told(network).values()) == {1}
    assert counts["list"] < counts["unicast"] / 4


def test_what_cannot_be_told_in_a_frame_is_refused() -> None:
    network = line(2)
    about = [f"a{index:02}={'x' * 1015}" for index in range(58)]
    last = f"last={'x' * 300}"
    bare = Subscription(Filter.parse(["traffic"]), parse_attributes([*about, last]))
    room = MAX_SUBSCRIPTION - len(bare.encode())
    for more, refused in ((room + 1, True), (room, False)):
        attributes = [*about, last + "x" * more]
        refusal = network.nodes[1].subscribe("traffic", attributes=attributes)
        if refused:
            assert refusal == (
                f"a filter and attributes of {MAX_SUBSCRIPTION + 1} bytes; at most "
                f"{MAX_SUBSCRIPTION} fit the frame that tells the neighbours: use fewer conditions "
                "or shorter texts"
            )
            assert not network.nodes[1].service.local
    network.run(WARM_UP)
    assert len(table_of(network, 2)) == 1


def test_many_subscriptions_go_in_several_frames_and_shrink_again() -> None:
    network = line(3, horizon=2, refresh_interval=50)
    for number in range(1, 121):
        network.nodes[1].subscribe("traffic", f"speed>{number}", number=number)
    network.run(WARM_UP)
    table = table_of(network, 3)
    assert len(list(table.entries())) == 120
    assert all(len(frame.body) < 1400 for frame in network.frames(InterestKind.INTERESTS))
    for number in range(3, 121):
        network.nodes[1].unsubscribe(number)
    network.run(1)
    assert len(table) == len(list(table.entries())) == 2


def test_a_full_table_is_counted_and_takes_no_more() -> None:
    network = network_of([(10.0 * index, 0.0) for index in range(12)], horizon=1, table_limit=5)
    for node in range(2, 13):
        network.nodes[node].subscribe("traffic")
    network.run(30)
    service = network.nodes[1].service
    assert service.status()["table entries"] == 5
    assert service.counters["table full"] > 0


def test_frames_that_cannot_have_come_this_way_are_malformed() -> None:
    network = line(2)
    node = network.nodes[2]
    body = next(encode_interests(5, [Subscription(Filter()).encode()]))
    for frame, sender in (
        (Frame(InterestKind.INTERESTS, 9, hops=1, body=body), 1),  # not its own, at one hop
        (Frame(InterestKind.INTERESTS, 1, hops=2, body=body), 1),  # its own, from elsewhere
        (Frame(InterestKind.INTERESTS, 0, hops=2, body=body), 1),
        (Frame(InterestKind.INTERESTS, 1, hops=0, body=body), 1),
        (Frame(CommonKind.EVENT, 1, route=b"\x04", body=body), 1),
        (Frame(CommonKind.EVENT, 1, route=b"\x01" + bytes(16), body=body), 1),
    ):
        before = node.service.counters["malformed"]
        node.hear(frame.encode(), sender)
        assert node.service.counters["malformed"] == before + 1
    node.hear(Frame(InterestKind.INTERESTS, 1, hops=1, body=body).encode(), 1)
    assert len(table_of(network, 2)) == 1


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([CommonKind.HELLO, CommonKind.EVENT, InterestKind.INTERESTS]),
    st.sampled_from([0, 1, 2, 3, BROADCAST]),
    st.integers(0, 255),
    st.sampled_from([0, 1, 2, 255]),
    hostile
    | st.binary(max_size=40).map(lambda tail: b"\x04" + tail)
    | st.lists(st.integers(1, 3), min_size=1, max_size=5).map(wire.encode_addressees),
    hostile
    | st.tuples(st.integers(0, 2**64 - 1), st.lists(hostile, max_size=3)).map(
        lambda told: next(encode_interests(*told))
    )
    | st.tuples(st.binary(min_size=14, max_size=14), hostile).map(
        lambda parts: b"\x84\x1b" + parts[0] + parts[1]
    ),
)
def test_whatever_is_heard_is_at_worst_counted(
    kind: Kind, originator: int, ttl: int, hops: int, route: bytes, body: bytes
) -> None:
    network = line(2, horizon=255, fraction=1, addressing="list", refresh_interval=0.5)
    network.nodes[2].subscribe("traffic")
    network.run(2)
    frame = Frame(kind, originator, ttl=ttl, hops=hops, route=route[:255], body=body)
    for sender in (1, 3):
        for number in (0, 7):
            network.nodes[2].hear(frame._replace(publisher=number).encode(), sender)
    network.nodes[1].publish("traffic", sequence=9)
    network.run(2)
    assert network.nodes[2].notified()[1, 9] == 1

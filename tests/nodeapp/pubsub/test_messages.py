from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import Filter, Subscription
from nodeapp.pubsub.messages import (
    MAX_STAMP,
    MAX_SUBSCRIPTION,
    MAX_TOPIC,
    Stamps,
    Subscriber,
    TopicKind,
    decode_advertisement,
    decode_located,
    decode_subscribers,
    encode_advertisement,
    encode_located,
    encode_subscribers,
    encode_subscription,
)
from nodeapp.wire import BROADCAST, FLAG_REPLICA, MAX_BODY, Frame, WireError
from tests.nodeapp.network import SimNetwork
from tests.nodeapp.strategies import hostile, ids, texts

metres = st.floats(-9e8, 9e8)
locations = st.tuples(metres, metres)
stamps = st.integers(0, MAX_STAMP)
subscribers = st.builds(
    Subscriber, ids, st.binary(max_size=500), locations, stamps, st.floats(0, 1000)
)


@given(locations, stamps, texts)
def test_an_advertisement_is_cbor_and_comes_back(
    location: tuple[float, float], stamp: int, topic: str
) -> None:
    body = encode_advertisement(topic, location, stamp)
    assert wire.decode_body(body) == [[*location, stamp], topic]
    assert decode_advertisement(body) == (topic, location, stamp)


@given(locations, stamps)
def test_a_subscription_is_cbor_and_comes_back(location: tuple[float, float], stamp: int) -> None:
    subscription = Subscription(Filter.parse(["traffic", "speed>5"]), {"role": "police"})
    body = encode_subscription(subscription, location, stamp)
    item = wire.decode_body(subscription.encode())
    assert wire.decode_body(body) == [[*location, stamp], item]
    decoded = decode_located(body)
    assert (decoded.location, decoded.stamp) == (location, stamp)
    assert Subscription.decode(decoded.item) == subscription


@given(st.lists(st.floats(0, 1e9), min_size=2).map(sorted))
def test_stamps_rise_even_within_a_millisecond_and_go_on_after_a_restart(
    times: list[float],
) -> None:
    issuer = Stamps()
    issued = [issuer.next(time) for time in times]
    assert all(earlier < later for earlier, later in itertools.pairwise(issued))
    restarted = Stamps().next(times[-1] + 0.001 * (len(times) + 1))
    assert issued[-1] < restarted <= MAX_STAMP


@given(texts, st.lists(subscribers, max_size=20), st.floats(1000, 2000))
def test_a_list_comes_back_with_ages_in_milliseconds(
    topic: str, entries: list[Subscriber], now: float
) -> None:
    lists = [decode_subscribers(body, now) for body in encode_subscribers(topic, entries, now)]
    assert [(each.topic, each.part, each.parts) for each in lists] == [
        (topic, part, len(lists)) for part in range(len(lists))
    ]
    found = [entry for each in lists for entry in each.subscribers]
    assert [entry[:4] for entry in found] == [entry[:4] for entry in entries]
    for entry, original in zip(found, entries, strict=True):
        assert entry.heard == pytest.approx(original.heard, abs=0.0006)


def test_whatever_is_allowed_fits_a_frame() -> None:
    largest = Subscriber(2**32 - 2, bytes(MAX_SUBSCRIPTION), (1e8, 1e8), MAX_STAMP, 0.0)
    bodies = list(encode_subscribers("t" * MAX_TOPIC, [largest] * 3, 2.0**30))
    assert len(bodies) == 3
    assert all(len(body) <= MAX_BODY for body in bodies)
    assert len(encode_located((1.0, 1.0), MAX_STAMP, bytes(MAX_SUBSCRIPTION))) <= MAX_BODY


@given(hostile)
def test_random_bodies_are_refused_or_finite(body: bytes) -> None:
    for item in (body, encode_located((1.0, 2.0), 3, body)):
        with contextlib.suppress(WireError):
            _, (x, y), _ = decode_advertisement(item)
            assert abs(x) < 1e9 > abs(y)
        with contextlib.suppress(WireError):
            for entry in decode_subscribers(item, 0.0).subscribers:
                assert 0 < entry.node < 2**32 - 1


GOOD = [5, 7, 100, 1.0, 2.0, b"x"]


@pytest.mark.parametrize(
    "value",
    [
        ["traffic", 0, 1],
        [7, 0, 1, []],
        ["traffic", 0, 1, {}],
        ["traffic", -1, 1, []],
        ["traffic", 1, 1, []],
        ["traffic", True, 2, []],
        ["traffic", 0, 1, [7]],
        ["traffic", 0, 1, [GOOD[:5]]],
        *(
            ["traffic", 0, 1, [[*GOOD[:at], bad, *GOOD[at + 1 :]]]]
            for at, bads in enumerate(
                [
                    (0, 2**32 - 1, "5"),
                    (-1, 1.5, MAX_STAMP + 1, True),
                    (-1, 1.5, 2**64),
                    (1e9, 1),
                    (float("nan"), None),
                    ("x", 1),
                ]
            )
            for bad in bads
        ),
    ],
)
def test_what_is_not_a_list_is_refused(value: object) -> None:
    with pytest.raises(WireError):
        decode_subscribers(wire.encode_body(value), 0.0)
    good = wire.encode_body(["traffic", 0, 1, [GOOD]])
    assert len(decode_subscribers(good, 0.0).subscribers) == 1


@pytest.mark.parametrize("topic", [5, None, ["traffic"], "t" * (MAX_TOPIC + 1)])
def test_an_advertisement_of_no_topic_is_refused(topic: object) -> None:
    with pytest.raises(WireError):
        decode_advertisement(encode_located((0.0, 0.0), 1, wire.encode_body(topic)))


@pytest.mark.parametrize("originator", [0, BROADCAST])
@pytest.mark.parametrize("protocol", ["broker-gpsr", "rendezvous-gpsr"])
def test_what_is_of_no_node_is_not_stored(protocol: str, originator: int) -> None:
    network = SimNetwork()
    node = network.add((0.0, 0.0), protocol)
    network.run(1.0)
    body = encode_subscription(Subscription(Filter.parse(["traffic"]), {}), (0.0, 0.0), 1)
    frame = Frame(
        TopicKind.SUBSCRIPTION, originator, BROADCAST, flags=FLAG_REPLICA, hops=3, body=body
    )
    node.hear(frame.encode(), 2)
    assert node.service.counters["malformed"] == 1
    assert node.service.status()["stored subscriptions"] == 0

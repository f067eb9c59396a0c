from __future__ import annotations

import math

import pytest

from nodeapp.events import Filter, Subscription
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.messages import (
    Subscriber,
    TopicKind,
    decode_subscribers,
    encode_advertisement,
    encode_subscribers,
)
from nodeapp.pubsub.rendezvous import Rendezvous
from nodeapp.wire import ANY_NODE, BROADCAST, Frame, GeoRoute
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.schemes import (
    WARM_UP,
    around,
    connected_network_of,
    count,
    hashed,
    network_of,
    stored,
)

LOCATION = hashed("traffic")
SCHEME = "rendezvous-gpsr"


def listed(node: SimHost) -> int:
    assert isinstance(node.service, Rendezvous)
    return len(node.service.listed)


def greedy(node: SimHost) -> bytes:
    """Return the extension of a frame that is bound for the position of a node."""
    at = node.position()
    return GeoRoute(at.x, at.y).encode()


def line(**parameters: float) -> SimNetwork:
    """Return five nodes in a line, 200 m apart; the third is the rendezvous node of traffic."""
    x, y = LOCATION
    return network_of([(x + 200.0 * i, y) for i in range(-2, 3)], SCHEME, parameters=parameters)


def test_events_go_straight_from_the_publisher_to_those_who_qualify() -> None:
    network = connected_network_of(30, SCHEME, seed=4)
    network.nodes[1].subscribe("traffic", "speed>10")
    network.nodes[2].subscribe("traffic", "speed>50")
    network.nodes[3].subscribe("traffic", "speed>10", attributes=["role=police"])
    network.run(WARM_UP)
    start = network.time
    network.nodes[9].publish("traffic", "speed=20", policy=["role=police"])
    network.run(2)
    events = network.frames(CommonKind.EVENT, start)
    assert {(frame.originator, frame.destination) for frame in events} == {(9, 3)}
    # The rendezvous node matched nothing but the topic.
    lists = [decode_subscribers(f.body, 0.0) for f in network.frames(TopicKind.SUBSCRIBERS, start)]
    assert lists
    assert all({each.node for each in found.subscribers} == {1, 2, 3} for found in lists)


def test_the_hops_are_those_of_the_direct_way() -> None:
    # The publisher and the subscriber are neighbours; the rendezvous node is far.
    x, y = LOCATION
    network = network_of([(x + 200.0 * i, y) for i in range(5)], SCHEME)
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[4].publish("traffic")
    network.run(2)
    (notice,) = [reply for reply in network.nodes[5].replies if reply.kind == ClientKind.NOTIFY]
    assert notice.hops == 1


def test_a_publisher_that_says_so_has_its_list_before_its_first_event() -> None:
    network = line(publisher_timeout=20)
    network.nodes[5].subscribe("traffic")
    assert network.nodes[1].advertise("traffic") is None
    assert network.nodes[1].advertise("traffic") is None  # a client may repeat what is not acked
    network.run(WARM_UP)
    sent = [f for f in network.frames(TopicKind.ADVERTISEMENT) if f.hops == 1]
    assert WARM_UP - 1 <= len(sent) <= WARM_UP + 3
    assert {f.originator for f in sent} == {1}
    assert listed(network.nodes[1]) == 1
    network.nodes[1].publish("traffic")
    network.run(0.5)  # sent at once: nothing to wait for
    assert network.nodes[5].notified() == {(1, 1): 1}
    # Who says so and never publishes is forgotten.
    network.nodes[2].advertise("weather")
    network.run(21)
    start = network.time
    network.run(5)
    assert not [f for f in network.frames(TopicKind.ADVERTISEMENT, start) if f.originator == 2]


def test_a_publisher_advertises_every_interval_until_it_has_not_published_for_a_while() -> None:
    network = line(publisher_timeout=20)
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    assert not network.frames(TopicKind.ADVERTISEMENT)
    start = network.time
    network.nodes[1].publish("traffic")
    network.run(19)
    sent = [f for f in network.frames(TopicKind.ADVERTISEMENT, start) if f.hops == 1]
    assert 18 <= len(sent) <= 21
    assert {(f.originator, f.destination) for f in sent} == {(1, ANY_NODE)}
    network.run(5)
    start = network.time
    network.run(10)
    assert not network.frames(TopicKind.ADVERTISEMENT, start)
    assert listed(network.nodes[1]) == 0
    network.nodes[1].publish("traffic")
    network.run(1)
    assert network.nodes[5].notified() == {(1, 1): 1, (1, 2): 1}


def test_an_event_waits_for_the_first_list_and_no_later_one() -> None:
    network = line()
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    for _ in range(3):
        start = network.time
        network.nodes[1].publish("traffic")
        network.run(0.9)
        first = next(
            time for time, s, _, d in network.sent if time >= start and d[1] == CommonKind.EVENT
        )
        waited = first - start
        if network.nodes[1].service.counters["processed as publisher"] == 1:
            assert waited == pytest.approx(0.004)  # two hops there, two back
        else:
            assert waited == 0.0
    assert network.nodes[5].notified() == {(1, 1): 1, (1, 2): 1, (1, 3): 1}


@pytest.mark.parametrize("back_after", [5, 15])
def test_events_wait_for_a_rendezvous_that_is_away_but_not_endlessly(back_after: float) -> None:
    # With shorter timeouts others would replace it, or it would know nobody on its return.
    network = line(hello_timeout=100, subscription_timeout=100)
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[3].failed = True
    for _ in range(3):
        network.nodes[1].publish("traffic")
    network.run(back_after)
    network.nodes[3].failed = False
    network.run(5)
    received, dropped = (3, 0) if back_after == 5 else (0, 3)
    assert len(network.nodes[5].notified()) == received
    assert network.nodes[1].service.counters["no list of subscribers"] == dropped
    network.nodes[1].publish("traffic")
    network.run(2)
    assert (1, 4) in network.nodes[5].notified()


def test_a_topic_without_subscribers_sends_no_event() -> None:
    network = line()
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(3)
    assert not network.frames(CommonKind.EVENT)
    assert network.nodes[1].service.counters["processed as publisher"] == 1


def test_a_subscriber_lapses_at_the_publisher_when_it_does_at_the_rendezvous() -> None:
    network = line(subscription_timeout=6, refresh_jitter=0)
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(1)
    network.nodes[5].unsubscribe()
    network.run(0.5)
    last = max(time for time, s, _, d in network.sent if d[1] == TopicKind.SUBSCRIPTION and s == 5)
    network.run(last + 5.9 - network.time)
    network.nodes[1].publish("traffic")
    network.run(0.2)
    assert [f.sequence for f in network.frames(CommonKind.EVENT) if f.hops == 1] == [1, 2]
    network.nodes[1].publish("traffic")
    network.run(0.2)
    assert [f.sequence for f in network.frames(CommonKind.EVENT) if f.hops == 1] == [1, 2]


def test_one_node_answers_an_advertisement_and_does_not_broadcast_it() -> None:
    ring = [around(LOCATION, 100.0, 2 * math.pi * turn / 6) for turn in range(6)]
    network = network_of(
        [*ring, around(LOCATION, 300.0, 0.0), around(LOCATION, 300.0, 2.0)], SCHEME
    )
    subscriber, publisher = network.nodes[7], network.nodes[8]
    subscriber.subscribe("traffic")
    network.run(WARM_UP)
    assert [stored(network.nodes[n]) for n in range(1, 7)] == [1] * 6
    publisher.publish("traffic")
    network.run(10)
    sent = [f for f in network.frames(TopicKind.ADVERTISEMENT) if f.hops == 1]
    assert count(network, "answered as rendezvous") == len(sent) > 8
    frames = network.frames(TopicKind.ADVERTISEMENT) + network.frames(TopicKind.SUBSCRIBERS)
    assert all(frame.destination != BROADCAST for frame in frames)


def test_a_long_list_comes_in_several_frames() -> None:
    ring = [around(LOCATION, 100.0, turn) for turn in range(39)]
    network = network_of([*ring, around(LOCATION, 300.0, 0.0)], SCHEME)
    for number in range(1, 40):
        network.nodes[number].subscribe("traffic", f"road!={'x' * 100}", "speed>5")
    network.run(WARM_UP)
    network.nodes[40].publish("traffic", "speed=10", "road=A1")
    network.run(1)
    bodies = {f.body for f in network.frames(TopicKind.SUBSCRIBERS) if f.hops == 1}
    assert all(len(body) < 1500 - 28 - 24 - 61 for body in bodies)
    lists = [decode_subscribers(body, 0.0) for body in bodies]
    assert {each.part for each in lists} == set(range(max(each.parts for each in lists)))
    assert len(lists) > 4
    assert all(network.nodes[number].notified() == {(40, 1): 1} for number in range(1, 40))


def test_a_new_rendezvous_that_knows_less_takes_nobody_off_the_list() -> None:
    network = line()
    network.nodes[5].subscribe("traffic")
    network.run(WARM_UP)
    network.nodes[1].publish("traffic")
    network.run(0.5)
    publisher = network.nodes[1]
    (nobody,) = encode_subscribers("traffic", [], network.time)
    publisher.hear(
        Frame(TopicKind.SUBSCRIBERS, 2, 1, ttl=9, route=greedy(publisher), body=nobody).encode(), 2
    )
    publisher.publish("traffic")
    network.run(0.5)
    assert network.nodes[5].notified() == {(1, 1): 1, (1, 2): 1}


@pytest.mark.parametrize("lost", [None, 0, 3])
def test_an_event_waits_for_all_parts_of_a_list(lost: int | None) -> None:
    network = line(list_wait=2.0)
    rendezvous = network.nodes[3].service
    assert isinstance(rendezvous, Rendezvous)
    rendezvous.arrivals[TopicKind.ADVERTISEMENT] = lambda frame: None  # no other lists
    network.run(WARM_UP)
    publisher = network.nodes[1]
    counters = publisher.service.counters
    publisher.publish("traffic")
    now = network.time
    entries = [
        Subscriber(node, Subscription(Filter.parse(["traffic"])).encode(), LOCATION, 1, now)
        for node in range(10, 70)
    ]
    bodies = list(encode_subscribers("traffic", entries, now))
    assert len(bodies) == 4
    come = [part for part in (3, 1, 3, 2, 1, 0) if part != lost]  # of two answers, in disorder
    for number, part in enumerate(come, start=1):
        frame = Frame(TopicKind.SUBSCRIBERS, 3, 1, ttl=9, body=bodies[part])
        publisher.hear(frame._replace(route=greedy(publisher)).encode(), 2)
        whole = lost is None and number == len(come)
        assert counters["processed as publisher"] == whole
    network.run(2.5)
    assert counters["processed as publisher"] == 1
    assert counters["lists incomplete"] == (lost is not None)
    assert counters["no list of subscribers"] == 0
    assert {frame.destination for frame in network.frames(CommonKind.EVENT)} <= set(range(10, 70))
    publisher.publish("traffic")  # as long as all of a list is known, events do not wait
    assert counters["processed as publisher"] == 2 - (lost is not None)
    if lost is not None:
        network.run(2.5)
        assert counters["no list of subscribers"] == 1  # nothing has come since


def test_the_latest_location_of_a_subscriber_prevails() -> None:
    network = line()
    network.run(WARM_UP)
    publisher = network.nodes[1]
    publisher.publish("traffic")
    network.run(0.5)
    item = Subscription(Filter.parse(["traffic"])).encode()
    now = network.time
    # In the order of their stamps, whichever a rendezvous node heard last.
    for x, stamp, heard in ((1.0, 20, now - 2), (2.0, 30, now - 1), (3.0, 10, now - 0.5)):
        entry = Subscriber(5, item, (x, 0.0), stamp, heard)
        (body,) = encode_subscribers("traffic", [entry], now)
        frame = Frame(TopicKind.SUBSCRIBERS, 2, 1, ttl=9, route=greedy(publisher), body=body)
        publisher.hear(frame.encode(), 2)
    assert isinstance(publisher.service, Rendezvous)
    (known,) = publisher.service.listed.of_topic("traffic", now)
    assert known.location == (2.0, 0.0)
    assert known.heard == pytest.approx(now - 1)


def test_a_list_that_was_not_asked_for_is_counted_and_not_kept() -> None:
    network = line()
    network.run(WARM_UP)
    node = network.nodes[1]
    item = Subscription(Filter.parse(["traffic"])).encode()
    (body,) = encode_subscribers("traffic", [Subscriber(5, item, (0.0, 0.0), 1, 0.0)], 0.0)
    frame = Frame(TopicKind.SUBSCRIBERS, 2, 1, ttl=9, route=greedy(node), body=body)
    node.hear(frame.encode(), 2)
    assert node.service.counters["lists not asked for"] == 1
    assert listed(node) == 0


def test_an_answer_goes_to_where_the_advertisement_says_the_publisher_is() -> None:
    network = line()
    network.run(WARM_UP)
    rendezvous = network.nodes[3]
    body = encode_advertisement("traffic", (LOCATION[0] - 400.0, LOCATION[1]), 1)
    start = network.time
    frame = Frame(TopicKind.ADVERTISEMENT, 99, ANY_NODE, ttl=9, route=greedy(rendezvous), body=body)
    rendezvous.hear(frame.encode(), 2)
    network.run(0.1)
    assert [f.destination for f in network.frames(TopicKind.SUBSCRIBERS, start)][:2] == [99, 99]
    senders = [
        s for time, s, _, d in network.sent if time >= start and d[1] == TopicKind.SUBSCRIBERS
    ]
    assert senders[:2] == [3, 2]


def test_an_advertisement_that_comes_late_or_twice_is_not_answered() -> None:
    network = line()
    network.run(WARM_UP)
    rendezvous = network.nodes[3]

    def answers(stamp: int) -> int:
        before = rendezvous.service.counters["answered as rendezvous"]
        body = encode_advertisement("traffic", (LOCATION[0] - 400.0, LOCATION[1]), stamp)
        frame = Frame(
            TopicKind.ADVERTISEMENT, 99, ANY_NODE, ttl=9, route=greedy(rendezvous), body=body
        )
        rendezvous.hear(frame.encode(), 2)
        return rendezvous.service.counters["answered as rendezvous"] - before

    assert [answers(stamp) for stamp in (5, 5, 4, 6, 2)] == [1, 0, 0, 1, 0]
    assert rendezvous.service.counters["stale advertisements"] == 3
    network.run(3.6)  # subscription_timeout: the machine of the publisher has restarted
    assert answers(1) == 1


def test_more_events_than_may_wait_are_dropped_and_counted() -> None:
    network = line(hello_timeout=100)
    network.run(WARM_UP)
    network.nodes[3].failed = True
    for _ in range(1030):
        network.nodes[1].publish("traffic")
    assert network.nodes[1].service.counters["no list of subscribers"] == 6
    network.run(12)
    assert network.nodes[1].service.counters["no list of subscribers"] == 1030

"""Soft state under refreshes that come late, twice and out of order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nodeapp.events import Event, Filter, Subscription
from nodeapp.pubsub.messages import Subscriber, TopicKind
from nodeapp.pubsub.subscription_table import SubscriptionTable
from tests.nodeapp.pubsub.schemes import (
    WARM_UP,
    connected_network_of,
    each_scheme,
    point,
    restart,
)

TIMEOUT = 3.5
EVENT = Event(9, 1, {"topic": "traffic", "speed": 20})
ITEMS = tuple(
    Subscription(Filter.parse(words)).encode() for words in (["traffic"], ["traffic", "speed>10"])
)


@given(st.data())
def test_an_older_refresh_never_replaces_a_newer_location(data: st.DataObject) -> None:
    # Refresh number n of two subscribers, each with two subscriptions, says x = n.
    sent = [(node, item, n) for node in (5, 6) for n in range(6) for item in ITEMS]
    heard = data.draw(st.lists(st.sampled_from(sent), min_size=1, max_size=40))
    table = SubscriptionTable(TIMEOUT)
    newest: dict[int, int] = {}
    stored: dict[tuple[int, bytes], int] = {}
    for number, (node, item, n) in enumerate(heard):
        now = 0.01 * number
        table.store(Subscriber(node, item, (float(n), 0.0), 1000 + n, now))
        newest[node] = max(newest.get(node, n), n)
        stored[node, item] = max(stored.get((node, item), n), n)
        assert dict(table.subscribers(EVENT, now)) == {
            node: (float(n), 0.0) for node, n in newest.items()
        }
        assert {
            (each.node, each.subscription): (each.location[0], each.stamp)
            for each in table.of_topic("traffic", now)
        } == {key: (n, 1000 + n) for key, n in stored.items()}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.floats(0.01, 1.0))
def test_late_and_repeated_refreshes_prolong_nothing(late: list[int], gap: float) -> None:
    table = SubscriptionTable(TIMEOUT)
    table.store(Subscriber(5, ITEMS[0], (1.0, 2.0), 5, 0.0))
    for number, stamp in enumerate(late):
        if (number + 1) * gap < TIMEOUT:
            table.store(Subscriber(5, ITEMS[0], (9.0, 9.0), stamp, (number + 1) * gap))
    assert dict(table.subscribers(EVENT, TIMEOUT - 0.001)) == {5: (1.0, 2.0)}
    assert not dict(table.subscribers(EVENT, TIMEOUT))


def test_what_has_timed_out_orders_nothing_any_more() -> None:
    table = SubscriptionTable(TIMEOUT)
    table.store(Subscriber(5, ITEMS[0], (1.0, 0.0), 10**6, 0.0))
    table.store(Subscriber(5, ITEMS[0], (2.0, 0.0), 1, TIMEOUT - 0.01))
    assert dict(table.subscribers(EVENT, TIMEOUT - 0.01)) == {5: (1.0, 0.0)}
    table.store(Subscriber(5, ITEMS[0], (2.0, 0.0), 2, TIMEOUT))
    assert dict(table.subscribers(EVENT, TIMEOUT)) == {5: (2.0, 0.0)}


@each_scheme
def test_a_node_that_restarts_is_heard_at_once(scheme: str) -> None:
    network = connected_network_of(20, scheme, seed=3)
    node = network.nodes[4]
    node.subscribe("traffic")
    network.run(WARM_UP)
    node.failed = True
    before = max(each.body[20:29] for each in network.frames(TopicKind.SUBSCRIPTION))
    network.run(0.5)
    start = network.time
    restart(network, node, scheme)
    network.run(2.5)
    assert min(each.body[20:29] for each in network.frames(TopicKind.SUBSCRIPTION, start)) > before
    kept = [
        each.stamp
        for other in network.nodes.values()
        for each in point(other).subscriptions.of_topic("traffic", network.time)
    ]
    assert max(kept) > start * 1000

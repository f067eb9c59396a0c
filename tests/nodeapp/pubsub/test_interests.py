"""The bodies that tell subscriptions, and the table of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.events import Event, Filter, Subscription
from nodeapp.pubsub.interests import (
    MAX_PARTS,
    InterestTable,
    decode_head,
    decode_items,
    encode_interests,
)
from nodeapp.wire import WireError, decode_body
from tests.nodeapp.strategies import attributes, filters, hostile

subscriptions = st.builds(Subscription, filters, attributes)
EVENT = Event(9, 1, {"topic": "traffic", "speed": 20})


def subscription(*words: str) -> bytes:
    return Subscription(Filter.parse(words)).encode()


TRAFFIC, NEWS = subscription("traffic"), subscription("news")


def body(stamp: int, *subscriptions: bytes) -> bytes:
    (only,) = encode_interests(stamp, subscriptions)
    return only


def table(limit: int = 100, settling: float = 0.0) -> InterestTable:
    return InterestTable(10.0, settling, limit, Counter())


@given(st.integers(0, 2**64 - 1), st.lists(subscriptions, max_size=40))
def test_subscriptions_survive_the_wire(stamp: int, told: list[Subscription]) -> None:
    found: list[Subscription] = []
    for index, each in enumerate(
        bodies := list(encode_interests(stamp, [t.encode() for t in told]))
    ):
        assert decode_body(each)[:3] == [stamp, index, len(bodies)]  # it is CBOR as a whole
        head, items = decode_head(each)
        assert head == (stamp, index, len(bodies))
        found += decode_items(items).values()
    assert bodies
    assert list(dict.fromkeys(found)) == list(dict.fromkeys(told))


def test_frames_of_many_subscriptions_are_short_and_bounded() -> None:
    each = subscription("x" * 600)
    bodies = list(encode_interests(1, [each] * (2 * MAX_PARTS)))
    assert len(bodies) == MAX_PARTS
    assert max(map(len, bodies)) < 1400


@given(hostile)
def test_hostile_bodies_are_refused_and_leave_nothing(bad: bytes) -> None:
    stored = table()
    for data in (bad, body(1, TRAFFIC)[:16] + bad, body(1, bad)):
        try:
            stored.store(5, data, 2, 1, 0.0)
        except WireError:
            continue
        assert stored.store(5, data, 2, 1, 0.0) is False
    stored.expire(20.0)
    assert len(stored) == 0


def test_the_nearest_of_the_latest_ways_is_taken_and_never_the_incoming_one() -> None:
    stored = table()
    assert stored.store(5, body(1, TRAFFIC), 2, 3, 0.0)
    assert not stored.store(5, body(1, TRAFFIC), 3, 3, 0.0)
    assert stored.store(5, body(1, TRAFFIC), 4, 2, 0.0)  # nearer: news
    assert not stored.store(5, body(1, TRAFFIC), 2, 4, 0.0)
    assert sorted(stored.entries()) == [(TRAFFIC, 5, 2, 3), (TRAFFIC, 5, 3, 3), (TRAFFIC, 5, 4, 2)]
    links = {2, 3, 4, 6}
    assert stored.neighbours(EVENT, links, 0, 1.0) == {4}
    assert stored.neighbours(EVENT, links, 4, 1.0) == set()
    assert stored.neighbours(EVENT, {2, 3}, 6, 1.0) == {2}
    assert stored.store(5, body(2, TRAFFIC), 3, 4, 5.0)
    assert stored.neighbours(EVENT, links, 0, 5.0) == {3}
    assert stored.neighbours(Event(5, 1, EVENT.attributes), links, 0, 5.0) == set()
    assert stored.neighbours(Event(9, 1, {"topic": "news"}), links, 0, 5.0) == set()
    assert not stored.store(5, body(1, NEWS), 4, 1, 5.0)  # sent before
    assert stored.neighbours(EVENT, links, 0, 14.0) == {3}
    assert stored.neighbours(EVENT, links, 0, 15.0) == set()


def test_until_a_stamp_has_settled_the_one_before_counts_as_much() -> None:
    stored = table(settling=0.5)
    stored.store(5, body(1, TRAFFIC), 2, 2, 0.0)
    stored.store(5, body(2, TRAFFIC), 3, 6, 5.0)
    assert stored.neighbours(EVENT, {2, 3}, 0, 5.4) == {2}
    assert stored.neighbours(EVENT, {2, 3}, 0, 5.5) == {3}
    stored.store(5, body(3, TRAFFIC), 4, 7, 9.0)
    assert stored.neighbours(EVENT, {2, 3, 4}, 0, 9.1) == {3}
    assert stored.neighbours(EVENT, {2, 4}, 0, 9.1) == {4}


def test_what_is_withdrawn_or_not_refreshed_goes() -> None:
    stored = table()
    stored.store(5, body(1, TRAFFIC, NEWS), 2, 1, 0.0)
    stored.store(6, body(1, TRAFFIC), 2, 1, 5.0)
    assert len(stored) == 3
    assert stored.store(5, body(2, NEWS), 2, 1, 5.0)
    assert {(pattern, origin) for pattern, origin, _, _ in stored.entries()} == {
        (NEWS, 5),
        (TRAFFIC, 6),
    }
    assert stored.store(6, body(2), 2, 1, 6.0)
    assert [origin for _, origin, _, _ in stored.entries()] == [5]
    stored.expire(14.9)
    assert len(stored) == 2  # one entry, and that node 6 has none
    stored.expire(16.0)
    assert len(stored) == 0
    assert stored.store(5, body(1, NEWS), 2, 1, 20.0)  # what has lapsed orders nothing


def test_an_entry_that_lapsed_gives_way_to_an_older_stamp() -> None:
    stored = table()
    stored.store(5, body(2**64 - 1, TRAFFIC), 2, 1, 0.0)
    assert not stored.store(5, body(7, NEWS), 2, 1, 9.0)
    assert stored.store(5, body(7, NEWS), 2, 1, 10.0)
    assert list(stored.entries()) == [(NEWS, 5, 2, 1)]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 5),
            st.lists(st.sampled_from([TRAFFIC, NEWS, subscription("speed>3")]), max_size=3),
            st.integers(1, 4),
            st.integers(1, 5),
            st.floats(0, 4),
        ),
        max_size=40,
    ),
    st.integers(1, 12),
)
def test_entries_are_counted_and_never_more_than_the_limit(
    heard: list[tuple[int, int, list[bytes], int, int, float]], limit: int
) -> None:
    counters: Counter[str] = Counter()
    stored = InterestTable(10.0, 0.1, limit, counters)
    now = 0.0
    for origin, stamp, told, neighbour, distance, later in heard:
        now += later
        size = len(stored)
        full = counters["table full"]
        stored.store(origin, body(stamp, *dict.fromkeys(told)), neighbour, distance, now)
        assert len(list(stored.entries())) <= len(stored) <= limit
        assert counters["table full"] == full or len(stored) <= size
        if later > 3:
            stored.expire(now)
    stored.expire(now + 10.0)
    assert len(stored) == 0
    assert not list(stored.entries())


@pytest.mark.parametrize("head", [(0, 0), (1, 1), (0, MAX_PARTS + 1)])
def test_parts_that_there_cannot_be_are_refused(head: tuple[int, int]) -> None:
    part, parts = head
    data = bytearray(body(1, TRAFFIC))
    data[11:13], data[14:16] = part.to_bytes(2, "big"), parts.to_bytes(2, "big")
    with pytest.raises(WireError):
        decode_head(bytes(data))

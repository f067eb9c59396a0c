"""The state of a rendezvous cell and the messages that carry it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import Event
from nodeapp.kinds import CommonKind, Kind
from nodeapp.pubsub import rendezvous_cell
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.rendezvous_cell import (
    CellKind,
    Entry,
    RendezvousState,
    decode_prune,
    decode_state,
    encode_prune,
    encode_state,
)
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_REPLICA, Frame, WireError
from tests.nodeapp.network import SimNetwork


def entry(node: int, stamp: int, heard: float, subscription: bytes | None = None) -> Entry:
    return Entry(("cars", 3), node, stamp, heard, (1.0, 2.0), subscription)


CARS = wire.encode_body([[["topic", "=", "cars"]], {}])


def test_prunes_and_refreshes_count_in_the_order_in_which_they_were_sent() -> None:
    state = RendezvousState(10.0)
    key = "cars", 3
    state.store(entry(7, 5, 0.0, CARS))
    assert state.prune(key, 7, 1, 6)
    assert not state.wants(key, 1, 1.0)
    assert state.wants(key, 2, 1.0)
    assert not state.store(entry(7, 4, 1.0, CARS), explore=True)  # was sent before the prune
    assert not state.wants(key, 1, 1.0)
    assert state.store(entry(7, 7, 1.0, CARS))
    assert not state.wants(key, 1, 1.0)  # a refresh leaves it
    state.prune(key, 7, 2, 8)
    state.store(entry(7, 9, 1.0, CARS), taken=2)  # but for a publisher that it names
    assert [state.wants(key, publisher, 1.0) for publisher in (1, 2)] == [False, True]
    assert state.store(entry(7, 11, 1.0, CARS), explore=True)
    assert state.wants(key, 1, 1.0)
    assert not state.prune(key, 7, 1, 10)
    assert state.wants(key, 1, 1.0)
    state.expire(12.0)
    assert len(state) == 0
    assert key not in state


def test_state_travels_whole() -> None:
    state, other = RendezvousState(10.0), RendezvousState(10.0)
    for node in range(1, 40):
        state.store(entry(node, node, 1.0, CARS))
        state.store(entry(node, node, 1.0))
    state.prune(("cars", 3), 4, 9, 100)
    bodies = list(encode_state(state.entries(("cars", 3)), 2.0))
    assert len(bodies) > 1
    assert all(len(body) < 1300 for body in bodies)
    for body in bodies:
        for each in decode_state(body, 2.0):
            other.store(each)
    assert set(other.entries(("cars", 3))) == set(state.entries(("cars", 3)))


@pytest.mark.parametrize("subscription", [b"", wire.encode_body([[["topic", "=", "bikes"]], {}])])
def test_subscriptions_to_other_topics_are_not_stored(subscription: bytes) -> None:
    state = RendezvousState(10.0)
    with pytest.raises(WireError):
        state.store(entry(7, 5, 0.0, subscription))
    assert len(state) == 0
    assert state.points() == []


EVENTS = [Event(9, 1, {"topic": topic}, None) for topic in ("cars", "bikes")]
ROWS = st.lists(
    st.lists(
        st.one_of(
            st.none(),
            st.integers(-1, 2**33),
            st.floats(),
            st.text(max_size=3),
            st.binary(max_size=3),
        ),
        max_size=10,
    ),
    max_size=3,
)


@given(
    st.sampled_from(
        [
            TopicKind.SUBSCRIPTION,
            TopicKind.ADVERTISEMENT,
            CellKind.PRUNE,
            CellKind.DEMAND,
            CellKind.CELL_STATE,
            CommonKind.EVENT,
        ]
    ),
    st.one_of(
        st.binary(max_size=40),
        ROWS.map(wire.encode_body),
        st.sampled_from([event.encode() for event in EVENTS]),
    ),
    st.sampled_from([ANY_NODE, 1, BROADCAST]),
    st.sampled_from([0, FLAG_REPLICA]),
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            lambda x, y, key: CellRoute((x, y), key, (0, 0), 3).encode(),
            st.integers(-2, 2),
            st.integers(-2, 2),
            st.integers(0, 255),
        ),
    ),
)
@settings(max_examples=60)
def test_no_message_is_a_defect(
    kind: Kind, body: bytes, destination: int, flags: int, route: bytes
) -> None:
    network = SimNetwork()
    host = network.add((1.0, 1.0), "georendezvous")
    host.subscribe("cars")
    frame = Frame(kind, 9, destination, 9, 1, 3, 2, flags, route, body)
    host.service.datagram_received(frame.encode(), 9)
    ask = Frame(CellKind.CELL_STATE_REQUEST, 9, BROADCAST, route=route)
    host.service.datagram_received(ask.encode(), 9)
    network.run(8.0)  # it subscribes again


def test_an_event_over_a_replica_that_is_not_in_use_is_malformed() -> None:
    network = SimNetwork()
    host = network.add((1.0, 1.0), "georendezvous")
    host.subscribe("cars")
    network.run(8.0)
    route = CellRoute((0, 0), 131, (0, 0), 3).encode()
    for event in EVENTS:
        frame = Frame(CommonKind.EVENT, 9, 1, 9, 1, 3, 2, 0, route, event.encode())
        host.service.datagram_received(frame.encode(), 9)
    assert host.service.counters["malformed"] == len(EVENTS)
    network.run(8.0)


def test_bodies_say_what_they_were_told() -> None:
    assert decode_prune(encode_prune("cars", 7, (1.0, 2.0), 5)) == ("cars", 7, 5)
    for bad in (["cars"], ["cars", 0], [7, 7], "cars"):
        body = encode_prune("cars", 7, (1.0, 2.0), 5)[:29] + wire.encode_body(bad)
        with pytest.raises(WireError):
            decode_prune(body)


def test_the_bytes_of_what_is_stored_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous_cell, "MAX_BYTES", 3 * (len("cars") + len(CARS)))
    state = RendezvousState(10.0)
    assert [state.store(entry(node, 1, 0.0, CARS)) for node in range(1, 6)] == [
        *[True] * 3,
        *[False] * 2,
    ]
    assert state.store(entry(1, 2, 5.0, CARS))  # those that are there are refreshed
    state.expire(11.0)
    assert len(state) == 1
    assert [state.store(entry(node, 3, 11.0, CARS)) for node in (7, 8, 9)] == [True, True, False]


def test_an_entry_with_much_pruned_fits_a_frame() -> None:
    topic = "c" * 1000
    wanted = wire.encode_body([[["topic", "=", topic]], {"text": "x" * 53_000}])
    pruned = frozenset(range(1 << 30, (1 << 30) + 1024))
    large = Entry((topic, 3), 7, 1, 0.0, (1.0, 2.0), wanted, pruned)
    (body,) = encode_state([large], 1.0)
    (read,) = decode_state(body, 1.0)
    assert Frame(CellKind.CELL_STATE, 7, body=body).encode()
    assert read.subscription == wanted
    assert 100 < len(read.pruned) < 1024

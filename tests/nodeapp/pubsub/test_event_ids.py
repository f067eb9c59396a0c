"""Which events are new: what a stranger makes up stands in place of none, a replay is known."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import fingerprint
from nodeapp.kinds import Role
from nodeapp.pubsub.base import (
    GENERATION,
    HELD_EVENTS,
    MAX_PUBLISHERS,
    MAX_REMEMBERED,
    SILENCE,
    EventIds,
)
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import BY_HAND, Frame
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.every_protocol import EVENT, EVERY_PROTOCOL, network_of
from tests.nodeapp.pubsub.schemes import restart

each_protocol = pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
WORDS = [f"{name}={value}" for name, value in EVENT.items()]
BODY = b"what an event says"
numbers = st.one_of(
    st.integers(1, 8),  # the next ones
    st.integers(1024, 65_536),
    st.integers(1, BY_HAND - 1),
    st.integers(BY_HAND, 2**32 - 1),
)


def event_frames(network: SimNetwork) -> list[tuple[int, int, Frame]]:
    """Return sender, receiver and frame of every transmission of an event so far."""
    return [
        (sender, to, wire.decode(datagram))
        for _, sender, to, datagram in network.sent
        if datagram[1] in kinds_of(Role.EVENT)
    ]


def play(network: SimNetwork, frames: list[tuple[int, int, Frame]]) -> None:
    """Send frames from where they came from, in whoever's name, to whom they were for."""
    for sender, to, frame in frames:
        network.transmit(network.nodes[sender], to, frame.encode())
        network.run(0.1)
    network.run(15.0)


def publish(network: SimNetwork, hosts: list[SimHost], price: int, times: int = 2) -> None:
    for host, _ in itertools.product(hosts, range(times)):
        assert host.publish(*WORDS[:2], f"price={price}") is None
        network.run(1.0)
    network.run(15.0)


@each_protocol
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_forged_events_stand_beside_the_publishers_and_in_place_of_none(
    protocol: str, data: st.DataObject
) -> None:
    network, (known, unheard), subscribers = network_of(protocol)
    publish(network, [known], price=5)
    heard = event_frames(network)
    forged = [
        (
            sender,
            to,
            frame._replace(
                publisher=data.draw(st.sampled_from([known.node_id, unheard.node_id])),
                sequence=data.draw(numbers),
            ),
        )
        for sender, to, frame in data.draw(st.lists(st.sampled_from(heard), min_size=1, max_size=6))
    ]
    play(network, forged)
    publish(network, [known, unheard], price=6)
    published = {(known.node_id, number) for number in (1, 2, 3, 4)}
    published |= {(unheard.node_id, number) for number in (1, 2)}
    for host in subscribers:
        notified = host.notified()
        assert published <= notified.keys()
        assert notified.total() <= len(published) + len(forged)


@each_protocol
def test_a_publisher_that_starts_again_is_heard_at_once_and_a_replay_is_not(protocol: str) -> None:
    network, publishers, subscribers = network_of(protocol)
    publish(network, publishers, price=5)
    recorded = event_frames(network)
    network.run(60.0)
    for host in subscribers:
        assert host.subscribe("topic=news", "stock=B", "price<100") is None  # its lease
    play(network, recorded)
    for host in subscribers:
        assert set(host.notified().values()) == {1}
    for host in publishers:
        host._sequence = itertools.count(1)
    publish(network, publishers, price=6)
    for host in subscribers:
        assert list(host.notified().values()) == [2] * 4


def test_a_node_that_starts_again_counts_from_1_and_is_heard() -> None:
    network, (publisher, _), subscribers = network_of("flooding")
    publish(network, [publisher], price=5, times=5)
    network.run(60.0)
    for host in subscribers:
        assert host.subscribe("topic=news", "stock=B", "price<100") is None
    publisher.failed = True
    publish(network, [restart(network, publisher, "flooding")], price=6, times=5)
    for host in subscribers:
        assert list(host.notified().values()) == [2] * 5


def test_a_replay_after_the_hold_time_is_known() -> None:
    ids = EventIds()
    assert all(ids.add(5, sequence, BODY, 0.1 * sequence) for sequence in range(1, 200))
    assert not any(ids.add(5, sequence, BODY, 100.0) for sequence in range(1, 200))
    assert ids.add(5, 200, BODY, 100.0)
    assert ids.add(5, BY_HAND | 77, BODY, 100.0)
    assert not ids.add(5, BY_HAND | 77, BODY, 500.0)
    assert ids.add(5, 200 + 2 * 65_536, BODY, 501.0)  # forged: it ends nothing
    assert ids.add(5, 202, BODY, 502.0)
    assert ids.add(5, 201, BODY, 502.0)  # overtaken
    assert not ids.add(5, 201, BODY, 900.0)
    assert ids.add(5, 201, b"something else", 900.0)
    assert ids.add(5, 1, BODY, 900.0 + 2 * SILENCE)  # the publisher counts from 1 again


def test_as_many_events_of_a_publisher_are_known_as_are_promised() -> None:
    ids = EventIds()
    for sequence in range(3 * GENERATION):
        assert ids.add(5, sequence, BODY, 0.1 * sequence)
    now = 0.3 * GENERATION
    assert not any(ids.add(5, 3 * GENERATION - 1 - n, BODY, now) for n in range(GENERATION))
    assert GENERATION <= len(ids) <= 2 * GENERATION


def test_what_strangers_make_up_fills_no_memory() -> None:
    ids = EventIds()
    for number in range(3 * MAX_PUBLISHERS):
        assert ids.add(number, 1, BODY, 1.0)
    assert len(ids) == len(ids._publishers) == MAX_PUBLISHERS
    for number in range(MAX_REMEMBERED + 3 * HELD_EVENTS):
        assert ids.add(number % 32, number, BODY, 2.0)
    assert len(ids) <= MAX_REMEMBERED
    assert len(ids) == sum(map(len, ids._publishers.values()))
    assert len(ids._held) == len(ids._order) == HELD_EVENTS


@given(*(st.tuples(st.integers(1, 9), st.integers(1, 9), st.binary(max_size=2)) for _ in range(2)))
def test_events_have_one_fingerprint_if_they_are_the_same(
    one: tuple[int, int, bytes], other: tuple[int, int, bytes]
) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)
    ids = EventIds()
    assert ids.add(*one, 0.0)
    assert ids._held == {fingerprint(*one)}
    assert 0 <= fingerprint(*one) < 1 << 64

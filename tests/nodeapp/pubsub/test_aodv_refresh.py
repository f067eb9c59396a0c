"""Refreshes over AODV: of those that wait for a route, only the newest is sent."""

from __future__ import annotations

import pytest

from nodeapp.host import Position
from nodeapp.kinds import CommonKind, Kind
from nodeapp.pubsub.messages import TopicKind, decode_located
from nodeapp.wire import Frame, decode
from tests.nodeapp.network import SimHost, SimNetwork
from tests.nodeapp.pubsub.schemes import NODE_BASED, network_of, point, stored

FAR = (10_000.0, 10_000.0)
NEAR = (100.0, 0.0)
COMES = 30.0
"""When the decision point comes into range, seconds."""
SLOW = {"ttl_start": 35, "rreq_retries": 6, "buffer": 8, "refresh_interval": 1.0}
"""A search that outlasts `COMES`, and a buffer smaller than the refreshes meanwhile."""


def late(time: float) -> Position:
    return Position(*(FAR if time < COMES else NEAR))


def moving(time: float) -> Position:
    return Position(time, 0.0)


def lonely(scheme: str) -> tuple[SimNetwork, SimHost, SimHost, str]:
    """Return a network of two whose decision point is out of range at first, and its topic."""
    network = network_of([moving, late], scheme, parameters=SLOW)
    client, server = network.nodes[1], network.nodes[2]
    topic = next(t for t in map(str, range(99)) if point(client).topic_hash(t).node == 2)
    return network, client, server, topic


def sent_to(network: SimNetwork, receiver: SimHost, kind: Kind) -> list[Frame]:
    """Watch a node; the list grows by the frames of a kind that it receives."""
    frames: list[Frame] = []
    receive = receiver.service.datagram_received

    def watch(datagram: bytes, sender: int) -> None:
        if datagram[1] == kind:
            frames.append(decode(datagram))
        receive(datagram, sender)

    receiver.service.datagram_received = watch  # type: ignore[method-assign]
    return frames


@pytest.mark.parametrize("scheme", NODE_BASED)
def test_only_the_newest_refresh_of_each_subscription_waits(scheme: str) -> None:
    network, client, server, topic = lonely(scheme)
    frames = sent_to(network, server, TopicKind.SUBSCRIPTION)
    client.subscribe(f"topic = {topic}", "price > 5", number=1)
    client.subscribe(f"topic = {topic}", "price > 7", number=2)
    network.run(COMES - 1.0)
    assert client.service.counters["replaced by newer ones"] > 2 * 20
    assert client.service.counters["dropped from a full buffer"] == 0
    while not frames:
        network.run(0.05)
    assert len(frames) == 2
    now = network.time
    assert len({decode_located(frame.body).item for frame in frames}) == 2
    assert all(now - decode_located(frame.body).location[0] < 1.2 for frame in frames)
    assert stored(server) == 2


def test_only_the_newest_advertisement_of_a_topic_waits_and_every_event_does() -> None:
    network, client, server, topic = lonely("rendezvous-aodv")
    advertisements = sent_to(network, server, TopicKind.ADVERTISEMENT)
    client.publish(f"topic={topic}")
    network.run(9.0)
    client.publish(f"topic={topic}")
    network.run(COMES - 9.5)
    while not advertisements:
        network.run(0.05)
    assert len(advertisements) == 1
    assert client.service.counters["replaced by newer ones"] > 15


def test_events_replace_nothing() -> None:
    network, client, server, topic = lonely("broker-aodv")
    frames = sent_to(network, server, CommonKind.EVENT)
    for _ in range(5):
        client.publish(f"topic={topic}")
        network.run(0.2)
    network.run(COMES - 2.0)
    while not frames:
        network.run(0.05)
    assert len(frames) == 5

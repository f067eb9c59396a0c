"""The one client of the node app, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from nodeapp import wire
from nodeapp.events import Event
from nodeapp.kinds import ClientKind
from nodeapp.mqtt import uplink as uplink_module
from nodeapp.mqtt.topics import MqttMessage
from nodeapp.mqtt.uplink import SubscriptionOptions, Uplink
from nodeapp.wire import Frame

QUALITY_0 = SubscriptionOptions(0)


class AgreeableNode:
    """The transport to a node app that does whatever it is asked to, at once."""

    def __init__(self, uplink: Uplink) -> None:
        self.requests: list[tuple[int, int]] = []
        """Kinds and numbers."""
        self._uplink = uplink
        uplink.connection_made(self)

    def sendto(self, datagram: bytes) -> None:
        request = wire.decode(datagram)
        self.requests.append((request.kind, request.sequence))
        body = wire.encode_body(None)
        self.tell(Frame(ClientKind.ACK, request.originator, request.kind, hops=0, body=body))

    def publish(self, topic: str, sequence: int) -> None:
        body = Event(7, sequence, {"topic": topic}).encode()
        self.tell(Frame(ClientKind.NOTIFY, 1, 1, 7, sequence, hops=1, body=body))

    def tell(self, frame: Frame) -> None:
        self._uplink.datagram_received(frame.encode(), None)

    def close(self) -> None:
        pass


class MessageKeeper:
    """A client that keeps the topics of its messages."""

    name = "a"

    def __init__(self) -> None:
        self.topics: list[str] = []

    def deliver(self, message: MqttMessage, identifiers: Sequence[int]) -> None:
        self.topics.append(message.topic)


def test_what_is_ended_by_hand_is_ended_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplink_module, "RENEWAL", 0.001)

    async def scenario() -> None:
        uplink, client = Uplink(1), MessageKeeper()
        node = AgreeableNode(uplink)
        for topic in ("a", "b"):
            assert await uplink.follow(topic, client, QUALITY_0) is None
        node.tell(Frame(ClientKind.UNSUBSCRIBE, 1, 0, hops=0, sequence=1))
        assert uplink.filters == 1
        node.requests.clear()
        uplink.spawn(uplink._renew())
        while len(node.requests) < 3:
            await asyncio.sleep(0.001)
        assert set(node.requests) == {(ClientKind.SUBSCRIBE, 2)}
        assert not uplink.unfollow("a", client)
        assert await uplink.follow("a", client, QUALITY_0) is None  # it asks again
        assert (ClientKind.SUBSCRIBE, 3) in node.requests
        uplink.close()

    asyncio.run(asyncio.wait_for(scenario(), 20.0))


def test_what_is_ended_as_it_begins_is_ended() -> None:
    async def scenario() -> None:
        uplink, client = Uplink(1), MessageKeeper()
        node = AgreeableNode(uplink)
        subscribing = asyncio.get_running_loop().create_task(uplink.follow("a", client, QUALITY_0))
        while not node.requests:
            await asyncio.sleep(0)
        node.tell(Frame(ClientKind.UNSUBSCRIBE, 1, 0, hops=0, sequence=1))  # after its ACK
        assert not subscribing.done()
        assert await subscribing is None
        assert uplink.filters == 0
        node.publish("a", 1)
        assert client.topics == []

    asyncio.run(asyncio.wait_for(scenario(), 20.0))


def test_a_client_gets_nothing_from_the_moment_of_the_end() -> None:
    async def scenario() -> None:
        uplink, client = Uplink(1), MessageKeeper()
        node = AgreeableNode(uplink)
        for topic in ("a", "b"):
            assert await uplink.follow(topic, client, QUALITY_0) is None
        node.publish("a", 1)
        node.tell(Frame(ClientKind.UNSUBSCRIBE, 1, 0, hops=0, sequence=1))
        node.publish("a", 2)
        node.publish("b", 3)
        assert client.topics == ["a", "b"]

    asyncio.run(asyncio.wait_for(scenario(), 20.0))


def test_a_subscription_that_ends_while_others_are_renewed_is_not_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uplink_module, "RENEWAL", 0.001)

    async def scenario() -> None:
        uplink, client = Uplink(1), MessageKeeper()
        node = AgreeableNode(uplink)
        for topic in ("a", "b", "c"):
            assert await uplink.follow(topic, client, QUALITY_0) is None
        node.requests.clear()
        task = asyncio.get_running_loop().create_task(uplink._renew())
        while not node.requests:
            await asyncio.sleep(0)
        node.tell(Frame(ClientKind.UNSUBSCRIBE, 1, 0, hops=0, sequence=2))
        while len(node.requests) < 4:
            await asyncio.sleep(0)
            assert not task.done()
        assert [number for _, number in node.requests[:4]] == [1, 3, 1, 3]
        task.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 20.0))


def test_at_the_nodes_end_nobody_is_asked_any_more() -> None:
    async def scenario() -> None:
        uplink, client = Uplink(1), MessageKeeper()
        node = AgreeableNode(uplink)
        assert await uplink.follow("a", client, QUALITY_0) is None
        uplink.close()
        node.requests.clear()
        uplink.forget(client)
        await asyncio.sleep(0.01)
        assert not node.requests

    asyncio.run(scenario())

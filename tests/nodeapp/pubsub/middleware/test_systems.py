"""What adapters do where no radio is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodeapp.pubsub.middleware.base import Middleware
from nodeapp.pubsub.middleware.dds import Dds
from nodeapp.pubsub.middleware.mqtt import Mqtt, MqttBridged
from nodeapp.pubsub.middleware.zeromq import ZeroMq
from nodeapp.pubsub.registry import typed
from tests.nodeapp.pubsub.middleware.test_base import FIELD, Listener


def with_system(kind: type[Middleware], work: Callable[[Any], None], **settings: str) -> None:
    async def main() -> None:
        work(kind(Listener(), FIELD, typed(kind.name, settings)))

    asyncio.run(main())


def test_bridges_keep_what_clients_are_told_to() -> None:
    def work(node: MqttBridged) -> None:
        lines = node._configuration().read_text().splitlines()
        assert "address 10.0.0.2:1883" in lines
        assert {"keepalive_interval 7", "cleansession true"} <= {*lines}
        node.disconnect()

    settings = {"brokers": "2,1", "keepalive": "7", "clean_session": "true"}
    with_system(MqttBridged, work, **settings)


def test_a_topic_that_was_left_without_a_connection_is_left_at_the_next() -> None:
    said: list[tuple[str, str]] = []
    client = SimpleNamespace(
        is_connected=lambda: False,
        subscribe=lambda topic, _qos: said.append(("subscribe", topic)),
        unsubscribe=lambda topic: said.append(("unsubscribe", topic)),
    )

    def work(node: Mqtt) -> None:
        node._client = client
        node.topics = {"kept": 1, "again": 1}
        node.unfollow("gone")
        node.unfollow("again")
        assert not said
        for _ in range(2):
            node._connected(client)
        assert said[0] == ("unsubscribe", "gone")
        assert sorted(said[1:]) == 2 * [("subscribe", "again")] + 2 * [("subscribe", "kept")]

    with_system(Mqtt, work)


def test_dds_passes_over_what_only_says_that_a_writer_went() -> None:
    def sample(payload: bytes | None) -> Any:
        info = SimpleNamespace(valid_data=payload is not None)
        return SimpleNamespace(sample_info=info, **({"payload": payload} if payload else {}))

    def work(node: Dds) -> None:
        passed: list[bytes] = []
        node.arrived_in_thread = passed.append  # type: ignore[method-assign, assignment]
        node._take(SimpleNamespace(take=lambda _most: [sample(b"a"), sample(None), sample(b"b")]))
        node._take(None)
        assert passed == [b"a", b"b"]

    with_system(Dds, work)


def test_zeromq_counts_whom_it_is_connected_to() -> None:
    constants = pytest.importorskip("zmq.constants")
    connected, lost = constants.Event.HANDSHAKE_SUCCEEDED, constants.Event.DISCONNECTED

    def work(node: ZeroMq) -> None:
        for number in range(1, 5):
            for event in (lost, connected):
                node._note({"event": event, "endpoint": f"tcp://10.0.0.{number}:5556".encode()})
        assert node.ready()
        node._note({"event": lost, "endpoint": b"tcp://10.0.0.2:5556"})
        assert not node.ready()

    with_system(ZeroMq, work)

"""What adapters do where no radio is needed."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from nodeapp.pubsub.base import EndedError
from nodeapp.pubsub.middleware.base import Middleware
from nodeapp.pubsub.middleware.dds import Dds
from nodeapp.pubsub.middleware.mqtt import Mqtt, MqttBridged
from nodeapp.pubsub.middleware.nats import Nats
from nodeapp.pubsub.middleware.zeromq import ZeroMq
from nodeapp.pubsub.registry import MIDDLEWARE, typed
from tests.nodeapp.pubsub.middleware.test_base import FIELD, Listener

OWN: Final = "127.9.9.9"
"""An address of this machine that nothing else uses."""


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


@pytest.mark.parametrize(
    ("name", "port"),
    [
        *(("mqtt", 1883), ("nats", 4222), ("zeromq", 5556), ("zenoh", 7447)),
        pytest.param("gossipsub", 4001, marks=pytest.mark.slow),
    ],
)
def test_a_port_that_another_uses_ends_the_node(
    name: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = MIDDLEWARE[name].service
    if lacking := kind.missing():
        pytest.skip(lacking)
    assert port in kind.ports
    monkeypatch.setattr(sys.modules[kind.__module__], "address_of", lambda _node: OWN)

    async def end() -> BaseException:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException] = loop.create_future()

        def end_with(_loop: object, context: dict[str, Any]) -> None:
            if not ended.done():
                ended.set_result(context["exception"])

        loop.set_exception_handler(end_with)
        node = kind(Listener(), FIELD, typed(name, {}))
        node.start()
        try:
            return await asyncio.wait_for(ended, 60)
        finally:
            node.close()

    with socket.create_server((OWN, port)):
        error = asyncio.run(end())
    assert isinstance(error, EndedError)
    assert name in str(error) or "mosquitto" in str(error)
    assert re.search("in use|listen", str(error), re.IGNORECASE), error


def test_zeromq_passes_over_what_has_another_shape() -> None:
    messages = [[b"a\0"], [b"a\0", b"x", b"y"], [b"a\0", b"z"]]

    class Subscriber:
        async def recv_multipart(self) -> list[bytes]:
            return messages.pop(0) if messages else await asyncio.Future()

    async def main() -> list[bytes]:
        passed: list[bytes] = []
        node = ZeroMq(Listener(), FIELD, typed("zeromq", {}))
        node.arrived = passed.append  # type: ignore[method-assign, assignment]
        node._subscriber = Subscriber()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(node._receive(), 0.01)
        return passed

    assert asyncio.run(main()) == [b"a\0", b"y", b"z"]


def test_nats_ends_the_node_if_its_server_turns_it_away() -> None:
    reported: list[BaseException] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        node = Nats(Listener(), FIELD, typed("nats", {}))
        await node._note(KeyError("ours"))
        await node._note(OSError("a connection, which it makes again"))
        await node._closed()
        node.close()
        await node._closed()

    pytest.importorskip("nats")
    asyncio.run(main())
    assert list(map(type, reported)) == [KeyError, EndedError]


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

"""Connections of clients of MQTT without a node app."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from nodeapp.mqtt.topics import MqttMessage
from tests.nodeapp.mqtt.test_uplink import AgreeableNode

mqtt5 = pytest.importorskip("mqtt5")

from nodeapp.mqtt import connection as connection_module  # noqa: E402  it needs mqtt5
from nodeapp.mqtt.connection import _code_of_filter  # noqa: E402
from nodeapp.mqtt.front import Front  # noqa: E402


@pytest.mark.parametrize("reads", [False, True])
def test_a_client_that_goes_leaves_nothing(reads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "LINGER", 0.2)
    defects: list[dict[str, Any]] = []

    async def scenario() -> None:
        front = Front(1, wildcards=True)
        AgreeableNode(front._uplink)
        ours: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ours.append(writer)
            await front._connected(reader, writer)

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: defects.append(context))
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
                await loop.sock_connect(client, server.sockets[0].getsockname())
                await loop.sock_sendall(client, mqtt5.ConnectPacket("a").write())
                await loop.sock_recv(client, 1)
                (connection,) = front._connections.values()
                for _ in range(60):
                    connection.deliver(MqttMessage("a", bytes(60_000)), [])
                await loop.sock_sendall(client, mqtt5.DisconnectPacket().write())
                while reads and await loop.sock_recv(client, 1 << 20):
                    pass
                await ours[0].wait_closed()
                await asyncio.sleep(2 * connection_module.LINGER)

    asyncio.run(asyncio.wait_for(scenario(), 20.0))
    assert not defects


@pytest.mark.parametrize(("wildcards", "code"), [(True, 0x83), (False, 0xA2)])
def test_wildcards_are_to_blame_if_the_protocol_has_none(wildcards: bool, code: int) -> None:
    assert _code_of_filter("a/#", wildcards=wildcards) == code
    assert _code_of_filter("a", wildcards=wildcards) == 0x83

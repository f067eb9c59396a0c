"""Buffers of sockets: the system's limit holds only for those that may not go beyond it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from nodeapp.buffers import RECEIVE_BUFFER, enlarge
from nodeapp.mqtt.uplink import Uplink
from nodeapp.node import open_client_port, open_radio


async def of_the_uplink() -> int:
    uplink = Uplink(1)
    await uplink.open()
    try:
        own = uplink._transport.get_extra_info("socket")
        return int(own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
    finally:
        uplink.close()


@pytest.mark.root
def test_sockets_of_a_node_hold_bursts_whatever_the_system_allows() -> None:
    sizes = [asyncio.run(of_the_uplink())]
    with open_radio("lo", 0) as radio, open_client_port(0) as clients:
        sizes += [own.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for own in (radio, clients)]
    assert min(sizes) >= 2 * RECEIVE_BUFFER  # Linux counts what keeps the data too: socket(7)


def test_without_permission_buffers_are_as_large_as_the_system_allows() -> None:
    options: list[tuple[int, int]] = []

    class Unprivileged:
        def setsockopt(self, _level: int, option: int, size: int) -> None:
            if option not in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                raise PermissionError
            options.append((option, size))

    enlarge(Unprivileged(), 5)  # type: ignore[arg-type]
    enlarge(Unprivileged(), 6, send=True)  # type: ignore[arg-type]
    assert options == [(socket.SO_RCVBUF, 5), (socket.SO_SNDBUF, 6)]

"""The control protocol: replies of any length, refusals, clients that vanish, sockets left over."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulation.media.control import MAX_REQUEST, ControlError, ControlServer, request


def _handle(message: dict[str, Any]) -> Mapping[str, Any]:
    if message["op"] == "refuse":
        raise ControlError("no such station: sta9")
    return {"echo": message, "long": "x" * int(message.get("length", 0))}


@contextmanager
def _served(path: Path) -> Iterator[ControlServer]:
    """Serve `path` from an asyncio loop in a thread, as the gpsd server does."""
    loop = asyncio.new_event_loop()
    server = ControlServer(path)
    loop.add_reader(server.fileno(), server.serve_ready, _handle)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.remove_reader(server.fileno())
        server.close()
        loop.close()


@pytest.mark.parametrize("length", [0, 1, 32_700, 32_768, 65_536, 3_000_000])
def test_replies_of_any_length_arrive_whole(tmp_path: Path, length: int) -> None:
    with _served(tmp_path / "s"):
        reply = request(tmp_path / "s", {"op": "x", "length": length})
    assert reply == {"echo": {"op": "x", "length": length}, "long": "x" * length}


def test_a_refusal_reaches_the_client_as_one_line(tmp_path: Path) -> None:
    with _served(tmp_path / "s"), pytest.raises(ControlError, match="no such station: sta9"):
        request(tmp_path / "s", {"op": "refuse"})


@pytest.mark.parametrize("packet", [b"\xff", b"[1]", b"{}", b'{"op": 3}', b" " * (MAX_REQUEST + 9)])
def test_malformed_requests_are_refused_and_the_connection_goes_on(
    tmp_path: Path, packet: bytes
) -> None:
    with _served(tmp_path / "s"), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(str(tmp_path / "s"))
        peer.send(packet)
        assert "error" in json.loads(peer.recv(65_536)[1:])
        peer.send(b'{"op": "x"}')
        assert json.loads(peer.recv(65_536)[1:])["echo"] == {"op": "x"}


def test_clients_that_leave_or_never_read_disturb_nobody(tmp_path: Path) -> None:
    with _served(tmp_path / "s"):
        lazy = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(5)]
        for peer in lazy:
            peer.connect(str(tmp_path / "s"))
            peer.send(b'{"op": "x", "length": 1000000}')
        assert request(tmp_path / "s", {"op": "y"})["echo"] == {"op": "y"}
        for peer in lazy:
            peer.close()
        assert request(tmp_path / "s", {"op": "z"})["echo"] == {"op": "z"}


def test_one_path_is_served_once_and_a_stale_socket_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    with ControlServer(path), pytest.raises(ControlError, match="cannot serve"):
        ControlServer(path)
    assert not path.exists()


def test_errors_of_the_client_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="No such file"):
        request(tmp_path / "none", {"op": "ping"})
    with ControlServer(tmp_path / "s"), pytest.raises(ControlError, match="no answer within"):
        request(tmp_path / "s", {"op": "ping"}, timeout=0.05)

"""Buffers of sockets, larger than the system gives to anyone (Linux)."""

from __future__ import annotations

import socket
from typing import Final

RECEIVE_BUFFER: Final = 4 << 20
"""Bytes asked for on each socket of a node: bursts wait there while the processor is busy."""
_RECEIVE: Final = (33, socket.SO_RCVBUF)
_SEND: Final = (32, socket.SO_SNDBUF)
"""The option of Linux that needs CAP_NET_ADMIN (SO_SNDBUFFORCE), and that with a limit."""


def enlarge(own: socket.socket, size: int = RECEIVE_BUFFER, *, send: bool = False) -> None:
    """Give a socket a buffer of `size` bytes, beyond the system's limit if that is permitted."""
    beyond, within = _SEND if send else _RECEIVE
    try:
        own.setsockopt(socket.SOL_SOCKET, beyond, size)
    except PermissionError:
        own.setsockopt(socket.SOL_SOCKET, within, size)

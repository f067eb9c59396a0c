"""Requests to a running process of the testbed: JSON over a Unix SOCK_SEQPACKET socket.

A request is one packet holding a JSON object with at least `op`, the name of the operation.  The
reply is a JSON object too, cut into packets of at most `FRAGMENT` bytes, each preceded by one byte
that says whether more follow: a packet must fit into a socket buffer, and the table of all links of
a large network does not.  A refused request is answered with {"error": "one line"}.  A connection
may carry any number of requests, one after the other.

`ControlServer` runs no loop of its own: whoever owns the loop watches `fileno()` (an epoll
descriptor over the listening socket and its connections, which select, poll, epoll and asyncio
accept alike) and calls `serve_ready`, which never blocks.  A client that does not read its reply
costs memory bounded by that one reply.  `request` is the blocking client.
"""

from __future__ import annotations

import errno
import json
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

FRAGMENT: Final = 32_768
"""Bytes of JSON in one packet of a reply."""
MAX_REQUEST: Final = 65_536
"""Largest request, bytes."""
MORE: Final = b"+"
LAST: Final = b"."

Handler = Callable[[dict[str, Any]], Mapping[str, Any]]


class ControlError(Exception):
    """A request that was refused or not answered; the message is one line."""


def number_of(request: Mapping[str, Any], key: str) -> float:
    """Return a number of a request.  Raises `ControlError`."""
    value = request.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15:
        return float(value)
    raise ControlError(f"{request['op']}: {key} must be a number")


class _Connection:
    """One client: its socket, and packets of replies that it has yet to read."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self.pending: deque[bytes] = deque()

    def flush(self) -> None:
        """Send as much as the client accepts now.  Raises OSError if it is gone."""
        while self.pending:
            try:
                self.socket.send(self.pending[0])
            except BlockingIOError:
                return
            self.pending.popleft()


class ControlServer:
    """Serves requests at `path`; a context manager that removes the socket file on exit.

    Raises `ControlError` if another process already serves this path or it cannot be bound.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            self._bind()
        except OSError as error:
            self._listener.close()
            raise ControlError(
                f"cannot serve the control socket {self.path}: {error.strerror or error}"
            ) from None
        self._listener.setblocking(False)
        self._connections: dict[int, _Connection] = {}
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)

    def _bind(self) -> None:
        try:
            self._listener.bind(str(self.path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or self._is_served():
                raise
            self.path.unlink()  # left behind by a process that was killed
            self._listener.bind(str(self.path))
        self.path.chmod(0o600)
        self._listener.listen(16)

    def _is_served(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                return False
            return True

    def fileno(self) -> int:
        """Return the descriptor that is readable when `serve_ready` has something to do."""
        return self._epoll.fileno()

    def serve_ready(self, handler: Handler) -> None:
        """Answer every request that has arrived with `handler(request)`; never blocks.

        A `ControlError` raised by the handler becomes the client's `ControlError`.
        """
        for fd, events in self._epoll.poll(0):
            if fd == self._listener.fileno():
                self._accept()
                continue
            connection = self._connections[fd]
            try:
                if events & select.EPOLLOUT:
                    connection.flush()
                if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    self._read(connection, handler)
            except OSError:  # the client is gone: nobody else is affected
                self._drop(connection)
                continue
            if connection.socket.fileno() >= 0:
                wanted = select.EPOLLOUT if connection.pending else select.EPOLLIN
                self._epoll.modify(fd, wanted)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # the client gave up between connect and accept
                continue
            peer.setblocking(False)
            self._connections[peer.fileno()] = _Connection(peer)
            self._epoll.register(peer.fileno(), select.EPOLLIN)

    def _read(self, connection: _Connection, handler: Handler) -> None:
        # One request at a time: the next one waits in the socket until this reply is read.
        while not connection.pending:
            try:
                packet = connection.socket.recv(MAX_REQUEST + 1)
            except BlockingIOError:
                return
            if not packet:
                self._drop(connection)
                return
            reply = json.dumps(_answer(packet, handler), separators=(",", ":")).encode()
            cuts = range(0, len(reply), FRAGMENT)
            connection.pending.extend(
                (MORE if cut + FRAGMENT < len(reply) else LAST) + reply[cut : cut + FRAGMENT]
                for cut in cuts
            )
            connection.flush()

    def _drop(self, connection: _Connection) -> None:
        fd = connection.socket.fileno()
        self._epoll.unregister(fd)
        del self._connections[fd]
        connection.socket.close()

    def close(self) -> None:
        """Close all connections and remove the socket file."""
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._epoll.close()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _answer(packet: bytes, handler: Handler) -> Mapping[str, Any]:
    if len(packet) > MAX_REQUEST:
        return {"error": f"a request of more than {MAX_REQUEST} bytes"}
    try:
        message = json.loads(packet)
    except ValueError:
        return {"error": "a request must be JSON"}
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        return {"error": "a request must be a JSON object with an op"}
    try:
        return handler(message)
    except ControlError as error:
        return {"error": str(error)}


def request(path: str | Path, message: Mapping[str, Any], timeout: float = 5.0) -> dict[str, Any]:
    """Send one request to the server at `path` and return its reply; blocks up to `timeout` s.

    Raises `ControlError` if the server refuses, is not there or does not answer in time.
    """
    parts = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.settimeout(timeout)
        try:
            peer.connect(str(path))
            peer.send(json.dumps(message).encode())
            while True:
                packet = peer.recv(FRAGMENT + 1)
                if not packet:
                    raise ControlError(f"{path}: the process ended before it answered")
                parts.append(packet[1:])
                if packet[:1] == LAST:
                    break
        except TimeoutError:
            raise ControlError(f"{path}: no answer within {timeout:g} s") from None
        except OSError as error:
            raise ControlError(f"{path}: {error.strerror or error}") from None
    reply = json.loads(b"".join(parts))
    if "error" in reply:
        raise ControlError(str(reply["error"]))
    assert isinstance(reply, dict)
    return reply


def answers(control: Path) -> bool:
    """Return whether the process at a control socket answers."""
    try:
        request(control, {"op": "ping"}, timeout=1.0)
    except ControlError:
        return False
    return True


def ask(control: Path, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the process at a control socket, empty if there is none."""
    try:
        answer: dict[str, Any] = request(control, question)
    except ControlError:
        return {}
    return answer

"""Signs of life of a run's processes, for the watchdog.

A process is queried at a socket that its main loop serves, so that one that spins or waits for a
lock forever does not answer, although it runs:

    the testbed's own           `ping` at the control socket (`emulation.media.control`)
    Open vSwitch                `version` at the unixctl socket (JSON-RPC; ovs-appctl(8))
    hostapd, wpa_supplicant     PING at the control interface (`emulation.network.hostapd.control`)

Or it writes or touches a file about once a second.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from emulation.media.control import FRAGMENT

SELDOM: Final = 2.0
"""Seconds between queries to foreign programs."""

Sign = Callable[[], bool]
"""Returns whether a process has given a sign of life since the last call; never blocks."""


class Dialect(NamedTuple):
    """How processes of a kind are queried for a sign of life; any answer will do."""

    kind: socket.SocketKind
    question: bytes
    interval: float
    """Least seconds between two queries."""


OURS: Final = Dialect(socket.SOCK_SEQPACKET, json.dumps({"op": "ping"}).encode(), 0.0)
UNIXCTL: Final = Dialect(
    socket.SOCK_STREAM,
    json.dumps({"method": "version", "params": [], "id": 0}).encode(),
    SELDOM,
)
HOSTAP: Final = Dialect(socket.SOCK_DGRAM, b"PING", SELDOM)


class Heartbeat:
    """Queries the process behind the socket `control` again once it has answered; a `Sign`."""

    def __init__(self, control: Path, dialect: Dialect = OURS) -> None:
        self._control = control
        self._dialect = dialect
        self._peer: socket.socket | None = None
        self._name: Path | None = None
        """File of our own socket, to which answers to datagrams are sent."""
        self._asked = float("-inf")
        self._awaits = False

    def __call__(self) -> bool:
        """Return whether there is an answer; query again if so, or if this is the first call."""
        answered = self._awaits and self._has_answered()
        if time.monotonic() >= self._asked + self._dialect.interval:
            self.ask()
        return answered

    def ask(self) -> None:
        """Query now, unless an answer is pending."""
        if self._awaits:
            return
        try:
            if self._peer is None:
                self._connect()
            assert self._peer is not None
            self._peer.send(self._dialect.question)
        except OSError:  # it does not listen yet, or has ended, which is detected elsewhere
            self.close()
        else:
            self._awaits, self._asked = True, time.monotonic()

    def _connect(self) -> None:
        """Connect without waiting.  Raises OSError."""
        self._peer = socket.socket(socket.AF_UNIX, self._dialect.kind)
        self._peer.setblocking(False)
        if self._dialect.kind == socket.SOCK_DGRAM:
            self._name = self._control.with_name(f".{self._control.name}.alive")
            self._peer.bind(str(self._name))
        self._peer.connect(str(self._control))

    def _has_answered(self) -> bool:
        """Receive everything that has arrived; return whether that was an answer."""
        assert self._peer is not None
        try:
            while True:
                if not self._peer.recv(FRAGMENT + 1):
                    raise ConnectionResetError
                self._awaits = False
        except BlockingIOError:
            return not self._awaits
        except OSError:  # it is ending, or has ended
            self.close()
            return False

    def close(self) -> None:
        self._awaits = False
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        if self._name is not None:
            self._name.unlink(missing_ok=True)
            self._name = None


class Replaced:
    """Whether a file has been rewritten or touched; a `Sign`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def __call__(self) -> bool:
        """Return whether it has been written since the last call."""
        with suppress(OSError):
            seen, self._seen = self._seen, self._path.stat().st_mtime_ns
            return seen != self._seen
        return False

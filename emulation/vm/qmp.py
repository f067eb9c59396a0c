"""QEMU's monitor protocol: commands and events in lines of JSON (QMP)."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Mapping
from typing import Any, Final

from emulation.errors import VmError

POLL: Final = 0.1
"""Seconds."""
PIECE: Final = 1 << 16


class Qmp:
    """This side of a monitor; `theirs` is the socket that QEMU inherits, closed after its start."""

    def __init__(self) -> None:
        self._socket, self.theirs = socket.socketpair()
        self._data = b""
        self.begun = False
        self.events: list[str] = []
        """Names of the events so far."""

    def begin(self) -> None:
        """Begin; memory that is shared with files is not to be saved.  Raises as `do`."""
        self.begun = True
        self.do("qmp_capabilities")
        capability = {"capability": "x-ignore-shared", "state": True}
        self.do("migrate-set-capabilities", capabilities=[capability])

    def do(self, command: str, **arguments: Any) -> Any:
        """Execute a command; return the answer.

        Raises `VmError` if it fails, and EOFError if the machine is gone.
        """
        message = {"execute": command, "arguments": arguments}
        try:
            self._socket.sendall(json.dumps(message).encode())
        except OSError:
            raise EOFError from None
        while True:
            answer = self._next(None)
            if answer is not None and "error" in answer:
                raise VmError(f"QEMU refuses {command}: {answer['error']['desc']}")
            if answer is not None and "return" in answer:
                return answer["return"]

    def human(self, line: str) -> None:
        """Execute a human monitor command, which prints only errors.  Raises as `do`."""
        text = self.do("human-monitor-command", **{"command-line": line})
        if text:
            raise VmError(f"QEMU refuses {line}: {text.strip()}")

    def saw(self, event: str) -> bool:
        """Return whether this event has come, after waiting a moment.  Raises EOFError."""
        self._next(POLL)
        return event in self.events

    def _next(self, limit: float | None) -> Mapping[str, Any] | None:
        """Return the next message, which may be an event; None if none comes in time."""
        while b"\n" not in self._data:
            if not select.select([self._socket], [], [], limit)[0]:
                return None
            try:
                piece = self._socket.recv(PIECE)
            except OSError:
                piece = b""
            if not piece:
                raise EOFError
            self._data += piece
        line, _, self._data = self._data.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "event" in message:
            self.events.append(message["event"])
        return message

    def close(self) -> None:
        """Close both ends."""
        self.theirs.close()
        self._socket.close()

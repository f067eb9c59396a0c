"""Namespaces of nodes, each held by a process that becomes the node's shell on first use.

This is the run's side of `emulation.network.holder`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from emulation.network.processes import ForeignProcess, end

SERVER: Final = Path(__file__).with_name("holder.py")
START_LIMIT: Final = 60.0
"""Seconds that making namespaces may take."""
MESSAGE: Final = 64
"""Longest answer, bytes: a number."""


class Holder(ForeignProcess):
    """A process that holds namespaces, with the part of `subprocess.Popen` that Mininet uses.

    It ends when this process does.
    """

    def __init__(self, pid: int, run: socket.socket) -> None:
        super().__init__(pid, 0)
        self._run = run

    def become(self, words: Sequence[str], environment: Mapping[str, str], terminal: int) -> None:
        """Have it execute a command on a terminal; once.  Raises OSError if it has ended."""
        request = json.dumps([list(words), dict(environment)]).encode()
        socket.send_fds(self._run, [request], [terminal])
        self._run.close()

    def kill(self) -> None:
        """End it, and its namespaces unless others are in them."""
        super().kill()
        self._run.close()


class Namespaces:
    """Makes namespaces; `environment` is that of the processes that hold them."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the server.  Raises OSError."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(START_LIMIT)
        self._asked: list[str] = []
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SERVER), str(theirs.fileno())],
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def ask(self, names: Sequence[str], home: int | None = None) -> None:
        """Begin making namespaces of nodes, or entering those of the process `home`.

        `take` them in this order.
        """
        self._asked += names
        if names:
            self._socket.send(json.dumps([[name, home] for name in names]).encode())

    def take(self, name: str, home: int | None = None) -> Holder:
        """Return the process of a node once it has its namespaces, asking for it if need be.

        Raises OSError if they cannot be made.
        """
        if name not in self._asked:
            self.ask([name], home)
        if self._asked.pop(0) != name:
            raise ValueError(f"{name} is not the next")
        try:
            answer, descriptors, _, _ = socket.recv_fds(self._socket, MESSAGE, 1)
            if not answer:
                raise OSError(f"the process that makes the namespaces of {name} has ended")
            run = socket.socket(fileno=descriptors[0])
            run.settimeout(START_LIMIT)
            number = int(run.recv(MESSAGE) or 0)
        except TimeoutError:
            raise OSError(
                f"making the namespaces of {name} took longer than {START_LIMIT:g} s"
            ) from None
        if number:
            raise OSError(number, f"cannot make the namespaces of {name}: {os.strerror(number)}")
        run.settimeout(None)
        return Holder(int(answer), run)

    def close(self) -> None:
        """End the server; the processes that hold namespaces go on."""
        self._socket.close()
        end(self._process)

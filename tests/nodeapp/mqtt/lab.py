"""Nodes that serve clients of MQTT, and Mosquitto's clients at them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from capture.namespaces import network_namespace
from emulation.network.warm import Warm
from nodeapp.mqtt.topics import lacks_mqtt
from tests.nodeapp.lab import INTERFACE, inside, until
from tests.nodeapp.test_main import Commands

NEEDS: Final = [
    pytest.mark.root,
    pytest.mark.skipif(
        lacks_mqtt() is not None or shutil.which("mosquitto_sub") is None,
        reason="needs mqtt5 and Debian's mosquitto-clients",
    ),
]


class Node(Commands):
    """A node that serves clients of MQTT, forked as in a run; it logs to a file."""

    def __init__(
        self, warm: Warm, log: Path, pid: int, node_id: int, protocol: str, *more: str
    ) -> None:
        super().__init__(pid)
        self._log = log
        arguments = ("--id", str(node_id), "--interface", INTERFACE, "--protocol", protocol, *more)
        with log.open("wb") as output:
            self.process = warm.start(
                "nodeapp", arguments, output, namespaces_of=pid, dies_with_run=True
            )

    def kill(self) -> None:
        super().kill()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10.0)

    def end(self) -> str:
        """Stop the node, which must be running, and return what it logged."""
        assert self.process.poll() is None
        self.process.terminate()
        assert self.process.wait(10.0) == 0
        return self._log.read_text(encoding="utf-8")

    def mosquitto(self, kind: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            inside(self.pid, f"mosquitto_{kind}", "-h", "127.0.0.1", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def publish(self, *arguments: str) -> str:
        """Publish; return what mosquitto_pub writes: nothing, unless it is refused."""
        return self.mosquitto("pub", *arguments).communicate(timeout=20)[0]

    def subscribe(self, *arguments: str) -> subprocess.Popen[str]:
        """Subscribe and wait until the node knows of it."""
        before = self.filters()
        reader = self.mosquitto("sub", *arguments)
        self._subscribers.append(reader)
        until(lambda: self.filters() > before)
        return reader

    def status(self) -> str:
        """Return what the node says of itself, which on a busy machine it may not do at once."""
        return until(super().status)

    def filters(self) -> int:
        line = next(line for line in self.status().splitlines() if line.startswith("  filters"))
        return int(line.split()[1])


def lines(reader: subprocess.Popen[str]) -> list[str]:
    return reader.communicate(timeout=20)[0].splitlines()


def dial(node: Node) -> socket.socket:
    with network_namespace(node.pid):
        return socket.create_connection(("127.0.0.1", 1883), timeout=20)

"""Two network namespaces with a veth pair between them, and a recorder on it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capture.namespaces import network_namespace


def run(*command: str) -> None:
    """Run a command that must succeed, quietly."""
    subprocess.run(command, check=True, capture_output=True)


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition, polling.  Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition does not come true"
        time.sleep(0.02)


@contextmanager
def namespace() -> Iterator[int]:
    """Yield the process id of a process that does nothing in a network namespace of its own."""
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 600"],
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            yield process.pid
        finally:
            process.kill()


class Lab:
    """Namespaces `near` and `far` (process ids), joined by interfaces "near0" and "far0" and on."""

    def __init__(self, near: int, far: int, folder: Path, pairs: int = 1) -> None:
        self.near = near
        self.far = far
        self.folder = folder
        for pid in (near, far):
            self.enter(pid, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for number in range(pairs):
            peer = ("peer", "name", f"far{number}", "netns", str(far))
            self.enter(near, "ip", "link", "add", f"near{number}", "type", "veth", *peer)
            self.enter(near, "ip", "link", "set", f"near{number}", "up")
            self.enter(far, "ip", "link", "set", f"far{number}", "up")

    def enter(self, pid: int, *command: str) -> None:
        """Run a command in the network namespace of a process."""
        run("nsenter", "-t", str(pid), "-n", *command)

    def sender(self, number: int = 0) -> socket.socket:
        """Return a socket that sends Ethernet frames from near0, or another."""
        with network_namespace(self.near):
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            sender.bind((f"near{number}", 0))
        return sender

    def udp(self) -> socket.socket:
        """Return a UDP socket on the loopback interface of `near`, at a port of its own."""
        with network_namespace(self.near):
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind(("127.0.0.1", 0))
        return udp

    def source(self, interface: str, folder: Path | None = None) -> dict[str, Any]:
        """Return the recorder's configuration for one interface."""
        return {
            "pid": self.far if interface.startswith("far") else self.near,
            "interface": interface,
            "file": str((folder or self.folder) / f"{interface}.pcap"),
            "loopback": interface == "lo",
        }


@contextmanager
def lab(folder: Path, pairs: int = 1) -> Iterator[Lab]:
    """Yield a new `Lab`."""
    with namespace() as near, namespace() as far:
        yield Lab(near, far, folder, pairs)


class Recording:
    """A recorder process and its status file."""

    def __init__(self, process: subprocess.Popen[str], status: Path) -> None:
        self.process = process
        self._status = status

    def status(self) -> dict[str, Any]:
        """Return the last status; an empty one before the recorder is ready."""
        try:
            status: dict[str, Any] = json.loads(self._status.read_text())
        except FileNotFoundError:
            assert self.process.poll() is None, self.process.communicate()[1]
            return {}
        return status

    def stop(self) -> dict[str, Any]:
        """End it in good order and return the final status."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        assert (self.process.returncode, errors) == (0, "")
        return self.status()


@contextmanager
def recording(
    folder: Path, *sources: dict[str, Any], buffer_bytes: int = 16 * 2**20
) -> Iterator[Recording]:
    """Yield a recorder that is capturing on `sources`."""
    status = folder / "recorder.json"
    status.unlink(missing_ok=True)  # that of an earlier recorder says that it is ready
    config = folder / "config.json"
    config.write_text(
        json.dumps({"interfaces": sources, "status": str(status), "buffer_bytes": buffer_bytes})
    )
    with subprocess.Popen(
        [sys.executable, "-m", "capture", str(config)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        recorder = Recording(process, status)
        try:
            until(lambda: bool(recorder.status().get("ready")))
            yield recorder
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)

"""Network namespaces joined by a veth pair, for tests with the real host."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from nodeapp.addressing import address_of

INTERFACE = "wlan0"


T = TypeVar("T")


def until(condition: Callable[[], T], limit: float = 15.0) -> T:
    """Poll until a condition holds, and return what it returned; fails after `limit` seconds.

    Half of the time at most goes into asking: that may start a process.
    """
    end = time.monotonic() + limit
    while True:
        began = time.monotonic()
        if found := condition():
            return found
        now = time.monotonic()
        assert now < end, "the condition does not come true"
        time.sleep(max(0.02, now - began))


def inside(namespace: int, *command: str) -> list[str]:
    """Return a command that runs in the namespace of a process."""
    return ["nsenter", "-t", str(namespace), "-n", *command]


def configure(namespace: int, *command: str) -> None:
    subprocess.run(inside(namespace, *command), check=True, capture_output=True)


@contextlib.contextmanager
def namespaces(count: int) -> Iterator[list[int]]:
    """Yield the process ids of namespaces, their interfaces `wlan0` joined by a bridge.

    The first holds the bridge too, so that all is gone with the processes.
    """
    with contextlib.ExitStack() as stack:
        pids = []
        for _ in range(count):
            process = stack.enter_context(
                subprocess.Popen(
                    [
                        "unshare",
                        "--net",
                        "sh",
                        "-c",
                        "ip link set lo up && echo up && exec sleep 600",
                    ],
                    stdout=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            pids.append(process.pid)
        air = pids[0]
        configure(air, "ip", "link", "add", "air", "type", "bridge")
        configure(air, "ip", "link", "set", "air", "up")
        for node, pid in enumerate(pids, start=1):
            port, peer = f"port{node}", ("peer", "name", INTERFACE, "netns", str(pid))
            configure(air, "ip", "link", "add", port, "type", "veth", *peer)
            configure(air, "ip", "link", "set", port, "master", "air", "up")
            configure(pid, "sysctl", "-qw", f"net.ipv6.conf.{INTERFACE}.disable_ipv6=1")
            configure(pid, "ip", "addr", "add", f"{address_of(node)}/8", "dev", INTERFACE)
            configure(pid, "ip", "link", "set", INTERFACE, "up")
        yield pids

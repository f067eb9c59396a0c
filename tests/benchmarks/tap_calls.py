"""What batches of system calls could save the TAP medium: `python -m tests.benchmarks.tap_calls`.

The medium reads a frame from its sender's device and writes it to each receiver's, a system call
each.  Batches (io_uring) would save the way into the kernel and back, not what the kernel does
there.  The time of a call that does nothing there, Python's part included, is more than the way: so
its share of the time of a call on a TAP device is the most that batches could save.  Frames are
datagrams of 560 bytes to an open socket, on an interface that is captured.  Needs root.

    --receivers N   of a frame: it is read once and written N times
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from capture.namespaces import network_namespace
from emulation.media.device import Tap
from tests.emulation.media.tap_stations import Station, namespaces

FRAMES: Final = 64
ROUNDS: Final = 60
PORT: Final = 7000
PAYLOAD: Final = bytes(560)
OTHER: Final = ("10.0.0.200", "02:00:00:00:00:c8")
"""Who the frames are from."""


def per_call(call: Callable[[], object], before: Callable[[], None] = lambda: None) -> float:
    """Return the median nanoseconds of a call; `before` is called before each `FRAMES` calls."""
    rounds = []
    for _ in range(ROUNDS):
        before()
        begun = time.perf_counter_ns()
        for _ in range(FRAMES):
            call()
        rounds.append((time.perf_counter_ns() - begun) / FRAMES)
    return statistics.median(rounds)


def empty(receive: Callable[[int], bytes]) -> int:
    """Receive until there is nothing left; return how often."""
    count = 0
    with suppress(BlockingIOError):
        while receive(2048):
            count += 1
    return count


def measure(station: Station, receivers: int) -> None:
    """Print the times of calls, and the greatest share that batches could save."""
    mac = "02:00:00:00:00:01"
    tap = Tap(station.pid, "tap0", mac, 1500, 1000)
    station.run("ip", "addr", "add", f"{station.address}/8", "dev", "tap0")
    station.run("ip", "link", "set", "tap0", "up")
    station.run("ip", "neigh", "add", OTHER[0], "lladdr", OTHER[1], "dev", "tap0")
    with network_namespace(station.pid):
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        recorder = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        recorder.bind(("tap0", 0))
    client.bind((station.address, PORT))
    client.setblocking(False)
    recorder.setblocking(False)
    datagram = UDP(sport=PORT, dport=PORT) / PAYLOAD
    frame = bytes(Ether(src=OTHER[1], dst=mac) / IP(src=OTHER[0], dst=station.address) / datagram)

    def take() -> None:
        if taken := empty(client.recv):
            assert taken == FRAMES, f"{FRAMES - taken} frames did not arrive"
        empty(recorder.recv)

    def offer() -> None:
        for _ in range(FRAMES):
            client.sendto(PAYLOAD, (OTHER[0], PORT))
        empty(recorder.recv)

    empty(lambda size: os.read(tap.fd, size))  # what the kernel sent by itself
    with Path("/dev/null").open("wb") as null, Path("/dev/zero").open("rb") as zero:
        nothing = null.fileno(), zero.fileno()
        write = per_call(lambda: os.write(tap.fd, frame), take)
        no_write = per_call(lambda: os.write(nothing[0], frame))
        take()
        read = per_call(lambda: os.read(tap.fd, 2048), offer)
        no_read = per_call(lambda: os.read(nothing[1], len(frame)))
    all_calls, saved = read + receivers * write, no_read + receivers * no_write
    print(f"write to a TAP device  {write / no_write:.1f} times a write that does nothing")
    print(f"read from one          {read / no_read:.1f} times a read that does nothing")
    print(
        f"a frame to {receivers} receivers: batches could save {saved / all_calls:.0%} "
        "of its system calls at most"
    )
    tap.close()


def main() -> None:
    """Measure in a namespace of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--receivers", type=int, default=24)
    options = parser.parse_args()
    with namespaces(1) as (station,):
        measure(station, options.receivers)


if __name__ == "__main__":
    main()

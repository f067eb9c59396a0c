"""Frame deliveries through real TAP devices: `python -m tests.benchmarks.medium_tap`.

Stations in cells that do not hear each other; in each cell one station broadcasts as fast as its
radio accepts frames and all others receive.  The medium process applies the full radio model.  For
comparison, a process with the same devices and the same senders copies every frame to all others
of its cell, without a model.  Rates are per second of the forwarding process's CPU.  Needs root.

    --cells N       5 by default
    --stations N    of a cell, 25 by default
    --seconds S     of each measurement, 5 by default
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from capture.namespaces import network_namespace
from emulation.media.control import request
from emulation.media.device import Tap
from emulation.radio.spec import RadioSpec
from tests.emulation.media.tap_stations import (
    Station,
    configure,
    medium,
    namespaces,
    write_config,
)

PAYLOAD = 100
RATE = 3000
"""Datagrams a second of each sender: about what the channel carries."""
SENDER = f"""
import socket, sys, time
out = [socket.socket(fileno=int(fd)) for fd in sys.argv[1:]]
due = time.monotonic()
while True:
    for one in out:
        try:
            one.sendto(bytes({PAYLOAD}), ("10.255.255.255", 9))
        except OSError:
            pass
    due += 1 / {RATE}
    time.sleep(max(due - time.monotonic(), 0))
"""


@contextmanager
def _senders(stations: Sequence[Station]) -> Iterator[None]:
    """Run one process that sends in the namespaces of all `stations`."""
    sockets = []
    for station in stations:
        with network_namespace(station.pid):
            sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    numbers = [one.fileno() for one in sockets]
    process = subprocess.Popen([sys.executable, "-c", SENDER, *map(str, numbers)], pass_fds=numbers)
    try:
        yield
    finally:
        process.kill()
        process.wait()
        for one in sockets:
            one.close()


def _plain(taps: Sequence[Tap], cells: int, seconds: float) -> float:
    """Forward frames within cells, and return deliveries per second of CPU."""
    epoll = select.epoll()
    others = {}
    for index, tap in enumerate(taps):
        epoll.register(tap.fd, select.EPOLLIN)
        others[tap.fd] = [
            t.fd for i, t in enumerate(taps) if i % cells == index % cells and t is not tap
        ]
    deliveries = 0
    cpu = time.process_time()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for fd, _ in epoll.poll(0.1):
            frame = os.read(fd, 2048)
            for other in others[fd]:
                os.write(other, frame)
            deliveries += len(others[fd])
    epoll.close()
    return deliveries / (time.process_time() - cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=5)
    parser.add_argument("--stations", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    cells, count, seconds = options.cells, options.cells * options.stations, options.seconds
    tracks = [[(0, 10_000.0 * (i % cells), 5.0 * (i // cells))] for i in range(count)]
    with namespaces(count) as stations, tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), stations, tracks, RadioSpec(range=250))
        with medium(config, stations, neighbours=False) as control, _senders(stations[:cells]):
            time.sleep(1.0)
            first = request(control, {"op": "stats"})
            time.sleep(seconds)
            last = request(control, {"op": "stats"})
        deliveries = sum(last["counters"]["received"]) - sum(first["counters"]["received"])
        cpu = last["cpu_seconds"] - first["cpu_seconds"]
        modelled = deliveries / cpu
        taps = [Tap(s.pid, s.interface, s.mac, 1500, 500) for s in stations]
        configure(stations, neighbours=False)
        with _senders(stations[:cells]):
            plain = _plain(taps, cells, seconds)
        for tap in taps:
            tap.close()
    late = last["lateness"]
    print(
        f"{cells} cells of {options.stations} stations (load {os.getloadavg()[0]:.1f})\n"
        f"  medium: {modelled:,.0f} deliveries per CPU second; {deliveries / seconds:,.0f}/s at "
        f"{last['cpu_share']:.0%} CPU, lateness p50 {late['p50_us']} us, p99 {late['p99_us']} us, "
        f"{last['write_drops']} write drops, {sum(last['tap_drops'].values())} TAP drops\n"
        f"  plain copying: {plain:,.0f} deliveries per CPU second\n"
        f"  ratio {modelled / plain:.2f}"
    )


if __name__ == "__main__":
    main()

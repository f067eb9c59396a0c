"""What the TAP medium adds to the latency of a frame: `python -m tests.benchmarks.medium_latency`.

One station sends another a small datagram every 2 ms, so that the medium is idle each time and
the model adds nothing but the airtime.  One-way delays (one machine, one clock) over the medium,
less that airtime, are compared with those over a veth pair.  Needs root.

    --hogs N        processes that each keep a CPU busy meanwhile, at ordinary priority
    --priority P    of the medium: round-robin, nice or none
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from capture.namespaces import network_namespace
from capture.process import exact_timers, raise_priority
from emulation.media.control import request
from emulation.radio.airtime import OFDM_RATES, phy_for
from emulation.radio.spec import RadioSpec
from tests.emulation.media.tap_stations import Station, medium, namespaces, write_config

COUNT = 1000
INTERVAL = 0.002
PORT = 7000


def _socket_in(station: Station) -> socket.socket:
    with network_namespace(station.pid):
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def one_way_delays(
    sender: Station, receiver: Station
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the delays in microseconds from send() to the kernel's receive time stamp."""
    with _socket_in(sender) as out, _socket_in(receiver) as into:
        into.bind((receiver.address, PORT))
        into.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        into.settimeout(1.0)
        delays = []
        for number in range(COUNT):
            sent = time.time_ns()
            out.sendto(struct.pack("=qq", sent, number), (receiver.address, PORT))
            payload, extra, _, _ = into.recvmsg(64, 64)
            seconds, nanoseconds = struct.unpack("=qq", extra[0][2])
            delays.append((seconds * 10**9 + nanoseconds - struct.unpack("=qq", payload)[0]) / 1000)
            time.sleep(INTERVAL)
    return np.array(delays)


@contextmanager
def _hogs(count: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def _veth(one: Station, other: Station) -> None:
    one.run(
        "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", str(other.pid)
    )
    for station in (one, other):
        station.run("ip", "addr", "add", f"{station.address}/8", "dev", "v0")
        station.run("ip", "link", "set", "v0", "up")
    assert one.reaches(other, timeout=2.0)


def _show(name: str, delays: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    p50, p99 = np.percentile(delays, [50, 99])
    print(f"  {name:<26} p50 {p50:7.1f} us   p99 {p99:7.1f} us   max {delays.max():8.1f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hogs", type=int, default=0)
    parser.add_argument("--priority", default="round-robin")
    options = parser.parse_args()
    exact_timers()
    raise_priority("round-robin")  # measuring must not be delayed; children have ordinary priority
    print(f"{options.hogs} hogs, medium at {options.priority} (load {os.getloadavg()[0]:.1f})")
    with namespaces(2) as (one, other):
        _veth(one, other)
        with _hogs(options.hogs):
            veth = one_way_delays(one, other)
    with namespaces(2) as stations, tempfile.TemporaryDirectory() as folder:
        tracks = [[(0, 0, 0)], [(0, 10, 0)]]
        config = write_config(
            Path(folder), stations, tracks, RadioSpec(range=250), priority=options.priority
        )
        with medium(config, stations) as control, _hogs(options.hogs):
            tap = one_way_delays(*stations)
            statistics = request(control, {"op": "stats"})
    phy = phy_for("g")
    airtime = phy.duration(OFDM_RATES[-1], phy.mpdu_bytes(14 + 20 + 8 + 16)) * 1e6
    _show("veth pair", veth)
    _show(f"medium less {airtime:.0f} us airtime", tap - airtime)
    added = np.percentile(tap - airtime, [50, 99]) - np.percentile(veth, [50, 99])
    late = statistics["lateness"]
    print(
        f"  added by the medium: p50 {added[0]:.1f} us, p99 {added[1]:.1f} us; its own lateness: "
        f"p50 {late['p50_us']} us, p99 {late['p99_us']} us; CPU {statistics['cpu_share']:.0%}"
    )


if __name__ == "__main__":
    main()

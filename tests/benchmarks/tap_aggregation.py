"""802.11n between two TAP devices: `python -m tests.benchmarks.tap_aggregation`.

One station sends UDP datagrams of 1,400 bytes to another as fast as its device takes them, through
the medium process with 802.11g and several rates of 802.11n, with and without A-MPDU.  For
comparison, a process with the same devices copies every frame, without a model.  Prints Mb/s of
payload that arrive, and what a whole processor of the forwarding process would carry.  Needs root.

    --seconds S     of each measurement, 5 by default
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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

PAYLOAD: Final = 1400
RADIOS: Final[Mapping[str, Mapping[str, Any]]] = {
    "802.11g, 54 Mb/s": {"data_rate_mbps": 54},
    "MCS 7, 65 Mb/s, no A-MPDU": {"standard": "n", "mcs": 7, "ampdu": 0},
    "MCS 7, 65 Mb/s": {"standard": "n", "mcs": 7},
    "MCS 15, 300 Mb/s": {"standard": "n", "streams": 2, "mcs": 15},
    "MCS 31, 600 Mb/s": {"standard": "n", "streams": 4, "mcs": 31},
}
WIDE: Final = {"width_mhz": 40, "guard_interval": "short"}
"""With several streams."""
SENDER: Final = f"""
import socket, sys
out = socket.socket(fileno=int(sys.argv[1]))
while True:
    try:
        out.sendto(bytes({PAYLOAD}), (sys.argv[2], 9))
    except OSError:
        pass
"""


@contextmanager
def traffic(one: Station, other: Station) -> Iterator[socket.socket]:
    """Send datagrams from one station to another, whose socket is yielded."""
    sockets = []
    for station in (one, other):
        with network_namespace(station.pid):
            sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    source, sink = sockets
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    sink.bind((other.address, 9))
    sink.settimeout(0.2)
    number = source.fileno()
    command = [sys.executable, "-c", SENDER, str(number), other.address]
    process = subprocess.Popen(command, pass_fds=[number])
    try:
        yield sink
    finally:
        process.kill()
        process.wait()
        for each in sockets:
            each.close()


def arriving(sink: socket.socket, seconds: float) -> float:
    """Return Mb/s of payload that arrive."""
    arrived, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            arrived += len(sink.recv(2048))
        except TimeoutError:
            continue
    return arrived * 8e-6 / seconds


def modelled(stations: Sequence[Station], radio: RadioSpec, seconds: float) -> tuple[float, float]:
    """Return the Mb/s through the medium process, and its share of a processor."""
    with tempfile.TemporaryDirectory() as folder:
        tracks = [[(0, 0, 0)], [(0, 5, 0)]]
        config = write_config(Path(folder), stations, tracks, radio)
        with medium(config, stations) as control, traffic(*stations) as sink:
            arriving(sink, 1.0)
            before = request(control, {"op": "stats"})["cpu_seconds"]
            mbps = arriving(sink, seconds)
            return mbps, (request(control, {"op": "stats"})["cpu_seconds"] - before) / seconds


def copied(stations: Sequence[Station], seconds: float) -> tuple[float, float]:
    """Return the same for a thread that copies all frames."""
    taps = [Tap(s.pid, s.interface, s.mac, 1500, 500) for s in stations]
    configure(stations)
    used = [0.0]
    stop = threading.Event()

    def copy() -> None:
        os.set_blocking(taps[0].fd, True)
        began = time.thread_time()
        while not stop.is_set():
            os.write(taps[1].fd, os.read(taps[0].fd, 2048))
        used[0] = time.thread_time() - began

    thread = threading.Thread(target=copy)
    with traffic(*stations) as sink:
        thread.start()
        began = time.monotonic()
        mbps = arriving(sink, seconds)
        stop.set()
        thread.join()
        lasted = time.monotonic() - began
    for tap in taps:
        tap.close()
    return mbps, used[0] / lasted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    print("| | Mb/s | processor | Mb/s a processor |\n| --- | ---: | ---: | ---: |")
    with namespaces(2) as stations:
        for name, settings in RADIOS.items():
            wide = WIDE if "streams" in settings else {}
            radio = RadioSpec.model_validate({"range": 250, **settings, **wide})
            mbps, share = modelled(stations, radio, seconds)
            print(f"| {name} | {mbps:.1f} | {share:.0%} | {mbps / share:.0f} |", flush=True)
        mbps, share = copied(stations, seconds)
        print(f"| plain copying | {mbps:.1f} | {share:.0%} | {mbps / share:.0f} |")


if __name__ == "__main__":
    main()

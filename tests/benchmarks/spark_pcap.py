"""Packets a second of the `pcap` data source in Spark, against tshark and scapy.

    python -m tests.benchmarks.spark_pcap [--packets 2000000] [--cores 2]

Spark decodes every column of every packet and aggregates them; its start-up and a first query over
a small file (which compiles the code) are not part of the rate.  `tshark -T fields` prints address,
port, time and payload of each packet, scapy's PcapReader dissects each; both get fewer packets, as
they take so much longer.  The aim is 25 times tshark on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from scapy.layers import inet  # noqa: F401  # the reader finds link types in the layers loaded
from scapy.utils import PcapReader

from nodeapp.wire import Frame, GeoRoute, Kind
from spark_analysis.captures.session import spark_session
from tests.capture.packets import ethernet, file_header, record, udp_ipv4

NODES = 60
PATTERN = (
    Frame(Kind.HELLO, 1, body=bytes(33)),
    Frame(Kind.SUBSCRIPTION, 1, ttl=32, route=GeoRoute(1.0, 2.0).encode(), body=bytes(70)),
    Frame(
        Kind.EVENT, 1, 9, 3, 7, ttl=30, hops=2, route=GeoRoute(1.0, 2.0).encode(), body=bytes(512)
    ),
)


def write_capture(path: Path, packets: int) -> int:
    """Write `packets` or a few less, 10 microseconds apart, from `NODES` nodes; return how many."""
    turn = b"".join(
        record(ethernet(udp_ipv4(frame.encode(), source=0x0A000001 + node)))
        for node in range(NODES)
        for frame in PATTERN
    )
    starts = []
    offset = 0
    while offset < len(turn):
        starts.append(offset)
        offset += 16 + int.from_bytes(turn[offset + 8 : offset + 12], "little")
    turns = packets // len(starts)
    with path.open("wb") as file:
        file.write(file_header())
        for number in range(turns):
            block = np.frombuffer(turn, np.uint8).copy()
            offsets = np.asarray(starts)
            indices = number * len(offsets) + np.arange(len(offsets))
            times = 1_700_000_000_000_000_000 + 10_000 * indices
            stamps = np.stack([times // 10**9, times % 10**9], axis=1).astype("<u4")
            block[offsets[:, None] + np.arange(8)] = stamps.view(np.uint8)
            file.write(block.data)
    return turns * len(starts)


def spark_seconds(spark: SparkSession, path: Path) -> float:
    """Return how long a query over every packet and every column takes."""
    start = time.perf_counter()
    frames = spark.read.format("pcap").load(str(path))
    frames.groupBy("kind", "ip_src", "port_src").agg(
        sf.count("*"), sf.sum("length"), sf.max("time_ns")
    ).collect()
    return time.perf_counter() - start


def tshark_seconds(path: Path) -> float:
    """Return how long tshark takes to print four fields of every packet."""
    start = time.perf_counter()
    fields = [f"-e{name}" for name in ("ip.src", "udp.port", "frame.time_epoch", "data")]
    with Path(os.devnull).open("w") as nowhere:
        subprocess.run(
            ["tshark", "-n", "-r", str(path), "-Tfields", *fields],
            stdout=nowhere,
            stderr=nowhere,
            check=True,
        )
    return time.perf_counter() - start


def scapy_seconds(path: Path) -> float:
    """Return how long scapy takes to dissect every packet."""
    start = time.perf_counter()
    with PcapReader(str(path)) as reader:
        for _ in reader:
            pass
    return time.perf_counter() - start


def best(times: int, measure: Callable[[], float]) -> float:
    """Return the shortest of several measurements: other processes only ever add."""
    return min(measure() for _ in range(times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--packets", type=int, default=2_000_000)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"spark": options.packets, "tshark": options.packets // 10}
        sizes["scapy"] = options.packets // 100
        paths = {name: Path(folder, f"{name}-wlan0.pcap") for name in sizes}
        sizes = {name: write_capture(paths[name], size) for name, size in sizes.items()}
        rates = {}
        if shutil.which("tshark") is not None:
            rates["tshark"] = sizes["tshark"] / best(2, lambda: tshark_seconds(paths["tshark"]))
        rates["scapy"] = sizes["scapy"] / scapy_seconds(paths["scapy"])
        start = time.perf_counter()
        with spark_session(f"local[{options.cores}]") as spark:
            started = time.perf_counter() - start
            spark_seconds(spark, paths["scapy"])
            spark_seconds(spark, paths["tshark"])
            rates["spark"] = sizes["spark"] / best(4, lambda: spark_seconds(spark, paths["spark"]))
    print(f"{sizes['spark']:,} packets; Spark on {options.cores} cores started in {started:.1f} s")
    for name, rate in rates.items():
        print(f"{name:8}{rate:12,.0f} packets/s   spark is {rates['spark'] / rate:6.1f} times this")
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()

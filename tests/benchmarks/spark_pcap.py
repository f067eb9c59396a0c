"""Packets a second that Spark decodes, against tshark and scapy.

    python -m tests.benchmarks.spark_pcap [--packets 2000000] [--cores 2]

analyses  What `analyze` does with captures of 60 nodes: tasks decode every column of every packet
          to Parquet, once; and a query over that.
source    The `pcap` data source: the same query over one capture, to which Spark hands every
          packet as a row with all columns.

Spark's start-up and first queries (which compile the code) are not part of the rate.  `tshark -T
fields` prints address, port, time and payload of each packet, scapy's PcapReader dissects each;
both get fewer packets, as they take so much longer.
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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from scapy.layers import inet  # noqa: F401  # the reader finds link types in the layers loaded
from scapy.utils import PcapReader

from emulation.scenario.runfolder import Run, RunFolder
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.messages import TopicKind
from nodeapp.wire import Frame, GeoRoute
from spark_analysis.captures.files import find_captures
from spark_analysis.captures.materialise import FRAMES_FOLDER, materialise, read_frames
from spark_analysis.engine.session import spark_session
from tests.capture.packets import ethernet, file_header, record, udp_ipv4
from topologies.catalog import make_scenario

NODES = 60
PATTERN = (
    Frame(CommonKind.HELLO, 1, body=bytes(33)),
    Frame(TopicKind.SUBSCRIPTION, 1, ttl=32, route=GeoRoute(1.0, 2.0).encode(), body=bytes(70)),
    Frame(
        CommonKind.EVENT,
        1,
        9,
        3,
        7,
        ttl=30,
        hops=2,
        route=GeoRoute(1.0, 2.0).encode(),
        body=bytes(512),
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


def run_of_nodes(path: Path, packets: int) -> tuple[Run, int]:
    """Write captures of `NODES` nodes as those of a run, `packets` or a few less; return both."""
    RunFolder(path).captures.mkdir(parents=True)
    written = 0
    for node in range(1, NODES + 1):
        capture = RunFolder(path).captures / f"sta{node}-wlan0.pcap"
        written += write_capture(capture, packets // NODES)
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=60.0, settings={})
    return Run(path, scenario, None, None, ()), written


def query_seconds(frames: DataFrame) -> float:
    """Return how long a query over every packet takes."""
    start = time.perf_counter()
    frames.groupBy("kind", "ip_src", "port_src").agg(
        sf.count("*"), sf.sum("length"), sf.max("time_ns")
    ).collect()
    return time.perf_counter() - start


def source_seconds(spark: SparkSession, path: Path) -> float:
    """Return how long that takes by the data source, with every column."""
    return query_seconds(spark.read.format("pcap").load(str(path)))


def decode_seconds(spark: SparkSession, run: Run) -> float:
    """Return how long the captures of a run take to be decoded to Parquet."""
    shutil.rmtree(run.metrics, ignore_errors=True)
    captures = find_captures([str(run.folder.captures)])
    start = time.perf_counter()
    materialise(spark, run, captures)
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
    packets = options.packets
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"source": packets, "tshark": packets // 10, "scapy": packets // 100}
        paths = {name: Path(folder, f"{name}-wlan0.pcap") for name in sizes}
        sizes = {name: write_capture(paths[name], size) for name, size in sizes.items()}
        run, packets = run_of_nodes(Path(folder, "run"), packets)
        rates = {}
        if shutil.which("tshark") is not None:
            rates["tshark"] = sizes["tshark"] / best(2, lambda: tshark_seconds(paths["tshark"]))
        rates["scapy"] = sizes["scapy"] / scapy_seconds(paths["scapy"])
        start = time.perf_counter()
        with spark_session(f"local[{options.cores}]") as spark:
            started = time.perf_counter() - start
            source_seconds(spark, paths["scapy"])
            source_seconds(spark, paths["tshark"])
            rates["source"] = sizes["source"] / best(
                4, lambda: source_seconds(spark, paths["source"])
            )
            decode_seconds(spark, run)
            rates["analyses"] = packets / best(4, lambda: decode_seconds(spark, run))
            frames = read_frames(spark, [run.metrics / FRAMES_FOLDER])
            assert frames.count() == packets
            queried = packets / best(4, lambda: query_seconds(frames))
    print(f"{packets:,} packets; Spark on {options.cores} cores started in {started:.1f} s")
    for name, rate in rates.items():
        peers = [peer for peer in ("tshark", "scapy") if peer in rates]
        shares = ", ".join(f"{rate / rates[peer]:.1f} x {peer}" for peer in peers)
        print(f"{name:9}{rate:12,.0f} packets/s   {shares}")
    print(f"a query over what was decoded: {queried:,.0f} packets/s")
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()

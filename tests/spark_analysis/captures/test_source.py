from __future__ import annotations

import ipaddress
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from nodeapp.installation import PROJECT
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.routing.cell_wire import CellRoute
from nodeapp.routing.cells import Walk
from nodeapp.wire import ANY_NODE, BROADCAST, CLIENT_PORT, Frame, encode_addressees
from spark_analysis.captures.files import Capture, SourceError, find_captures
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.captures.source import (
    BATCH,
    SMALLEST_SLICE,
    CaptureSlice,
    PcapReader,
    plan,
    read_slice,
    survey,
)
from tests.capture.packets import (
    enhanced,
    ethernet,
    file_header,
    interface,
    pcap,
    record,
    section,
    udp_ipv4,
)

HELLO = Frame(CommonKind.HELLO, 3, body=b"\x01\x02", ttl=1)
EVENT = Frame(CommonKind.EVENT, 3, BROADCAST, 5, 77, 9, 4, route=b"abc", body=bytes(20))
NOTIFY = Frame(ClientKind.NOTIFY, 3, 1, 5, 77, hops=4, body=b"\x83\xa0\xf6\x40")
START = 1_700_000_000_000_000_000


def rows(
    capture: Path, columns: list[str] | None = None, bodies_from: int = 64, partitions: int = 1
) -> list[Any]:
    schema = to_arrow_schema(FRAMES, timezone="UTC")
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    found: list[Any] = []
    for partition in plan([Capture(capture)], partitions):
        for part in partition.value:
            for batch in read_slice(part, schema, bodies_from):
                batch.validate(full=True)
                found += batch.to_pylist()
    return found


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A run's loopback capture: a NOTIFY, an ARP request, a TCP segment, a datagram of others."""
    path = tmp_path / "run1" / "captures" / "sta12-lo.pcap"
    path.parent.mkdir(parents=True)
    loopback = int(ipaddress.IPv4Address("127.0.0.1"))
    ports = (CLIENT_PORT, 40_000)
    path.write_bytes(
        pcap(
            [
                ethernet(udp_ipv4(NOTIFY.encode(), loopback, loopback, ports)),
                ethernet(bytes(28), ethertype=0x0806),
                ethernet(udp_ipv4(bytes(20), loopback, loopback, (2947, 50_000), protocol=6)),
                ethernet(udp_ipv4(b"hello", loopback, loopback, (53, 50_000))),
            ]
        )
    )
    return path


def test_every_column_of_a_frame(capture: Path) -> None:
    row = rows(capture)[0]
    time = row.pop("time")
    assert (int(time.timestamp()), time.tzinfo is not None) == (START // 10**9, True)
    assert row == {
        "run": "run1",
        "node": "sta12",
        "interface": "lo",
        "number": 1,
        "time_ns": START,
        "length": 14 + 20 + 8 + 24 + 4,
        "ip_src": 0x7F000001,
        "ip_dst": 0x7F000001,
        "port_src": CLIENT_PORT,
        "port_dst": 40_000,
        "dscp": 0,
        "kind": 68,
        "flags": 0,
        "ttl": 0,
        "hops": 4,
        "route_length": 0,
        "addressees": None,
        "body_length": 4,
        "originator": 3,
        "destination": 1,
        "publisher": 5,
        "sequence": 77,
        "route": None,
        "body": b"\x83\xa0\xf6\x40",
    }


def test_what_a_packet_does_not_have_is_null(capture: Path) -> None:
    columns = ["number", "ip_src", "port_src", "port_dst", "kind", "sequence", "body", "length"]
    arp, tcp, datagram = (tuple(row.values()) for row in rows(capture, columns)[1:])
    assert arp == (2, None, None, None, None, None, None, 42)
    assert tcp == (3, 0x7F000001, 2947, 50_000, None, None, None, 62)
    assert datagram == (4, 0x7F000001, 53, 50_000, None, None, None, 47)


def test_bodies_between_nodes_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "sta1-wlan0.pcap"
    path.write_bytes(pcap(ethernet(udp_ipv4(frame.encode())) for frame in (HELLO, EVENT, HELLO)))
    assert [row["body"] for row in rows(path)] == [None] * 3
    wanted = rows(path, ["body", "route_length"], bodies_from=0)
    assert [(row["body"], row["route_length"]) for row in wanted] == [
        (HELLO.body, 0),
        (EVENT.body, 3),
        (HELLO.body, 0),
    ]


def test_of_what_cells_route_the_route_is_there_and_of_control_the_body(tmp_path: Path) -> None:
    path = tmp_path / "sta1-wlan0.pcap"
    greedy = CellRoute((1, -2), 3, (4, 5), left=6)
    walking = greedy._replace(walk=Walk((7, 8), (9, 10), (4, 5)))
    routes = [greedy.encode(), walking.encode()]
    prune = Frame(CellKind.PRUNE, 7, ANY_NODE, body=b"\x80")
    frames = [each._replace(route=route) for route in routes for each in (prune, EVENT)]
    path.write_bytes(pcap(ethernet(udp_ipv4(each.encode())) for each in (*frames, HELLO, prune)))
    told = [(row["route"], row["body"]) for row in rows(path, ["route", "body"])]
    cells = [(route, body) for route in routes for body in (prune.body, None)]
    assert told == [*cells, (None, None), (None, None)]


@pytest.mark.parametrize("more", [0, BATCH])
def test_addressees_are_those_of_the_frames_that_list_them(tmp_path: Path, more: int) -> None:
    lists = ([7], [2**32 - 2, 1, 300], list(range(1, 64)))
    listed = [EVENT._replace(route=encode_addressees(nodes)) for nodes in lists]
    odd = [EVENT._replace(route=route) for route in (b"\x04", b"\x01" + bytes(16), b"\x04abcde")]
    path = tmp_path / "sta1-wlan0.pcap"
    frames = [*[HELLO] * more, EVENT, listed[0], *odd, listed[1], HELLO, listed[2]]
    path.write_bytes(pcap(ethernet(udp_ipv4(frame.encode())) for frame in frames))
    found = [row["addressees"] for row in rows(path, ["addressees"])]
    assert found[more:] == [None, lists[0], None, None, None, lists[1], None, lists[2]]
    assert found[:more] == [None] * more


def test_large_files_are_cut_where_records_start_and_small_ones_share_a_task(
    tmp_path: Path,
) -> None:
    packet = ethernet(udp_ipv4(EVENT.encode()))
    large, small = Capture(tmp_path / "a-wlan0.pcap"), Capture(tmp_path / "b-wlan0.pcap")
    count = 3 * SMALLEST_SLICE // (16 + len(packet))
    large.path.write_bytes(pcap([packet] * count))
    small.path.write_bytes(pcap([packet] * 10))
    packed = [partition.value for partition in plan([large, small], 100)]
    slices = [part for slices in packed for part in slices if part.capture == large]
    assert [part.start for part in slices[1:]] == [part.end for part in slices[:-1]]
    assert [len(slices) for slices in packed] == [1, 1, 1, 1]
    assert packed[-1] == (CaptureSlice(small, 24, small.path.stat().st_size, 1),)
    assert [row["number"] for row in rows(large.path, ["number"])] == list(range(1, count + 1))
    assert count > BATCH / 2
    together = [Capture(tmp_path / f"{name}-lo.pcap") for name in "cde"]
    for capture in together:
        capture.path.write_bytes(small.path.read_bytes())
    assert [len(partition.value) for partition in plan(together, 8)] == [3]


def test_damage_is_reported_and_whole_records_are_read(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(HELLO.encode()))
    good = pcap([packet] * 3)
    contents = {
        "cut-lo.pcap": good[:-5],
        "damaged-lo.pcap": good + record(packet).replace(b"\x44\x00\x00\x00", b"\xff" * 4),
        "empty-lo.pcap": b"",
        "fddi-lo.pcap": file_header(linktype=10) + record(packet),
        "good-lo.pcap": good,
        "header-lo.pcap": file_header(),
        "newer-lo.pcap": b"\x0a\x0d\x0d\x0a" + bytes(60),
        "text-lo.pcap": b"this is not a capture at all, though it is long enough",
    }
    folder = tmp_path / "r" / "captures"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    found = survey(find_captures([tmp_path / "r"]))
    records = {each.capture.node: each.records for each in found.captures}
    assert records == {"cut": 2, "damaged": 3, "good": 3, "header": 0}
    assert [line.split(":")[0] for line in found.problems["r"]] == [
        "cut-lo.pcap is read up to record 2",
        "damaged-lo.pcap is read up to record 3",
        "empty-lo.pcap is left out",
        "fddi-lo.pcap is left out",
        "newer-lo.pcap is left out",
        "text-lo.pcap is left out",
    ]
    assert {name: len(rows(folder / name)) for name in contents} == {
        "cut-lo.pcap": 2,
        "damaged-lo.pcap": 3,
        "empty-lo.pcap": 0,
        "fddi-lo.pcap": 0,
        "good-lo.pcap": 3,
        "header-lo.pcap": 0,
        "newer-lo.pcap": 0,
        "text-lo.pcap": 0,
    }


def test_what_comes_before_a_damaged_time_is_read(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(HELLO.encode()))
    records = [record(packet, START + 1_000_000 * number) for number in range(300)]
    records[200] = records[200][:4] + struct.pack("<I", 2**31) + records[200][8:]
    folder = tmp_path / "r" / "captures"
    folder.mkdir(parents=True)
    (folder / "bit-lo.pcap").write_bytes(file_header() + b"".join(records))
    found = survey(find_captures([folder]))
    assert found.problems["r"] == (
        "bit-lo.pcap is read up to record 200: the time of the next one is damaged",
    )
    assert len(rows(folder / "bit-lo.pcap")) == 200


def test_slices_end_before_a_damaged_time(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(EVENT.encode()))
    count = 3 * SMALLEST_SLICE // (16 + len(packet))
    records = [record(packet, START + 1_000 * number) for number in range(count)]
    at = count // 2
    records[at] = records[at][:4] + struct.pack("<I", 2**31) + records[at][8:]
    large = Capture(tmp_path / "a-wlan0.pcap")
    large.path.write_bytes(file_header() + b"".join(records))
    [found] = survey([large]).captures
    slices = [part for partition in plan([large], 100) for part in partition.value]
    assert len(slices) > 1
    assert slices[-1].end == found.stop
    schema = to_arrow_schema(FRAMES, timezone="UTC")
    read = [len(batch) for part in slices for batch in read_slice(part, schema, 64)]
    assert sum(read) == found.records == at


def test_of_two_groups_of_times_the_larger_is_right(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(HELLO.encode()))
    contents = {
        "a-lo.pcap": [record(packet, START + number) for number in range(9)],
        "b-lo.pcap": [record(packet, number) for number in range(3)],
    }
    for name, records in contents.items():
        (tmp_path / name).write_bytes(file_header() + b"".join(records))
    (problem,) = survey(find_captures([tmp_path])).problems[tmp_path.name]
    assert problem.startswith("b-lo.pcap: records whose time is far from the others' are left out:")


def test_frames_of_the_air_are_no_ethernet(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(HELLO.encode()))
    for name in ("air", "sta1-wlan0"):
        (tmp_path / f"{name}.pcap").write_bytes(file_header() + record(packet))
    reader = PcapReader(FRAMES, {"path": str(tmp_path / "*.pcap")})
    parts = [part for partition in reader.partitions() for part in partition.value]
    assert [part.capture.path.name for part in parts] == ["sta1-wlan0.pcap"]


def test_times_that_cannot_be_are_told_and_left_out(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(HELLO.encode()))
    later = [record(packet, START + 1_000_200_000 * number) for number in range(9)]
    of_2106 = struct.pack("<I", 2**32 - 1) + record(packet)[4:]
    contents = {
        "good-lo.pcap": file_header() + b"".join(later),
        "micro-lo.pcap": file_header(nanoseconds=False) + b"".join(later),
        "nano-lo.pcap": file_header() + b"".join(later) + struct.pack("<4I", 0, 10**9, 0, 0),
        "odd-lo.pcap": file_header() + later[0] + of_2106 + b"".join(later[1:]),
        "only-lo.pcap": file_header() + of_2106,
    }
    folder = tmp_path / "r" / "captures"
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    found = survey(find_captures([folder]))
    assert found.problems["r"] == (
        "micro-lo.pcap is left out: it says that its times are in microseconds, but record 6 has "
        "1,000,000 of them in a second: the header or the record is damaged",
        "nano-lo.pcap is left out: it says that its times are in nanoseconds, but record 10 has "
        "1,000,000,000 of them in a second: the header or the record is damaged",
        "odd-lo.pcap: records whose time is far from the others' are left out: 1 of 10 (record 2 "
        "is of the year 2106)",
        "only-lo.pcap: records whose time is far from the others' are left out: 1 of 1 (record 1 "
        "is of the year 2106)",
    )
    schema = to_arrow_schema(FRAMES, timezone="UTC")
    numbers = {
        part.capture.node: [
            row["number"] for batch in read_slice(part, schema, 64) for row in batch.to_pylist()
        ]
        for partition in plan([each.capture for each in found.captures], 1)
        for part in partition.value
    }
    assert numbers == {"good": [*range(1, 10)], "odd": [1, *range(3, 11)], "only": []}
    assert rows(folder / "micro-lo.pcap") == []


def test_a_pipe_among_captures_is_left_out(capture: Path) -> None:
    os.mkfifo(capture.with_name("x-lo.pcap"))
    found = survey(find_captures([capture.parent]))
    assert found.problems == {"run1": ("x-lo.pcap is left out: it is not an ordinary file",)}


def test_paths_are_runs_folders_files_or_globs(capture: Path, tmp_path: Path) -> None:
    other = capture.with_name("sta3-wlan0.pcap")
    other.write_bytes(pcap([]))
    both = [Capture(capture), Capture(other)]
    run = capture.parent.parent
    assert find_captures([run]) == find_captures([capture.parent]) == both
    assert find_captures([other, capture, other]) == both
    assert find_captures([f"{tmp_path}/run*/captures/*-wlan0.pcap"]) == [Capture(other)]
    assert [(each.run, each.node, each.interface) for each in both] == [
        ("run1", "sta12", "lo"),
        ("run1", "sta3", "wlan0"),
    ]
    for uri in (run.as_uri(), f"file:{run}", run.as_uri().replace("run1", "run%31")):
        assert find_captures([uri]) == both
    with pytest.raises(SourceError, match="there is no file or folder"):
        find_captures([tmp_path / "nowhere"])
    with pytest.raises(SourceError, match="there is no capture"):
        find_captures([tmp_path])


def pcapng(packets: list[bytes]) -> bytes:
    """Return what `pcap` does, in two sections of both byte orders."""
    written = b""
    for order, chosen in (("<", slice(0, 2)), (">", slice(2, None))):
        written += section(order) + interface(order) + interface(order, resolution=9)
        for number, packet in list(enumerate(packets))[chosen]:
            written += enhanced(packet, START + 1000 * number, order, number=1)
    return written


def test_pcapng_is_read_as_pcap_is(capture: Path) -> None:
    packets = [ethernet(udp_ipv4(frame.encode())) for frame in (HELLO, EVENT, NOTIFY, HELLO)]
    capture.write_bytes(pcap(packets))
    expected = rows(capture)
    assert len(expected) == len(packets)
    for path in (capture, capture.with_suffix(".pcapng")):  # the end of the name says nothing
        path.write_bytes(pcapng(packets))
        assert rows(path) == expected
    assert find_captures([capture.parent.parent]) == [Capture(capture)]
    capture.unlink()
    assert find_captures([capture.parent.parent]) == [Capture(path)]
    assert survey([Capture(path)]).captures[0].records == len(packets)
    path.write_bytes(path.read_bytes()[:-5])
    (problem,) = survey([Capture(path)]).problems["run1"]
    assert problem.startswith("sta12-lo.pcapng is read up to record 3: truncated: the block at")
    assert rows(path) == expected[:-1]


def test_large_pcapng_files_are_cut_too(tmp_path: Path) -> None:
    packet = ethernet(udp_ipv4(EVENT.encode()))
    count = 3 * SMALLEST_SLICE // (32 + len(packet))
    packets = [packet] * count
    one, other = tmp_path / "a-wlan0.pcap", tmp_path / "a-wlan0.pcapng"
    one.write_bytes(pcap(packets))
    other.write_bytes(pcapng(packets))
    slices = [part for partition in plan([Capture(other)], 100) for part in partition.value]
    assert len(slices) > 2
    assert all(part.context for part in slices)
    columns = ["number", "time_ns", "sequence"]
    assert rows(other, columns, partitions=100) == rows(one, columns)


def test_pcapng_of_another_link_type_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "sta1-lo.pcapng"
    path.write_bytes(section() + interface(linktype=113) + enhanced(bytes(60), 1))
    assert survey([Capture(path)]).problems[tmp_path.name] == (
        "sta1-lo.pcapng is left out: it has packets of link type 113 at interface 0; only Ethernet "
        "(1) is decoded",
    )
    assert rows(path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a path"),
        ({"path": "x", "body": "some"}, "body is client or all, not some"),
        ({"path": "x", "partitions": "none"}, "partitions is a number from 1, not none"),
        ({"path": "x", "colour": "red"}, "option colour is not one of"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        PcapReader(FRAMES, options)


@pytest.mark.spark
def test_spark_reads_captures(spark: SparkSession, capture: Path) -> None:
    other = capture.with_name("sta3-wlan0.pcap")
    other.write_bytes(pcap(ethernet(udp_ipv4(frame.encode())) for frame in (HELLO, EVENT)))
    capture.with_name("sta4-lo.pcap").write_bytes(b"")
    frames = spark.read.format("pcap").load(str(capture.parent.parent))
    assert frames.schema == FRAMES
    assert frames.schema["length"].metadata["comment"].startswith("bytes on the wire")
    assert frames.groupBy("node").count().sort("node").collect() == [("sta12", 4), ("sta3", 2)]
    assert frames.filter("kind = 68").first() is not None
    some = spark.read.format("pcap").option("body", "all").schema("body binary, kind smallint")
    assert some.load(f"{capture},{other}").filter("kind < 64").collect() == [
        (bytearray(HELLO.body), 1),
        (bytearray(EVENT.body), 2),
    ]


PLAIN = """\
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print([row.kind for row in spark.read.format("pcap").load(sys.argv[1]).collect()])
"""
LOOKED_UP = """\
import importlib, pkgutil, sys
(name,) = [each.name for each in pkgutil.iter_modules() if each.name.startswith("pyspark_")]
source = importlib.import_module(name).DefaultSource({"path": sys.argv[1]})
assert source.name() == "pcap"
reader = source.reader(source.schema())
batches = [batch for part in reader.partitions() for batch in reader.read(part)]
print([row["kind"] for batch in batches for row in batch.to_pylist()])
"""
"""The same as Spark's workers find it, which import what is named so, but without Spark."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(PLAIN, id="Spark", marks=[pytest.mark.long, pytest.mark.spark]),
        pytest.param(LOOKED_UP, id="a worker"),
    ],
)
def test_a_session_of_anybody_knows_the_source(program: str, capture: Path, tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "pyspark_pcap").symlink_to(PROJECT / "spark_analysis/captures/pyspark_pcap")
    kinds = [row["kind"] for row in rows(capture, ["kind"])]
    assert kinds
    done = subprocess.run(
        [sys.executable, "-c", program, capture],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(packages), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{kinds}\n"

"""pcapng gives what pcap gives for the same packets, whoever wrote it."""

from __future__ import annotations

import struct
import subprocess
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture.decode import decode_records
from capture.pcapng import as_pcap, read_packets
from capture.scan import PCAPNG, RECORD_HEADER, PcapError, read_header, record_offsets
from nodeapp.kinds import CommonKind
from nodeapp.wire import Frame
from tests.capture.packets import (
    block,
    enhanced,
    ethernet,
    file_header,
    interface,
    pcap,
    record,
    section,
    simple,
    udp_ipv4,
)

HELLO = ethernet(udp_ipv4(Frame(CommonKind.HELLO, 3, body=b"\x01\x02", ttl=1).encode()))
SECOND = 10**9
LATEST = 2**32 - 1
PACKETS = st.binary(max_size=50) | st.integers(0, len(HELLO)).map(lambda cut: HELLO[:cut])
UNKNOWN = st.builds(block, st.sampled_from([2, 4, 5, 10, 0xBAD]), st.binary(max_size=40))
SHIFTS = st.none() | st.integers(-(10**6), 10**6) | st.integers(-(2**63), 2**63 - 1)


def rows(data: bytes) -> dict[str, list[object]]:
    """Return what is decoded of a file in either format, with the packets themselves."""
    octets = np.frombuffer(data, np.uint8).copy()
    if data.startswith(PCAPNG):
        packets = read_packets(octets)
        offsets, header = packets.offsets, as_pcap(octets, packets, 1)
    else:
        header = read_header(data)
        offsets = record_offsets(octets, header)[0]
    columns = decode_records(octets, header, offsets)
    bodies = columns.pop("body_offset") - offsets
    kept = zip(offsets.tolist(), columns["captured"].tolist(), strict=True)
    found: dict[str, list[object]] = {name: list(values) for name, values in columns.items()}
    found["body"] = [body for body in bodies.tolist() if body > 0]
    found["packet"] = [
        bytes(octets[at + RECORD_HEADER :][:captured].tobytes()) for at, captured in kept
    ]
    return found


@st.composite
def sections(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Return one section and the pcap records of its packets."""
    order = draw(st.sampled_from("<>"))
    written, records = section(order), b""
    units: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["interface", "enhanced", "simple", "unknown"]))
        if what == "interface" or not units:
            resolution = draw(
                st.none() | st.sampled_from([0, 3, 6, 9, 0x80, 0x94]) | st.integers(0, 255)
            )
            shift = draw(SHIFTS)
            exponent = 6 if resolution is None else resolution & 0x7F
            base = 2 if (resolution or 0) & 0x80 else 10
            units.append((base**exponent, shift or 0))
            written += interface(order, resolution=resolution, shift=shift)
        elif what == "unknown":
            unknown = draw(UNKNOWN)
            written += unknown if order == "<" else block(0xBAD, unknown, order)
        else:
            data, more = draw(PACKETS), draw(st.integers(0, 1000))
            time = 0
            if what == "simple":
                written, more = written + simple(data, order), 0
            else:
                number = draw(st.integers(0, len(units) - 1))
                ticks, shift = units[number]
                stamp = draw(st.integers(0, 2**64 - 1) | st.just(1_700_000_000 * ticks % 2**64))
                written += enhanced(data, stamp, order, number, len(data) + more)
                seconds, rest = divmod(stamp * SECOND // ticks, SECOND)
                time = min(max(seconds + shift, 0), LATEST) * SECOND + rest
            records += record(data, time, len(data) + more)
    return written, records


@given(st.lists(sections(), min_size=1, max_size=4))
def test_the_same_packets_give_the_same_rows(made: list[tuple[bytes, bytes]]) -> None:
    written = b"".join(each for each, _ in made)
    assert rows(written) == rows(file_header() + b"".join(records for _, records in made))
    packets = read_packets(written)
    assert (packets.stop, packets.reason) == (len(written), None)


@given(st.lists(sections(), min_size=1, max_size=3), st.data())
def test_a_part_with_its_context_is_a_file(
    made: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    written = b"".join(each for each, _ in made)
    packets = read_packets(written)
    starts = packets.blocks.tolist()
    if not starts:
        return
    start = data.draw(st.sampled_from(starts))
    end = data.draw(st.sampled_from([each for each in (*starts, len(written)) if each >= start]))
    part = rows(packets.context(start) + written[start:end])
    chosen = slice(starts.index(start), sum(each < end for each in starts))
    whole = rows(written)
    assert {name: part[name] for name in ("time_ns", "length", "packet")} == {
        name: whole[name][chosen] for name in ("time_ns", "length", "packet")
    }


@given(st.lists(st.integers(0, 60), max_size=20), st.data())
def test_a_cut_file_gives_the_whole_packets_before_the_cut(
    sizes: list[int], data: st.DataObject
) -> None:
    blocks = [section(), interface(), *(enhanced(bytes(size), 5) for size in sizes)]
    ends = list(accumulate(map(len, blocks)))
    cut = data.draw(st.integers(ends[0], ends[-1]))
    packets = read_packets(b"".join(blocks)[:cut])
    whole = max(end for end in ends if end <= cut)
    assert packets.blocks.tolist() == [end for end in ends[1:-1] if end < whole]
    assert packets.stop == whole
    reason = f"truncated: the block at byte {whole} is cut off"
    assert packets.reason == (None if cut == whole else reason)


def refused(data: bytes) -> str | None:
    """Return why a file cannot be read, None if it can."""
    try:
        rows(data)
    except PcapError as error:
        return str(error)
    return None


@given(st.binary(max_size=300))
def test_what_comes_before_garbage_is_read(garbage: bytes) -> None:
    why = refused(section() + interface() + enhanced(HELLO, 1) + garbage)
    assert why is None or "link type" in why


@given(st.data())
def test_a_changed_byte_is_no_failure(data: st.DataObject) -> None:
    written = bytearray(section() + interface(resolution=9) + enhanced(HELLO, 1) + simple(HELLO))
    written[data.draw(st.integers(4, len(written) - 1))] ^= data.draw(st.integers(1, 255))
    assert "\n" not in (refused(bytes(written)) or "")


def test_of_a_simple_packet_what_the_interface_allows_is_there() -> None:
    found = rows(section() + interface(snaplen=20) + simple(HELLO[:20], length=len(HELLO)))
    assert (found["captured"], found["length"]) == ([20], [len(HELLO)])
    assert found["packet"] == [HELLO[:20]]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (enhanced(HELLO, 1), "is of interface 0, which is not described"),
        (simple(HELLO), "is of interface 0, which is not described"),
        (interface() + enhanced(HELLO, 1, number=7), "is of interface 7, which is not described"),
        (
            interface() + block(6, struct.pack("<5I", 0, 0, 0, 9, 9)),
            "claims 9 bytes in a block of 32",
        ),
        (
            interface() + enhanced(HELLO, 1)[:-4] + bytes(4),
            "ends with another length than it begins with",
        ),
    ],
)
def test_a_packet_that_contradicts_itself_ends_the_file(written: bytes, reason: str) -> None:
    good = section("<") + interface() + enhanced(HELLO, 1)
    bad = section(">") + interface(">") + section("<") + written
    packets = read_packets(good + bad + enhanced(HELLO, 1) + section() + interface())
    assert len(packets.offsets) == 1
    assert packets.reason is not None
    assert packets.reason.startswith(f"damaged: the packet at byte {packets.stop} {reason}")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (PCAPNG, "is truncated: the block at byte 0 is cut off"),
        (section()[:20], "is truncated: the block at byte 0 is cut off"),
        (PCAPNG + bytes(60), "is damaged: no byte order at byte 8"),
        (block(0x0A0D0D0A, b"\x4d\x3c\x2b\x1a"), "is damaged: the block at byte 0 claims 16 bytes"),
        (
            section() + interface() + interface(linktype=127) + enhanced(HELLO, 1, number=1),
            "has packets of link type 127 at interface 1; only Ethernet (1) is decoded",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(written: bytes, message: str) -> None:
    with pytest.raises(PcapError) as caught:
        read_packets(written)
    assert str(caught.value) == message


def test_an_interface_without_packets_may_be_of_any_link_type() -> None:
    written = section() + interface() + interface(linktype=127) + enhanced(HELLO, 1)
    assert len(read_packets(written).offsets) == 1
    with pytest.raises(PcapError, match="link type 1 at interface 0; not 127"):
        read_packets(written, 127)


def test_files_of_wiresharks_tools_are_read(tmp_path: Path) -> None:
    one, other = tmp_path / "one.pcap", tmp_path / "other.pcap"
    one.write_bytes(pcap([HELLO, HELLO[:30], bytes(60)] * 9))
    other.write_bytes(
        file_header(nanoseconds=False)
        + b"".join(record(HELLO, 1_700_000_000_000_005_000 + n, tick_ns=1000) for n in range(9))
    )
    for command in (
        "editcap -F pcapng one.pcap one.pcapng",
        "mergecap -F pcapng -w both.pcapng one.pcap other.pcap",
        "mergecap -F nsecpcap -w both.pcap one.pcap other.pcap",
    ):
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    for name in ("one", "both"):
        pair = [rows((tmp_path / f"{name}.{end}").read_bytes()) for end in ("pcap", "pcapng")]
        assert pair[0] == pair[1]

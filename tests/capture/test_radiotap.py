"""NumPy's decoder of the air and scapy's agree, and nothing damaged passes as a frame."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.dot11 import Dot11, Dot11Beacon, RadioTap

from capture.radiotap import ACK, BEACON, COLUMNS, CONTROL, DATA, Columns, decode_air
from capture.scan import ETHERNET, RADIOTAP, PcapError, read_header, record_offsets
from tests.capture.packets import file_header, pcap, record

ADDRESSES = st.binary(min_size=6, max_size=6)


def columns_of(packets: list[bytes]) -> Columns:
    capture = file_header(linktype=RADIOTAP) + pcap(packets)[24:]
    header = read_header(capture, RADIOTAP)
    offsets, _, reason = record_offsets(capture, header)
    assert reason is None
    columns = decode_air(capture, header, offsets)
    assert {name: column.dtype.type for name, column in columns.items()} == COLUMNS
    return columns


def row_of(packet: bytes) -> dict[str, Any]:
    return {name: column[0].item() for name, column in columns_of([packet]).items()}


def mac(address: bytes) -> str:
    return ":".join(f"{octet:02x}" for octet in address)


def from_monitor(frame: bytes, rate: int = 2, frequency: int = 2412) -> bytes:
    """Return what hwsim0 shows of a frame: time, flags, rate and channel."""
    present = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3
    return struct.pack("<BBHIQBBHH", 0, 0, 22, present, 1234, 0, rate, frequency, 0x80) + frame


def acknowledgement(to: bytes) -> bytes:
    """Return what hwsim0 shows of an acknowledgement: flags and channel, no rate."""
    present = 1 << 1 | 1 << 3
    radiotap = struct.pack("<BBHIBBHH", 0, 0, 14, present, 0, 0, 2412, 0x80)
    return radiotap + b"\xd4\x00\x00\x00" + to


FIELDS = {0: (8, 8), 1: (1, 1), 2: (1, 1), 3: (4, 2), 5: (1, 1), 11: (1, 1), 15: (2, 2)}
"""Bytes and alignment by bit: TSFT, flags, rate, channel, signal, antenna, TX flags."""


@st.composite
def radiotap(draw: st.DrawFn) -> bytes:
    """Draw a radiotap header: some fields, for the frame and for up to three antennas more."""
    bits = sorted(draw(st.sets(st.sampled_from(list(FIELDS)))))
    antennas = draw(st.integers(0, 3))
    words = [sum(1 << bit for bit in bits) | (1 << 29), *[1 << 5 | 1 << 29] * antennas]
    words = [word | 1 << 31 for word in words[:-1]] + words[-1:]
    body = b"".join(struct.pack("<I", word & ~(1 << 29 if antennas == 0 else 0)) for word in words)
    for bit in bits:
        size, alignment = FIELDS[bit]
        body += bytes(-(4 + len(body)) % alignment)
        value = draw(st.binary(min_size=size, max_size=size))
        if bit == 1:
            value = bytes((draw(st.sampled_from([0, 0x02, 0x10, 0x12])),))
        body += value
    body += bytes(antennas)  # their signals
    return struct.pack("<BBH", 0, 0, 4 + len(body)) + body


@given(
    st.lists(
        st.tuples(
            radiotap(),
            ADDRESSES,
            ADDRESSES,
            st.integers(0, 2),
            st.integers(0, 11),
            st.integers(0, 255),
            st.integers(0, 400),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=50)
def test_scapy_and_numpy_agree(
    frames: list[tuple[bytes, bytes, bytes, int, int, int, int]],
) -> None:
    packets = [
        head + bytes((kind << 2 | subtype << 4, flags, 0, 0)) + to + by + bytes(size)
        for head, to, by, kind, subtype, flags, size in frames
    ]
    columns = columns_of(packets)
    for number, (packet, frame) in enumerate(zip(packets, frames, strict=True)):
        head, to, by, kind, subtype, flags, size = frame
        told = RadioTap(packet)
        assert told.len == len(head)
        rate, frequency, about = told.Rate, told.ChannelFrequency, int(told.Flags or 0)
        row = {name: columns[name][number].item() for name in COLUMNS}
        del row["time_ns"]
        assert row == {
            "is_frame": True,
            "length": 16 + size + (0 if about & 0x10 else 4),
            "rate_kbps": round(1000 * rate) if rate else -1,
            "short_preamble": bool(about & 0x02),
            "frequency_mhz": frequency or -1,
            "type": kind,
            "subtype": subtype,
            "retry": bool(flags & 0x08),
            "receiver": int.from_bytes(to, "big"),
            "transmitter": int.from_bytes(by, "big"),
        }


def test_a_beacon_as_the_monitor_shows_it() -> None:
    beacon = bytes(
        Dot11(addr1="ff:ff:ff:ff:ff:ff", addr2="02:00:00:00:00:07", addr3="02:00:00:00:00:07")
        / Dot11Beacon()
    )
    row = row_of(from_monitor(beacon))
    assert row["is_frame"]
    assert (row["type"], row["subtype"]) == (0, BEACON)
    assert (row["rate_kbps"], row["frequency_mhz"], row["length"]) == (1000, 2412, len(beacon) + 4)
    assert (row["receiver"], row["transmitter"]) == (2**48 - 1, 0x020000000007)


def test_an_acknowledgement_has_one_address() -> None:
    row = row_of(acknowledgement(b"\x02\x00\x00\x00\x00\x07"))
    assert row["is_frame"]
    assert (row["type"], row["subtype"], row["length"]) == (CONTROL, ACK, 14)
    assert (row["receiver"], row["transmitter"]) == (0x020000000007, -1)
    assert row["rate_kbps"] == -1


WHOLE = from_monitor(bytes(Dot11(type=DATA, addr1=mac(b"\x02" * 6), addr2=mac(b"\x04" * 6))))


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_what_is_cut_off_is_no_frame(cut: int) -> None:
    row = row_of(WHOLE[:cut])
    assert row["is_frame"] == (cut >= 22 + 16)
    if not row["is_frame"]:
        assert not any(value for name, value in row.items() if name != "time_ns")


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, 1),  # version of radiotap
        (2, 9),  # a header that ends within its fields
        (3, 4),  # a header longer than the record
        (7, 0x80),  # presence words without end
        (16, 0x40),  # bad check sequence
        (22, 0x09),  # protocol version
        (22, 0x0C),  # type extension
    ],
)
def test_what_is_damaged_is_no_frame(offset: int, value: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[offset] = value
    if offset == 7:
        damaged[8:22] = b"\xff" * 14
    assert row_of(WHOLE)["is_frame"]
    assert not row_of(bytes(damaged))["is_frame"]


def test_a_frame_cut_by_the_snap_length_keeps_its_length() -> None:
    capture = file_header(linktype=RADIOTAP) + record(WHOLE[:40], length=1000)
    header = read_header(capture, RADIOTAP)
    columns = decode_air(capture, header, record_offsets(capture, header)[0])
    assert columns["is_frame"].tolist() == [True]
    assert columns["length"].tolist() == [1000 - 22 + 4]


def test_link_types_are_told_apart() -> None:
    with pytest.raises(PcapError, match="link type 127; only Ethernet"):
        read_header(file_header(linktype=RADIOTAP))
    with pytest.raises(PcapError, match="link type 1; not 127"):
        read_header(file_header(linktype=ETHERNET), RADIOTAP)


def test_no_records() -> None:
    assert all(len(column) == 0 for column in columns_of([]).values())

"""The three decoders agree: the node's, scapy's and NumPy's."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import Ether

from capture import decode
from capture.decode import COLUMNS, Columns, decode_records
from capture.layers import PubSub
from capture.scan import read_header, record_offsets
from nodeapp import wire
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.registry import kinds
from tests.capture.packets import ethernet, file_header, pcap, record, udp_ipv4

BYTE = st.integers(0, 255)
METRES = st.floats(-1e6, 1e6)
WORD = st.integers(0, 2**32 - 1)
FRAMES = st.builds(
    wire.Frame,
    kind=st.sampled_from(list(kinds().values())),
    originator=WORD,
    destination=WORD,
    publisher=WORD,
    sequence=WORD,
    ttl=BYTE,
    hops=BYTE,
    flags=BYTE,
    route=st.binary(max_size=60)
    | st.builds(
        wire.GeoRoute,
        x=METRES,
        y=METRES,
        entered=st.none() | st.tuples(METRES, METRES),
        face=st.tuples(METRES, METRES),
        edge=st.tuples(WORD, WORD),
        entry=WORD,
    ).map(wire.GeoRoute.encode),
    body=st.binary(max_size=120),
)
PORTS = st.sampled_from([wire.NODE_PORT, wire.CLIENT_PORT, 2947, 40_000])


@st.composite
def mutated(draw: st.DrawFn, originals: st.SearchStrategy[bytes]) -> bytes:
    """Draw bytes and change, cut or lengthen them, or leave them alone."""
    data = bytearray(draw(originals))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, min(len(data), 80) - 1))] = draw(BYTE)
    end = draw(st.none() | st.integers(0, len(data)))
    return bytes(data[:end]) + draw(st.binary(max_size=4))


DATAGRAMS = FRAMES.map(wire.Frame.encode) | mutated(FRAMES.map(wire.Frame.encode))
PACKETS = st.builds(
    udp_ipv4,
    DATAGRAMS,
    source=WORD,
    destination=WORD,
    ports=st.tuples(PORTS, PORTS),
    options=st.integers(0, 10).map(lambda words: b"\x01" * 4 * words),
    fragment=st.sampled_from([0, 0, 0, 0x4000, 0x2000, 0x2001, 1]),
    protocol=st.sampled_from([17, 17, 17, 6, 1]),
    udp_length=st.none() | st.integers(0, 200),
    total_length=st.none() | st.integers(0, 300),
)


def columns_of(capture: bytes) -> Columns:
    header = read_header(capture)
    offsets, _, reason = record_offsets(capture, header)
    assert reason is None
    columns = decode_records(capture, header, offsets)
    assert {name: column.dtype.type for name, column in columns.items()} == COLUMNS
    return columns


def row_of(columns: Columns, number: int) -> dict[str, Any]:
    return {name: column[number].item() for name, column in columns.items()}


def check_row(row: dict[str, Any], capture: bytes, frame: wire.Frame | None) -> None:
    """Check that a decoded row says the same as the node's decoder."""
    assert row["is_frame"] == (frame is not None)
    if frame is None:
        assert row["kind"] == row["sequence"] == row["body_length"] == row["body_offset"] == 0
        return
    for name in ("kind", "flags", "ttl", "hops", "originator", "destination"):
        assert row[name] == getattr(frame, name)
    assert (row["publisher"], row["sequence"]) == (frame.publisher, frame.sequence)
    assert row["route_length"] == len(frame.route)
    assert capture[row["body_offset"] :][: row["body_length"]] == frame.body


def accepted(datagram: bytes) -> wire.Frame | None:
    try:
        return wire.decode(datagram)
    except wire.WireError:
        return None


def received(packet: bytes) -> bytes | None:
    """Return what a socket of the testbed would receive from an Ethernet frame (RFC 791, 768)."""
    if len(packet) < 34 or packet[12:14] != b"\x08\x00" or packet[14] >> 4 != 4:
        return None
    total, fragment = struct.unpack_from(">2xH2xH", packet, 14)
    udp_at = 14 + 4 * (packet[14] & 15)
    if udp_at < 34 or packet[23] != 17 or fragment & 0x3FFF or len(packet) < udp_at + 8:
        return None
    source, destination, length = struct.unpack_from(">HHH", packet, udp_at)
    if not {source, destination} & {wire.NODE_PORT, wire.CLIENT_PORT}:
        return None
    if length < 8 or udp_at + length > min(14 + total, len(packet)):
        return None
    return packet[udp_at + 8 : udp_at + length]


@given(st.lists(DATAGRAMS, min_size=1, max_size=5))
def test_node_scapy_and_numpy_agree(datagrams: list[bytes]) -> None:
    packets = [ethernet(udp_ipv4(datagram)) for datagram in datagrams]
    capture = pcap(packets)
    columns = columns_of(capture)
    for number, (datagram, packet) in enumerate(zip(datagrams, packets, strict=True)):
        frame = accepted(datagram)
        check_row(row_of(columns, number), capture, frame)
        dissected = Ether(packet)
        assert (PubSub in dissected) == (frame is not None)
        if frame is not None:
            layer = dissected[PubSub]
            for name in ("kind", "flags", "ttl", "hops", "originator", "destination"):
                assert int(getattr(layer, name)) == getattr(frame, name)
            assert (layer.publisher, layer.sequence) == (frame.publisher, frame.sequence)
            assert bytes(layer.routing or b"") == frame.route
            assert layer.body == frame.body
            assert bytes(layer) == datagram


@pytest.mark.slow
@given(st.lists(PACKETS.map(ethernet) | mutated(PACKETS.map(ethernet)), min_size=1, max_size=8))
def test_a_frame_is_what_a_node_would_receive(packets: list[bytes]) -> None:
    capture = pcap(packets)
    columns = columns_of(capture)
    for number, packet in enumerate(packets):
        payload = received(packet)
        frame = None if payload is None else accepted(payload)
        row = row_of(columns, number)
        check_row(row, capture, frame)
        assert row["length"] == row["captured"] == len(packet)
        if row["is_ip"]:
            assert (row["ip_src"], row["ip_dst"]) == struct.unpack_from(">II", packet, 26)
            assert row["dscp"] == packet[15] >> 2
        else:
            assert row["ip_src"] == row["ip_dst"] == row["dscp"] == 0
            assert row["port_src"] == row["port_dst"] == -1


def test_a_packet_cut_by_the_snap_length_is_no_frame() -> None:
    packet = ethernet(udp_ipv4(wire.Frame(CommonKind.EVENT, 1, body=bytes(100)).encode()))
    capture = file_header() + record(packet[:-1], length=len(packet)) + record(packet)
    columns = columns_of(capture)
    assert columns["is_frame"].tolist() == [False, True]
    assert columns["length"].tolist() == [len(packet)] * 2
    assert columns["captured"].tolist() == [len(packet) - 1, len(packet)]
    assert columns["port_src"].tolist() == [wire.NODE_PORT] * 2


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nanoseconds", "tick"), [(True, 1), (False, 1000)])
def test_times_of_every_format(order: str, nanoseconds: bool, tick: int) -> None:
    times = [0, 1_700_000_000_987_654_321, 4_294_967_295_999_999_999]
    capture = file_header(order, nanoseconds) + b"".join(
        record(b"", time, order=order, tick_ns=tick) for time in times
    )
    assert columns_of(capture)["time_ns"].tolist() == [time // tick * tick for time in times]


def test_ports_are_those_of_udp_and_tcp_in_first_fragments() -> None:
    ports = (wire.NODE_PORT, 80)
    packets = [
        udp_ipv4(b"", ports=ports),
        udp_ipv4(b"", ports=ports, protocol=6),
        udp_ipv4(b"", ports=ports, protocol=1),
        udp_ipv4(b"", ports=ports, fragment=0x2000),
        udp_ipv4(b"", ports=ports, fragment=0x2001),
        udp_ipv4(b"", ports=ports)[:22],
    ]
    columns = columns_of(pcap([ethernet(packet) for packet in packets]))
    assert columns["port_src"].tolist() == [5550, 5550, -1, 5550, -1, -1]
    assert columns["port_dst"].tolist() == [80, 80, -1, 80, -1, -1]


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [wire.Frame(CommonKind.EVENT, 1, sequence=number) for number in range(100)]
    capture = pcap(ethernet(udp_ipv4(frame.encode())) for frame in frames)
    whole = columns_of(capture)
    monkeypatch.setattr(decode, "_BLOCK", 7)
    parts = columns_of(capture)
    assert whole["sequence"].tolist() == list(range(100))
    assert all((whole[name] == parts[name]).all() for name in COLUMNS)


def test_no_records() -> None:
    assert all(len(column) == 0 for column in columns_of(file_header()).values())
    buffer = np.empty(0, np.uint8)
    header = read_header(file_header())
    assert len(decode_records(buffer, header, np.empty(0, np.int64))["kind"]) == 0

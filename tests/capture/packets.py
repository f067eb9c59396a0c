"""Packets and captures built by hand, apart from the code under test."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from nodeapp.wire import NODE_PORT


def udp_ipv4(
    payload: bytes,
    source: int = 0x0A000001,
    destination: int = 0x0AFFFFFF,
    ports: tuple[int, int] = (NODE_PORT, NODE_PORT),
    options: bytes = b"",
    fragment: int = 0,
    protocol: int = 17,
    udp_length: int | None = None,
    total_length: int | None = None,
    ds_field: int = 0,
) -> bytes:
    """Return an IPv4 packet; every length can be falsified."""
    if udp_length is None:
        udp_length = 8 + len(payload)
    udp = struct.pack(">HHHH", *ports, udp_length, 0) + payload
    header_length = 20 + len(options)
    if total_length is None:
        total_length = header_length + len(udp)
    header = struct.pack(
        ">BBHHHBBHII",
        0x40 + header_length // 4,
        ds_field,
        total_length,
        0,
        fragment,
        64,
        protocol,
        0,
        source,
        destination,
    )
    return header + options + udp


def ethernet(packet: bytes, ethertype: int = 0x0800) -> bytes:
    """Return a broadcast Ethernet frame."""
    return b"\xff" * 6 + b"\x02\x00\x00\x00\x00\x01" + struct.pack(">H", ethertype) + packet


def record(
    data: bytes,
    time_ns: int = 1_700_000_000_123_456_789,
    length: int | None = None,
    order: str = "<",
    tick_ns: int = 1,
) -> bytes:
    """Return one record of a pcap file."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return (
        struct.pack(
            order + "IIII",
            seconds,
            nanoseconds // tick_ns,
            len(data),
            len(data) if length is None else length,
        )
        + data
    )


def file_header(order: str = "<", nanoseconds: bool = True, linktype: int = 1) -> bytes:
    """Return the header of a pcap file."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    return struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, 65_535, linktype)


def pcap(packets: Iterable[bytes]) -> bytes:
    """Return a nanosecond capture of `packets`, a microsecond apart."""
    start = 1_700_000_000_000_000_000
    return file_header() + b"".join(
        record(packet, start + 1000 * number) for number, packet in enumerate(packets)
    )

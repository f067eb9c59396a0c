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


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return a block of a pcapng file."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    """Return the header of a section of a pcapng file."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(
    order: str = "<",
    linktype: int = 1,
    snaplen: int = 0,
    resolution: int | None = None,
    shift: int | None = None,
) -> bytes:
    """Return the description of an interface: resolution and shift in seconds are options."""
    options = struct.pack(order + "HH", 2, 5) + b"wlan0" + bytes(3)
    if resolution is not None:
        options += struct.pack(order + "HHBxxx", 9, 1, resolution)
    if shift is not None:
        options += struct.pack(order + "HHq", 14, 8, shift)
    body = struct.pack(order + "HxxI", linktype, snaplen) + options + bytes(4)
    return block(1, body, order)


def enhanced(
    data: bytes, stamp: int, order: str = "<", number: int = 0, length: int | None = None
) -> bytes:
    """Return a packet of an interface; its time is in the interface's unit."""
    size = len(data) if length is None else length
    head = struct.pack(order + "5I", number, stamp >> 32, stamp % 2**32, len(data), size)
    return block(6, head + data + bytes(-len(data) % 4), order)


def simple(data: bytes, order: str = "<", length: int | None = None) -> bytes:
    """Return a packet of the first interface, without a time."""
    return block(3, struct.pack(order + "I", len(data) if length is None else length) + data, order)

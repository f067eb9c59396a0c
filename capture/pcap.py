"""Nanosecond pcap as bytes, little-endian on every machine (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 0xA1B23C4D
SNAP_LENGTH: Final = 262_144
RECORD: Final = struct.Struct("<IIII")
"""Before a packet: seconds, nanoseconds, bytes captured, bytes on the wire."""


def pcap_header(linktype: int) -> bytes:
    """Return the beginning of a capture of packets of a link type."""
    return struct.pack("<IHHiIII", MAGIC, 2, 4, 0, 0, SNAP_LENGTH, linktype)


def pcap_record(time_ns: int, packet: bytes) -> bytes:
    """Return a packet with its header; the time is a Unix time."""
    seconds, fraction = divmod(time_ns, 1_000_000_000)
    return RECORD.pack(seconds, fraction, len(packet), len(packet)) + packet

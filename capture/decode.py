"""NumPy decoder of captures: many records at once, straight from the bytes of a pcap file.

Theory of operation.  `record_offsets` (see `capture.scan`) finds where records start;
`decode_records` lays one structured type over the fixed part of every record (pcap record
header, Ethernet, IPv4 without options, UDP, frame header), gathers these in blocks that stay in
the processor's cache, and checks and converts whole columns.  Records whose IPv4 header carries
options are gathered again, shifted by the length of the options.

A record is a frame of the testbed if and only if `nodeapp.wire.decode` would accept the UDP payload
that a socket on one of the testbed's ports would receive: fragments and records cut by the snap
length are not frames.  Bodies are not decoded; their offset in the buffer is returned.

Sources: draft-ietf-opsawg-pcap (file format), RFC 791 (IPv4), RFC 768 (UDP), `nodeapp.wire`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from capture.scan import RECORD_HEADER, Buffer, PcapHeader, as_bytes
from nodeapp.headers import ETHERNET_LENGTH, IP_LENGTH, IPV4, UDP, UDP_LENGTH
from nodeapp.pubsub.registry import kinds
from nodeapp.wire import CLIENT_PORT, HEADER_LENGTH, MAX_BODY, NODE_PORT, VERSION

Columns = dict[str, npt.NDArray[Any]]

COLUMNS: Final[dict[str, type[np.generic]]] = {
    "time_ns": np.int64,
    "length": np.int32,
    "captured": np.int32,
    "ip_src": np.int64,
    "ip_dst": np.int64,
    "port_src": np.int32,
    "port_dst": np.int32,
    "dscp": np.int16,
    "kind": np.int16,
    "flags": np.int16,
    "ttl": np.int16,
    "hops": np.int16,
    "route_length": np.int32,
    "body_length": np.int32,
    "originator": np.int64,
    "destination": np.int64,
    "publisher": np.int64,
    "sequence": np.int64,
    "body_offset": np.int64,
    "is_ip": np.bool_,
    "is_frame": np.bool_,
}
"""Names and types of what `decode_records` returns."""

_FRAME_COLUMNS: Final = (
    "kind",
    "flags",
    "ttl",
    "hops",
    "route_length",
    "body_length",
    "originator",
    "destination",
    "publisher",
    "sequence",
)
_BLOCK: Final = 32_768
"""Records per block: with 82 bytes gathered for each, a block fits the second-level cache."""
_IP_AT: Final = RECORD_HEADER + ETHERNET_LENGTH
_UDP_AT: Final = _IP_AT + IP_LENGTH
_FRAME_AT: Final = _UDP_AT + UDP_LENGTH
_WIDTH: Final = _FRAME_AT + HEADER_LENGTH
_TCP: Final = 6


def _layout(byte_order: str) -> np.dtype[np.void]:
    """Return the fixed part of a record; only the pcap record header has a variable byte order."""
    fields = {
        "seconds": (f"{byte_order}u4", 0),
        "fraction": (f"{byte_order}u4", 4),
        "captured": (f"{byte_order}u4", 8),
        "length": (f"{byte_order}u4", 12),
        "ethertype": (">u2", RECORD_HEADER + 12),
        "version_ihl": ("u1", _IP_AT),
        "ds_field": ("u1", _IP_AT + 1),
        "total_length": (">u2", _IP_AT + 2),
        "fragment": (">u2", _IP_AT + 6),
        "protocol": ("u1", _IP_AT + 9),
        "ip_src": (">u4", _IP_AT + 12),
        "ip_dst": (">u4", _IP_AT + 16),
        "port_src": (">u2", _UDP_AT),
        "port_dst": (">u2", _UDP_AT + 2),
        "udp_length": (">u2", _UDP_AT + 4),
        "version": ("u1", _FRAME_AT),
        "kind": ("u1", _FRAME_AT + 1),
        "flags": ("u1", _FRAME_AT + 2),
        "ttl": ("u1", _FRAME_AT + 3),
        "hops": ("u1", _FRAME_AT + 4),
        "route_length": ("u1", _FRAME_AT + 5),
        "body_length": (">u2", _FRAME_AT + 6),
        "originator": (">u4", _FRAME_AT + 8),
        "destination": (">u4", _FRAME_AT + 12),
        "publisher": (">u4", _FRAME_AT + 16),
        "sequence": (">u4", _FRAME_AT + 20),
    }
    return np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": _WIDTH,
        }
    )


def _gather(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], layout: np.dtype[np.void]
) -> npt.NDArray[np.void]:
    """Return the fixed part at each offset; bytes past the end of the buffer read as zero."""
    rows = np.zeros(len(offsets), dtype=f"V{_WIDTH}")
    inside = offsets <= len(data) - _WIDTH
    if inside.any():
        everywhere = np.ndarray(
            (len(data) - _WIDTH + 1,), dtype=f"V{_WIDTH}", buffer=data, strides=(1,)
        )
        if inside.all():
            rows = everywhere[offsets]
        else:
            rows[inside] = everywhere[offsets[inside]]
    flat = rows.view(np.uint8).reshape(-1, _WIDTH)
    for row in np.flatnonzero(~inside):
        rest = data[offsets[row] :][:_WIDTH]
        flat[row, : len(rest)] = rest
    return rows.view(layout)


def decode_records(buffer: Buffer, header: PcapHeader, offsets: npt.NDArray[np.int64]) -> Columns:
    """Return one array per column of `COLUMNS` for the records that start at `offsets`.

    `buffer` must hold these records whole, as `record_offsets` makes sure.  time_ns is Unix time
    in nanoseconds; length is that on the wire and captured that in the file, in bytes; addresses
    are IPv4 addresses as integers and dscp the code point of the DS field (RFC 2474), 0 if `is_ip`
    is false; ports are UDP or TCP ports, -1 if there are none (no IPv4, another protocol, a later
    fragment, cut short).  The columns from kind to sequence are the frame header's, 0 if `is_frame`
    is false; the body is `buffer[body_offset:body_offset + body_length]`.
    """
    data = as_bytes(buffer)
    layout = _layout(header.byte_order)
    columns: Columns = {name: np.empty(len(offsets), kind) for name, kind in COLUMNS.items()}
    for first in range(0, len(offsets), _BLOCK):
        block = slice(first, first + _BLOCK)
        _decode_block(
            data,
            layout,
            1 if header.nanoseconds else 1000,
            offsets[block],
            {name: column[block] for name, column in columns.items()},
        )
    return columns


def _hold_frames(rows: npt.NDArray[np.void], space: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return which rows hold a whole frame in a datagram of at most `space` bytes."""
    udp_length, route_length, body_length = (
        rows[name].astype(np.int32) for name in ("udp_length", "route_length", "body_length")
    )
    ours = np.zeros(len(rows), np.bool_)
    for port in (NODE_PORT, CLIENT_PORT):
        ours |= rows["port_src"] == port
        ours |= rows["port_dst"] == port
    known = np.zeros(256, np.bool_)
    known[list(kinds())] = True
    hold: npt.NDArray[np.bool_] = (
        ours
        & (udp_length <= space)
        & (rows["version"] == VERSION)
        & known[rows["kind"]]
        & (udp_length == UDP_LENGTH + HEADER_LENGTH + route_length + body_length)
        & (body_length <= MAX_BODY)
    )
    return hold


def _decode_block(
    data: npt.NDArray[np.uint8],
    layout: np.dtype[np.void],
    tick_ns: int,
    offsets: npt.NDArray[np.int64],
    out: Columns,
) -> None:
    rows = _gather(data, offsets, layout)
    captured = rows["captured"].astype(np.int32)
    out["captured"][:] = captured
    out["length"][:] = np.minimum(rows["length"], np.iinfo(np.int32).max)
    out["time_ns"][:] = rows["seconds"].astype(np.int64) * 1_000_000_000
    out["time_ns"] += rows["fraction"].astype(np.int64) * tick_ns

    version_ihl = rows["version_ihl"]
    ip_length = (version_ihl & 0x0F).astype(np.int32) * 4
    is_ip = (
        (rows["ethertype"] == IPV4)
        & (version_ihl >= 0x45)
        & (version_ihl <= 0x4F)
        & (captured >= ETHERNET_LENGTH + ip_length)
    )
    out["is_ip"][:] = is_ip
    total_length = rows["total_length"].astype(np.int32)
    is_udp = rows["protocol"] == UDP
    is_first = (rows["fragment"] & 0x1FFF) == 0
    is_last = (rows["fragment"] & 0x2000) == 0
    may_have_ports = is_ip & is_first & (is_udp | (rows["protocol"] == _TCP))
    for name in ("ip_src", "ip_dst"):
        np.multiply(rows[name], is_ip, out=out[name], dtype=np.int64)
    np.multiply(rows["ds_field"] >> 2, is_ip, out=out["dscp"], dtype=np.int16)

    # What follows the IPv4 header, shifted by the length of its options if it has any.
    options = np.flatnonzero(is_ip & (ip_length != IP_LENGTH))
    if len(options):
        rows[options] = _gather(data, offsets[options] + ip_length[options] - IP_LENGTH, layout)
    present = captured - ETHERNET_LENGTH - ip_length  # bytes of the file after the IPv4 header
    has_ports = may_have_ports & (present >= 4)
    for name in ("port_src", "port_dst"):
        out[name][:] = np.where(has_ports, rows[name].astype(np.int32), -1)

    # The first of several fragments is not a whole datagram.
    is_frame = has_ports & is_udp & is_last
    is_frame &= _hold_frames(rows, np.minimum(present, total_length - ip_length))
    out["is_frame"][:] = is_frame
    for name in _FRAME_COLUMNS:
        np.multiply(rows[name], is_frame, out=out[name], dtype=out[name].dtype, casting="unsafe")
    start = offsets + _FRAME_AT - IP_LENGTH + ip_length + HEADER_LENGTH + rows["route_length"]
    np.multiply(start, is_frame, out=out["body_offset"])

"""The packets a datagram travels in: Ethernet, IPv4 and UDP, byte for byte as Linux builds them.

A datagram beyond the MTU travels in fragments (RFC 791), each of them a frame of its own on the
air.  Whole datagrams have "don't fragment" set and identification 0, as those of Linux' UDP
sockets.  The DS field has the class of the message, as `nodeapp.node` sets it.  Checksums are
computed.
"""

from __future__ import annotations

import struct
from typing import Final

from nodeapp.addressing import NETWORK
from nodeapp.headers import ETHERNET_LENGTH, IP_LENGTH, IPV4, UDP, UDP_LENGTH
from nodeapp.wire import BROADCAST, CLIENT_PORT, NODE_PORT, traffic_class

MTU: Final = 1500
HEADERS: Final = ETHERNET_LENGTH + IP_LENGTH + UDP_LENGTH
LARGEST_WHOLE: Final = MTU - IP_LENGTH - UDP_LENGTH
"""Largest datagram that fits in one frame, bytes."""
FRAGMENT: Final = (MTU - IP_LENGTH) // 8 * 8
"""Bytes of the IPv4 payload in every fragment but the last."""
CLIENT: Final = 40_000
"""UDP port of the workload's client on every loopback."""

_NETWORK: Final = int(NETWORK.network_address)
_LIMITED_BROADCAST: Final = 0xFFFFFFFF
_LOOPBACK: Final = 0x7F000001
_DONT_FRAGMENT: Final = 0x4000
_MORE_FRAGMENTS: Final = 0x2000
_TTL: Final = 64
_IP: Final = struct.Struct(">BBHHHBBHII")
_UDP_HEADER: Final = struct.Struct(">HHHH")
_BROADCAST_MAC: Final = b"\xff" * 6
_LOOPBACK_ETHERNET: Final = bytes(12) + IPV4.to_bytes(2, "big")


def checksum(data: bytes, start: int = 0) -> int:
    """Return the internet checksum (RFC 1071) of `data`, with `start` added to the sum.

    The sum of 16-bit words in ones' complement is the number itself modulo 65,535.
    """
    number = int.from_bytes(data, "big")
    if len(data) % 2:
        number <<= 8
    return -(number + start) % 0xFFFF


def mac_of(node: int) -> bytes:
    """Return the Ethernet address of a node's radio, as in `NodeSpec.mac`."""
    return b"\x02\x00" + node.to_bytes(4, "big")


def fragments(length: int) -> int:
    """Return how many frames a datagram of `length` bytes travels in."""
    return 1 if length <= LARGEST_WHOLE else -(-(length + UDP_LENGTH) // FRAGMENT)


def _udp(source: int, destination: int, ports: tuple[int, int], datagram: bytes) -> bytes:
    length = UDP_LENGTH + len(datagram)
    unsummed = _UDP_HEADER.pack(*ports, length, 0)
    total = checksum(unsummed + datagram, source + destination + UDP + length)
    # 0 means no checksum; 65,535 is the same number in ones' complement.
    return _UDP_HEADER.pack(*ports, length, total or 0xFFFF) + datagram


def _ip(
    source: int, destination: int, length: int, identification: int, fragment: int, ds_field: int
) -> bytes:
    fields = (0x45, ds_field, IP_LENGTH + length, identification, fragment, _TTL, UDP)
    total = checksum(_IP.pack(*fields, 0, source, destination))
    return _IP.pack(*fields, total, source, destination)


def radio_frames(node: int, to: int, datagram: bytes, identification: int) -> list[bytes]:
    """Return the Ethernet frames in which `node` sends a datagram to a neighbour, or to all.

    `identification` is that of the IPv4 header if there are several frames.
    """
    source = _NETWORK + node
    destination = _LIMITED_BROADCAST if to == BROADCAST else _NETWORK + to
    mac = _BROADCAST_MAC if to == BROADCAST else mac_of(to)
    ethernet = mac + mac_of(node) + IPV4.to_bytes(2, "big")
    payload = _udp(source, destination, (NODE_PORT, NODE_PORT), datagram)
    ds_field = traffic_class(datagram) << 2
    count = fragments(len(datagram))
    if count == 1:
        header = _ip(source, destination, len(payload), 0, _DONT_FRAGMENT, ds_field)
        return [ethernet + header + payload]
    frames = []
    for number in range(count):
        part = payload[number * FRAGMENT : (number + 1) * FRAGMENT]
        flags = _MORE_FRAGMENTS if number < count - 1 else 0
        offset = number * FRAGMENT // 8 | flags
        header = _ip(source, destination, len(part), identification & 0xFFFF, offset, ds_field)
        frames.append(ethernet + header + part)
    return frames


def frame_lengths(length: int) -> list[int]:
    """Return the bytes of each Ethernet frame that a datagram of `length` bytes travels in."""
    count = fragments(length)
    if count == 1:
        return [HEADERS + length]
    overhead = ETHERNET_LENGTH + IP_LENGTH
    last = length + UDP_LENGTH - (count - 1) * FRAGMENT
    return [overhead + FRAGMENT] * (count - 1) + [overhead + last]


def loopback_frame(datagram: bytes, *, to_client: bool) -> bytes:
    """Return the Ethernet frame of a datagram between a node and the workload's client on it."""
    ports = (CLIENT_PORT, CLIENT) if to_client else (CLIENT, CLIENT_PORT)
    payload = _udp(_LOOPBACK, _LOOPBACK, ports, datagram)
    header = _ip(_LOOPBACK, _LOOPBACK, len(payload), 0, _DONT_FRAGMENT, 0)
    return _LOOPBACK_ETHERNET + header + payload

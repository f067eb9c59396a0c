"""Frames of third-party systems: what each is for, which events it carries, whether it is new.

Theory of operation.  The testbed's own frames say what they are; those of a middleware and of the
kernel beneath it are recognised by their protocols and ports, and an event by the marker before it
(`nodeapp.pubsub.middleware.marker`), which may be anywhere in a frame, beside others, or split
over two frames.  So a capture is read once, in order, and each TCP stream is followed by its
sequence numbers (RFC 9293): a marker counts in the frame that completes it, and a segment all of
whose bytes have left this transmitter before is a retransmission.  A segment that was lost at
another node and is sent again by its source is none at a node that sends it for the first time.

A stream belongs to one transmitter (its Ethernet address): the capture of a node that forwards has
a segment twice, as it arrived and as it left.
"""

from __future__ import annotations

import struct
from bisect import insort
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from nodeapp.addressing import OF_NODES
from nodeapp.headers import ETHERNET_LENGTH, IPV4, UDP
from nodeapp.pubsub.middleware.marker import MAGIC, MARKER
from nodeapp.wire import CLIENT_PORT, NODE_PORT

EVENT: Final = "event"
SYSTEM: Final = "own protocol"
ACKNOWLEDGEMENT: Final = "TCP acknowledgement"
CONNECTION: Final = "TCP connection"
RETRANSMISSION: Final = "TCP retransmission"
ARP: Final = "ARP"
DISCOVERY: Final = "neighbour discovery"
ROUTING: Final = "routing"
ICMP: Final = "ICMP"
MEMBERSHIP: Final = "group membership"

BABEL: Final = 6696
"""UDP port of Babel (RFC 8966), ..."""
BATMAN: Final = 4305
"""... and of B.A.T.M.A.N. III."""
_IPV6: Final = 40
_FIN, _SYN, _RST = 1, 2, 4
_MORE: Final = 0x20
"""The flag "more fragments", in the byte that it is in."""
_EDGE: Final = MARKER.size - 1
"""Bytes of a marker that may be in another segment."""
_HALF: Final = 1 << 31
_KEPT: Final = 1 << 14
"""Bytes of edges that a stream remembers: of 500 segments."""


class ForeignFrame(NamedTuple):
    """One frame: the node whose radio sent it, its label, and the events in it.

    `sender` is None for an address that is not a node's, `label` for a frame of none of the systems
    here.  `first_hop`: the sender is also the source, and does not forward the frame.
    """

    sender: int | None
    label: str | None
    first_hop: bool
    events: tuple[tuple[int, int], ...] = ()


@dataclass
class _Stream:
    """One direction of a TCP connection as one transmitter sends it; offsets are in its bytes."""

    base: int
    seen: list[tuple[int, int]] = field(default_factory=list)
    """Spans [start, end) that were sent, disjoint and in order."""
    edges: dict[int, int] = field(default_factory=dict)
    """The first and the last bytes of segments, by offset: a marker may be cut there."""
    counted: set[int] = field(default_factory=set)
    """Offsets of the markers that were counted."""

    def offset(self, sequence: int) -> int:
        return (sequence - self.base + _HALF) % (1 << 32)

    def take(self, start: int, data: bytes) -> tuple[bool, list[tuple[int, int]]]:
        """Take a segment; return whether all of it was sent before, and the events in it."""
        end = start + len(data)
        if any(one <= start and end <= other for one, other in self.seen):
            return True, [event for _, event in _markers(data)]
        self._add(start, end)
        left = self._known(range(start - 1, start - _EDGE - 1, -1))[::-1]
        right = self._known(range(end, end + _EDGE))
        if len(self.edges) > _KEPT:
            self.edges.clear()
        self.edges |= zip(range(start, end), data[:_EDGE], strict=False)
        self.edges |= zip(range(max(start, end - _EDGE), end), data[-_EDGE:], strict=True)
        events = []
        for position, event in _markers(left + data + right):
            at = start - len(left) + position
            if at not in self.counted:
                self.counted.add(at)
                events.append(event)
        return False, events

    def _known(self, offsets: range) -> bytes:
        """Return the bytes at offsets, up to the first that is not kept."""
        known = bytearray()
        for offset in offsets:
            if (byte := self.edges.get(offset)) is None:
                break
            known.append(byte)
        return bytes(known)

    def _add(self, start: int, end: int) -> None:
        apart = []
        for one, other in self.seen:
            if other < start or one > end:
                apart.append((one, other))
            else:
                start, end = min(start, one), max(end, other)
        insort(apart, (start, end))
        self.seen = apart


def _markers(data: bytes) -> list[tuple[int, tuple[int, int]]]:
    """Return the offsets of the complete markers in some bytes, and their events."""
    markers = []
    position = data.find(MAGIC)
    while position >= 0:
        if position + MARKER.size <= len(data):
            _, publisher, sequence = MARKER.unpack_from(data, position)
            markers.append((position, (publisher, sequence)))
        position = data.find(MAGIC, position + len(MAGIC))
    return markers


def _begin(frame: bytes) -> int:
    """Return where an IPv4 packet begins in its datagram; only one that begins it has the ports."""
    return 8 * (int.from_bytes(frame[ETHERNET_LENGTH + 6 : ETHERNET_LENGTH + 8]) & 0x1FFF)


def _is_own(frame: bytes, packet: bytes) -> bool:
    """Return whether an IPv4 packet is the beginning of one of the testbed's own datagrams."""
    if frame[ETHERNET_LENGTH + 9] != UDP or _begin(frame):
        return False
    return bool({*struct.unpack_from(">HH", packet)} & {NODE_PORT, CLIENT_PORT})


class ForeignDecoder:
    """Reads the frames of one capture, in order; `ports` are the system's own."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)
        self._streams: dict[tuple[bytes, bytes, bytes], _Stream] = {}
        self._asking: set[tuple[bytes, int]] = set()
        """Addresses and ports from which datagrams went to the system's ports."""
        self._unfinished: dict[bytes, tuple[int, bytes]] = {}
        """Where the system's datagrams of which fragments miss go on, and their last bytes.

        By transmitter, IP id and addresses.
        """

    def read(self, frame: bytes) -> ForeignFrame | None:
        """Return what an Ethernet frame is; None for the testbed's own, and for broken ones."""
        try:
            return self._read(frame)
        except (IndexError, struct.error):
            return None

    def _read(self, frame: bytes) -> ForeignFrame | None:
        mac, kind = frame[6:12], int.from_bytes(frame[12:14])
        sender = int.from_bytes(mac[2:]) if mac[:2] == OF_NODES else None
        if kind == 0x0806:
            return ForeignFrame(sender, ARP, first_hop=True)
        if kind == 0x86DD:
            udp = frame[ETHERNET_LENGTH + 6] == UDP
            ports = struct.unpack_from(">HH", frame, ETHERNET_LENGTH + _IPV6) if udp else ()
            label = ROUTING if BABEL in ports else DISCOVERY
            return ForeignFrame(sender, label, first_hop=True)
        if kind != IPV4:
            return ForeignFrame(sender, None, first_hop=True)
        header = 4 * (frame[ETHERNET_LENGTH] & 0x0F)
        source = int.from_bytes(frame[ETHERNET_LENGTH + 12 : ETHERNET_LENGTH + 16])
        first_hop = sender == source & 0xFFFFFF
        # An Ethernet frame may be padded: the IP header has the length.
        packet = frame[ETHERNET_LENGTH + header : ETHERNET_LENGTH + int.from_bytes(frame[16:18])]
        if _is_own(frame, packet):
            return None
        of_packet, events = self._of_ipv4(mac, frame, packet)
        return ForeignFrame(sender, of_packet, first_hop, tuple(events))

    def _of_ipv4(
        self, mac: bytes, frame: bytes, packet: bytes
    ) -> tuple[str | None, list[tuple[int, int]]]:
        """Return the label of a packet and its events."""
        protocol = frame[ETHERNET_LENGTH + 9]
        if protocol in (1, 2):
            return (ICMP if protocol == 1 else MEMBERSHIP), []
        if protocol not in (6, UDP):
            return None, []
        begin = _begin(frame)
        ports = set() if begin else {*struct.unpack_from(">HH", packet)}
        addresses = frame[ETHERNET_LENGTH + 12 : ETHERNET_LENGTH + 20]
        if protocol == 6 and not begin:
            return self._of_tcp(mac, addresses, packet) if ports & self._ports else (None, [])
        if ports & {BABEL, BATMAN}:
            return ROUTING, []
        datagram = mac + frame[ETHERNET_LENGTH + 4 : ETHERNET_LENGTH + 6] + addresses
        owned = datagram in self._unfinished if begin else self._owned(addresses, packet[:4])
        due, end = self._unfinished.pop(datagram, (0, b""))
        events = [event for _, event in _markers(end + packet if begin == due else packet)]
        if owned and frame[ETHERNET_LENGTH + 6] & _MORE:
            self._unfinished[datagram] = begin + len(packet), packet[-_EDGE:]
        return (EVENT if events else SYSTEM if owned else None), events

    def _owned(self, addresses: bytes, ports: bytes) -> bool:
        """Return whether a datagram is the system's: from or to its ports, or an answer to one."""
        source, destination = struct.unpack(">HH", ports)
        if source in self._ports or destination in self._ports:
            self._asking.add((addresses[:4], source))
            return True
        return (addresses[4:], destination) in self._asking

    def _of_tcp(
        self, mac: bytes, addresses: bytes, packet: bytes
    ) -> tuple[str | None, list[tuple[int, int]]]:
        sequence, flags = int.from_bytes(packet[4:8]), packet[13]
        data = packet[4 * (packet[12] >> 4) :]
        key = mac, addresses, packet[:4]
        stream = self._streams.get(key)
        if flags & _SYN:
            if stream is not None and stream.base == sequence:
                return RETRANSMISSION, []
            self._streams[key] = _Stream(sequence)
            return CONNECTION, []
        if not data:
            return (CONNECTION if flags & (_FIN | _RST) else ACKNOWLEDGEMENT), []
        if stream is None:  # the capture began later
            stream = self._streams[key] = _Stream(sequence)
        repeated, events = stream.take(stream.offset(sequence), data)
        return (RETRANSMISSION if repeated else EVENT if events else SYSTEM), events

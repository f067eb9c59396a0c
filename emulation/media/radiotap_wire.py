"""Records of a monitor: a radiotap header, and a packet of the medium as an 802.11 frame.

Packets of a medium are Ethernet frames and path selection elements; here they get the header that
they would have on the air.  Sources: radiotap.org (fields); IEEE 802.11-2016, 9.2 and 9.3
(headers), 9.4.2.113 to 115 (path selection elements), 9.2.4.7.3 (mesh control).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from emulation.radio.airtime import Rate
from emulation.radio.mac import is_group
from emulation.wifi.packets import Element, MeshHeader, Packet, Perr, Prep, Preq

_TSFT, _FLAGS, _RATE, _CHANNEL, _SIGNAL, _NOISE, _MCS = 0, 1, 2, 3, 5, 6, 19
"""Bits of the presence word."""
_CCK, _OFDM, _BAND_2, _BAND_5 = 0x0020, 0x0040, 0x0080, 0x0100
"""Flags of the channel."""
_MCS_KNOWN: Final = 0x07
"""Bandwidth, index and guard interval."""
_MCS_40, _MCS_SHORT = 0x01, 0x04
_DATA: Final = 0x08
_ACTION: Final = 0xD0
_TO_DS, _FROM_DS, _RETRY = 0x01, 0x02, 0x08
_SNAP: Final = bytes.fromhex("aaaa03000000")
_FIRST_ETHERTYPE: Final = 0x0600
_MESH_ACTION: Final = bytes((13, 1))
"""Category mesh, HWMP path selection."""
_QOS_MESH: Final = 0x80
"""Subtype QoS data: mesh frames have QoS control, which announces the mesh control field."""
_MESH_CONTROL_PRESENT: Final = 0x0100
DESTINATION_UNREACHABLE: Final = 63
"""Reason of a path error (802.11-2016, table 9-45)."""
LIFETIME_TU: Final = 5000


class RadiotapLink(NamedTuple):
    """The two ends of a frame on the air."""

    transmitter: bytes
    receiver: bytes
    """Address of the next hop; a group address for all neighbours."""
    bssid: bytes
    to_access_point: bool = False
    from_access_point: bool = False


class OnAir(NamedTuple):
    """Time and radio facts of a frame; `signal_dbm` is None if the radio sent it itself."""

    time: float
    rate: Rate
    frequency_mhz: float
    signal_dbm: float | None
    noise_dbm: float
    retry: bool
    sequence: int
    duration_us: int


def encode(packet: Packet, link: RadiotapLink, air: OnAir) -> bytes:
    return _radiotap(air) + _frame(packet, link, air)


def _radiotap(air: OnAir) -> bytes:
    ht = air.rate.format == "HT"
    bits = [_TSFT, _FLAGS, _CHANNEL]
    bits += [_MCS] if ht else [_RATE]
    fields = struct.pack("<QB", max(0, round(air.time * 1e6)) % 2**64, 0)
    fields += b"\0" if ht else struct.pack("<B", round(2 * air.rate.mbps))  # padding, if HT
    band = _BAND_5 if air.frequency_mhz > 4900 else _BAND_2
    kind = _CCK if air.rate.format == "DSSS" else _OFDM
    fields += struct.pack("<HH", round(air.frequency_mhz), band | kind)
    if air.signal_dbm is not None:
        bits += [_SIGNAL, _NOISE]
        levels = (max(-128, min(127, round(level))) for level in (air.signal_dbm, air.noise_dbm))
        fields += struct.pack("<bb", *levels)
    if ht:
        flags = _MCS_40 * (air.rate.width_mhz == 40) | _MCS_SHORT * air.rate.short_guard
        fields += struct.pack("<BBB", _MCS_KNOWN, flags, air.rate.mcs)
    present = sum(1 << bit for bit in bits)
    return struct.pack("<BBHI", 0, 0, 8 + len(fields), present) + fields


def _frame(packet: Packet, link: RadiotapLink, air: OnAir) -> bytes:
    retry = _RETRY if air.retry else 0
    sequence = struct.pack("<H", (air.sequence % 4096) << 4)
    duration = struct.pack("<H", min(air.duration_us, 32_767))
    if packet.element is not None:
        control = bytes((_ACTION, retry))
        addresses = link.receiver + link.transmitter + link.transmitter
        return control + duration + addresses + sequence + _MESH_ACTION + _element(packet.element)
    frame = packet.frame
    destination, source = frame[:6], frame[6:12]
    body = frame[14:]
    if int.from_bytes(frame[12:14], "big") >= _FIRST_ETHERTYPE:
        body = _SNAP + frame[12:]
    if packet.mesh is not None:
        return _mesh_data(packet.mesh, link, frame[:12], body, (retry, duration, sequence))
    flags, fourth = retry, b""
    if link.to_access_point:
        flags |= _TO_DS
        addresses = link.bssid + source + destination
        if source != link.transmitter:
            flags |= _FROM_DS
            addresses, fourth = link.bssid + link.transmitter + destination, source
    elif link.from_access_point:
        flags |= _FROM_DS
        addresses = destination + link.bssid + source
        if not is_group(destination) and destination != link.receiver:
            flags |= _TO_DS
            addresses, fourth = link.receiver + link.bssid + destination, source
    else:
        addresses = destination + source + link.bssid
    return bytes((_DATA, flags)) + duration + addresses + sequence + fourth + body


def _mesh_data(
    header: MeshHeader,
    link: RadiotapLink,
    ends: bytes,
    body: bytes,
    start: tuple[int, bytes, bytes],
) -> bytes:
    """Return a data frame of a mesh, with the addresses of hosts behind it.

    `start` has the retry flag, duration and sequence control.
    """
    retry, duration, sequence = start
    group = is_group(header.destination)
    flags = retry | _FROM_DS | (0 if group else _TO_DS)
    addresses = link.receiver + link.transmitter
    addresses += header.source if group else header.destination
    destination, source = ends[:6], ends[6:]
    proxied = source != header.source or (not group and destination != header.destination)
    extension = 0
    more = b""
    if proxied:
        extension, more = (1, source) if group else (2, destination + source)
    control = struct.pack("<BBI", extension, header.ttl, header.sequence) + more
    fourth = b"" if group else header.source
    qos = struct.pack("<H", _MESH_CONTROL_PRESENT)
    head = bytes((_DATA | _QOS_MESH, flags)) + duration + addresses + sequence
    return head + fourth + qos + control + body


def _element(element: Element) -> bytes:
    if isinstance(element, Preq):
        known = element.target_sequence
        unknown = 0x04 if known is None else 0
        body = struct.pack("<BBBI", 0, element.hops, element.ttl, element.number)
        body += element.originator
        body += struct.pack("<IIIB", element.sequence, LIFETIME_TU, element.metric, 1)
        body += bytes((0x01 | unknown,)) + element.target + struct.pack("<I", known or 0)
        return bytes((130, len(body))) + body
    if isinstance(element, Prep):
        body = struct.pack("<BBB", 0x40 if element.proxied else 0, element.hops, element.ttl)
        body += element.target + struct.pack("<I", element.sequence)
        body += element.proxied or b""
        body += struct.pack("<II", LIFETIME_TU, element.metric)
        body += element.originator + struct.pack("<I", 0)
        return bytes((131, len(body))) + body
    assert isinstance(element, Perr)
    body = struct.pack("<BB", element.ttl, len(element.broken))
    for address, number in element.broken:
        body += b"\0" + address + struct.pack("<IH", number, DESTINATION_UNREACHABLE)
    return bytes((132, len(body))) + body

"""Where the packets of a pcapng file are, and when they were captured.

Theory of operation.  A pcapng file is a chain of blocks.  The header of a section says in which
byte order its blocks are, descriptions of interfaces say what their packets are and in which unit
their times.  What precedes a packet's bytes (time, bytes captured, bytes on the wire) takes as much
space as the header of a pcap record: `as_pcap` writes such headers there, and what decodes pcap
records decodes these packets.

One cursor follows the blocks; what they say is read from many at once.

Source: draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from capture.files import SNAP_LENGTH
from capture.scan import ETHERNET, PCAPNG, RECORD_HEADER, Buffer, PcapError, PcapHeader, as_bytes

Numbers = npt.NDArray[np.int64]

_SECTION: Final = int.from_bytes(PCAPNG, "little")
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_SHORTEST: Final = {_SECTION: 28, _INTERFACE: 20, _SIMPLE: 16, _ENHANCED: 32}
"""Bytes of blocks without options and packet; others have type and length, twice."""
_OTHER: Final = 12
_LONGEST: Final = 16 << 20
"""Bytes of a block that libpcap accepts at most."""
_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_RESOLUTION, _OFFSET = 9, 14
"""Options of an interface: if_tsresol and if_tsoffset."""
_SECOND: Final = 10**9
_LATEST: Final = 2**32 - 1
"""Unix seconds of the last time that pcap can say."""
_FAR: Final = 2**61


class Packets(NamedTuple):
    """The whole packets of a file, each by its index.

    `blocks`: where their blocks start; `offsets`: where a pcap record would, 16 bytes before the
    packet; `time_ns`: Unix time, 0 of a simple packet block, which has none.  `stop` and `reason`
    are as of `capture.scan.record_offsets`.
    """

    blocks: Numbers
    offsets: Numbers
    time_ns: Numbers
    captured: Numbers
    length: Numbers
    described: tuple[tuple[int, bytes], ...]
    """Headers of sections and descriptions of interfaces, and where they start."""
    stop: int
    reason: str | None

    def context(self, start: int) -> bytes:
        """Return what must precede a part of the file that begins with the block at `start`."""
        kept: list[bytes] = []
        for offset, block in self.described:
            if offset >= start:
                break
            if block.startswith(PCAPNG):
                kept.clear()
            kept.append(block)
        return b"".join(kept)


class _Interface(NamedTuple):
    linktype: int
    snaplen: int
    ticks: int
    """Units of time in a second."""
    shift: int
    """Seconds to add."""


def read_packets(buffer: Buffer, wanted: int = ETHERNET) -> Packets:
    """Return the packets of a file that begins with `PCAPNG`.

    Raises `PcapError` if not even its first block is whole, or a packet is of a link type other
    than `wanted`.
    """
    data = as_bytes(buffer)
    blocks, sections, stop, reason = _follow(data)
    if not blocks:
        raise PcapError(f"is {reason}")
    starts = np.array(blocks, np.int64)
    parts: list[tuple[Numbers, ...]] = []
    described: list[tuple[int, bytes]] = []
    for (first, order), (last, _) in pairwise([*sections, (len(blocks), "")]):
        if first == last:
            break
        section = _Section(data, order, starts[first:last])
        described += section.described
        columns, damage = section.packets(wanted)
        parts.append(columns)
        if damage is not None:
            stop, reason = damage
            break
    at, offsets, times, captured, length = map(np.concatenate, zip(*parts, strict=True))
    return Packets(at, offsets, times, captured, length, tuple(described), stop, reason)


def as_pcap(data: npt.NDArray[np.uint8], packets: Packets, linktype: int) -> PcapHeader:
    """Write a pcap record header before each packet; return the file header they belong to."""
    heads = np.empty((len(packets.offsets), 4), "<u4")
    heads[:, 0], heads[:, 1] = packets.time_ns // _SECOND, packets.time_ns % _SECOND
    heads[:, 2], heads[:, 3] = packets.captured, packets.length
    row = f"V{RECORD_HEADER}"
    everywhere = np.ndarray((len(data) - RECORD_HEADER + 1,), row, data, strides=(1,))
    everywhere[packets.offsets] = heads.view(row)[:, 0]
    return PcapHeader("<", True, SNAP_LENGTH, linktype)


def _follow(
    data: npt.NDArray[np.uint8],
) -> tuple[list[int], list[tuple[int, str]], int, str | None]:
    """Return where whole blocks start; sections: index of the first block, byte order; stop, why.

    The last section may have no whole block; stop and why are as of `capture.scan.record_offsets`.
    """
    view, size = data.data, len(data)
    blocks: list[int] = []
    sections: list[tuple[int, str]] = []
    head, shortest = struct.Struct("<II").unpack_from, _SHORTEST.get
    offset, last = 0, size - _OTHER
    while offset <= last:
        kind, length = head(view, offset)
        if kind == _SECTION:
            order = _ORDERS.get(bytes(view[offset + 8 : offset + 12]))
            if order is None:
                return blocks, sections, offset, f"damaged: no byte order at byte {offset + 8}"
            head = struct.Struct(f"{order}II").unpack_from
            kind, length = head(view, offset)
            sections.append((len(blocks), order))
        if length < shortest(kind, _OTHER) or length & 3 or length > _LONGEST:
            reason = f"damaged: the block at byte {offset} claims {length} bytes"
            return blocks, sections, offset, reason
        if offset + length > size:
            break
        blocks.append(offset)
        offset += length
    if offset < size:
        return blocks, sections, offset, f"truncated: the block at byte {offset} is cut off"
    return blocks, sections, offset, None


class _Section:
    """One section: blocks in one byte order, with interfaces of their own."""

    def __init__(self, data: npt.NDArray[np.uint8], order: str, starts: Numbers) -> None:
        self._words = np.ndarray((len(data) - 3,), f"{order}u4", data, strides=(1,))
        """The 32-bit number at each byte."""
        kinds = self._word(starts)
        interfaces = starts[kinds == _INTERFACE]
        self.described = [
            (at, bytes(data[at : at + int(self._words[at + 4])]))
            for at in [int(starts[0]), *interfaces.tolist()]
        ]
        self._interfaces = [_interface(block, order) for _, block in self.described[1:]]
        chosen = (kinds == _ENHANCED) | (kinds == _SIMPLE)
        self._blocks, self._is_simple = starts[chosen], kinds[chosen] == _SIMPLE
        self._known = np.searchsorted(interfaces, self._blocks)
        """How many interfaces are described before each packet."""

    def packets(self, wanted: int) -> tuple[tuple[Numbers, ...], tuple[int, str] | None]:
        """Return columns as of `Packets`, and where and why they end early.

        Raises `PcapError` if a packet has not the link type `wanted`.
        """
        blocks, simple = self._blocks, self._is_simple
        number = np.where(simple, 0, self._word(blocks + 8))
        captured, length = self._lengths()
        damage = self._damage(number, captured)
        if damage is not None:
            kept = slice(int(np.searchsorted(blocks, damage[0])))
            blocks, simple, number = blocks[kept], simple[kept], number[kept]
            captured, length = captured[kept], length[kept]
        offsets = np.where(simple, blocks - 4, blocks + 12)
        times = np.zeros(len(blocks), np.int64)
        for index in np.unique(number).tolist():
            interface = self._interfaces[index]
            if interface.linktype != wanted:
                only = "only Ethernet (1) is decoded" if wanted == ETHERNET else f"not {wanted}"
                raise PcapError(
                    f"has packets of link type {interface.linktype} at interface {index}; {only}"
                )
            timed = ~simple & (number == index)
            at = offsets[timed]
            stamps = self._words[at].astype(np.uint64) << np.uint64(32)
            times[timed] = _time_ns(stamps | self._words[at + 4], interface)
        return (blocks, offsets, times, captured, length), damage

    def _word(self, offsets: Numbers) -> Numbers:
        return self._words[offsets].astype(np.int64)

    def _lengths(self) -> tuple[Numbers, Numbers]:
        """Return the bytes of each packet that were captured, and those on the wire."""
        blocks, simple = self._blocks, self._is_simple
        length = self._word(blocks + np.where(simple, 8, 24))
        captured = self._word(blocks + np.where(simple, 8, 20))
        if simple.any():  # it has no such number: all that the block and the interface allow
            most = self._interfaces[0].snaplen if self._interfaces else 0
            space = np.minimum(self._word(blocks + 4) - _SHORTEST[_SIMPLE], most or _LATEST)
            captured = np.where(simple, np.minimum(length, space), captured)
        return captured, length

    def _damage(self, number: Numbers, captured: Numbers) -> tuple[int, str] | None:
        """Return the first block that contradicts itself, and how."""
        blocks = self._blocks
        size = self._word(blocks + 4)
        space = size - np.where(self._is_simple, _SHORTEST[_SIMPLE], _SHORTEST[_ENHANCED])
        unknown = number >= self._known
        unequal = self._word(blocks + size - 4) != size
        wrong = unknown | unequal | (captured > np.minimum(space, SNAP_LENGTH))
        if not wrong.any():
            return None
        first = int(wrong.argmax())
        block = int(blocks[first])
        how = f"claims {captured[first]} bytes in a block of {size[first]}"
        if unequal[first]:
            how = "ends with another length than it begins with"
        elif unknown[first]:
            how = f"is of interface {number[first]}, which is not described"
        return block, f"damaged: the packet at byte {block} {how}"


def _interface(block: bytes, order: str) -> _Interface:
    """Return what the description of an interface says."""
    linktype, snaplen = struct.unpack_from(f"{order}H2xI", block, 8)
    ticks, shift, at = 10**6, 0, 16
    while at + 4 <= len(block) - 4:
        code, size = struct.unpack_from(f"{order}HH", block, at)
        value = block[at + 4 : min(at + 4 + size, len(block) - 4)]
        if code == 0:
            break
        if code == _RESOLUTION and len(value) == 1:
            ticks = (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
        if code == _OFFSET and len(value) == 8:
            (shift,) = struct.unpack(f"{order}q", value)
        at += 4 + size + -size % 4
    return _Interface(linktype, snaplen, ticks, shift)


def _time_ns(stamps: npt.NDArray[np.uint64], interface: _Interface) -> Numbers:
    """Return Unix nanoseconds, cut to whole ones; the first or last time of pcap if beyond."""
    ticks = interface.ticks
    if ticks > _SECOND:  # in Python's numbers: the product may have more than 64 bits
        stamps = np.array([stamp * _SECOND // ticks for stamp in stamps.tolist()], np.uint64)
        ticks = _SECOND
    seconds = stamps // np.uint64(ticks)
    fractions = stamps - seconds * np.uint64(ticks)  # divmod takes much longer
    whole = np.minimum(seconds, np.uint64(_FAR)).astype(np.int64)
    whole += max(-_FAR, min(interface.shift, _FAR))
    times: Numbers = np.clip(whole, 0, _LATEST) * _SECOND
    times += (fractions * np.uint64(_SECOND) // np.uint64(ticks)).astype(np.int64)
    return times

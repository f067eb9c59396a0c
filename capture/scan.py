"""Where the records of a pcap file start.

Theory of operation.  A pcap file is a chain: each record header says how long the record is, and
nothing marks a start.  One cursor that follows the chain in Python is slow; several hundred that
step together in NumPy are not, but each needs a true start.  `record_offsets` guesses: at evenly
spaced offsets it takes the first bytes that look like some record headers in a row.  Each cursor
then runs up to the next one's guess.  If it lands on it exactly the guess is proven, by induction
from the first cursor, which starts at a known record; if it misses, the stretch after it is
followed again from where the true chain arrived.  So a wrong guess, say inside a capture carried
as payload, costs time and never changes the result.

Source: draft-ietf-opsawg-pcap.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from capture.files import SNAP_LENGTH

Offsets = npt.NDArray[np.int64]
Buffer = bytes | bytearray | memoryview | mmap.mmap | npt.NDArray[np.uint8]

FILE_HEADER: Final = 24
"""Bytes before the first record."""
RECORD_HEADER: Final = 16
"""Bytes before each packet."""
ETHERNET: Final = 1
"""LINKTYPE_ETHERNET."""
RADIOTAP: Final = 127
"""LINKTYPE_IEEE802_11_RADIOTAP."""
AIR: Final = "air.pcap"
"""Name of the capture of what all radios send, in 802.11 with radiotap, beside those of nodes."""

_MAGIC: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", False),
    b"\xa1\xb2\xc3\xd4": (">", False),
    b"\x4d\x3c\xb2\xa1": ("<", True),
    b"\xa1\xb2\x3c\x4d": (">", True),
}
PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
"""What a section of a pcapng file, and so the file, begins with in either byte order."""

CURSORS: Final = 512
"""Most cursors that step together; they share the cost of a NumPy call."""
_PROBE: Final = 2_048
"""Bytes searched for a record header at each guess; packets of 1,500 bytes fit."""
_RUN: Final = 4
"""Consecutive record headers that make a guess."""
_WORTHWHILE: Final = 96
"""Number of cursors below which a single one is faster than guessing."""
_FEW: Final = 16
"""Number of running cursors below which stepping them one by one is faster."""
_NEAR: Final = 30 * 86_400
"""Seconds from the first record's time within which a guessed record must be."""


class PcapError(ValueError):
    """A file that cannot be read as a pcap capture; the message says what it is instead."""


class PcapHeader(NamedTuple):
    """The file header: byte order as `struct` writes it, resolution, snap length, link type."""

    byte_order: str
    nanoseconds: bool
    snaplen: int
    linktype: int

    @property
    def ticks(self) -> int:
        """Fractions in a second."""
        return 10**9 if self.nanoseconds else 10**6


def as_bytes(buffer: Buffer) -> npt.NDArray[np.uint8]:
    """Return `buffer` as an array of bytes, without a copy."""
    if isinstance(buffer, np.ndarray):
        return np.ascontiguousarray(buffer).view(np.uint8).reshape(-1)
    return np.frombuffer(buffer, dtype=np.uint8)


def read_header(buffer: Buffer, wanted: int = ETHERNET) -> PcapHeader:
    """Return the file header.  Raises `PcapError` if `buffer` does not begin with one.

    A capture of a link type other than `wanted` is refused as well: the decoder would misread it.
    """
    head = bytes(as_bytes(buffer)[:FILE_HEADER])
    magic = head[:4]
    if magic == PCAPNG:
        raise PcapError(
            "is a pcapng file, not a pcap capture: convert it with `editcap -F nsecpcap`"
        )
    if magic not in _MAGIC:
        what = "is empty" if not head else f"begins with {magic.hex() or 'nothing'}"
        raise PcapError(f"is not a pcap capture: it {what}")
    if len(head) < FILE_HEADER:
        raise PcapError(f"is truncated: {len(head)} of the {FILE_HEADER} bytes of a pcap header")
    byte_order, nanoseconds = _MAGIC[magic]
    snaplen, linktype = struct.unpack_from(byte_order + "II", head, 16)
    linktype &= 0x0FFF_FFFF  # the upper four bits say how long the frame check sequence is
    if linktype != wanted:
        expected = "only Ethernet (1) is decoded" if wanted == ETHERNET else f"not {wanted}"
        raise PcapError(f"is a capture of link type {linktype}; {expected}")
    return PcapHeader(byte_order, nanoseconds, snaplen, linktype)


def record_offsets(
    buffer: Buffer, header: PcapHeader, start: int = FILE_HEADER
) -> tuple[Offsets, int, str | None]:
    """Return (offsets of the whole records from `start` on, stop, reason).

    `start` must be where a record starts, or the end of the buffer.  `stop` is the end of the
    buffer, and `reason` is None; or `stop` is the start of a record that is cut off or damaged, and
    `reason` says so.
    """
    chain = _Chain(as_bytes(buffer), header)
    end = chain.size
    guesses = _guesses(chain, start, end)
    if len(guesses) < _FEW:
        records, stop, reason = chain.follow(start, end)
        return np.array(records, np.int64), stop, reason
    starts = np.concatenate(([start], guesses))
    limits = np.concatenate((guesses, [end]))
    passed, counts, stops = _lockstep(chain, starts, limits)
    edges = np.concatenate(([0], np.cumsum(counts))).tolist()
    pieces: list[Offsets] = []
    stop = start
    for number, limit in enumerate(limits.tolist()):
        if stop == starts[number]:  # proven
            pieces.append(passed[edges[number] : edges[number + 1]])
            stop = int(stops[number])
        records, stop, reason = chain.follow(stop, limit)
        if records:
            pieces.append(np.array(records, np.int64))
        if reason is not None:
            return np.concatenate(pieces), stop, reason
    return np.concatenate(pieces), stop, None


def record_times(
    buffer: Buffer, header: PcapHeader, offsets: Offsets
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the seconds and the fractions (us or ns, by `header`) of records at `offsets`."""
    words = _Chain(as_bytes(buffer), header).words
    return words[offsets].astype(np.int64), words[offsets + 4].astype(np.int64)


class _Chain:
    """The bytes of a capture, seen as the chain of its record headers."""

    def __init__(self, data: npt.NDArray[np.uint8], header: PcapHeader) -> None:
        self.size = len(data)
        self.bytes = data.data
        self.words = np.ndarray(
            (max(0, self.size - 3),), f"{header.byte_order}u4", data, strides=(1,)
        )
        """The 32-bit number at each byte."""
        self._captured = struct.Struct(f"{header.byte_order}8xI4x").unpack_from
        self._whole = struct.Struct(f"{header.byte_order}4I").unpack_from
        self._fraction_limit = header.ticks

    def follow(self, offset: int, limit: int) -> tuple[list[int], int, str | None]:
        """Return what `record_offsets` does, with one cursor."""
        records: list[int] = []
        data, captured_at = self.bytes, self._captured
        last = min(limit - 1, self.size - RECORD_HEADER)
        while offset <= last:
            (captured,) = captured_at(data, offset)
            following = offset + RECORD_HEADER + captured
            if captured > SNAP_LENGTH:
                reason = f"damaged: the record at byte {offset} claims {captured} bytes"
                return records, offset, reason
            if following > self.size:
                break
            records.append(offset)
            offset = following
        if offset < limit:
            return records, offset, f"truncated: the record at byte {offset} is cut off"
        return records, offset, None

    def plausible(self, offset: int) -> bool:
        """Return whether `_RUN` records in a row seem to start at `offset`."""
        for _ in range(_RUN):
            if offset > self.size - RECORD_HEADER:
                return False
            _, fraction, captured, length = self._whole(self.bytes, offset)
            if not captured <= length <= SNAP_LENGTH or fraction >= self._fraction_limit:
                return False
            offset += RECORD_HEADER + captured
        return True


def _cursors(size: int) -> int:
    """Return how many cursors suit so many bytes.

    A guess costs about as much as a step of all cursors, and more cursors need fewer steps: the
    best number grows with the square root of the number of records.
    """
    return min(CURSORS, math.isqrt(max(0, size)) // 16)


def _guesses(chain: _Chain, start: int, end: int) -> Offsets:
    """Return, in order, offsets after `start` that look like starts of records."""
    count = _cursors(end - start)
    if count < _WORTHWHILE:
        return np.empty(0, np.int64)
    first = np.uint32((int(chain.words[start]) - _NEAR) % 2**32)  # the comparison wraps as well
    starts = []
    for offset in np.linspace(start, end, count, endpoint=False, dtype=np.int64)[1:].tolist():
        near = chain.words[offset : offset + _PROBE] - first < np.uint32(2 * _NEAR)
        for candidate in np.flatnonzero(near).tolist():
            if chain.plausible(offset + candidate):
                starts.append(offset + candidate)
                break
    return np.array(starts, np.int64)


def _lockstep(chain: _Chain, starts: Offsets, limits: Offsets) -> tuple[Offsets, Offsets, Offsets]:
    """Follow the chain from each of `starts` up to its limit, all together.

    Returns (offsets of all whole records passed, cursor by cursor; how many each cursor passed;
    where each stopped: at or after its limit, or short of it at a record that is cut off or
    damaged, or because few were still running).
    """
    stops = starts.copy()
    counts = np.zeros(len(starts), np.int64)
    blocks: list[tuple[Offsets, Offsets]] = []  # cursors, and a row of offsets for each step
    rows: list[Offsets] = []
    running = np.arange(len(starts))
    at, limit = starts, limits
    highest = len(chain.words) - 1
    while len(running) >= _FEW:
        # Indexing, as `take` would first copy this overlapping view: four times the capture.
        captured = chain.words[np.minimum(at + 8, highest)]
        following = at + (captured.astype(np.int64) + RECORD_HEADER)
        on = following < limit
        if on.all() and captured.max() <= SNAP_LENGTH:
            rows.append(at)
            at = following
            continue
        if rows:
            blocks.append((running, np.array(rows)))
            rows = []
        whole = (captured <= SNAP_LENGTH) & (following <= chain.size)
        blocks.append((running[whole], at[np.newaxis, whole]))
        stops[running] = np.where(whole, following, at)
        on &= whole
        running, at, limit = running[on], following[on], limit[on]
    stops[running] = at
    for cursors, block in blocks:
        counts[cursors] += len(block)
    # A cursor's offsets go side by side, from `index` on.
    index = np.cumsum(counts) - counts
    passed = np.empty(counts.sum(), np.int64)
    for cursors, block in blocks:
        passed[index[cursors][:, np.newaxis] + np.arange(len(block))] = block.T
        index[cursors] += len(block)
    return passed, counts, stops

"""NumPy decoder of captures of the air: radiotap and 802.11 headers, many records at once.

Theory of operation.  A record is a radiotap header (little-endian: version, length, a word that
says which fields are present, more such words while bit 31 is set, then the fields, each aligned to
its size) and the 802.11 frame.  Of the fields only the first four are of use here, and what
precedes them is known from the presence words, so their offsets are computed for whole columns.
The frame begins with frame control and duration, then the receiver's address, and, in all but
acknowledgements and CTS, the transmitter's.

A record is a frame if all of that is there, undamaged, as the radio heard or sent it.

`hwsim0`, the monitor of mac80211_hwsim, shows a frame when its station hands it to the medium, once
however often it is tried, with the rate of the first try.  It also shows the acknowledgement that
is reported to the station, without a rate.

Sources: radiotap.org (fields); docs/papers.md#ieee-80211, 9.2 and 9.3 (frames).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from capture.fields import Fields
from capture.scan import RECORD_HEADER, Buffer, PcapHeader, as_bytes

Columns = dict[str, npt.NDArray[Any]]

ARPHRD_RADIOTAP: Final = 803
"""ARPHRD_IEEE80211_RADIOTAP: the hardware type of an interface that monitors the air."""
MANAGEMENT, CONTROL, DATA = range(3)
BEACON: Final = 8
"""Subtype of a management frame."""
CTS, ACK = 12, 13
"""Subtypes of control frames, those without the transmitter's address."""
FCS: Final = 4
"""Bytes of the frame check sequence."""

COLUMNS: Final[dict[str, type[np.generic]]] = {
    "time_ns": np.int64,
    "is_frame": np.bool_,
    "length": np.int32,
    "rate_kbps": np.int32,
    "short_preamble": np.bool_,
    "frequency_mhz": np.int32,
    "type": np.int16,
    "subtype": np.int16,
    "retry": np.bool_,
    "receiver": np.int64,
    "transmitter": np.int64,
}
"""Names and types of what `decode_air` returns."""

_TSFT, _FLAGS, _RATE, _CHANNEL = range(4)
_EXTENDED: Final = 31
"""Bits of the presence word."""
_MAX_WORDS: Final = 8
"""Presence words: mac80211 writes one for the frame and one for each antenna, of at most four."""
_SHORT_PREAMBLE: Final = 0x02
_HAS_FCS: Final = 0x10
_BAD_FCS: Final = 0x40
_RETRY: Final = 0x08
_LONGEST: Final = 11_454 + FCS
"""Most bytes of an MPDU (802.11-2016, table 9-19)."""


def _aligned(offset: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    return (offset + size - 1) & -size


def _radiotap(packet: Fields, head: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return flags, rate, frequency, and whether the fields end in the header of `head` bytes.

    A field that is missing is 0.
    """
    present = packet.little(4, 4)
    offset = np.full(len(head), 8, np.int64)
    more = (present >> _EXTENDED) & 1 == 1
    for _ in range(_MAX_WORDS - 1):
        more &= offset + 4 <= head
        if not more.any():
            break
        following = packet.little(offset, 4)
        offset += 4 * more
        more &= (following >> _EXTENDED) & 1 == 1
    has = [(present >> bit) & 1 == 1 for bit in range(_CHANNEL + 1)]
    offset = np.where(has[_TSFT], _aligned(offset, 8) + 8, offset)
    flags = np.where(has[_FLAGS], packet.little(offset, 1), 0)
    offset += has[_FLAGS]
    rate = np.where(has[_RATE], packet.little(offset, 1), 0)
    offset += has[_RATE]
    offset = np.where(has[_CHANNEL], _aligned(offset, 2), offset)
    frequency = np.where(has[_CHANNEL], packet.little(offset, 2), 0)
    offset += 4 * has[_CHANNEL]
    return flags, rate, frequency, ~more & (offset <= head)


def decode_air(buffer: Buffer, header: PcapHeader, offsets: npt.NDArray[np.int64]) -> Columns:
    """Return one array per column of `COLUMNS` for the records that start at `offsets`.

    time_ns is Unix time in nanoseconds.  If `is_frame` is false all else is 0.  length is that of
    the frame on the air in bytes, frame check sequence included; rate_kbps is -1 if no legacy rate
    is given (HT, or an acknowledgement at `hwsim0`), frequency_mhz -1 without a channel.  receiver
    and transmitter are addresses as 48-bit numbers, the transmitter -1 if the frame does not have
    it.
    """
    data = as_bytes(buffer)
    pcap = Fields(data, offsets)
    packet = Fields(data, offsets + RECORD_HEADER)
    seconds, fractions, captured, length = (
        pcap.number(offset, 4, header.byte_order) for offset in (0, 4, 8, 12)
    )
    tick = 1 if header.nanoseconds else 1000
    columns: Columns = {"time_ns": seconds * 1_000_000_000 + fractions * tick}

    head = packet.little(2, 2)
    flags, rate, frequency, is_whole = _radiotap(packet, head)
    control = packet.little(head, 1)
    kind, subtype = (control >> 2) & 3, control >> 4
    nameless = (kind == CONTROL) & ((subtype == ACK) | (subtype == CTS))
    octets = length - head + np.where(flags & _HAS_FCS, 0, FCS)
    is_frame = (
        (captured >= 8)
        & (packet.little(0, 1) == 0)
        & is_whole
        & (captured >= head + np.where(nameless, 10, 16))
        & (captured <= length)
        & (octets <= _LONGEST)
        & (control & 3 == 0)  # protocol version
        & (kind <= DATA)
        & (flags & _BAD_FCS == 0)
    )
    transmitter = np.where(nameless, -1, packet.big(head + 10, 6))
    columns |= {
        "is_frame": is_frame,
        "length": octets,
        "rate_kbps": np.where(rate > 0, 500 * rate, -1),
        "short_preamble": flags & _SHORT_PREAMBLE != 0,
        "frequency_mhz": np.where(frequency > 0, frequency, -1),
        "type": kind,
        "subtype": subtype,
        "retry": packet.little(head + 1, 1) & _RETRY != 0,
        "receiver": packet.big(head + 4, 6),
        "transmitter": transmitter,
    }
    return {
        name: (column if name == "time_ns" else np.where(is_frame, column, 0)).astype(COLUMNS[name])
        for name, column in columns.items()
    }

"""The record of a run under the virtual clock: captures, or columns for the analysis.

Theory of operation.  A packet is built once, when it is sent, and seen by its sender and by
everyone who receives it.  `PcapRecorder` appends one record to all of their captures.
`ColumnRecorder` keeps the packet once, with lists of who saw it when; now and then it decodes the
packets with the decoder of captures (`capture.decode`) and repeats the rows for everyone who saw
them.  So both agree, and columns of a broadcast cost one decoding and a few numbers for each
receiver.

Times are Unix times as in captures of a real run, counted from `EPOCH_NS`, which is the same in
every run: captures of the same scenario are equal byte for byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from capture.decode import Columns, decode_records
from capture.files import RECORD, pcap_header, pcap_record
from capture.scan import ETHERNET, read_header
from emulation.scenario.access_point import ACCESS, MESH
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.packets import loopback_frame, radio_frames
from nodeapp.wire import BROADCAST

EPOCH_NS: Final = 946_684_800_000_000_000
"""Time 0 of every run: 2000-01-01 00:00 UTC, in Unix ns."""
PCAP_HEADER: Final = pcap_header(ETHERNET)
_LENGTHS: Final = struct.Struct("<II")
WRITE_BYTES: Final = 64 << 20
"""Bytes of records kept before they are written to the captures."""
FLUSH_ROWS: Final = 1 << 20
"""Rows kept before they are handed on as columns."""


Packet = Any
"""A packet in a recorder's form; opaque to everyone else."""


def captures(scenario: Scenario) -> list[str]:
    """Return the captured interfaces, indexed by their numbers in a recorder.

    First the nodes' radios or wires, in the order of the scenario, then their loopbacks, then the
    access and the mesh radio of each access point.
    """
    return [
        *(node.interface for node in scenario.nodes),
        *(f"{node.name}-lo" for node in scenario.nodes),
        *(point.port(kind) for point in scenario.access_points for kind in (ACCESS, MESH)),
    ]


class VirtualRecorder(Protocol):
    """Receives every packet; stations are indices into the scenario's nodes, times in seconds."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """A station sends a datagram by radio to the node `to`; return its packets, in order."""

    def forged(self, sender: int, datagram: bytes) -> Packet:
        """Somebody else sends a datagram to all in the name of node `sender`; return its packet."""

    def heard(self, time: float, stations: list[int], packet: Packet) -> None:
        """A packet has reached stations, or passed other captures (`captures`)."""

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """A datagram has passed between a node and its client."""

    def emitted(self, time: float, capture: int, frame: bytes) -> None:
        """A frame that belongs to no node has passed a capture."""

    def close(self) -> None:
        """Write the rest.  Raises OSError."""


class NullRecorder:
    """Records nothing, for benchmarks."""

    _packets: Final = (None,) * 64

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Build no packets."""
        return self._packets

    def forged(self, sender: int, datagram: bytes) -> Packet:
        """Build no packet."""
        return None

    def heard(self, time: float, stations: list[int], packet: Packet) -> None:
        """Forget it."""

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """Forget it."""

    def emitted(self, time: float, capture: int, frame: bytes) -> None:
        """Forget it."""

    def close(self) -> None:
        """Do nothing."""


def unix_ns(time: float) -> int:
    """Return the Unix time in ns of `time` seconds into a run."""
    return EPOCH_NS + int(time * 1e9 + 0.5)


def _record(time: float, packet: bytes) -> bytes:
    return pcap_record(unix_ns(time), packet)


class _Builder:
    """Builds the packets of the scenario's nodes."""

    def __init__(self, scenario: Scenario) -> None:
        self._ids = [node.id for node in scenario.nodes]
        self._identification = 0

    def __call__(self, station: int, to: int, datagram: bytes) -> list[bytes]:
        self._identification += 1
        return radio_frames(self._ids[station], to, datagram, self._identification)


class PcapRecorder:
    """Writes the captures of a run folder.  Raises OSError if it cannot."""

    def __init__(self, scenario: Scenario, folder: RunFolder) -> None:
        self._build = _Builder(scenario)
        self._files = [folder.port_capture(interface) for interface in captures(scenario)]
        self._nodes = len(scenario.nodes)
        for file in self._files:
            file.write_bytes(PCAP_HEADER)
        self._pending: list[list[bytes]] = [[] for _ in self._files]
        self._pending_bytes = 0

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Record packets at their sender."""
        packets = self._build(station, to, datagram)
        for packet in packets:
            self._append(station, _record(time, packet))
        return packets

    def forged(self, sender: int, datagram: bytes) -> Packet:
        return radio_frames(sender, BROADCAST, datagram, 0)[0]

    def heard(self, time: float, stations: list[int], packet: Packet) -> None:
        """Record a packet at its receivers."""
        record = _record(time, packet)
        for station in stations:
            self._append(station, record)

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """Record a datagram between a node and its client."""
        record = _record(time, loopback_frame(datagram, to_client=to_client))
        self._append(self._nodes + station, record)

    def emitted(self, time: float, capture: int, frame: bytes) -> None:
        self._append(capture, _record(time, frame))

    def _append(self, slot: int, record: bytes) -> None:
        self._pending[slot].append(record)
        self._pending_bytes += len(record)
        if self._pending_bytes > WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        for file, records in zip(self._files, self._pending, strict=True):
            if records:
                _append_whole(file, b"".join(records))
                records.clear()
        self._pending_bytes = 0

    def close(self) -> None:
        """Write what is left."""
        self._write()


def _append_whole(path: Path, data: bytes) -> None:
    """Append all of the data to a file or, if that fails, nothing."""
    with path.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            written = 0
            while written < len(data):
                written += file.write(data[written:])
        except OSError:
            with suppress(OSError):
                file.truncate(size)
            raise


@dataclass(frozen=True)
class Observations:
    """Packets that passed captures, capture by capture.

    `decoded` has a row for each, with the columns of `capture.decode`, whose bodies are offsets
    into `data`.  `capture` are numbers of captures (`captures`); `number` is that of the record in
    the capture that would have been written, from 1.
    """

    data: npt.NDArray[np.uint8]
    decoded: Columns
    capture: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]


class _Kept:
    """A packet, and its index in the block to which it was added."""

    __slots__ = ("block", "data", "index")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.block = -1
        self.index = 0


class ColumnRecorder:
    """Passes the columns that the analysis needs to `sink`, about `FLUSH_ROWS` rows at a time."""

    def __init__(self, scenario: Scenario, sink: Callable[[Observations], None]) -> None:
        self._build = _Builder(scenario)
        self._sink = sink
        self._nodes = len(scenario.nodes)
        self._records = np.zeros(len(captures(scenario)), np.int64)
        """How many records each capture would contain by now."""
        self._block = 0
        self._begin()

    def _begin(self) -> None:
        self._block += 1
        self._packets: list[bytes] = []
        self._times: list[float] = []
        self._indices: list[int] = []
        """By observation time: the packet's index in `_packets`."""
        self._counts: list[int] = []
        """By observation time: how many saw it, and ..."""
        self._seers: list[int] = []
        """... who: captures, numbered as in `_records`, one list for all times."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        """Record packets at their sender."""
        packets = [_Kept(packet) for packet in self._build(station, to, datagram)]
        for packet in packets:
            self.heard(time, [station], packet)
        return packets

    def forged(self, sender: int, datagram: bytes) -> Packet:
        return _Kept(radio_frames(sender, BROADCAST, datagram, 0)[0])

    def heard(self, time: float, stations: list[int], packet: Packet) -> None:
        """Record a packet at its receivers."""
        if packet.block != self._block:
            packet.block = self._block
            packet.index = len(self._packets)
            self._packets.append(packet.data)
        self._times.append(time)
        self._indices.append(packet.index)
        self._counts.append(len(stations))
        self._seers += stations
        if len(self._seers) > FLUSH_ROWS:
            self._flush()

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """Record a datagram between a node and its client."""
        packet = _Kept(loopback_frame(datagram, to_client=to_client))
        self.heard(time, [self._nodes + station], packet)

    def emitted(self, time: float, capture: int, frame: bytes) -> None:
        self.heard(time, [capture], _Kept(frame))

    def _flush(self) -> None:
        blank = _record(0.0, b"")[:8]
        data = b"".join(
            piece
            for packet in self._packets
            for piece in (blank, _LENGTHS.pack(len(packet), len(packet)), packet)
        )
        lengths = np.fromiter(map(len, self._packets), np.int64, len(self._packets)) + RECORD.size
        offsets = np.cumsum(lengths) - lengths
        decoded = decode_records(data, read_header(PCAP_HEADER), offsets)
        rows = np.repeat(np.arange(len(self._times)), self._counts)
        seers = np.array(self._seers, np.int64)
        order = np.argsort(seers, kind="stable")
        rows, seers = rows[order], seers[order]
        indices = np.array(self._indices, np.int64)[rows]
        columns = {name: column[indices] for name, column in decoded.items()}
        times_ns = np.fromiter(map(unix_ns, self._times), np.int64, len(self._times))
        columns["time_ns"] = times_ns[rows]
        counts = np.bincount(seers, minlength=len(self._records))
        first = np.cumsum(counts) - counts
        number = np.arange(len(seers)) - first[seers] + self._records[seers] + 1
        self._records += counts
        self._begin()
        self._sink(Observations(np.frombuffer(data, np.uint8), columns, seers, number))

    def close(self) -> None:
        """Pass on the rest."""
        if self._seers:
            self._flush()

"""What the captures of a run have gained since the last look, by time: frames and messages.

The recorder writes captures one by one, twice a second: what they hold of the last `BEHIND` seconds
may be incomplete, and is kept until the next look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from capture.decode import decode_records
from capture.fields import Fields
from capture.scan import (
    FILE_HEADER,
    RECORD_HEADER,
    PcapError,
    PcapHeader,
    as_bytes,
    read_header,
    record_offsets,
)
from emulation.scenario.access_point import ACCESS, MESH
from emulation.scenario.runfolder import Run
from nodeapp.addressing import OF_NODES
from nodeapp.headers import ETHERNET_LENGTH
from nodeapp.kinds import FIRST_CLIENT_KIND, ClientKind, Role
from nodeapp.pubsub.registry import MIDDLEWARE, kinds_of
from nodeapp.wire import CLIENT_PORT
from spark_analysis.replay.transmissions import (
    Ints,
    NodeIndices,
    ReplayedTransmission,
    transmissions,
)

BEHIND: Final = 1.2
"""Seconds that the page is behind the run."""
LONGEST: Final = 0.1
"""Seconds between the first and the last reception of a frame, at most."""
CHUNK: Final = 4 << 20
"""Bytes of a capture that are read and decoded at once."""


_COLUMNS: Final = ("time_ns", "ip_dst", "kind", "hops", "destination", "publisher", "sequence")


class RadioFrame(NamedTuple):
    """A frame in a capture of a radio: at the node of index `node`, from that of index `sender`.

    The sender is -1 if it is no node; kind and all about the event are 0 if the frame is not the
    testbed's own.
    """

    time_ns: int
    node: int
    sender: int
    to: int
    kind: int
    hops: int
    destination: int
    event: tuple[int, int]
    access: bool
    """The channel is the stations', not that between access points."""


class ClientMessage(NamedTuple):
    """A message between a client and its node; `client` is the client's port."""

    time_ns: int
    node: int
    client: int
    kind: int
    publisher: int
    sequence: int
    body: bytes


class Growing:
    """The whole records of a capture that is being written, each yielded once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header: PcapHeader | None = None
        self._read = FILE_HEADER

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield the records since the last call, chunk by chunk.

        As columns of `decode_records`, and `data`, in which they begin at `offsets`.
        """
        with suppress(OSError, PcapError), self._path.open("rb") as file:  # else not there yet
            if self._header is None:
                self._header = read_header(file.read(FILE_HEADER))
            data = bytes(CHUNK)
            while len(data) == CHUNK:
                file.seek(self._read)
                data = file.read(CHUNK)
                offsets, stop, _ = record_offsets(data, self._header, 0)
                if not len(offsets):
                    return
                self._read += stop
                columns = decode_records(data, self._header, offsets)
                yield {**columns, "data": data, "offsets": offsets}


class Captures:
    """The captures of a run."""

    def __init__(self, run: Run) -> None:
        nodes, folder = run.scenario.nodes, run.folder
        self._indices = NodeIndices(run)
        points = run.scenario.access_points
        brokers = {point.broker for point in points}
        radios = [
            (node.name, folder.radio_capture(node)) for node in nodes if node.id not in brokers
        ]
        for point in points:
            radios += [
                (point.name, folder.port_capture(point.port(kind))) for kind in (ACCESS, MESH)
            ]
        self._radios = [
            (self._indices.by_name[name], path.stem.endswith(ACCESS), Growing(path))
            for name, path in radios
        ]
        self._loopbacks = [
            (index, Growing(folder.loopback_capture(node))) for index, node in enumerate(nodes)
        ]
        self._through = bool(run.scenario.access_points)
        self._routed = run.scenario.protocol.name in MIDDLEWARE
        self._event_kinds = kinds_of(Role.EVENT)
        self._frames: list[RadioFrame] = []
        self._messages: list[ClientMessage] = []

    def look(self, until_ns: int | None) -> tuple[list[RadioFrame], list[ClientMessage]]:
        """Return what has come since the last look, up to a Unix time or all of it, by time.

        Receptions of one frame are returned together, even if only the first is before that time.
        """
        for node, access, capture in self._radios:
            for records in capture.frames():
                self._radio(node, access, records)
        for node, capture in self._loopbacks:
            for records in capture.frames():
                self._loopback(node, records)
        self._frames.sort()
        self._messages.sort()
        if until_ns is None:
            frames, self._frames = self._frames, []
            messages, self._messages = self._messages, []
            return frames, messages
        longest = round(LONGEST * 1e9)
        begun = {_same(frame) for frame in self._frames if 0 <= until_ns - frame.time_ns < longest}
        late = until_ns + longest
        ready = [
            frame.time_ns < until_ns or (frame.time_ns < late and _same(frame) in begun)
            for frame in self._frames
        ]
        frames = [frame for frame, now in zip(self._frames, ready, strict=True) if now]
        self._frames = [frame for frame, now in zip(self._frames, ready, strict=True) if not now]
        messages = [message for message in self._messages if message.time_ns < until_ns]
        self._messages = self._messages[len(messages) :]
        return frames, messages

    def hops(
        self, frames: Iterable[RadioFrame]
    ) -> list[tuple[tuple[int, int], ReplayedTransmission]]:
        """Return the transmissions of events among frames, each with its event, by time."""
        of_events = [
            frame for frame in frames if frame.kind in self._event_kinds and frame.sender >= 0
        ]
        events = list(dict.fromkeys(frame.event for frame in of_events))
        index = {event: number for number, event in enumerate(events)}
        rows = sorted(
            (
                index[frame.event], frame.sender, frame.to, frame.hops, frame.destination,
                frame.time_ns, frame.node,
            )
            for frame in of_events
        )  # fmt: skip
        ordered = sorted(transmissions(rows, through=self._through), key=lambda hop: hop.sent)
        return [(events[hop.event], hop) for hop in ordered]

    def _radio(self, node: int, access: bool, records: dict[str, Any]) -> None:
        whole = records["captured"] >= ETHERNET_LENGTH
        rows = np.flatnonzero(whole if self._routed else records["is_ip"])
        senders = self._indices.of_addresses(records["ip_src"][rows])
        if self._routed:  # kernels keep the source of what they forward
            transmitters = self._indices.of_ids(_transmitters(records, rows))
            senders = np.where(records["is_frame"][rows], senders, transmitters)
        columns = [records[name][rows].tolist() for name in _COLUMNS]
        self._frames += [
            RadioFrame(
                time, node, sender, to, kind, hops, destination, (publisher, sequence), access
            )
            for sender, time, to, kind, hops, destination, publisher, sequence in zip(
                senders.tolist(), *columns, strict=True
            )
        ]

    def _loopback(self, node: int, records: dict[str, Any]) -> None:
        is_message = records["is_frame"] & (records["kind"] >= FIRST_CLIENT_KIND)
        for row in np.flatnonzero(is_message).tolist():
            request = int(records["port_dst"][row]) == CLIENT_PORT
            kind = int(records["kind"][row])
            if request == (kind == ClientKind.NOTIFY):  # its acknowledgement, or an echo
                continue
            begin = int(records["body_offset"][row])
            self._messages.append(
                ClientMessage(
                    int(records["time_ns"][row]),
                    node,
                    int(records["port_src" if request else "port_dst"][row]),
                    kind,
                    int(records["publisher"][row]),
                    int(records["sequence"][row]),
                    bytes(records["data"][begin : begin + int(records["body_length"][row])]),
                )
            )


def _transmitters(records: dict[str, Any], rows: Ints) -> Ints:
    """Return the ids of the nodes whose Ethernet addresses are the sources, -1 for others."""
    fields = Fields(as_bytes(records["data"]), records["offsets"][rows] + RECORD_HEADER)
    return np.where(fields.big(6, 2) == int.from_bytes(OF_NODES), fields.big(8, 4), -1)


def _same(frame: RadioFrame) -> tuple[Any, ...]:
    """Return what the rows of one frame have in common."""
    return frame.event, frame.kind, frame.sender, frame.to, frame.hops, frame.destination

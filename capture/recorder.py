# SPDX-License-Identifier: GPL-2.0-only
"""The recorder: one process that captures on many interfaces in many network namespaces.

Theory of operation.  Every interface has a scapy listening socket (`capture.sockets`) with a
large receive buffer, and a pcap file of its own.  As the kernel stamps the packets, nothing
depends on when they are read: the loop wakes `TICK` seconds after the last round, reads whatever
waits in batches (`capture.batch`), and hands it to scapy's pcap writers.  Reading rarely and in
bulk costs a fraction of a wake-up per packet, and leaves the processor to the emulation.
Files are flushed every `FLUSH` seconds or `FLUSH_BYTES`, between records (`capture.files`).

An interface that is removed ends its own capture only.  A full disk loses records, which are
counted, and never stops the loop.  Each second, and at the end, a status file says what was
captured and lost at each interface.
"""

from __future__ import annotations

import json
import select
import signal
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, cast

from scapy.arch.linux import L2ListenSocket
from scapy.utils import RawPcapWriter

from capture.batch import SLOTS, SNAPLEN, Batch
from capture.files import PacketFile
from capture.process import explained
from capture.scan import ETHERNET, RADIOTAP
from capture.sockets import is_gone, kernel_counts, open_socket

TICK: Final = 0.02
"""Seconds between rounds when no socket has more than a batch waiting."""
FLUSH: Final = 0.25
"""Most seconds that a record waits in memory."""
FLUSH_BYTES: Final = 256 * 1024
"""Most bytes of one file that wait in memory."""
STATUS: Final = 1.0
"""Seconds between status files."""
LAST: Final = 2.0
"""Most seconds spent at the end on packets that still wait in the sockets."""
AIR_FACTOR: Final = 16
"""Factor of the receive buffer of an interface that shows the frames of all stations."""
OPENERS: Final = 32
"""Sockets opened or closed at once: each waits some 10 ms for the kernel (synchronize_net)."""


class Source(NamedTuple):
    """An interface to capture on: that of this name in the network namespace of process `pid`."""

    pid: int
    interface: str
    file: Path
    loopback: bool = False
    linktype: int = ETHERNET


class InterfaceCapture:
    """One interface: its socket, its file, its counters."""

    def __init__(self, source: Source, listener: L2ListenSocket, file: PacketFile) -> None:
        self.source = source
        self.listener = listener
        self.file = file
        self.packets = 0
        self.bytes = 0
        self.total = 0
        """Packets that came to the socket, with those that the kernel dropped."""
        self.drops = 0
        self.left = 0
        """Packets that still waited in the socket when there was no more time."""
        self.vanished = False
        self.ended = False
        self._writer = RawPcapWriter(
            cast(IO[bytes], file), linktype=source.linktype, nano=True, snaplen=SNAPLEN
        )
        self._writer.write_header(None)
        if file.error is not None:
            raise OSError(0, file.error)

    def read(self, batch: Batch) -> bool:
        """Read one batch and write it; return whether more is likely to wait."""
        descriptor = self.listener.fileno()
        try:
            count = batch.fill(descriptor)
        except OSError as error:  # it is told once, before the packets that wait
            self.vanished |= is_gone(self.listener.ins, error)
            try:
                count = batch.fill(descriptor)
            except OSError:
                count = 0
        write = self._writer.write_packet
        for seconds, nanoseconds, length, data in batch.packets(count):
            write(data, sec=seconds, usec=nanoseconds, wirelen=length)
            self.bytes += length
        self.packets += count
        if self.file.pending >= FLUSH_BYTES:
            self.file.flush()
        if self.vanished and count < SLOTS:
            self.end()
            self.listener.close()
            return False
        return count == SLOTS

    def count_drops(self) -> None:
        """Add up what came and what the kernel dropped; it starts again from 0 each time."""
        if not self.ended:
            total, drops = kernel_counts(self.listener.ins)
            self.total += total
            self.drops += drops

    def end(self, *, more: bool = False) -> None:
        """Stop reading and complete the file; the socket is still to be closed.

        If `more` waits there it is lost, and counted; what comes to an empty one is too late.
        """
        if not self.ended:
            self.count_drops()
            if more:
                self.left = self.total - self.drops - self.packets
            self.ended = True
            self.file.close()

    def status(self) -> dict[str, Any]:
        return {
            "interface": self.source.interface,
            "packets": self.packets,
            "bytes": self.bytes,
            "kernel_drops": self.drops,
            "left": self.left,
            "write_errors": self.file.lost,
            "error": self.file.error,
            "vanished": self.vanished,
        }


def open_captures(
    sources: Sequence[Source], sizes: memoryview, buffer_bytes: int
) -> list[InterfaceCapture]:
    """Open a socket and a file for each source; their sizes go to the slots of `sizes`.

    Raises an OSError that names what cannot be opened.
    """

    def listen(source: Source) -> L2ListenSocket:
        size = buffer_bytes * (AIR_FACTOR if source.linktype == RADIOTAP else 1)
        try:
            return open_socket(source.pid, source.interface, source.loopback, size)
        except OSError as error:
            raise OSError(
                f"cannot capture on {source.interface} of process {source.pid}: {explained(error)}"
            ) from None

    with ThreadPoolExecutor(OPENERS) as pool:
        listeners = list(pool.map(listen, sources))
    captures = []
    for slot, (source, listener) in enumerate(zip(sources, listeners, strict=True)):
        try:
            captures.append(
                InterfaceCapture(source, listener, PacketFile(source.file, sizes, slot))
            )
        except OSError as error:
            raise OSError(f"cannot write {source.file}: {explained(error)}") from None
    return captures


class Recorder:
    """The loop over all captures."""

    def __init__(self, captures: Sequence[InterfaceCapture], status: Path | None) -> None:
        self.captures = captures
        self._status = status
        self._epoll = select.epoll()
        self._by_descriptor = {capture.listener.fileno(): capture for capture in captures}
        for descriptor in self._by_descriptor:
            self._epoll.register(descriptor, select.EPOLLIN)

    def run(self, stop: Iterable[signal.Signals]) -> None:
        """Capture until one of the signals `stop`, which must be blocked, arrives."""
        stop = set(stop)
        batch = Batch()
        flush_at = status_at = time.monotonic()
        pause = 0.0
        while signal.sigtimedwait(stop, pause) is None:
            pause = 0.0 if self._round(batch) else TICK
            now = time.monotonic()
            if now >= flush_at:
                flush_at = now + FLUSH
                self._flush()
            if now >= status_at:
                status_at = now + STATUS
                self.write_status()
        deadline = time.monotonic() + LAST
        for capture in self.captures:
            more = not capture.ended and capture.read(batch)
            while more and time.monotonic() < deadline:
                more = capture.read(batch)
            capture.end(more=more)
        self.write_status()
        with ThreadPoolExecutor(OPENERS) as pool:
            list(pool.map(lambda capture: capture.listener.close(), self.captures))

    def _round(self, batch: Batch) -> bool:
        """Read a batch from each socket that is readable; return whether any was full."""
        busy = False
        for descriptor, _ in self._epoll.poll(0):
            capture = self._by_descriptor[descriptor]
            busy |= capture.read(batch)
            if capture.ended:
                del self._by_descriptor[descriptor]
        return busy

    def _flush(self) -> None:
        for capture in self.captures:
            if capture.file.pending:
                capture.file.flush()

    def write_status(self) -> None:
        """Replace the status file, which is never seen half written."""
        if self._status is None:
            return
        interfaces = {}
        for capture in self.captures:
            capture.count_drops()
            interfaces[capture.source.file.stem] = capture.status()
        totals = {
            name: sum(status[name] for status in interfaces.values())
            for name in ("packets", "bytes", "kernel_drops", "left", "write_errors", "vanished")
        }
        text = json.dumps(
            {
                "ready": True,
                **totals,
                "cpu_seconds": round(time.process_time(), 3),
                "interfaces": interfaces,
            }
        )
        new = self._status.with_name(self._status.name + ".new")
        with suppress(OSError):  # a full disk is counted by the captures
            new.write_text(text, encoding="utf-8")
            new.replace(self._status)

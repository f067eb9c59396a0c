"""Capture files that hold whole records only, whatever happens.

`PacketFile` collects what scapy's writer hands it and appends it in one go, between records.  On
a full disk a record that did not fit is cut off again and counted; writing goes on when there is
space.  A process killed in the middle of the system call can still leave part of a record, as the
kernel abandons a write half way on SIGKILL.  So `guard` forks a process that waits for the end
of this one and then cuts every file back to the size last known to be whole.  That size is in
memory which both share.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

MAGIC: Final = 0xA1B23C4D
SNAP_LENGTH: Final = 262_144
"""Bytes: longest record that libpcap (MAXIMUM_SNAPLEN) and Wireshark accept on Ethernet."""
RECORD: Final = struct.Struct("<IIII")
"""Before a packet: seconds, nanoseconds, bytes captured, bytes on the wire."""
RECORD_HEADER: Final = struct.Struct("=8xI4x")
"""The captured length in a record header, in the byte order of this machine as scapy writes it."""
LETTING_GO: Final = 1.0
"""Seconds for the guard to end in; a run kills its recorder after three."""
UNOPENED: Final = -1
"""Size of a file that this process has not created yet."""


def pcap_header(linktype: int) -> bytes:
    """Return the beginning of a capture of packets of a link type."""
    return struct.pack("<IHHiIII", MAGIC, 2, 4, 0, 0, SNAP_LENGTH, linktype)


def pcap_record(time_ns: int, packet: bytes) -> bytes:
    """Return a packet with its header; the time is a Unix time."""
    seconds, fraction = divmod(time_ns, 1_000_000_000)
    return RECORD.pack(seconds, fraction, len(packet), len(packet)) + packet


def shared_sizes(count: int) -> memoryview:
    """Return the sizes (int64, bytes) of `count` files, in memory shared with later forks."""
    sizes = memoryview(mmap.mmap(-1, 8 * max(count, 1))).cast("q")
    for slot in range(count):
        sizes[slot] = UNOPENED
    return sizes


class PacketFile:
    """The file object under one `scapy.utils.RawPcapWriter`.

    `size` is how many bytes are on the disk; it is kept in slot `slot` of `sizes`.  `lost` counts
    records that could not be written and `error` has the last reason.  Raises OSError if the file
    cannot be created.
    """

    def __init__(self, path: Path, sizes: memoryview, slot: int) -> None:
        self.path = path
        self.pending = 0
        self.lost = 0
        self.error: str | None = None
        self._pieces: list[bytes] = []
        self._sizes = sizes
        self._slot = slot
        self._ragged = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)
        sizes[slot] = 0

    @property
    def size(self) -> int:
        """Bytes on the disk: the file header and whole records."""
        return int(self._sizes[self._slot])

    def fileno(self) -> int:
        return self._fd

    def write(self, data: bytes) -> int:
        """Keep `data` for the next flush.  scapy writes a record in several pieces."""
        self._pieces.append(data)
        self.pending += len(data)
        return len(data)

    def flush(self) -> None:
        """Append what was kept; call it between records only.  Does not raise on a full disk."""
        data = memoryview(b"".join(self._pieces))
        self._pieces.clear()
        self.pending = 0
        if self._ragged:
            self._trim()
        written = 0
        try:
            while written < len(data) and not self._ragged:
                written += os.write(self._fd, data[written:])
        except OSError as error:
            self.error = error.strerror
        if written == len(data):
            self._sizes[self._slot] += written
            return
        whole, records = self._fitting(data, written)
        self._sizes[self._slot] += whole
        self.lost += records
        self._ragged = self._ragged or whole != written
        if self._ragged:
            self._trim()

    def close(self) -> None:
        if self._fd >= 0:
            self.flush()
            os.close(self._fd)
            self._fd = -1

    def _fitting(self, data: memoryview, written: int) -> tuple[int, int]:
        """Return (bytes of whole records among those written, number of records beyond)."""
        if self.size == 0:
            return 0, 0  # the file header itself did not fit
        whole = at = lost = 0
        while at < len(data):
            at += 16 + RECORD_HEADER.unpack_from(data, at)[0]
            if at <= written:
                whole = at
            else:
                lost += 1
        return whole, lost

    def _trim(self) -> None:
        # If even this fails, the file stays as it is until the next flush tries again.
        with suppress(OSError):
            os.ftruncate(self._fd, self.size)
            self._ragged = False


class Guard:
    """A process that outlives this one for a moment; see `guard`."""

    def __init__(self, pid: int, lifeline: int) -> None:
        self.pid = pid
        self._lifeline = lifeline

    def dismiss(self) -> None:
        """Let it end, once the files are closed; kill it if it does not within `LETTING_GO`."""
        os.close(self._lifeline)
        with suppress(ProcessLookupError):  # stopped by a signal, it would not end by itself
            os.kill(self.pid, signal.SIGCONT)
        deadline = time.monotonic() + LETTING_GO
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)  # it has nothing left to do
                return
            time.sleep(0.002)


def guard(paths: Sequence[Path], sizes: memoryview) -> Guard:
    """Fork a process that cuts the files to `sizes` when this process is gone, and then ends.

    A file that lacks even its file header is removed.  Call it before sockets are opened, as
    the guard would keep them, and before threads are started.
    """
    listen, lifeline = os.pipe()
    pid = os.fork()
    if pid:
        os.close(listen)
        return Guard(pid, lifeline)
    try:
        os.setsid()  # a signal to the recorder's process group is not for the guard
        os.close(lifeline)
        os.read(listen, 1)  # returns when the other end is closed, however this process died
        for path, size in zip(paths, sizes, strict=False):
            with suppress(OSError):
                if size == 0:
                    path.unlink()
                elif size > 0 and path.stat().st_size > size:
                    os.truncate(path, size)
    finally:
        os._exit(0)

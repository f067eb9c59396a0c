"""The medium's log: frames with events that did not arrive, and why.

Captures show what was sent and what was received; only the medium knows why the rest was lost.  The
log is a CSV file with a row for each lost frame and each reason:

    time_ns      Unix time, on the clock of the captures
    sender       name of the node or access point whose radio sent it, or was to
    publisher, sequence, hops, destination   of the frame (`nodeapp.wire`)
    cause        a `LossCause`
    receivers    names of those that lost it, separated by spaces; of a unicast, its receiver

Only frames with events are in it, so that it stays smaller than the captures of these frames, and
beacons of large networks cost a look at one byte.  A broadcast's row has no radios that were down
or out of reach when it began.  Rows are written `ROWS` at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from emulation.radio.air import FrameJob, Transmission
from emulation.radio.links import Links
from nodeapp.wire import HEADER_LENGTH

ROWS: Final = 1000
COLUMNS: Final = (
    *("time_ns", "sender", "publisher", "sequence", "hops", "destination", "cause", "receivers"),
)
_EVENT: Final = struct.Struct(">12xIII")


class LossCause(StrEnum):
    """Why a frame did not arrive."""

    COLLISION = "collision"
    """Another frame overlapped it at the receiver, or the receiver transmitted."""
    NOISE = "noise"
    """Bit errors, or the loss set for the link."""
    DOWN = "down"
    """The receiver's radio or the link had failed; of a frame that waited, the sender's radio."""
    RETRIES = "retries"
    """A unicast was given up after its last try."""
    UNREACHABLE = "unreachable"
    """The receiver of a unicast could not hear the sender at all, or had no access point."""
    QUEUE = "queue"
    """The sender's queue was full."""
    WITHDRAWN = "withdrawn"
    """The sender's routing took it back, as its next hop had been lost."""


class LossLog:
    """The file of one run.

    `epoch_ns` is the Unix time of the media's time 0, `event_kinds` are the kinds of messages that
    carry events.  Raises OSError.
    """

    def __init__(self, path: Path, epoch_ns: int, event_kinds: Container[int]) -> None:
        self.epoch_ns = epoch_ns
        self.event_kinds = event_kinds
        self._file = path.open("w", encoding="utf-8")
        self._rows = [",".join(COLUMNS) + "\n"]

    def of(self, names: Sequence[str], datagram: Callable[[Any], bytes]) -> MediumLog:
        """Return the log of a medium whose radios belong to `names`.

        `datagram` returns the message in one of its frames, from the header on; empty if none.
        """
        return MediumLog(self, names, datagram)

    def add(self, row: str) -> None:
        self._rows.append(row)
        if len(self._rows) > ROWS:
            self._write()

    def _write(self) -> None:
        with suppress(OSError):  # captures, which matter more, report a full disk
            self._file.write("".join(self._rows))
            self._file.flush()
        self._rows.clear()

    def close(self) -> None:
        """Write the rest."""
        self._write()
        with suppress(OSError):
            self._file.close()


class MediumLog:
    """What one medium has lost."""

    def __init__(
        self, log: LossLog, names: Sequence[str], datagram: Callable[[Any], bytes]
    ) -> None:
        self._log = log
        self._event_kinds = log.event_kinds
        self._names = names
        self._datagram = datagram

    def lost(
        self, time: float, source: int, frame: Any, cause: LossCause, receivers: Sequence[int]
    ) -> None:
        """Note that radios did not get a frame of the radio `source`, if it carries an event.

        Negative receivers are no radios (`emulation.radio.medium`).
        """
        datagram = self._datagram(frame)
        if len(datagram) < HEADER_LENGTH or datagram[1] not in self._event_kinds:
            return
        names = self._names
        destination, publisher, sequence = _EVENT.unpack_from(datagram)
        whose = " ".join([names[receiver] for receiver in receivers if receiver >= 0])
        self._log.add(
            f"{self._log.epoch_ns + int(time * 1e9 + 0.5)},{names[source]},{publisher},{sequence},"
            f"{datagram[4]},{destination},{cause},{whose}\n"
        )


class Losses:
    """What stations whose links are `table` lose, for `log`; nothing is noted without one."""

    def __init__(self, table: Links) -> None:
        self.log: MediumLog | None = None
        self._table = table

    def of(self, frame: Transmission, cause: LossCause, receivers: Sequence[int]) -> None:
        """Note who does not get a broadcast, at its end."""
        if receivers and self.log is not None:
            self.log.lost(frame.end, frame.source, frame.job.frame, cause, receivers)

    def gone(self, now: float, source: int, frame: Any, cause: LossCause, destination: int) -> None:
        """Note a frame that its sender is done with and that did not arrive."""
        if self.log is not None:
            self.log.lost(now, source, frame, cause, (destination,))

    def refused(self, now: float, source: int, frame: Any, destination: int) -> None:
        """Note a frame that a station's queue did not keep."""
        cause = LossCause.DOWN if source in self._table.down else LossCause.QUEUE
        self.gone(now, source, frame, cause, destination)

    def waiting(self, now: float, source: int, queue: Iterable[FrameJob]) -> None:
        """Note frames that wait at a station which goes down."""
        for job in queue:
            if not job.delivered:
                self.gone(now, source, job.frame, LossCause.DOWN, job.destination)

    def withdrawn(self, now: float, source: int, jobs: Iterable[FrameJob]) -> None:
        """Note frames that a station takes back."""
        for job in jobs:
            self.gone(now, source, job.frame, LossCause.WITHDRAWN, job.destination)

    def given_up(self, now: float, source: int, job: FrameJob) -> None:
        """Note a unicast after its last try."""
        if job.delivered or self.log is None:
            return
        to = job.destination
        if to >= 0 and not self._table.up(source, to):
            cause = LossCause.DOWN
        elif to in self._table.row(source).snr_db:
            cause = LossCause.RETRIES
        else:
            cause = LossCause.UNREACHABLE
        self.gone(now, source, job.frame, cause, to)

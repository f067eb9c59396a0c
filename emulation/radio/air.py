"""Frames on the air: which stations lock on to them, how they interfere, and who receives them.

Theory of operation.  Interference is worked out pair by pair when a frame starts, between it and
the frames on the air nearby; a frame that met no other is decided from its link table alone.

*Lock.*  A station decodes one frame at a time: the first that it can lock on to.  A later frame
captures the receiver if it is stronger by the capture threshold, and is noise to it otherwise; a
frame that lost a receiver has lost it for good.  So `Transmission.lost` is complete once every pair
has been looked at, and a station is locked on to a frame on the air exactly when it is among that
frame's receivers and not in `lost`.  A station that transmits hears nothing (half duplex).

*Noise.*  At a receiver that is locked on, the frame is cut where an interferer starts or ends;
each piece has its own SINR and its bits survive accordingly (as ns-3's InterferenceHelper does).

*Unit disk.*  Frames that overlap at a station destroy each other there; in a unit disk without
collisions only the bursts of jammers destroy frames.

*Threshold.*  Without bit errors there is no noise either.  Of two frames that a station senses at
once it loses the later one; it loses the first too, unless that is stronger by the capture
threshold (ns-2.35, `Mac802_11::recv`: a stronger frame does not capture a receiver from a weaker).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from emulation.radio.airtime import Rate
from emulation.radio.errors import SurvivalTable
from emulation.radio.link_row import LinkRow
from emulation.radio.propagation import Floats
from emulation.radio.spec import RadioSpec, UnitDisk

WORTH_ARRAYS: Final = 60
"""Number of receiver-interferer pairs from which NumPy is faster than a loop."""


class FrameJob:
    """A frame that a host sends, and its progress."""

    __slots__ = ("aired", "attempts", "delivered", "destination", "frame", "size", "tries")

    def __init__(
        self, destination: int, size: int, frame: Any, tries: tuple[Rate, ...] = ()
    ) -> None:
        self.destination = destination
        self.size = size
        self.frame = frame
        self.tries = tries
        """The rate of every try; empty if the medium chooses."""
        self.attempts = 0
        """Tries so far; if the host chose their rates, an RTS without an answer is one as well."""
        self.aired = False
        """Whether the frame itself, not only its RTS, has been on the air."""
        self.delivered = False


class Coding:
    """Survival of the bits of frames of one length and rate: `sure_db`, also as linear ratio."""

    __slots__ = ("bits", "flawless", "sure", "sure_db", "table")

    def __init__(self, table: SurvivalTable, bits: int) -> None:
        self.table = table
        self.bits = bits
        self.sure_db = table.sure_db(bits)
        self.sure = 10 ** (self.sure_db / 10)
        self.flawless = self.sure == 0.0
        """Whether no bit is ever in error, whatever the noise."""


class Transmission:
    """One frame on the air; times in seconds."""

    __slots__ = (
        "acknowledges",
        "coding",
        "deferring",
        "destination",
        "end",
        "job",
        "lost",
        "nav",
        "number",
        "overlaps",
        "payload",
        "reserved",
        "row",
        "source",
        "start",
    )

    def __init__(
        self,
        row: LinkRow,
        destination: int,
        start: float,
        payload: float,
        end: float,
        reserved: float,
        coding: Coding,
        job: FrameJob,
        acknowledges: Transmission | None = None,
    ) -> None:
        self.row = row
        self.source = row.source
        self.destination = destination
        self.start = start
        self.payload = payload
        """When its first data bit starts."""
        self.end = end
        self.reserved = reserved
        """Until when stations that sense the frame stay silent: its end, or that of its ACK."""
        self.coding = coding
        self.job = job
        """The host's job; for an ACK, that of the acknowledged frame."""
        self.acknowledges = acknowledges
        self.number = 0
        """How many frames, this one included, have been on the air so far."""
        self.overlaps: list[Transmission] = NO_FRAMES
        """Frames nearby that were on the air at the same time."""
        self.lost: set[int] = NO_STATIONS
        """Receivers that are not locked on to it."""
        self.deferring: frozenset[int] = NOBODY_DEFERS
        """Stations that have decoded it, an RTS or CTS, and stay silent until `nav`."""
        self.nav = -math.inf

    def meet(self, other: Transmission) -> None:
        """Note a frame nearby that is on the air at the same time."""
        if self.overlaps is NO_FRAMES:
            self.overlaps, self.lost = [], set()
        self.overlaps.append(other)
        self.lost.add(other.source)


NO_FRAMES: Final[list[Transmission]] = []
NO_STATIONS: Final[set[int]] = set()
NOBODY_DEFERS: Final[frozenset[int]] = frozenset()
"""Shared by all frames that meet no other; never changed."""


class ControlFrame(Transmission):
    """An RTS, or the CTS that answers it; `job` is the data's."""

    __slots__ = ("answers",)

    def __init__(
        self,
        row: LinkRow,
        destination: int,
        start: float,
        timing: tuple[float, float, float],
        coding: Coding,
        job: FrameJob,
        nav: float,
        answers: ControlFrame | None = None,
    ) -> None:
        """Create one with the times `timing`: payload, end, reserved."""
        payload, end, reserved = timing
        super().__init__(row, destination, start, payload, end, reserved, coding, job)
        self.nav = nav
        self.answers = answers
        """The RTS that a CTS answers."""


class Aggregate(Transmission):
    """One or more frames to the same station in one PPDU of 802.11n (`aggregation`)."""

    __slots__ = ("acknowledged", "announced", "bounds", "index", "jobs")

    def __init__(
        self,
        row: LinkRow,
        destination: int,
        start: float,
        timing: tuple[float, float, float],
        coding: Coding,
        jobs: list[FrameJob],
        bounds: list[tuple[float, float, Coding]],
        index: int,
    ) -> None:
        """Create one with the times `timing`: payload, end, reserved."""
        payload, end, reserved = timing
        super().__init__(row, destination, start, payload, end, reserved, coding, jobs[0])
        self.jobs = jobs
        self.bounds = bounds
        """Of each frame: the share of the payload before it and at its end, and its bits."""
        self.index = index
        """Of its rate."""
        self.announced = False
        """Whether it followed an RTS."""
        self.acknowledged: list[FrameJob] = []
        """Frames that its BlockAck names."""

    def pieces(self) -> list[Transmission]:
        """Return each of its frames, as if it were on the air alone."""
        if len(self.jobs) == 1:
            return [self]
        pieces: list[Transmission] = []
        spread = self.end - self.payload
        for job, (begin, end, coding) in zip(self.jobs, self.bounds, strict=True):
            start, stop = self.payload + begin * spread, self.payload + end * spread
            times = self.start, start, stop, self.reserved
            piece = Transmission(self.row, self.destination, *times, coding, job)
            piece.overlaps, piece.lost = self.overlaps, self.lost
            pieces.append(piece)
        return pieces


def jobs_of(frame: Transmission) -> list[FrameJob]:
    """Return the jobs whose frames are on the air at once."""
    return frame.jobs if isinstance(frame, Aggregate) else [frame.job]


class Air:
    """The frames on the air of stations with the same `radio`."""

    def __init__(self, radio: RadioSpec, noise_mw: float) -> None:
        self.active: dict[int, Transmission] = {}
        """Source: its frame on the air."""
        self.watch: Callable[[Transmission], None] | None = None
        """Called with every frame that is put on the air."""
        self._bursts = 0
        """How many of them are jammers'."""
        self._noise = noise_mw
        self._capture_db = radio.capture_threshold_db
        self._unit_disk = isinstance(radio.propagation, UnitDisk)
        self._collisions = not (
            isinstance(radio.propagation, UnitDisk) and not radio.propagation.collisions
        )
        by_threshold = radio.reception == "threshold" and not self._unit_disk
        self._by_threshold = by_threshold

    def add(self, new: Transmission) -> None:
        """Put a frame on the air, at its start."""
        row, receivers_reach = new.row, -1.0
        if self.watch is not None:
            self.watch(new)
        self._bursts += row.jams
        for old in self._interferers(row.jams):
            if old.end <= new.start:
                continue  # an acknowledgement starts a little later than it is put on the air
            other = old.row
            distance = math.hypot(row.x - other.x, row.y - other.y)
            # Most frames are too far away to check which stations are above the floor of both.
            if receivers_reach < 0.0:
                receivers_reach = row.receiver_reach
            if distance > receivers_reach + other.reach and (
                distance > row.reach + other.receiver_reach
            ):
                continue
            if distance <= row.receiver_reach + other.power_reach or (
                distance <= row.power_reach + other.receiver_reach
            ):
                new.meet(old)
                old.meet(new)
                if self._by_threshold:
                    self._lock_by_threshold(new, old)
                else:
                    self._lock_by_sinr(new, old)
        self.active[new.source] = new

    def _interferers(self, is_burst: bool) -> Iterable[Transmission]:
        """Return the frames on the air that a new one interacts with, if it is near."""
        if self._collisions or is_burst:
            return self.active.values()
        return [old for old in self.active.values() if old.row.jams] if self._bursts else ()

    def _lock_by_threshold(self, new: Transmission, old: Transmission) -> None:
        """Decide which receivers of either frame sense the other one too strongly."""
        if new.start < old.start:
            new, old = old, new
        new_power, old_power = new.row.power, old.row.power
        new.lost.update(new.row.snr_db.keys() & old_power.keys())
        capture = 10 ** (self._capture_db / 10)
        for receiver in old.row.snr_db.keys() & new_power.keys():
            if old_power[receiver] < capture * new_power[receiver]:
                old.lost.add(receiver)

    def _lock_by_sinr(self, new: Transmission, old: Transmission) -> None:
        """Decide which common receivers stay with the old frame and which move to the new one."""
        if new.start < old.start:
            new, old = old, new
        new_snr, old_snr = new.row.snr_db, old.row.snr_db
        common = new_snr.keys() & old_snr.keys()
        if self._unit_disk:
            new.lost |= common
            old.lost |= common
            for jam, frame in ((new, old), (old, new)):
                if jam.row.jams:
                    frame.lost |= frame.row.snr_db.keys() & jam.row.power.keys()
            return
        capture = self._capture_db
        for receiver in common.difference(old.lost):
            if new_snr[receiver] >= old_snr[receiver] + capture:
                old.lost.add(receiver)
            else:
                new.lost.add(receiver)

    def remove(self, frame: Transmission) -> None:
        """Remove a frame from the air, at its end, before its receivers are determined."""
        del self.active[frame.source]
        self._bursts -= frame.row.jams

    @staticmethod
    def forget(frame: Transmission) -> None:
        """Drop a frame's overlaps, which are reference cycles, once its receivers are known."""
        frame.overlaps = NO_FRAMES

    def busy(self, station: int) -> bool:
        return station in self.active

    @staticmethod
    def alone(frame: Transmission, receiver: int) -> float:
        """Return the chance that a frame arrives at one of its receivers through noise alone."""
        coding, snr = frame.coding, frame.row.snr_db[receiver]
        return 1.0 if snr >= coding.sure_db else math.exp(coding.bits * coding.table.at_db(snr))

    def survives(self, frame: Transmission, receiver: int, luck: float) -> bool:
        """Return whether a frame, at its end, arrives at one of its receivers.

        `luck` is uniform in [0, 1): the frame arrives if its chance is greater.
        """
        if receiver in frame.lost:
            return False
        if frame.coding.flawless:
            return True
        powers = [other.row.power.get(receiver, 0.0) for other in frame.overlaps]
        interference = sum(powers)
        if not interference:
            return True
        # Usually the worst case, as if all of them had lasted as long as the frame, is enough to
        # decide: a weak interferer, a strong signal.
        coding, signal, noise = frame.coding, frame.row.power[receiver], self._noise
        bits, table = coding.bits, coding.table
        ratio = signal / (noise + interference)
        if ratio >= coding.sure or luck < math.exp(bits * table.at_one(ratio)):
            return True
        start, end = frame.payload, frame.end
        # When the interference changes within the payload, and by how much.
        steps = [(end, 0.0)]
        for index, other in enumerate(frame.overlaps):
            steps.append((max(other.start, start), powers[index]))
            steps.append((min(max(other.end, start), end), -powers[index]))
        steps.sort()
        # The bits are spread evenly over the payload; `exponent` is that of a bit, times seconds.
        fatal = math.log(luck) * (end - start) / bits if luck > 0 else -math.inf
        exponent = level = 0.0
        at = start
        for time, change in steps:
            if time > at:
                exponent += (time - at) * table.at_one(signal / (noise + max(level, 0.0)))
                if exponent <= fatal:
                    return False
                at = time
            level += change
        return True

    def survivors(
        self, frame: Transmission, heard: list[tuple[int, float]]
    ) -> tuple[list[int], list[int]]:
        """Return which of several receivers, each with its luck, get a frame, and which do not.

        Like `survives` for each of them, but all at once when that is faster.
        """
        lost = frame.lost
        received: list[int] = []
        collided: list[int] = []
        if frame.coding.flawless:
            for receiver, _ in heard:
                (collided if receiver in lost else received).append(receiver)
            return received, collided
        collided = [receiver for receiver, _ in heard if receiver in lost]
        left = [pair for pair in heard if pair[0] not in lost]
        if len(left) * len(frame.overlaps) >= WORTH_ARRAYS:
            stations = np.array([receiver for receiver, _ in left])
            powers = np.array([other.row.power_at(stations) for other in frame.overlaps])
            signal = frame.row.power_at(stations)
            worst = signal / (self._noise + powers.sum(axis=0))
            sure = worst >= frame.coding.sure
            received = stations[sure].tolist()
            open_ = np.flatnonzero(~sure)
            left = [left[index] for index in open_.tolist()]
            if len(left) * len(frame.overlaps) >= WORTH_ARRAYS:
                luck = np.array([draw for _, draw in left])
                survives = self._outlast(frame, signal[open_], powers[:, open_], luck)
                received += stations[open_[survives]].tolist()
                collided += stations[open_[~survives]].tolist()
                return received, collided
        others = [other.row.power for other in frame.overlaps]
        signals, sure, noise = frame.row.power, frame.coding.sure, self._noise
        for receiver, chance in left:
            level = noise
            for power in others:
                level += power.get(receiver, 0.0)
            if signals[receiver] >= sure * level or self.survives(frame, receiver, chance):
                received.append(receiver)
            else:
                collided.append(receiver)
        return received, collided

    def _log_survival(self, frame: Transmission, signal: Floats, interference: Floats) -> Floats:
        return frame.coding.table.at(10 * np.log10(signal / (self._noise + interference)))

    def _outlast(
        self, frame: Transmission, signal: Floats, powers: Floats, luck: Floats
    ) -> npt.NDArray[np.bool_]:
        """Return which receivers get a frame, piece by piece; `powers` by overlap and receiver."""
        start, end = frame.payload, frame.end
        begins = [max(other.start, start) for other in frame.overlaps]
        ends = [min(max(other.end, start), end) for other in frame.overlaps]
        times = np.array([start, *begins, *ends])
        order = np.argsort(times, kind="stable")
        changes = np.concatenate((np.zeros((1, len(signal))), powers, -powers))[order]
        level = np.maximum(np.cumsum(changes, axis=0), 0.0)
        spans = np.diff(times[order], append=end) * (frame.coding.bits / (end - start))
        exponent = (spans[:, None] * self._log_survival(frame, signal, level)).sum(axis=0)
        return np.asarray(luck < np.exp(exponent), dtype=np.bool_)

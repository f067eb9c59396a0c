"""Frames on the air: who locks on to which, what disturbs what, and who receives.

Theory of operation.  Interference is worked out pair by pair when a frame starts, between it and
the frames on the air near by; a frame that met no other is decided from its link table alone.

*Lock.*  A station decodes one frame at a time: the first that it can lock on to.  A later frame
takes it over where it is stronger by the capture threshold, and is noise to it otherwise; a frame
that lost a receiver has lost it for good.  So `Transmission.lost` is complete once every pair has
been looked at, and a station is locked on to a frame on the air exactly when it is among that
frame's receivers and not in `lost`.  A station that transmits hears nothing (half duplex).

*Noise.*  At a receiver that is locked on, the frame is cut where an interferer starts or ends;
each piece has its own SINR and its bits survive accordingly (as ns-3's InterferenceHelper does).

*Unit disk.*  Frames that overlap at a station destroy each other there; in a unit disk without
collisions frames do not meet at all.
"""

from __future__ import annotations

import math
from typing import Any, Final

from emulation.radio.errors import SurvivalTable
from emulation.radio.links import Row
from emulation.radio.spec import RadioSpec, UnitDisk


class Job:
    """A frame that a host sends, and what has become of it."""

    __slots__ = ("attempts", "delivered", "destination", "frame", "size")

    def __init__(self, destination: int, size: int, frame: Any) -> None:
        self.destination = destination
        self.size = size
        self.frame = frame
        self.attempts = 0
        self.delivered = False


class Transmission:
    """One frame on the air; times in seconds."""

    __slots__ = (
        "acknowledges",
        "bits",
        "destination",
        "end",
        "job",
        "lost",
        "number",
        "overlaps",
        "payload",
        "reserved",
        "row",
        "source",
        "start",
        "table",
    )

    def __init__(
        self,
        row: Row,
        destination: int,
        start: float,
        payload: float,
        end: float,
        reserved: float,
        bits: int,
        table: SurvivalTable,
        job: Job,
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
        self.bits = bits
        self.table = table
        self.job = job
        """What the host asked for; of an ACK, the frame that it acknowledges."""
        self.acknowledges = acknowledges
        self.number = 0
        """How many frames, this one included, have been on the air so far."""
        self.overlaps: list[Transmission] = NO_FRAMES
        """Frames near by that were on the air meanwhile."""
        self.lost: set[int] = NO_STATIONS
        """Receivers that are not locked on to it."""

    def meet(self, other: Transmission) -> None:
        """Note a frame near by that is on the air at the same time."""
        if self.overlaps is NO_FRAMES:
            self.overlaps, self.lost = [], set()
        self.overlaps.append(other)
        self.lost.add(other.source)


NO_FRAMES: Final[list[Transmission]] = []
NO_STATIONS: Final[set[int]] = set()
"""What frames that meet no other share; never changed."""


class Air:
    """The frames on the air of stations with the same `radio`."""

    def __init__(self, radio: RadioSpec, noise_mw: float) -> None:
        self.active: dict[int, Transmission] = {}
        """Source: its frame on the air."""
        self._noise = noise_mw
        self._capture = 10 ** (radio.capture_threshold_db / 10)
        self._unit_disk = isinstance(radio.propagation, UnitDisk)
        self._collisions = not (
            isinstance(radio.propagation, UnitDisk) and not radio.propagation.collisions
        )

    def add(self, new: Transmission) -> None:
        """Put a frame on the air, at its start."""
        row = new.row
        for old in self.active.values() if self._collisions else ():
            if old.end <= new.start:
                continue  # an acknowledgement starts a little later than it is put on the air
            other = old.row
            distance = math.hypot(row.x - other.x, row.y - other.y)
            if distance <= row.receiver_reach + other.power_reach or (
                distance <= row.power_reach + other.receiver_reach
            ):
                new.meet(old)
                old.meet(new)
                self._lock(new, old)
        self.active[new.source] = new

    def _lock(self, new: Transmission, old: Transmission) -> None:
        """Decide who of the receivers of both stays with the old frame or moves to the new."""
        if new.start < old.start:
            new, old = old, new
        common = new.row.snr_db.keys() & old.row.snr_db.keys()
        if self._unit_disk:
            new.lost |= common
            old.lost |= common
            return
        new_power, old_power = new.row.power, old.row.power
        for receiver in common.difference(old.lost):
            if new_power[receiver] >= self._capture * old_power[receiver]:
                old.lost.add(receiver)
            else:
                new.lost.add(receiver)

    def remove(self, frame: Transmission) -> None:
        """Take a frame off the air, at its end, before its receivers are decided."""
        del self.active[frame.source]

    @staticmethod
    def forget(frame: Transmission) -> None:
        """Let go of what a frame met, once its receivers are decided: overlaps are cycles."""
        frame.overlaps = NO_FRAMES

    def busy(self, station: int) -> bool:
        """Return whether a station transmits."""
        return station in self.active

    @staticmethod
    def interference(frame: Transmission) -> dict[int, float]:
        """Return the mW that other frames add up to at the receivers that any of them reached.

        As if all of them had lasted as long as the frame: the worst case.
        """
        receivers = frame.row.snr_db.keys()
        total = dict.fromkeys(frame.lost, 0.0)
        for other in frame.overlaps:
            power = other.row.power
            for receiver in receivers & power.keys():
                total[receiver] = total.get(receiver, 0.0) + power[receiver]
        return total

    @staticmethod
    def alone(frame: Transmission, receiver: int) -> float:
        """Return the chance that a frame arrives at one of its receivers through noise alone."""
        return math.exp(frame.bits * frame.table.at_db(frame.row.snr_db[receiver]))

    def survives(
        self, frame: Transmission, receiver: int, interference: float, luck: float
    ) -> bool:
        """Return whether a frame, at its end, arrives at one of its receivers.

        `interference` is that receiver's in `interference(frame)`; `luck` is uniform in [0, 1):
        the frame arrives where its chance is greater.
        """
        if receiver in frame.lost:
            return False
        sinr = frame.row.power[receiver] / (self._noise + interference)
        # Usually the worst case decides already: a weak interferer, a strong signal.
        if luck < math.exp(frame.bits * frame.table.at_one(sinr)):
            return True
        return self._outlasts(frame, receiver, luck)

    def _outlasts(self, frame: Transmission, receiver: int, luck: float) -> bool:
        """Return whether a receiver that is locked on to a frame gets it, piece by piece."""
        row, payload, end = frame.row, frame.payload, frame.end
        signal, table, noise = row.power[receiver], frame.table, self._noise
        # Where the interference changes within the payload, and by how much.
        steps = [(end, 0.0)]
        for other in frame.overlaps:
            power = other.row.power.get(receiver)
            if power is not None:
                steps.append((max(other.start, payload), power))
                if other.end < end:
                    steps.append((other.end, -power))
        steps.sort()
        # The bits are spread evenly over the payload; `exponent` is that of a bit, times seconds.
        fatal = math.log(luck) * (end - payload) / frame.bits if luck > 0 else -math.inf
        interference = exponent = 0.0
        at = payload
        for time, change in steps:
            if time > at:
                exponent += (time - at) * table.at_one(signal / (noise + max(interference, 0.0)))
                if exponent <= fatal:
                    return False
                at = time
            interference += change
        return True

"""Energy: how long each radio is in each state, and what a state takes.

Theory of operation.  A radio transmits while its own frame is on the air.  Otherwise it receives
while a frame is on the air that it can lock on to (`emulation.radio.links`) and that is for it or
for all, and overhears while there are only such frames for others; frames that overlap count once.
A frame that began while the radio transmitted is lost on it, and so is one during which it begins
to transmit.  Otherwise it listens, which is `idle`: also in interframe spaces, while it counts
slots, and under frames that are too weak to lock on to, as in ns-3, whose CCA_BUSY state takes the
idle current.  A radio that a fault silences sleeps, and a node without power is off, which takes
nothing.  So the states of a radio always add up to the time that has passed.

Nothing is computed when time passes: a radio's states are added up to the start of each frame that
concerns it, as the ends of those before are known by then.  The owner of a medium makes the meter
(`metered`); a medium without one does nothing for it.

Not modelled: power save mode and what follows from it, processors, receivers that are switched off
for the rest of a frame for others, transmit power and rate (a profile has one figure).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from emulation.radio.air import ControlFrame, Transmission
from emulation.radio.medium import BROADCAST, Medium

STATES: Final = ("transmit", "receive", "overhear", "idle", "sleep", "off")
"""What a radio does; `off` is without power."""
TRANSMIT, RECEIVE, OVERHEAR, IDLE, SLEEP, OFF = range(len(STATES))
SMALLEST: Final = 1e-6
"""Seconds from which on a battery's rest counts as nothing."""


class EnergyProfile(NamedTuple):
    """What a chip or card takes in each state, watts, and who published that."""

    source: str
    transmit: float
    receive: float
    overhear: float
    idle: float
    sleep: float
    off: float = 0.0

    @property
    def watts(self) -> tuple[float, ...]:
        """The power of each of `STATES`."""
        return self[1:]

    def joules(self, seconds: Iterable[float]) -> float:
        """Return what the times in each of `STATES` take."""
        return sum(spent * watts for spent, watts in zip(seconds, self.watts, strict=True))


def _at(volts: float, source: str, transmit: float, receive: float, sleep: float) -> EnergyProfile:
    """Return the profile of a chip whose currents are published, A; it listens as it receives."""
    listens = volts * receive
    return EnergyProfile(source, volts * transmit, listens, listens, listens, volts * sleep)


PROFILES: Final[Mapping[str, EnergyProfile]] = MappingProxyType(
    {
        "intel-5300": EnergyProfile(
            "D. Halperin, B. Greenstein, A. Sheth, D. Wetherall, “Demystifying 802.11n Power "
            "Consumption”, HotPower 2010: one antenna, as ns-3's WifiRadioEnergyModel has them",
            *(1.14, 0.94, 0.94, 0.82, 0.10),
        ),
        "esp32-s2": _at(
            3.3,
            "Espressif, ESP32-S2-WROOM & ESP32-S2-WROOM-I Datasheet, v1.1, tables 7 and 8: 802.11g "
            "at 54 Mbps and 15 dBm (peak), receiving, modem sleep at 80 MHz",
            *(0.220, 0.063, 0.014),
        ),
    }
)
"""By the names in `RadioSpec.energy`.  The sources have no figure for overhearing, which is
receiving until the frame's end; that of ESP32-S2 has none for listening either, with the receiver
on."""


class EnergyMeter:
    """The states of the first `count` radios of a medium from the time `start` on.

    `battery` is what each has to begin with, joules; None: enough.  Times are the medium's.
    """

    def __init__(
        self, profile: EnergyProfile, count: int, start: float, battery: float | None
    ) -> None:
        self.battery = battery
        self.empty: dict[int, float] = {}
        """When the batteries of radios were found empty."""
        self._profile = profile
        self._greatest = max(profile.watts)
        self._count = count
        self._seconds = [[0.0] * count for _ in STATES]
        self._start = start
        self._settled = [start] * count
        """Until when each radio's states are added up."""
        self._ends = [[-math.inf] * count for _ in (TRANSMIT, RECEIVE, OVERHEAR)]
        """Until when each radio transmits, receives and overhears what is on the air."""
        self._resting = [IDLE] * count
        """What each radio does otherwise: if it is not idle, there is nothing else."""
        self._coming: deque[Transmission] = deque()
        """Frames that are on the air already and start after SIFS, in order."""

    def restart(self, start: float) -> None:
        """Begin at another time: forget what was before."""
        self._seconds = [[0.0] * self._count for _ in STATES]
        self._settled = [start] * self._count
        self._start = start

    def add(self, frame: Transmission) -> None:
        """Note a frame that is put on the air."""
        answers = frame.answers if isinstance(frame, ControlFrame) else frame.acknowledges
        if answers is not None:
            self._coming.append(frame)
            return
        self._begin_until(frame.start)
        self._begin(frame)

    def _begin_until(self, now: float) -> None:
        coming = self._coming
        while coming and coming[0].start <= now:
            self._begin(coming.popleft())

    def _begin(self, frame: Transmission) -> None:
        start, end, source, destination = frame.start, frame.end, frame.source, frame.destination
        transmit, receive, overhear = self._ends
        count = self._count
        if source < count:
            self._settle(source, start)
            transmit[source] = end
            receive[source] = overhear[source] = start
        for radio in frame.row.snr_db:
            if radio >= count or transmit[radio] > start:
                continue
            self._settle(radio, start)
            ends = receive if destination in (radio, BROADCAST) else overhear
            if end > ends[radio]:
                ends[radio] = end

    def _settle(self, radio: int, now: float) -> None:
        """Add up a radio's states until `now`."""
        at = self._settled[radio]
        if now <= at:
            return
        self._settled[radio] = now
        resting = self._resting[radio]
        if resting == IDLE:
            for state in (TRANSMIT, RECEIVE, OVERHEAR):
                end = self._ends[state][radio]
                if end > at:
                    until = min(end, now)
                    self._seconds[state][radio] += until - at
                    at = until
        self._seconds[resting][radio] += now - at

    def rest(self, radio: int, now: float, state: int) -> None:
        """Let a radio be asleep or off from `now` on, or listen again (`IDLE`)."""
        if radio < self._count:
            self._begin_until(now)
            self._settle(radio, now)
            self._resting[radio] = state
            for ends in self._ends:
                ends[radio] = now

    def seconds(self, radio: int, now: float) -> tuple[float, ...]:
        """Return the seconds that a radio has spent in each of `STATES` until `now`."""
        self._begin_until(now)
        self._settle(radio, now)
        return tuple(spent[radio] for spent in self._seconds)

    def exported(self, names: Sequence[str], now: float) -> list[dict[str, Any]]:
        """Return the states of the radios until `now`, by name, and when batteries were empty.

        In seconds from the meter's start, as in `emulation.scenario.records.StationEnergy`.
        """
        return [
            {"node": name, **dict(zip(STATES, self.seconds(radio, now), strict=True))}
            | ({"empty": self.empty[radio] - self._start} if radio in self.empty else {})
            for radio, name in enumerate(names[: self._count])
        ]

    def joules(self, radio: int, now: float) -> float:
        """Return what a radio has taken until `now`."""
        return self._profile.joules(self.seconds(radio, now))

    def drained(self, radio: int, now: float) -> float:
        """Return when to look at a battery again: `now` if it is empty, which is then noted.

        Until then the radio cannot take more than it has; infinity if it has no battery.
        """
        if self.battery is None or radio in self.empty:
            return math.inf
        lasts = (self.battery - self.joules(radio, now)) / self._greatest
        if lasts > SMALLEST:
            return now + lasts
        self.empty[radio] = now
        return now


def metered(medium: Medium, radios: int) -> EnergyMeter | None:
    """Return the meter of a medium's first radios; None if its `RadioSpec` has no profile."""
    spec = medium.radio
    if spec.energy is None:
        return None
    meter = EnergyMeter(PROFILES[spec.energy], radios, 0.0, spec.battery)
    medium.watch(meter.add)
    return meter

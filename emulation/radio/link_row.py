"""The links of one station, as `emulation.radio.links` makes them."""

from __future__ import annotations

import math
from typing import ClassVar, Final, NamedTuple

import numpy as np

from emulation.radio.errors import CERTAIN, SurvivalTable
from emulation.radio.propagation import Floats, Indices

Line = tuple[float, float, float, float]
"""x0, y0, x1, y1 of two points of a line, metres."""
HOPELESS: Final = math.log(CERTAIN)
Outcome = tuple[tuple[int, ...], tuple[tuple[int, float], ...]]
"""Receivers certain to get a broadcast, and others with their probability."""
WHOLE_ROWS: Final = 5000
"""Most stations for which a row with interference holds a dense array of powers: 40 kB."""


class Jammer(NamedTuple):
    """Radiates noise of `power_dbm` (isotropic) from (x, y), metres: `duty` of each `period`, s."""

    x: float
    y: float
    power_dbm: float
    duty: float
    period: float


class Surroundings:
    """Source of the stations that do not notice a row's frames, fetched only when needed."""

    def around(self, source: int) -> tuple[list[int], list[float], list[float]]:
        """Return all stations above the interference floor, with distance and SNR."""
        raise NotImplementedError


class Matrix(NamedTuple):
    """The links of all stations, one list for all rows: row i begins at `starts[i]`."""

    starts: list[int]
    near: list[int]
    distance: list[float]
    snr: list[float]
    survival: list[float]


class LinkTable:
    """The table of a row, as the row uses it: levels in decibels above the noise."""

    count: int
    noise_mw: float
    sense_snr_db: float
    lock_db: float

    def position(self, station: int) -> tuple[float, float]:
        """Return where a station is, metres."""
        raise NotImplementedError


class Link(NamedTuple):
    """One link as shown to a person; `loss` is that of 1,000-byte broadcasts."""

    neighbour: int
    distance: float
    received_dbm: float
    snr_db: float
    rate_mbps: float
    loss: float


class LinkRow:
    """The links of the station `source` from (x, y); read-only for everyone but `Links`.

    `near`, ascending, are the stations above the interference floor, with their distance in metres
    and their SNR in decibels; `survival` is the log-survival of a bit at the basic rate.  If there
    are `surroundings`, `near` are only those that notice or decode a frame, and the others come
    from there.  `power` and the reaches are computed on first use.
    """

    __slots__ = (
        "_all",
        "_distance",
        "_links",
        "_near",
        "_power",
        "_power_reach",
        "_receiver_reach",
        "_snr",
        "_surroundings",
        "certain",
        "hears",
        "rates",
        "reach",
        "sense",
        "snr_db",
        "source",
        "survival",
        "x",
        "y",
    )
    jams: ClassVar[bool] = False
    """Whether it belongs to a jammer, whose bursts nobody can decode."""

    def __init__(
        self,
        links: LinkTable,
        source: int,
        near: list[int],
        distance: list[float],
        snr_db: list[float],
        survival: list[float],
        surroundings: Surroundings | None = None,
        reach: float = math.inf,
    ) -> None:
        self._links = links
        self._surroundings = surroundings
        self.reach = reach
        """Metres beyond which nobody is above the interference floor; an upper bound."""
        self._near = near
        self._distance = distance
        self._snr = snr_db
        self._all: Floats | None = None
        self._power: dict[int, float] | None = None
        self._power_reach = self._receiver_reach = -1.0
        self.source = source
        self.x, self.y = links.position(source)
        # One loop over indices: compiled code has no faster way through several lists.
        sense, lock = links.sense_snr_db, links.lock_db
        heard: list[int] = []
        self.snr_db: dict[int, float] = {}
        """Receiver: SNR in decibels."""
        self.survival: list[float] = []
        """Log-survival of a bit at the basic rate, in the order of `snr_db`."""
        receivers, survives = self.snr_db, self.survival
        for at in range(len(near)):
            level = snr_db[at]
            if level >= sense:
                heard.append(near[at])
            if level >= lock:
                receivers[near[at]] = level
                survives.append(survival[at])
        heard.append(source)
        self.sense: frozenset[int] = frozenset(heard)
        """Stations that notice a frame, including the source itself."""
        self.hears = self.sense
        """Sources whose frames the station notices: the same, unless radios differ in power."""
        self.certain: dict[int, Outcome] = {}
        """By bits of a broadcast: receivers certain to get it, and others with their chance."""
        self.rates: dict[int, int] = {}
        """Receiver: index of the rate of unicasts."""

    def __len__(self) -> int:
        return len(self._near)

    def _complete(self) -> None:
        if self._surroundings is not None:
            self._near, self._distance, self._snr = self._surroundings.around(self.source)
            self._surroundings = None

    def broadcast_outcome(self, bits: int) -> Outcome:
        """Return who is certain to get an undisturbed broadcast of `bits`, and others' chances."""
        outcome = self.certain.get(bits)
        if outcome is None:
            sure, others = [], []
            receivers, survives = list(self.snr_db), self.survival
            for at in range(len(receivers)):
                exponent = bits * survives[at]
                receiver = receivers[at]
                if exponent > -CERTAIN:
                    sure.append(receiver)
                elif exponent > HOPELESS:
                    others.append((receiver, math.exp(exponent)))
            outcome = self.certain[bits] = (tuple(sure), tuple(others))
        return outcome

    def outcome_at(self, table: SurvivalTable, bits: int) -> Outcome:
        """Return the same for a broadcast at the rate of `table`, computed each time.

        Receivers are those of the basic rate: a slower one does not reach farther.
        """
        sure, others = [], []
        for receiver, snr in self.snr_db.items():
            exponent = bits * table.at_db(snr)
            if exponent > -CERTAIN:
                sure.append(receiver)
            elif exponent > HOPELESS:
                others.append((receiver, math.exp(exponent)))
        return tuple(sure), tuple(others)

    @property
    def power(self) -> dict[int, float]:
        """Station: received mW, of all above the interference floor."""
        power = self._power
        if power is None:
            self._complete()
            noise = self._links.noise_mw
            levels = [noise * 10 ** (snr / 10) for snr in self._snr]
            power = self._power = dict(zip(self._near, levels, strict=True))
        return power

    @property
    def power_reach(self) -> float:
        """Distance in metres of the farthest station in `power`."""
        if self._power_reach < 0.0:
            self._complete()
            self._power_reach = max(self._distance, default=0.0)
        return self._power_reach

    @property
    def receiver_reach(self) -> float:
        """Distance in metres of the farthest receiver."""
        if self._receiver_reach < 0.0:
            receivers, farthest = self.snr_db, 0.0
            for at in range(len(self._near)):
                distance = self._distance[at]
                if distance > farthest and self._near[at] in receivers:
                    farthest = distance
            self._receiver_reach = farthest
        return self._receiver_reach

    def power_at(self, stations: Indices) -> Floats:
        """Return the received power at several stations in mW, 0 if it is below the floor."""
        power = self.power
        if self._links.count > WHOLE_ROWS:
            return np.array([power.get(station, 0.0) for station in stations.tolist()])
        if self._all is None:
            self._all = np.zeros(self._links.count)
            self._all[self._near] = list(power.values())
        return self._all[stations]


class JamRow(LinkRow):
    """The stations that a jammer disturbs; it has no receivers."""

    __slots__ = ()
    jams: ClassVar[bool] = True

    def __init__(
        self,
        links: LinkTable,
        source: int,
        jammer: Jammer,
        near: list[int],
        distance: list[float],
        snr_db: list[float],
    ) -> None:
        self._links, self.source, self._surroundings, self.reach = links, source, None, math.inf
        self._near, self._distance, self._snr, self._all = near, distance, snr_db, None
        self._power, self._power_reach, self._receiver_reach = None, -1.0, -1.0
        self.x, self.y = jammer.x, jammer.y
        sense = links.sense_snr_db
        self.sense = frozenset(s for s, snr in zip(near, snr_db, strict=True) if snr >= sense)
        self.hears = self.sense
        self.snr_db, self.survival, self.certain, self.rates = {}, [], {}, {}

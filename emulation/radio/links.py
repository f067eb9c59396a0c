"""Which stations hear which, how strongly, and at what rate: the link table of a radio.

Theory of operation.  A `Row` holds the links of one station.  Rows are computed when a station
first transmits from its present position (NumPy over the stations within reach) and are dropped
when stations move or fail, so that a static network computes each row once, a mobile one only the
rows it uses, and no matrix of N x N is ever held.  Powers and thresholds are the same in both
directions, so a row says also who is heard by its station.

What a row has of a neighbour depends on the received power, see `emulation.radio.budget`:
`power` holds every station above the interference floor, `sense` those that notice a frame (the
source itself too), and `snr_db` those that can lock on to one, which are the receivers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from emulation.radio.airtime import Rate, phy_for
from emulation.radio.budget import REFERENCE_BYTES, REFERENCE_ERROR, budget_for
from emulation.radio.errors import SurvivalTable, survival_table
from emulation.radio.propagation import Floats, link_loss_db
from emulation.radio.spec import RadioSpec

LOCK_BYTES: Final = 30
"""PHY and MAC header: who can decode this much of a frame locks on to it..."""
LOCK_PROBABILITY: Final = 0.01
"""...and is a receiver from this chance on."""
CERTAIN: Final = 1e-9
"""Loss below which a frame is taken to arrive, and survival below which it is taken to be lost."""
CACHED_LINKS: Final = 4_000_000
"""Neighbours held in all rows together, some 500 MB, before rows are dropped."""


class Link(NamedTuple):
    """One link as a person wants to see it; `loss` is of 1,000-byte broadcasts."""

    neighbour: int
    distance: float
    received_dbm: float
    snr_db: float
    rate_mbps: float
    loss: float


class Row:
    """The links of the station `source` from (x, y); read-only for everyone but `Links`."""

    __slots__ = (
        "certain",
        "power",
        "power_reach",
        "rates",
        "receiver_reach",
        "sense",
        "snr_array",
        "snr_db",
        "source",
        "x",
        "y",
    )

    def __init__(self, source: int, x: float, y: float) -> None:
        self.source = source
        self.x = x
        self.y = y
        self.power: dict[int, float] = {}
        """Station: received mW, of all above the interference floor."""
        self.sense: frozenset[int] = frozenset((source,))
        self.snr_db: dict[int, float] = {}
        """Receiver: SNR in decibels."""
        self.snr_array: Floats = np.empty(0)
        self.power_reach = 0.0
        """Distance in metres of the farthest station in `power`, of the farthest receiver."""
        self.receiver_reach = 0.0
        self.certain: dict[int, tuple[tuple[int, ...], tuple[tuple[int, float], ...]]] = {}
        """Bits of a broadcast: receivers it reaches surely, and others with their chance."""
        self.rates: dict[int, int] = {}
        """Receiver: index of the rate of unicasts."""


class Links:
    """The link table of `count` stations with the radio `radio`; `seed` fixes the shadowing."""

    def __init__(self, radio: RadioSpec, count: int, seed: int) -> None:
        self.radio = radio
        self.count = count
        self.phy = phy_for(radio.standard, radio.frequency_mhz)
        self.tables = [survival_table(rate) for rate in self.phy.rates]
        self.basic = self.tables[self.phy.rates.index(self.phy.basic_rate)]
        self.control_tables: dict[Rate, SurvivalTable] = {
            rate: survival_table(rate) for rate in self.phy.control_rates
        }
        self.budget = budget_for(radio, self.phy, self.basic)
        self.noise_mw = 10 ** (self.budget.noise_dbm / 10)
        self.down: set[int] = set()
        self._cut: set[tuple[int, int]] = set()
        self._seed = seed
        self._xy = np.zeros((count, 2))
        self._rows: list[Row | None] = [None] * count
        self._cached = 0
        bits = 8 * self.phy.mpdu_bytes(REFERENCE_BYTES)
        self._rate_needs = [table.required_db(bits, REFERENCE_ERROR) for table in self.tables]
        self._lock_db = self.basic.required_db(8 * LOCK_BYTES, 1 - LOCK_PROBABILITY)

    def set_positions(self, xy: npt.ArrayLike) -> None:
        """Place the stations: an array (N, 2) of metres.  Raises ValueError for another shape."""
        given = np.array(xy, dtype=np.float64)
        if given.shape != (self.count, 2):
            raise ValueError(f"positions of shape {given.shape}, not ({self.count}, 2)")
        if not np.array_equal(given, self._xy):
            self._xy = given
            self._forget()

    def position(self, station: int) -> tuple[float, float]:
        """Return where a station is, metres."""
        x, y = self._xy[station]
        return float(x), float(y)

    def fail(self, station: int, other: int | None = None) -> None:
        """Take down a station, or the link between two."""
        if other is None:
            self.down.add(station)
        else:
            self._cut.add((min(station, other), max(station, other)))
        self._forget()

    def heal(self, station: int, other: int | None = None) -> None:
        """Undo `fail` with the same arguments; no effect where there is nothing to undo."""
        if other is None:
            self.down.discard(station)
        else:
            self._cut.discard((min(station, other), max(station, other)))
        self._forget()

    def _forget(self) -> None:
        if self._cached:
            self._rows = [None] * self.count
            self._cached = 0

    def row(self, source: int) -> Row:
        """Return the links of a station; a station that is down has none."""
        row = self._rows[source]
        if row is None:
            row = self._compute(source)
            if self._cached > CACHED_LINKS:
                self._forget()
            self._rows[source] = row
            self._cached += len(row.power) + 1
        return row

    def _compute(self, source: int) -> Row:
        xy = self._xy
        x, y = xy[source].tolist()
        row = Row(source, x, y)
        if source in self.down:
            return row
        dx = xy[:, 0] - x
        dy = xy[:, 1] - y
        square = dx * dx + dy * dy
        near = np.flatnonzero(square <= self.budget.reach**2)
        distance = np.sqrt(square[near])
        power = self.budget.tx_dbm - link_loss_db(self.radio, distance, source, near, self._seed)
        heard = (power >= self.budget.floor_dbm) & (near != source)
        if self.down or self._cut:
            heard &= np.fromiter((self._up(source, r) for r in near.tolist()), bool, len(near))
        near, distance, power = near[heard], distance[heard], power[heard]
        if not len(near):
            return row
        row.power = dict(zip(near.tolist(), (10 ** (power / 10)).tolist(), strict=True))
        row.power_reach = float(distance.max())
        row.sense = frozenset((source, *near[power >= self.budget.sense_dbm].tolist()))
        snr = power - self.budget.noise_dbm
        receives = snr >= self._lock_db
        if receives.any():
            row.snr_array = snr[receives]
            row.snr_db = dict(zip(near[receives].tolist(), row.snr_array.tolist(), strict=True))
            row.receiver_reach = float(distance[receives].max())
        return row

    def _up(self, one: int, other: int) -> bool:
        pair = (one, other) if one < other else (other, one)
        return other not in self.down and pair not in self._cut

    def broadcast_outcome(
        self, row: Row, bits: int
    ) -> tuple[tuple[int, ...], tuple[tuple[int, float], ...]]:
        """Return who surely gets an undisturbed broadcast of `bits`, and others' chances."""
        outcome = row.certain.get(bits)
        if outcome is None:
            chance = np.exp(bits * self.basic.at(row.snr_array)).tolist()
            pairs = list(zip(row.snr_db, chance, strict=True))
            outcome = (
                tuple(receiver for receiver, p in pairs if p > 1 - CERTAIN),
                tuple((receiver, p) for receiver, p in pairs if CERTAIN < p <= 1 - CERTAIN),
            )
            row.certain[bits] = outcome
        return outcome

    def unicast_rate(self, row: Row, receiver: int) -> int:
        """Return the index of the rate to a station: the fastest that loses < 1 in 10, or basic.

        Ideal rate control: the sender knows the link's SNR, as in ns-3's IdealWifiManager.
        """
        index = row.rates.get(receiver)
        if index is None:
            snr = row.snr_db.get(receiver, -np.inf)
            index = self.phy.rates.index(self.phy.basic_rate)
            for candidate in range(len(self._rate_needs) - 1, -1, -1):
                if snr >= self._rate_needs[candidate]:
                    index = candidate
                    break
            row.rates[receiver] = index
        return index

    def links(self, source: int) -> list[Link]:
        """Return the links of a station to all that sense it, nearest first."""
        row = self.row(source)
        bits = 8 * self.phy.mpdu_bytes(REFERENCE_BYTES)
        neighbours = sorted(row.sense - {source})
        power = 10 * np.log10([row.power[neighbour] for neighbour in neighbours])
        snr = power - self.budget.noise_dbm
        columns = (
            np.hypot(*(self._xy[neighbours] - (row.x, row.y)).T).tolist(),
            power.tolist(),
            snr.tolist(),
            [self.phy.rates[self.unicast_rate(row, n)].mbps for n in neighbours],
            (-np.expm1(bits * self.basic.at(snr))).tolist(),
        )
        return sorted(map(Link, neighbours, *columns), key=lambda link: link.distance)

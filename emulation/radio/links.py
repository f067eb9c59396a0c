"""Which stations hear each other, how strongly, and at what rate: the link table of a radio.

Theory of operation.  A `LinkRow` holds the links of one station.  Rows are made when a station
first transmits from its present position and are dropped when stations move or fail, so that a
static network makes each row once and a mobile one only the rows it uses.  In the smallest networks
the powers of all pairs are computed together, once per move, and rows are cut from that matrix:
NumPy costs microseconds per call, whatever the size.  Larger networks never hold an N x N matrix; a
row looks at the stations in the cells of a grid that its reach covers, together with rows beside it
(`emulation.radio.snapshot`), unless shadowing, failures or differences make each link unique.
Seldom needed parts of a row are computed on first use.  Powers and thresholds are the same in both
directions, so a row also says whom its station hears.

The received power decides where a row lists a neighbour (see `emulation.radio.budget`): `power` has
every station above the interference floor, `sense` those that notice a frame (including the source
itself), and `snr_db` those that can lock on to one, which are the receivers.

Powers are rounded to a millionth of a decibel, so that processors whose logarithms differ in the
last bit decide alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from emulation.radio.airtime import Rate
from emulation.radio.budget import (
    AT_RANGE_DB,
    POWER_DECIMALS,
    REFERENCE_BYTES,
    REFERENCE_ERROR,
    budget_for,
    reach_beyond,
    received_dbm,
)
from emulation.radio.differences import Differences
from emulation.radio.errors import SurvivalTable, table_on, threshold_table
from emulation.radio.grid import Grid
from emulation.radio.link_row import Jammer, JamRow, Line, Link, LinkRow, LinkTable, Matrix
from emulation.radio.propagation import Floats, Indices, link_loss_db
from emulation.radio.snapshot import WORTH_BLOCKS, Reach, Snapshot, sensed
from emulation.radio.spec import RadioSpec, UnitDisk

LOCK_BYTES: Final = 30
"""PHY and MAC header: a station that can decode this much of a frame locks on to it..."""
LOCK_PROBABILITY: Final = 0.01
"""...and is a receiver from this probability on."""
CACHED_LINKS: Final = 4_000_000
"""Neighbours held in all rows together, some 500 MB, before rows are dropped."""
FEW: Final = 60
"""Most stations for which a matrix of all pairs costs less than a snapshot."""
DENSE: Final = 400
"""Most stations for which, without snapshots, it costs less than individual rows."""


class Links(LinkTable):
    """The link table of `count` stations with the radio `radio`; `seed` fixes the shadowing.

    Rows are dropped when they hold more than `cached_links` neighbours together.
    """

    _met: frozenset[tuple[int, int]] | None = None
    """The only pairs that are linked; None: positions decide."""

    def __init__(
        self, radio: RadioSpec, count: int, seed: int, cached_links: int = CACHED_LINKS
    ) -> None:
        self.radio, self.count = radio, count
        self.phy = radio.phy
        if radio.basic_rate_mbps is not None:
            self.phy = self.phy.with_basic_rate(radio.basic_rate_mbps)
        table_of = partial(table_on, self.phy)
        self.table_of: Callable[[Rate], SurvivalTable] = (
            threshold_table if radio.reception == "threshold" else table_of
        )
        """Return the table of a rate."""
        self.tables = [self.table_of(rate) for rate in self.phy.rates]
        self.basic = self.tables[self.phy.rates.index(self.phy.basic_rate)]
        self.control_tables: dict[Rate, SurvivalTable] = {
            rate: self.table_of(rate) for rate in self.phy.control_rates
        }
        basic = table_of(self.phy.basic_rate)
        self.budget = budget_for(radio, self.phy, basic)
        self.noise_mw = 10 ** (self.budget.noise_dbm / 10)
        self.down: set[int] = set()
        self._cut: set[tuple[int, int]] = set()
        self._lines: list[Line] = []
        """Lines that no link crosses."""
        self._sides: list[int] | None = None
        """By station: a number shared by those on the same sides of all lines; None without any."""
        self._jammers: dict[int, Jammer] = {}
        """By their number as a source, from `count` on."""
        self._jam_rows: dict[int, JamRow] = {}
        self.losses: dict[tuple[int, int], float] = {}
        """Source and receiver: the additional share of frames lost on an overridden link."""
        self._differences: Differences | None = None
        """None if all radios are the same."""
        self._hears: list[frozenset[int]] | None = None
        """With the matrix, if radios differ: the stations that each one senses."""
        self._next_jammer = count
        """Numbers are never reused: frames may have met a burst of a jammer that is gone."""
        self._seed, self._reach = seed, self.budget.reach
        self._xy = np.zeros((count, 2))
        self._rows: list[LinkRow | None] = [None] * count
        self._cached, self._cached_links = 0, cached_links
        self._matrix: Matrix | None = None
        """Only with at most `DENSE` stations."""
        self._grid: Grid | None = None
        self._snapshot: Snapshot | None = None
        self._together = True
        """Whether enough stations transmit between two moves to compute their links together."""
        self.sense_snr_db = self.budget.sense_dbm - self.budget.noise_dbm
        bits, rates = 8 * self.phy.mpdu_bytes(REFERENCE_BYTES), self.phy.rates
        self._rate_needs = [table_of(rate).required_db(bits, REFERENCE_ERROR) for rate in rates]
        fixed = radio.fixed_rate
        self._data_rate = None if fixed is None else rates.index(fixed)
        self.lock_db = basic.required_db(8 * LOCK_BYTES, 1 - LOCK_PROBABILITY)
        if radio.reception == "threshold":
            self.lock_db = self.budget.sensitivity_dbm - self.budget.noise_dbm - AT_RANGE_DB
        self._noticed = sensed(radio, self.budget, self.budget.noise_dbm + self.lock_db)
        """The reach within which a frame is noticed; None if distance does not determine it."""

    def set_positions(self, xy: npt.ArrayLike) -> None:
        """Set the positions: an array (N, 2) of metres.  Raises ValueError for another shape."""
        positions = np.array(xy, dtype=np.float64)
        if positions.shape != (self.count, 2):
            raise ValueError(f"positions of shape {positions.shape}, not ({self.count}, 2)")
        if not np.array_equal(positions, self._xy):
            self._xy = positions
            self._forget()

    def position(self, station: int) -> tuple[float, float]:
        return self._xy.item(station, 0), self._xy.item(station, 1)

    def fail(self, station: int, other: int | None = None) -> None:
        """Take down a station, or the link between two."""
        if other is None:
            self.down.add(station)
        else:
            self._cut.add((min(station, other), max(station, other)))
        self._forget()

    def heal(self, station: int, other: int | None = None) -> None:
        """Undo `fail` with the same arguments; no effect if there is nothing to undo."""
        if other is None:
            self.down.discard(station)
        else:
            self._cut.discard((min(station, other), max(station, other)))
        self._forget()

    def meet(self, pairs: frozenset[tuple[int, int]]) -> None:
        """Link these pairs alone, the lower station first, as far as they are within reach."""
        if pairs != self._met:
            self._met = pairs
            self._forget()

    def set_power(self, station: int, tx_power_dbm: float, antenna_gain_dbi: float) -> None:
        """Give a station a transmit power and an antenna gain of its own.

        Raises ValueError if radios have no powers: a unit disk, or a range of carrier sense.
        """
        gain = antenna_gain_dbi - self.radio.antenna_gain_dbi
        more = tx_power_dbm - self.budget.tx_dbm + gain, gain
        self.differ(lambda own: own.set_power(station, *more))

    def differ(self, change: Callable[[Differences], None]) -> None:
        """Change how stations differ.  Raises ValueError as `set_power` does."""
        own = self._own()
        before = own.reach_db
        change(own)
        if own.reach_db != before:
            self._reach = reach_beyond(self.radio, self.budget, own.reach_db)
        self._forget()

    def override(
        self,
        source: int,
        receiver: int,
        *,
        level_dbm: float | None = None,
        rate_mbps: float | None = None,
        loss: float = 0.0,
    ) -> None:
        """Override properties of the link from `source` to `receiver`; without any, end that.

        `level_dbm` is the received power, `rate_mbps` the rate of unicasts (the fastest that is not
        above it), `loss` the share of data frames that the receiver loses whatever their level,
        each try independently.  Raises ValueError as `set_power` does.
        """
        own, pair = self._own(), (source, receiver)
        own.levels.pop(pair, None)
        own.rates.pop(pair, None)
        self.losses.pop(pair, None)
        if level_dbm is not None:
            own.levels[pair] = round(level_dbm, POWER_DECIMALS)
        if rate_mbps is not None:
            slower = [i for i, rate in enumerate(self.phy.rates) if rate.mbps <= rate_mbps]
            own.rates[pair] = slower[-1] if slower else 0
        if loss > 0.0:
            self.losses[pair] = loss
        self._forget()

    def _own(self) -> Differences:
        if isinstance(self.radio.propagation, UnitDisk) or self.radio.sense_range is not None:
            raise ValueError(
                "radios may differ in power, and links be overridden, only if the propagation is "
                "not a unit disk and there is no sense_range"
            )
        if self._differences is None:
            self._differences = Differences(self.count)
        return self._differences

    def split(self, line: Line) -> None:
        """Cut all links across a line, wherever stations are from now on."""
        self._lines.append(line)
        self._forget()

    def join(self, line: Line) -> None:
        """Undo `split` with the same line."""
        self._lines.remove(line)
        self._forget()

    def add_jammer(self, jammer: Jammer) -> int:
        """Add a jammer; return its number as a source of transmissions."""
        number = self._next_jammer
        self._next_jammer += 1
        self._jammers[number] = jammer
        self._forget()
        return number

    def remove_jammer(self, number: int) -> None:
        del self._jammers[number]
        self._forget()

    def jammer(self, number: int) -> Jammer | None:
        """Return a jammer, None if it has been removed."""
        return self._jammers.get(number)

    def jam_row(self, number: int) -> JamRow:
        """Return the stations that a jammer disturbs."""
        row = self._jam_rows.get(number)
        if row is None:
            jammer = self._jammers[number]
            dx, dy = (self._xy - (jammer.x, jammer.y)).T
            distance = np.sqrt(dx * dx + dy * dy)
            stations = np.arange(self.count)
            if isinstance(self.radio.propagation, UnitDisk):
                power = self._power(distance, np.asarray(number), stations)
            else:  # its own antenna has no gain
                loss = link_loss_db(self.radio, distance, number, stations, self._seed)
                gain: float | Floats = self.radio.antenna_gain_dbi
                if self._differences is not None:
                    gain = gain - self._differences.receive
                power = np.round(jammer.power_dbm - loss - gain, POWER_DECIMALS)
            heard = np.flatnonzero(power >= self.budget.floor_dbm)
            snr = power[heard] - self.budget.noise_dbm
            columns = heard.tolist(), distance[heard].tolist(), snr.tolist()
            row = self._jam_rows[number] = JamRow(self, number, jammer, *columns)
        return row

    def _forget(self) -> None:
        if self._snapshot is not None:
            used = self.count - self._rows.count(None)
            self._together = used >= WORTH_BLOCKS * self.count
            self._snapshot = None
        self._matrix = self._grid = self._hears = None
        self._sides = self._sides_now() if self._lines else None
        self._jam_rows.clear()
        if self._cached:
            self._rows = [None] * self.count
            self._cached = 0

    def _sides_now(self) -> list[int]:
        left = np.empty((self.count, len(self._lines)), np.bool_)
        for number, (x0, y0, x1, y1) in enumerate(self._lines):
            dx, dy = (self._xy - (x0, y0)).T
            left[:, number] = (x1 - x0) * dy - (y1 - y0) * dx > 0.0
        _, sides = np.unique(left, axis=0, return_inverse=True)
        return [int(side) for side in sides.reshape(-1)]

    def row(self, source: int) -> LinkRow:
        """Return the links of a station; a station that is down has none."""
        row = self._rows[source]
        if row is None:
            if self.count > FEW and self._noticed and not (self._differences or self.failed):
                row = self._from_snapshot(source, self._noticed)
            elif self.count <= DENSE:
                row = self._from_matrix(source)
            else:
                row = self._from_grid(source)
            added = 0 if self._snapshot is None else self._snapshot.added
            if self._cached + added > self._cached_links:
                self._rows = [None] * self.count
                self._cached = 0
                self._snapshot = None
            if self._jammers:
                noisy = {n for n in self._jammers if source in self.jam_row(n).sense}
                row.sense |= noisy
                row.hears |= noisy
            self._rows[source] = row
            self._cached += len(row) + 1
        return row

    def _length(self, dx: Floats, dy: Floats, one: Indices, other: Indices) -> Floats:
        """Return the length of links, metres, from their extents in the plane."""
        plane, own = np.sqrt(dx * dx + dy * dy), self._differences
        return plane if own is None else own.in_space(plane, one, other)

    def _power(self, metres: Floats, one: Indices, other: Indices, *, fades: bool = True) -> Floats:
        """Return the received power of links in dBm."""
        loss = link_loss_db(self.radio, metres, one, other, self._seed)
        own = self._differences
        if own is not None:
            loss = loss - own.shift(one, other) - (own.fade(one, other) if fades else 0.0)
        return received_dbm(self.budget, loss)

    def _from_matrix(self, source: int) -> LinkRow:
        if self._matrix is None:
            self._matrix = self._all_pairs()
        starts, near, distance, snr, survival = self._matrix
        part = slice(starts[source], starts[source + 1])
        row = LinkRow(self, source, near[part], distance[part], snr[part], survival[part])
        return row if self._differences is None else self._own_row(row)

    def _all_pairs(self) -> Matrix:
        xy = self._xy
        dx, dy = (xy[:, None, axis] - xy[None, :, axis] for axis in (0, 1))
        stations = np.arange(self.count)
        pairs = stations[:, None], stations[None, :]
        distance = self._length(dx, dy, *pairs)
        power = self._power(distance, *pairs)
        heard = (power >= self.budget.floor_dbm) & (distance <= self._reach)
        if self._differences is not None:
            self._differences.apply(power, heard, self.budget.floor_dbm)
        np.fill_diagonal(heard, False)
        down = list(self.down)
        heard[down] = heard[:, down] = False
        for one, other in self._cut:
            heard[one, other] = heard[other, one] = False
        if self._met is not None:
            met, ends = np.zeros_like(heard), np.array(list(self._met), np.intp).reshape(-1, 2)
            met[ends[:, 0], ends[:, 1]] = met[ends[:, 1], ends[:, 0]] = True
            heard &= met
        if self._sides is not None:
            sides = np.array(self._sides)
            heard &= sides[:, None] == sides[None, :]
        if self._differences is not None:
            sensed = heard & (power - self.budget.noise_dbm >= self.sense_snr_db)
            np.fill_diagonal(sensed, True)
            self._hears = [frozenset(np.flatnonzero(column).tolist()) for column in sensed.T]
        rows, near = np.nonzero(heard)
        starts = np.searchsorted(rows, np.arange(self.count + 1)).tolist()
        snr = power[heard] - self.budget.noise_dbm
        survival = self.basic.at(snr).tolist()
        return Matrix(starts, near.tolist(), distance[heard].tolist(), snr.tolist(), survival)

    def _from_snapshot(self, source: int, noticed: Reach) -> LinkRow:
        snapshot = self._snapshot
        if snapshot is None:
            snapshot = self._snapshot = Snapshot(
                self.radio, self.budget, self.basic, noticed, self._xy, self._together
            )
        wider = None if snapshot.whole else snapshot
        return LinkRow(self, source, *snapshot.columns(source), wider, self._reach)

    def _from_grid(self, source: int) -> LinkRow:
        if self._grid is None:
            self._grid = Grid(self._xy, self._reach)
        if source in self.down:
            return LinkRow(self, source, [], [], [], [])
        near = self._grid.near(*self.position(source))
        if self._differences is not None:
            near = self._differences.with_overridden(source, near)
        near, distance, snr = self._heard(source, near)
        columns = (near, distance, snr, self.basic.at(snr))
        row = LinkRow(self, source, *(column.tolist() for column in columns))
        return row if self._differences is None else self._own_row(row)

    def _heard(
        self, source: int, near: Indices, *, back: bool = False
    ) -> tuple[Indices, Floats, Floats]:
        """Return which of the stations `near` hear `source`, with distances and SNR.

        With `back`, those that it hears.
        """
        dx, dy = (self._xy[near] - self._xy[source]).T
        ends = np.asarray(source), near
        distance = self._length(dx, dy, *ends)
        power = self._power(distance, *(reversed(ends) if back else ends))
        heard = (power >= self.budget.floor_dbm) & (distance <= self._reach)
        if self._differences is not None:
            floor = self.budget.floor_dbm
            self._differences.apply_to_row(source, near, power, heard, floor, back=back)
        heard &= near != source
        if self.failed:
            heard &= np.fromiter((self.up(source, r) for r in near.tolist()), bool, len(near))
        return near[heard], distance[heard], power[heard] - self.budget.noise_dbm

    def _own_row(self, row: LinkRow) -> LinkRow:
        """Complete a row of differing radios: the stations it senses, and overridden rates."""
        source, own = row.source, self._own()
        for (one, other), rate in own.rates.items():
            if one == source:
                row.rates[other] = rate
        if self._hears is not None:
            row.hears = self._hears[source]
        elif self._grid is not None and source not in self.down:
            near = own.with_overridden(source, self._grid.near(*self.position(source)))
            senders, _, snr = self._heard(source, near, back=True)
            row.hears = frozenset(senders[snr >= self.sense_snr_db].tolist()) | {source}
        return row

    @property
    def failed(self) -> bool:
        """Whether any station or link is down."""
        return bool(self.down or self._cut or self._lines) or self._met is not None

    def up(self, one: int, other: int) -> bool:
        """Return whether `other` and the link between both are up."""
        pair = (one, other) if one < other else (other, one)
        if self._sides is not None and self._sides[one] != self._sides[other]:
            return False
        if self._met is not None and pair not in self._met:
            return False
        return other not in self.down and pair not in self._cut

    def signal_dbm(self, source: int, receiver: int) -> float:
        """Return the power in dBm at which `receiver` hears `source`; the lowest if it does not."""
        return self.row(source).snr_db.get(receiver, self.lock_db) + self.budget.noise_dbm

    def unicast_rate(self, row: LinkRow, receiver: int) -> int:
        """Return the index of the rate to a station: the fastest that loses < 1 in 10, or basic.

        Ideal rate control: the sender knows the link's SNR, as in ns-3's IdealWifiManager.  A
        `data_rate_mbps` of the radio takes precedence.
        """
        if self._data_rate is not None:
            return self._data_rate
        index = row.rates.get(receiver)
        if index is None:
            snr = row.snr_db.get(receiver, -np.inf)
            index = self.phy.rates.index(self.phy.basic_rate)
            candidates: Sequence[int] = range(len(self._rate_needs))
            if self._differences is not None and self._differences.allowed.get(row.source):
                candidates = self._differences.allowed[row.source]
                index = candidates[0]
            for candidate in reversed(candidates):
                if snr >= self._rate_needs[candidate]:
                    index = candidate
                    break
            row.rates[receiver] = index
        return index

    def levels(self, senders: Sequence[int], receivers: Sequence[int]) -> Floats:
        """Return the mean levels in dBm from each sender (row) at each receiver (column).

        Stations that are down count as well; a link that has failed has -inf.
        """
        one = np.array(senders, dtype=np.intp)[:, None]
        other = np.array(receivers, dtype=np.intp)[None, :]
        delta = self._xy[one] - self._xy[other]
        metres = self._length(delta[..., 0], delta[..., 1], one, other)
        power = self._power(metres, one, other, fades=False)
        if self._differences is not None:
            for (source, receiver), level in self._differences.levels.items():
                power[(one == source) & (other == receiver)] = level
        if self._met is not None:
            met = [[(min(s, r), max(s, r)) in self._met for r in receivers] for s in senders]
            power[~np.array(met)] = -np.inf
        for low, high in self._cut:
            power[(np.minimum(one, other) == low) & (np.maximum(one, other) == high)] = -np.inf
        return power

    def links(self, source: int) -> list[Link]:
        """Return the links of a station to all that sense or receive it, nearest first."""
        row = self.row(source)
        bits = 8 * self.phy.mpdu_bytes(REFERENCE_BYTES)
        neighbours = sorted({*row.sense, *row.snr_db} & row.power.keys() - {source})
        power = 10 * np.log10([row.power[neighbour] for neighbour in neighbours])
        snr = power - self.budget.noise_dbm
        dx, dy = (self._xy[neighbours] - (row.x, row.y)).T
        ends = np.asarray(source), np.array(neighbours, np.intp)
        columns = (
            self._length(dx, dy, *ends).tolist(),
            power.tolist(),
            snr.tolist(),
            [self.phy.rates[self.unicast_rate(row, n)].mbps for n in neighbours],
            (-np.expm1(bits * self.basic.at(snr))).tolist(),
        )
        return sorted(map(Link, neighbours, *columns), key=lambda link: link.distance)

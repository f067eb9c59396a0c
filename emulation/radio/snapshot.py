"""Links of stations between two moves, computed for many of them at once.

Theory of operation.  NumPy costs microseconds per call, whatever the size, and most links change a
little whenever stations move.  So the links of the stations around one that transmits, its block,
are computed with it, if so many stations transmit between two moves that most are used.

A frame is noticed within a circle, and interferes within one several times as large: at 10 dB below
the noise, with log-distance, eight in nine of the stations in a row's `power` do not sense its
frames.  These are computed only for rows that meet another frame.  That requires a distance beyond
which nobody senses a station, so losses must depend only on distance: no shadowing, no differences
between radios, no failures.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from emulation.radio.budget import Budget, reach_at, received_dbm
from emulation.radio.errors import SurvivalTable
from emulation.radio.grid import Grid
from emulation.radio.link_row import Surroundings
from emulation.radio.propagation import Floats, Indices, link_loss_db
from emulation.radio.spec import RadioSpec, Shadowing

BLOCK: Final = 64
"""Stations whose links are computed together."""
WORTH_BLOCKS: Final = 1 / 12
"""Share of stations that transmit between two moves from which blocks cost less than rows."""


class Reach(NamedTuple):
    """The power, dBm, at which a station is a neighbour, and the metres beyond which none is."""

    dbm: float
    metres: float


class Block(NamedTuple):
    """Links of several stations; those of station i begin at `starts[i]`."""

    starts: list[int]
    near: Indices
    distance: Floats
    snr: Floats
    survival: Floats


def sensed(radio: RadioSpec, budget: Budget, lock_dbm: float) -> Reach | None:
    """Return the reach of frames that are noticed or decoded; None if shadowing decides."""
    if isinstance(radio.propagation, Shadowing):
        return None
    level = min(budget.sense_dbm, lock_dbm)
    if level <= budget.floor_dbm:
        return Reach(budget.floor_dbm, budget.reach)
    return Reach(level, min(budget.reach, reach_at(radio, budget, level)))


class Snapshot(Surroundings):
    """The stations at `xy`, an array (N, 2) of metres; in blocks if `together`."""

    def __init__(
        self,
        radio: RadioSpec,
        budget: Budget,
        basic: SurvivalTable,
        noticed: Reach,
        xy: Floats,
        together: bool,
    ) -> None:
        self._radio, self._budget, self._basic, self._noticed = radio, budget, basic, noticed
        self._xy = xy
        self._x, self._y = np.ascontiguousarray(xy[:, 0]), np.ascontiguousarray(xy[:, 1])
        self._grid = Grid(xy, noticed.metres)
        self._wide: Grid | None = None
        self._together = together
        self._blocks: dict[int, Block] = {}
        self.whole = noticed.dbm <= budget.floor_dbm
        """Whether rows hold all stations above the floor from the start."""
        self.added = 0
        """How many neighbours rows have gained since."""

    def columns(self, source: int) -> tuple[list[int], list[float], list[float], list[float]]:
        """Return who notices a station, ascending, with distance, SNR and survival of a bit."""
        if self._together:
            place = self._grid.place(source)
            number = place // BLOCK
            block = self._blocks.get(number)
            if block is None:
                members = self._grid.order[number * BLOCK : (number + 1) * BLOCK]
                block = self._blocks[number] = self._block(members)
            at = place - number * BLOCK
        else:
            block, at = self._block(np.array([source], dtype=np.intp)), 0
        start, end = block.starts[at], block.starts[at + 1]
        return (
            block.near[start:end].tolist(),
            block.distance[start:end].tolist(),
            block.snr[start:end].tolist(),
            block.survival[start:end].tolist(),
        )

    def _block(self, members: Indices) -> Block:
        level, metres = self._noticed
        which, near = self._grid.pairs(members)
        source = members[which]
        dx, dy = self._x[near] - self._x[source], self._y[near] - self._y[source]
        square = dx * dx + dy * dy
        # Slightly more than the reach: the exact distance is checked below.
        close = np.flatnonzero((square <= metres * metres * (1 + 1e-9)) & (near != source))
        which, near, distance = which[close], near[close], np.sqrt(square[close])
        power = self._power(distance)
        heard = np.flatnonzero((power >= level) & (distance <= self._budget.reach))
        which, near = which[heard], near[heard]
        order = np.argsort(which * len(self._x) + near)
        heard = heard[order]
        snr = power[heard] - self._budget.noise_dbm
        starts = np.searchsorted(which[order], np.arange(len(members) + 1)).tolist()
        return Block(starts, near[order], distance[heard], snr, self._basic.at(snr))

    def _power(self, metres: Floats) -> Floats:
        nobody = np.asarray(0)
        return received_dbm(self._budget, link_loss_db(self._radio, metres, nobody, nobody, 0))

    def around(self, source: int) -> tuple[list[int], list[float], list[float]]:
        if self._wide is None:
            self._wide = Grid(self._xy, self._budget.reach)
        near = self._wide.near(float(self._x[source]), float(self._y[source]))
        dx, dy = self._x[near] - self._x[source], self._y[near] - self._y[source]
        distance = np.sqrt(dx * dx + dy * dy)
        power = self._power(distance)
        heard = (power >= self._budget.floor_dbm) & (distance <= self._budget.reach)
        heard &= near != source
        near = near[heard]
        self.added += len(near)
        snr = power[heard] - self._budget.noise_dbm
        return near.tolist(), distance[heard].tolist(), snr.tolist()

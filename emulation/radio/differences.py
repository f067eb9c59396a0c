"""How the radios of one channel differ: power and antenna of each, and overridden links.

Theory of operation.  A radio's own transmit power and antenna gain shift the levels of all links
from it, its gain those of all links to it (IEEE 802.11 radios may all differ).  So a link and its
reverse may have different levels, and a station may sense one that does not sense it.  An
overridden link has a fixed level, rate or additional loss, wherever its ends are, as in wmediumd's
tables of links; it may be overridden in only one direction.

Stations may be above the plane, which lengthens their links.

Fading is in blocks: the level of each link departs from its mean by a normal deviate, the same in
both directions, which is drawn again for every block (wmediumd's `fading_coefficient` draws it for
every frame; a block is the time for which a channel stays as it is).

A station may be limited to some rates for its unicasts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from emulation.radio.propagation import Floats, Indices, shadowing_db

Pair = tuple[int, int]
"""Source and receiver."""
FADES: Final = 4.0
"""Standard deviations of fading by which a link may reach farther (1 in 30,000 exceed them)."""


class Differences:
    """The differences between `count` stations, none at first; levels in decibels."""

    def __init__(self, count: int) -> None:
        self.transmit: Floats = np.zeros(count)
        """By how much each station sends above the common power and gain."""
        self.receive: Floats = np.zeros(count)
        """By how much each antenna's gain exceeds the common one."""
        self.levels: dict[Pair, float] = {}
        """Received power of overridden links, dBm."""
        self.rates: dict[Pair, int] = {}
        """Index of the rate of unicasts on overridden links."""
        self.heights: Floats | None = None
        """Metres above the plane; None if all are in it."""
        self.fading_db = 0.0
        self.block = 0
        """Seed of the current block of fading."""
        self.allowed: dict[int, tuple[int, ...]] = {}
        """Station: indices of the rates allowed for its unicasts, ascending."""

    @property
    def reach_db(self) -> float:
        """By how much the strongest pair of radios exceeds the common one."""
        above = max(0.0, float(self.transmit.max()) + float(self.receive.max()))
        return above + FADES * self.fading_db

    def in_space(self, plane: Floats, one: Indices, other: Indices) -> Floats:
        """Return the length of links whose ends are `plane` metres apart in the plane."""
        if self.heights is None:
            return plane
        return np.asarray(np.hypot(plane, self.heights[one] - self.heights[other]))

    def set_power(self, station: int, transmit_db: float, receive_db: float) -> None:
        """Set by how much a station sends and receives above the common power and gain."""
        self.transmit[station], self.receive[station] = transmit_db, receive_db

    def lift(self, metres: npt.ArrayLike) -> None:
        """Raise stations above the plane: an array (N,) of metres."""
        heights = np.array(metres, dtype=np.float64)
        self.heights = heights if heights.any() else None

    def begin_block(self, fading_db: float, block: int) -> None:
        """Begin a block of fading with a standard deviation and a seed."""
        self.fading_db, self.block = fading_db, block

    def allow(self, station: int, rates: tuple[int, ...]) -> None:
        """Limit a station's unicasts to rates of these indices, ascending; to any if empty."""
        self.allowed[station] = rates

    def fade(self, one: Indices, other: Indices) -> Floats | float:
        """Return by how much links exceed their mean level in the current block."""
        if not self.fading_db:
            return 0.0
        return shadowing_db(self.block, one, other, self.fading_db)

    def shift(self, one: Indices, other: Indices) -> Floats:
        """Return by how much links from `one` to `other` exceed the common level."""
        shift: Floats = self.transmit[one] + self.receive[other]
        return shift

    def apply(self, power: Floats, heard: npt.NDArray[np.bool_], floor_dbm: float) -> None:
        """Put the overridden levels into the matrices of all pairs, which it changes."""
        for pair, level in self.levels.items():
            power[pair] = level
            heard[pair] = level >= floor_dbm

    def with_overridden(self, source: int, near: Indices) -> Indices:
        """Return the stations `near`, and those to which `source` has an overridden link."""
        others = [other for one, other in self.levels if one == source]
        others += [one for one, other in self.levels if other == source]
        return np.union1d(near, np.array(others, dtype=near.dtype)) if others else near

    def apply_to_row(
        self,
        source: int,
        near: Indices,
        power: Floats,
        heard: npt.NDArray[np.bool_],
        floor_dbm: float,
        *,
        back: bool = False,
    ) -> None:
        """Put the overridden levels from `source` to `near`, or `back`, into a row of each."""
        for (one, other), level in self.levels.items():
            if (other if back else one) == source:
                at = int(np.searchsorted(near, one if back else other))
                power[at] = level
                heard[at] = level >= floor_dbm

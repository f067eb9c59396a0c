"""How the radios of one channel differ: power and antenna of each, and links that were overridden.

Theory of operation.  A radio's own transmit power and antenna gain shift the levels of all links
from it, its gain those of all links to it (IEEE 802.11 radios may all differ).  So a link may have
another level than the link back, and a station may sense one that does not sense it.  An overridden
link has the level, the rate or the additional loss that was given to it, wherever its ends are, as
in wmediumd's tables of links; it may be overridden in one direction only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from emulation.radio.propagation import Floats, Indices

Pair = tuple[int, int]
"""Source and receiver."""


class Differences:
    """The differences between `count` stations, none at first; levels in decibels."""

    def __init__(self, count: int) -> None:
        self.transmit: Floats = np.zeros(count)
        """What each station sends above the common power and gain."""
        self.receive: Floats = np.zeros(count)
        """How much more each antenna has than the common one."""
        self.levels: dict[Pair, float] = {}
        """Received power of overridden links, dBm."""
        self.rates: dict[Pair, int] = {}
        """Index of the rate of their unicasts."""

    @property
    def reach_db(self) -> float:
        """By how much the strongest pair of radios exceeds the common one."""
        return max(0.0, float(self.transmit.max()) + float(self.receive.max()))

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
        """Return the stations `near`, and those that a link of `source` was overridden to."""
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

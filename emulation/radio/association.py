"""Which access point each station belongs to, and when it changes.

Theory of operation.  Every scan compares, for each station, how strongly it receives the access
points that it can decode.  A station without one takes the strongest.  A station with one changes
if another is stronger by more than the hysteresis, so that it does not go back and forth between
two of about the same strength, and at once if it can no longer decode its own.  Stations decide on
their own, as 802.11 drivers do; the standard leaves the rule open.

The change itself takes no time here: there are no authentication and association frames on the
air.  After it, the new access point tells the network behind it with the frame that hostapd
sends (`emulation.realtime.layer2_update`), from which bridges learn where the station now is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class AssociationChange(NamedTuple):
    """A station has left the access point `old` for `new`; either is None if there is none."""

    station: int
    old: int | None
    new: int | None


class Associations:
    """The access point of each of `stations` stations, all without one at first."""

    def __init__(self, stations: int, hysteresis_db: float) -> None:
        self._hysteresis = hysteresis_db
        self._current: list[int | None] = [None] * stations

    def of(self, station: int) -> int | None:
        """Return a station's access point; None if it has none."""
        return self._current[station]

    def scan(self, heard: Sequence[Mapping[int, float]]) -> list[AssociationChange]:
        """Let all stations decide; return the changes.

        `heard` holds, by station, the received level of each access point that it can decode, in
        decibels over any reference.
        """
        changes = []
        for station, levels in enumerate(heard):
            old = self._current[station]
            new = self._choice(old, levels)
            if new != old:
                self._current[station] = new
                changes.append(AssociationChange(station, old, new))
        return changes

    def _choice(self, current: int | None, levels: Mapping[int, float]) -> int | None:
        if not levels:
            return None
        best = max(levels, key=lambda point: (levels[point], -point))
        own = None if current is None else levels.get(current)
        if own is not None and levels[best] <= own + self._hysteresis:
            return current
        return best

"""Which access point a station takes: the rules of Mininet-WiFi.

Theory of operation.  A station considers the access points that it may join (network, passphrase)
and whose level is high enough.  Stations decide on their own, as 802.11 drivers do; the standard
leaves the choice open.

*sticky*: it stays with its own until that is out of reach, and then takes the strongest, like a
station without background scanning.

*ssf*, strongest signal first: it changes to one that is stronger by more than a hysteresis, so
that it does not alternate between two of about the same strength.

*llf*, least loaded first: it changes to one that has at least three stations fewer than its own,
so that it does not change back; of those it takes the one with the fewest, and among equals the
strongest.  Without an access point it takes the least loaded too.

The change itself takes no time here: there are no authentication and association frames on the
air.  After it, the new access point tells the network behind it with the frame that hostapd
sends (`emulation.wifi.layer2_update`), from which bridges learn where the station now is.

Source: Mininet-WiFi, `mn_wifi/associationControl.py` (rules, 0.1 dB, and the margin of two).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from emulation.wifi.settings import Policy

MARGIN: Final = 2
"""llf: another access point must have more than this many stations fewer to be worth a change."""


class Change(NamedTuple):
    """A station left the access point `old` for `new` at `time`; indices, None for none."""

    time: float
    station: int
    old: int | None
    new: int | None


def choose(
    policy: Policy,
    current: int | None,
    levels: Mapping[int, float],
    loads: Mapping[int, int],
    hysteresis_db: float,
) -> int | None:
    """Return the access point that a station chooses; None if there is none.

    `levels` are those of the access points within reach in decibels, `loads` how many stations each
    has, this one included.  Of equals it takes the one with the lowest index.
    """
    if not levels:
        return None
    if policy == "llf":
        best = min(levels, key=lambda point: (loads.get(point, 0), -levels[point], point))
        if current is None or current not in levels:
            return best
        return current if loads.get(best, 0) + MARGIN >= loads.get(current, 0) else best
    best = max(levels, key=lambda point: (levels[point], -point))
    if current is not None and current in levels:
        margin = float("inf") if policy == "sticky" else hysteresis_db
        if levels[best] <= levels[current] + margin:
            return current
    return best


class Associations:
    """The access points of stations that choose the strongest; none at first."""

    def __init__(self, hysteresis_db: float) -> None:
        self._hysteresis = hysteresis_db
        self._current: dict[int, int] = {}
        self.of = self._current.get
        """Returns a station's access point; None if it has none."""

    def scan(self, now: float, heard: Sequence[Mapping[int, float]]) -> list[Change]:
        """Let all stations decide; return the changes.

        `heard` holds, by station, the received level of each access point that it can decode, in
        decibels over any reference.
        """
        changes = []
        for station, levels in enumerate(heard):
            old = self.of(station)
            new = choose("ssf", old, levels, {}, self._hysteresis)
            if new != old:
                if new is None:
                    del self._current[station]
                else:
                    self._current[station] = new
                changes.append(Change(now, station, old, new))
        return changes

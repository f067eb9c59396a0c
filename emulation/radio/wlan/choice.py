"""Which access point a station takes: the three rules of Mininet-WiFi.

Theory of operation.  A station considers the access points that it may join (network, passphrase)
and whose level both ends receive well enough.

*sticky*: it stays with its own until that is out of reach, and then takes the strongest; this is
what a station without background scanning does.

*ssf*, strongest signal first: it changes for one that is stronger by more than a hysteresis.

*llf*, least loaded first: it changes for one that has at least three stations fewer than its own,
so that it does not change back; of those it takes the one with the fewest, and of equals the
strongest.  Without one of its own it takes the least loaded too.

Source: Mininet-WiFi, `mn_wifi/associationControl.py` (rules, 0.1 dB, and the margin of two).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulation.radio.wlan.settings import Policy

MARGIN: Final = 2
"""llf: stations that another access point may have, added, and still not be worth a change."""


def choose(
    policy: Policy,
    current: int | None,
    levels: Mapping[int, float],
    loads: Mapping[int, int],
    hysteresis_db: float,
) -> int | None:
    """Return the access point that a station takes; None if there is none.

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

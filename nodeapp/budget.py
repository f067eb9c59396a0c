"""What a node takes from one neighbour: so many frames a second, and no more.

A neighbour that is broken or hostile may send as fast as its radio can.  What is beyond the budget
is dropped before it is looked at, so that the others' frames are still served in time.  An honest
neighbour on a radio of 802.11 comes nowhere near it: a second has room for some 1,500 short frames
of all nodes in range together.  Senders' addresses can be forged, so this bounds what one address
costs, and not what an attacker can do (docs/security.md).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

FRAMES: Final = 1000
"""Datagrams a second that are taken from a neighbour."""
SHOWN: Final = 32
"""Most neighbours beyond their budget that are named."""


class Budgets:
    """Counts the frames of each neighbour in the current second."""

    def __init__(self, frames: int = FRAMES) -> None:
        self.dropped: Counter[int] = Counter()
        """Frames beyond the budget, by neighbour for the first `SHOWN`; 0: of all others."""
        self._frames = frames
        self._second = 0
        self._taken: dict[int, int] = {}

    def takes(self, neighbour: int, now: float) -> bool:
        """Count a frame that came at time `now`, seconds; return whether it is within budget."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._taken.clear()
        taken = self._taken[neighbour] = self._taken.get(neighbour, 0) + 1
        if taken <= self._frames:
            return True
        known = neighbour in self.dropped or len(self.dropped) < SHOWN
        self.dropped[neighbour if known else 0] += 1
        return False

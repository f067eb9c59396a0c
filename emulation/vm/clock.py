"""The guest's clock, checked against the host's.

If Linux does not know the rate of the time stamp counter, it measures it at boot against the
interval timer (PIT).  If the processor is emulated and the host busy, that sometimes goes wrong by
any factor: in one boot of thirty on two cores with four machines booting side by side (36.9 MHz
instead of 2,596).  Everything that the guest then measures is wrong, and its time limits expire at
once.  The kernel notices that the power management timer disagrees, but keeps its value.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TOLERANCE: Final = 0.02
"""Share by which a guest's clock may differ from the host's; Linux corrects less than 1 %."""


class Reading(NamedTuple):
    """A guest's clock, and the host's before the request and after the reply; seconds."""

    before: float
    guest: float
    after: float


def clock_rate(first: Reading, last: Reading) -> tuple[float, float]:
    """Return the least and the greatest rate, 1 = the host's, that two readings allow."""
    guest = last.guest - first.guest
    shortest = last.before - first.after
    longest = last.after - first.before
    return guest / longest, guest / shortest if shortest > 0 else float("inf")


def is_wrong(low: float, high: float) -> bool:
    """Return whether any rate within these bounds differs from the host's."""
    return low > 1 + TOLERANCE or high < 1 - TOLERANCE


def is_right(low: float, high: float) -> bool:
    """Return whether every rate within these bounds is the host's, within the tolerance."""
    return low >= 1 - TOLERANCE and high <= 1 + TOLERANCE

"""How fast a guest's clock runs, from what it says when asked.

Linux without a known rate of the time stamp counter finds it at boot by the interval timer (PIT).
Where the processor is emulated and the host busy, that goes wrong now and then, by whatever factor:
one boot in thirty on two cores with four machines booting side by side (36.9 MHz for 2,596).  All
that the guest then measures is wrong, and its time limits pass in no time.  The kernel sees that
the power management timer disagrees, and keeps its value; so the host looks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TOLERANCE: Final = 0.02
"""Share by which a guest's clock may differ from the host's; Linux corrects less than 1 %."""


class Reading(NamedTuple):
    """A guest's clock and the host's before the question and after the answer; seconds."""

    before: float
    guest: float
    after: float


def rate(first: Reading, last: Reading) -> tuple[float, float]:
    """Return the least and the greatest rate, 1 = the host's, that two readings allow."""
    guest = last.guest - first.guest
    shortest = last.before - first.after
    longest = last.after - first.before
    return guest / longest, guest / shortest if shortest > 0 else float("inf")


def is_wrong(low: float, high: float) -> bool:
    """Say whether a rate between these bounds is certainly not the host's."""
    return low > 1 + TOLERANCE or high < 1 - TOLERANCE


def is_right(low: float, high: float) -> bool:
    """Say whether it certainly is, as far as is tolerated."""
    return low >= 1 - TOLERANCE and high <= 1 + TOLERANCE

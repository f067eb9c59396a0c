"""Recovery: how long delivery takes to be as before, after each fault of a scenario.

Delivery before a fault is that of the events published in the `BEFORE` seconds until it begins.
Delivery at a moment is that of the events published in the `WINDOW` seconds from it on; moments
with less until the last event tell nothing.  Delivery has recovered at the first moment, after
it was lower, from which it is `RECOVERED` of what it was before; the time until then counts from
the beginning of the fault.  It is 0 if delivery was never lower, and null if it does not recover by
the end of the settled events, or if nothing was expected or delivered before.  Deliveries are
expected at receivers that are up (`spark_analysis.jobs.outages`), so what is measured is what a
fault costs the others, and those who have come back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

BEFORE: Final = 30.0
"""Seconds."""
WINDOW: Final = 5.0
"""Seconds."""
RECOVERED: Final = 0.95
LIVING: Final = "living_"
"""How the columns of the table begin that count events of publishers whose node was up."""


class Published(NamedTuple):
    """An event: when it was published, s, to how many it was due, and how many got it."""

    time: float
    expected: int
    received: int


class Recovery(NamedTuple):
    """Delivery before a fault, the lowest after it began, and when it was as before."""

    before: float | None
    lowest: float | None
    recovery: float | None


def recovery(events: Sequence[Published], start: float, until: float) -> Recovery:
    """Return how delivery recovered from a fault at `start`, seconds; events in order of time.

    What is published from `until` on (the next fault, or the end) does not count.
    """
    before = _ratio([each for each in events if start - BEFORE <= each.time < start])
    after = [each for each in events if start <= each.time < until and each.expected]
    if not before or not after:
        return Recovery(before, None, None)
    lowest, found, dipped = 1.0, None, False
    for first, event in enumerate(after):
        if first and event.time + WINDOW > after[-1].time:
            break  # too little is left to tell
        ratio = _ratio([each for each in after[first:] if each.time < event.time + WINDOW])
        assert ratio is not None
        lowest = min(lowest, ratio)
        if ratio < RECOVERED * before:
            dipped, found = True, None if not dipped else found
        elif dipped and found is None:
            found = event.time - start
    return Recovery(before, lowest, found if dipped else 0.0)


def recoveries(table: pd.DataFrame, living: str = "") -> Iterator[Recovery]:
    """Yield what the table `recovery` says of each fault; `LIVING`: of those who are up."""
    columns = table[[living + field for field in Recovery._fields]]
    return map(Recovery._make, columns.itertuples(index=False, name=None))


def came_back(faults: Iterable[Recovery]) -> tuple[int, int]:
    """Return after how many faults delivery recovered, and of how many that is known.

    It is not known if nothing was delivered before a fault or expected after it.
    """
    known = [each for each in faults if _is(each.before) and _is(each.lowest)]
    return sum(_is(each.recovery) for each in known), len(known)


def _is(value: float | None) -> bool:
    """Return whether there is a value; tables in memory have NaN if there is none."""
    return value is not None and not math.isnan(value)


def _ratio(events: Sequence[Published]) -> float | None:
    expected = sum(each.expected for each in events)
    return sum(each.received for each in events) / expected if expected else None

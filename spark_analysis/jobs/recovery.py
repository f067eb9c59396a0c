"""Recovery: how long delivery takes to be as before, after each fault of a scenario.

Delivery before a fault is that of the events published in the `BEFORE` seconds until it begins.
Delivery at a moment is that of the events published in the `WINDOW` seconds from it on.  Delivery
has recovered at the first moment, after it was lower, from which it is `RECOVERED` of what it was
before; the time until then counts from the beginning of the fault.  It is 0 if delivery was never
lower, and null if it does not recover by the end of the settled events or if nothing was expected
before.  Deliveries are expected at receivers that are up (`jobs.outages`), so what is measured is
what a fault costs the others, and those who have come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.jobs.delivery import EVENTS
from spark_analysis.schemas import DOUBLE, INT, RUN, STRING, column
from spark_analysis.table import Inputs, Table

BEFORE: Final = 30.0
"""Seconds."""
WINDOW: Final = 5.0
"""Seconds."""
RECOVERED: Final = 0.95


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
    if before is None or not after:
        return Recovery(before, None, None)
    lowest, found, dipped = 1.0, None, False
    for first, event in enumerate(after):
        if first and event.time + WINDOW > max(until, after[-1].time) and dipped:
            break  # too little is left to tell
        ratio = _ratio([each for each in after[first:] if each.time < event.time + WINDOW])
        assert ratio is not None
        lowest = min(lowest, ratio)
        if ratio < RECOVERED * before:
            dipped, found = True, None if not dipped else found
        elif dipped and found is None:
            found = event.time - start
    return Recovery(before, lowest, found if dipped else 0.0)


def _ratio(events: Sequence[Published]) -> float | None:
    expected = sum(each.expected for each in events)
    return sum(each.received for each in events) / expected if expected else None


def rows(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `RECOVERY`."""
    faulty = [run for run in inputs.runs if run.scenario.faults]
    if not faulty:
        return []
    names = [run.name for run in faulty]
    events: dict[str, list[Published]] = {name: [] for name in names}
    table = inputs.of(EVENTS).filter(sf.col("run").isin(names) & sf.col("settled"))
    for name, *values in table.select("run", "time", "expected", "received").collect():
        events[name].append(Published(*values))
    found = []
    for run in faulty:
        published = sorted(events[run.name])
        faults, duration = run.scenario.faults, run.scenario.duration
        for number, fault in enumerate(faults, start=1):
            following = min((f.start for f in faults if f.start > fault.start), default=duration)
            found.append(
                (
                    run.name,
                    number,
                    fault.kind,
                    fault.text,
                    ", ".join(fault.nodes),
                    fault.start,
                    fault.until(duration),
                    *recovery(published, fault.start, following),
                )
            )
    return found


RECOVERY: Final[Table] = Table(
    name="recovery",
    description="faults, and how long delivery took to be as before",
    schema=StructType(
        [
            RUN,
            column("fault", INT, "number of the fault, in order of time"),
            column("kind", STRING, "crash, radio, access-point, link, partition or jam"),
            column("text", STRING, "the fault as it was asked for"),
            column("nodes", STRING, "names of those that failed"),
            column("start", DOUBLE, "s into the run"),
            column("end", DOUBLE, "s into the run"),
            column("before", DOUBLE, f"delivery of the {BEFORE:g} s before it"),
            column("lowest", DOUBLE, f"lowest delivery of {WINDOW:g} s from then on"),
            column(
                "recovery",
                DOUBLE,
                f"s from its start until delivery was {RECOVERED:.0%} of before; null: never",
            ),
        ]
    ),
    order=("fault",),
    make=lambda inputs: inputs.rows(inputs.once(rows), RECOVERY.schema),
)
"""One fault of a scenario."""

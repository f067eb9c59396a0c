"""Recovery: how long delivery takes to recover from each fault of a scenario.

Delivery before a fault is that of the events published in the `BEFORE` seconds until it begins.
Delivery at a moment is that of the events published in the `WINDOW` seconds from it on; moments
with less until the last event do not count.  Delivery has recovered at the first moment, after it
was lower, from which it is `RECOVERED` of what it was before; the time until then counts from the
beginning of the fault.  It is 0 if delivery was never lower, and null if it does not recover by the
end of the settled events, or if nothing was expected or delivered before.  Deliveries are expected
at receivers that are up (`spark_analysis.measures.runs`), so what is measured is what a fault costs
the others, and those who have come back.  All that a publisher on a node that is down publishes is
lost, which no protocol can help: so there are two answers, of all events and of those whose
publisher's node was up (`LIVING`).

The mean time is over the faults that a run recovers from: a protocol that never recovers from some
shows in the share, which stands before the mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as sf

from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.registry import service_of
from nodeapp.pubsub.topic_hash import NodeHash
from spark_analysis.captures.schemas import DOUBLE, INT, STRING, column, run_schema
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.engine.tables import Inputs, SummaryColumn, Table, driver_rows
from spark_analysis.measures.delivery import EVENTS
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.runs import crashes, facts, silences
from spark_analysis.report.metric import MeasuredMetric, significant
from spark_analysis.report.quantities import NOTHING, listed, printable, seconds, share
from spark_analysis.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(2, "0c692679f13d")


BEFORE: Final = 30.0
"""Seconds."""

WINDOW: Final = 5.0
"""Seconds."""

RECOVERED: Final = 0.95

LIVING: Final = "living_"
"""Prefix of the columns that count only events of publishers whose node was up."""


class Published(NamedTuple):
    """An event: when it was published (s), to how many clients it was due, how many got it."""

    time: float
    expected: int
    received: int


class Recovery(NamedTuple):
    """Delivery before a fault, the lowest after it began, and when it had recovered."""

    before: float | None
    lowest: float | None
    recovery: float | None


def recovery(events: Sequence[Published], start: float, until: float) -> Recovery:
    """Return how delivery recovered from a fault at `start`, seconds; events in order of time.

    What is published from `until` on (the next fault, or the end) does not count.
    """
    before = _ratio([event for event in events if start - BEFORE <= event.time < start])
    after = [event for event in events if start <= event.time < until and event.expected]
    if not before or not after:
        return Recovery(before, None, None)
    lowest, recovered, dipped = 1.0, None, False
    for first, event in enumerate(after):
        if first and event.time + WINDOW > after[-1].time:
            break  # too little is left to tell
        ratio = _ratio([later for later in after[first:] if later.time < event.time + WINDOW])
        assert ratio is not None
        lowest = min(lowest, ratio)
        if ratio < RECOVERED * before:
            dipped, recovered = True, None if not dipped else recovered
        elif dipped and recovered is None:
            recovered = event.time - start
    return Recovery(before, lowest, recovered if dipped else 0.0)


def recoveries(table: pd.DataFrame, living: str = "") -> Iterator[Recovery]:
    """Yield what the table `recovery` says of each fault; `LIVING`: of those who are up."""
    columns = table[[living + field for field in Recovery._fields]]
    return map(Recovery._make, columns.itertuples(index=False, name=None))


def came_back(faults: Iterable[Recovery]) -> tuple[int, int]:
    """Return after how many faults delivery recovered, and for how many that is known.

    It is not known if nothing was delivered before a fault or expected after it.
    """
    comparable = [fault for fault in faults if _is(fault.before) and _is(fault.lowest)]
    return sum(_is(fault.recovery) for fault in comparable), len(comparable)


def _is(value: float | None) -> bool:
    """Return whether there is a value; tables in memory have NaN if there is none."""
    return value is not None and not math.isnan(value)


def _ratio(events: Sequence[Published]) -> float | None:
    expected = sum(event.expected for event in events)
    return sum(event.received for event in events) / expected if expected else None


def fault_rows(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `RECOVERY`."""
    faulty = [run for run in inputs.runs if run.faults]
    if not faulty:
        return []
    names = [run.name for run in faulty]
    events: dict[str, list[Published]] = {name: [] for name in names}
    living: dict[str, list[Published]] = {name: [] for name in names}
    outages = _outages(inputs)
    table = inputs.of(EVENTS).filter(sf.col("run").isin(names) & sf.col("settled"))
    columns = "run", "publisher", "time", "expected", "received"
    for name, publisher, time, *counts in table.select(*columns).collect():
        event = Published(time, *counts)
        events[name].append(event)
        if not any(begin <= time < end for begin, end in outages.get((name, publisher), ())):
            living[name].append(event)
    ends = {row.run: (row.end_ns - row.epoch_ns) / 1e9 for row in inputs.once(facts)}
    rows = []
    for run in faulty:
        published, of_living = sorted(events[run.name]), sorted(living[run.name])
        end = min(ends[run.name], run.scenario.duration)
        faults = [fault for fault in run.faults if fault.start < end]
        for number, fault in enumerate(faults, start=1):
            following = min((f.start for f in faults if f.start > fault.start), default=end)
            rows.append(
                (
                    run.name,
                    number,
                    fault.kind,
                    fault.text,
                    ", ".join(fault.nodes),
                    fault.start,
                    fault.until(end),
                    *recovery(published, fault.start, following),
                    *recovery(of_living, fault.start, following),
                )
            )
    return rows


def _outages(inputs: Inputs) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """Return when nodes were down, seconds into the run, by run and node id."""
    epochs = {row.run: row.epoch_ns for row in inputs.once(facts)}
    outages: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for run, node, begin, end in (*inputs.once(crashes), *inputs.once(silences)):
        times = (begin - epochs[run]) / 1e9, (end - epochs[run]) / 1e9
        outages.setdefault((run, node), []).append(times)
    return outages


RECOVERY: Final[Table] = Table(
    name="recovery",
    description="faults, and how long delivery took to recover",
    schema=run_schema(
        column("fault", INT, "number of the fault, in order of time"),
        column("kind", STRING, "crash, radio, off, access-point, link, partition or jam"),
        column("text", STRING, "the fault as specified"),
        column("nodes", STRING, "names of those that failed"),
        column("start", DOUBLE, "s into the run"),
        column("end", DOUBLE, "s into the run; its end if that came first"),
        column("before", DOUBLE, f"delivery of the {BEFORE:g} s before it"),
        column("lowest", DOUBLE, f"lowest delivery of {WINDOW:g} s from then on"),
        column(
            "recovery",
            DOUBLE,
            f"s from its start until delivery was {RECOVERED:.0%} of before; null: never",
        ),
        column("living_before", DOUBLE, "as `before`, of publishers whose node was up"),
        column("living_lowest", DOUBLE, "as `lowest`, of publishers whose node was up"),
        column("living_recovery", DOUBLE, "as `recovery`, of publishers whose node was up"),
    ),
    order=("fault",),
    make=lambda inputs: driver_rows(inputs.once(fault_rows), RECOVERY.schema),
)
"""One fault of a scenario, or one that was made at the prompt."""


def fault_table(tables: RunTables) -> list[TextTable]:
    """Return a row for each fault; no table if there is none."""
    rows: list[list[Cell]] = []
    for row in tuples(tables.table("recovery").sort_values("fault")):
        names = [name for name in str(row.nodes).split(", ") if name]
        rows.append(
            [
                printable(str(row.text or row.kind)),
                listed(names) or NOTHING,
                f"{seconds(row.start)} to {seconds(row.end)}",
                share(row.before),
                share(row.lowest),
                _time(row.recovery, known=_is(row.before) and _is(row.lowest)),
                _time(row.living_recovery, known=_is(row.living_before) and _is(row.living_lowest)),
            ]
        )
    if not rows:
        return []
    note = (
        f"Before: delivery of the {BEFORE:g} s until the fault. Lowest: of {WINDOW:g} s from then "
        f"on. Recovery: from the fault's beginning until delivery is {RECOVERED:.0%} of before. "
        "Deliveries count at receivers that are up; recovery of the living leaves out events whose "
        f"publisher's node was down. {_balance(tables)} " + " ".join(orphans(tables))
    )
    head = ("fault", "who", "when", "before", "lowest", "recovery", "of the living")
    return [TextTable("Faults", note.strip(), head, rows, words=3)]


def _balance(tables: RunTables) -> str:
    """Return after how many faults delivery came back, and how long that took."""
    table = tables.table("recovery")
    back, known = came_back(recoveries(table))
    if not known:
        return ""
    time = seconds(tables.value("recovery"))
    mean = f", after {time} on average of these" if back else ""
    living, of = came_back(recoveries(table, LIVING))
    among = "" if (living, of) == (back, known) else f"; among the living after {living} of {of}"
    return f"Delivery came back after {back} of {known} faults{mean}{among}."


def _time(recovery: float | None, *, known: bool) -> str:
    """Return a recovery time as text."""
    if recovery is not None and _is(recovery):
        return seconds(recovery)
    return "not in this run" if known else NOTHING


def orphans(tables: RunTables) -> Iterator[str]:
    """Yield a line for each fault that took the one node that serves some topics."""
    scenario = tables.scenario
    service = service_of(scenario.protocol.name)
    if not issubclass(service, DecisionPoint) or service.hashing is not NodeHash:
        return
    hashing = NodeHash(scenario.environment())
    topics = sorted(set(tables.table("events")["topic"].dropna()))
    points = {topic: tables.names[hashing(topic).node] for topic in topics}
    taken_over = bool(scenario.protocol.parameters.get("takeover"))
    for fault in tables.run.faults:
        if fault.start >= tables.observed:
            break  # the run was ended before
        lost = [topic for topic in topics if points[topic] in fault.nodes]
        if fault.kind in ("crash", "radio", "off") and lost:
            names = listed(sorted({points[topic] for topic in lost}))
            until = fault.until(min(tables.observed, scenario.duration))
            ends = (
                "the node with the next id took over (takeover=true)."
                if taken_over
                else "nobody takes over (--set takeover=true lets the node with the next id)."
            )
            yield (
                f"Topics {printable(listed(lost))} are served by {names}, down from "
                f"{seconds(fault.start)} to {seconds(until)}: {ends}"
            )


FAULTS: Final = Section(tables=fault_table)

_TIME: Final = column(
    "recovery", DOUBLE, "s until delivery is as before, mean over faults that it recovers from"
)

_SHARE: Final = column(
    "recovered", DOUBLE, "faults after which delivery was as before / those of which it is known"
)

_LIVING: Final = column(
    "recovered_living", DOUBLE, "as `recovered`, of events of publishers whose node was up"
)


def _by_run(inputs: Inputs, *, living: bool = False) -> dict[str, list[Recovery]]:
    """Return how delivery recovered from each fault; `living`: of publishers whose node was up."""
    by_run: dict[str, list[Recovery]] = {}
    count = len(Recovery._fields)
    for run, *values in inputs.once(fault_rows):
        answer = values[-count:] if living else values[-2 * count : -count]
        by_run.setdefault(run, []).append(Recovery(*answer))
    return by_run


def _means(inputs: Inputs) -> Iterator[tuple[str, float]]:
    for run, faults in _by_run(inputs).items():
        times = [fault.recovery for fault in faults if fault.recovery is not None]
        if times:
            yield run, sum(times) / len(times)


def _shares(inputs: Inputs, *, living: bool = False) -> Iterator[tuple[str, float]]:
    for run, faults in _by_run(inputs, living=living).items():
        back, known = came_back(faults)
        if known:
            yield run, back / known


def _text(value: float, unit: str) -> str:
    return significant(value) if math.isnan(value) else f"{significant(value)} {unit}"


@dataclass(frozen=True, kw_only=True)
class _Recovered(MeasuredMetric):
    """A share of few faults, which comparisons write as numbers."""

    living: str = ""

    def cell(self, tables: RunTables) -> str:
        """Return what a comparison says of a run."""
        back, known = came_back(recoveries(tables.table("recovery"), self.living))
        return f"{back} of {known}" if known else significant(math.nan)


FAULTS_RECOVERED: Final = _Recovered(
    column="recovered",
    title="Faults recovered from",
    caption=f"Faults after which delivery came back to {RECOVERED:.0%} of before, until the next "
    "one or the end.",
    unit="% of faults",
    scale=100.0,
    top=100.0,
    text=lambda value: _text(100 * value, "%"),
    swept=True,
    heading="recovered from",
    if_known=True,
    measure=SummaryColumn(
        make=lambda inputs: driver_rows([*_shares(inputs)], "run string, recovered double"),
        column=_SHARE,
    ),
)

FAULTS_RECOVERED_LIVING: Final = _Recovered(
    column="recovered_living",
    title="Faults recovered from, among the living",
    caption=f"Faults after which delivery came back to {RECOVERED:.0%} of before, of events whose "
    "publisher's node was up: what nodes that are down publish is lost whatever the protocol.",
    unit="% of faults",
    scale=100.0,
    top=100.0,
    text=lambda value: _text(100 * value, "%"),
    swept=True,
    heading="living recovered from",
    if_known=True,
    living=LIVING,
    measure=SummaryColumn(
        make=lambda inputs: driver_rows(
            [*_shares(inputs, living=True)], "run string, recovered_living double"
        ),
        column=_LIVING,
    ),
)

RECOVERY_TIME: Final = MeasuredMetric(
    column="recovery",
    title="Recovery time",
    caption=f"From a fault until delivery is {RECOVERED:.0%} of before; mean of each run's faults "
    "after which it came back: compare it with the share of these.",
    unit="s",
    text=lambda value: _text(value, "s"),
    swept=True,
    heading="recovery",
    if_known=True,
    measure=SummaryColumn(
        make=lambda inputs: driver_rows([*_means(inputs)], "run string, recovery double"),
        column=_TIME,
    ),
)


MEASURES: Final = (Measure(RECOVERY, FAULTS),)
METRICS: Final = (FAULTS_RECOVERED, FAULTS_RECOVERED_LIVING, RECOVERY_TIME)

"""The faults of one run: what failed, when, and how delivery recovered."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from nodeapp.pubsub.decision_point import DecisionPoint
from nodeapp.pubsub.registry import service_of
from nodeapp.pubsub.topic_hash import NodeHash
from spark_analysis.pandas_rows import tuples
from spark_analysis.recovering import BEFORE, LIVING, RECOVERED, WINDOW, came_back, recoveries
from spark_analysis.report.quantities import NOTHING, printable, seconds, share
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, TextTable
from spark_analysis.result import RunTables

SHOWN = 6
"""Names of nodes or topics in a cell."""


def fault_table(tables: RunTables) -> list[TextTable]:
    """Return a row for each fault; no table if there is none."""
    rows: list[list[Cell]] = []
    for row in tuples(tables.table("recovery").sort_values("fault")):
        names = [name for name in str(row.nodes).split(", ") if name]
        rows.append(
            [
                printable(str(row.text or row.kind)),
                _listed(names) or NOTHING,
                f"{seconds(row.start)} to {seconds(row.end)}",
                share(row.before),
                share(row.lowest),
                _time(row.recovery, known=pd.notna(row.before) and pd.notna(row.lowest)),
                _time(
                    row.living_recovery,
                    known=pd.notna(row.living_before) and pd.notna(row.living_lowest),
                ),
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


def _time(recovery: float, *, known: bool) -> str:
    """Return a recovery time as text."""
    if pd.notna(recovery):
        return seconds(recovery)
    return "not in this run" if known else NOTHING


def orphans(tables: RunTables) -> Iterator[str]:
    """Yield which topics lost the one node that serves them, and that nobody took over."""
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
        if fault.kind in ("crash", "radio") and lost:
            names = _listed(sorted({points[topic] for topic in lost}))
            until = fault.until(min(tables.observed, scenario.duration))
            ends = (
                "the node with the next id took over (takeover=true)."
                if taken_over
                else "nobody takes over (--set takeover=true lets the node with the next id)."
            )
            yield (
                f"Topics {printable(_listed(lost))} are served by {names}, down from "
                f"{seconds(fault.start)} to {seconds(until)}: {ends}"
            )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


FAULTS = Section(tables=fault_table)

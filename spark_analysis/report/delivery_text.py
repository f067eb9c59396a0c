"""Delivery of one run: per topic, and over time."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from spark_analysis.report.figures import Drawing, delivery_over_time, floats
from spark_analysis.report.marks import listed, marks
from spark_analysis.report.quantities import count, printable, share
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, TextTable, ratio, sums
from spark_analysis.result import RunTables


def topic_table(tables: RunTables) -> TextTable:
    """Return delivery per topic, settled events."""
    events = tables.table("events")
    early = " early enough to be counted" if len(events) else ""
    events = events[events["settled"].eq(True)]
    columns = ("expected", "received", "unexpected", "duplicates")
    rows: list[list[Cell]] = []
    if not events.empty:
        events = events.assign(topic=events["topic"].fillna("(none)"), published=1)
        totals = sums(events, "topic", ("published", *columns))
        rows = [_topic_row(printable(str(topic)), row) for topic, row in totals.iterrows()]
        if len(rows) > 1:
            rows.append(_topic_row("all", totals.sum()))
    return TextTable(
        "Delivery per topic",
        "Events published early enough before the end to be counted; loopback captures.",
        ("topic", "events", "expected", "received", "ratio", "duplicates", "unexpected"),
        rows,
        empty=f"No event was published{early}.",
        last_is_total=len(rows) > 1,
    )


def _topic_row(name: str, row: pd.Series) -> list[Cell]:
    return [
        name, count(row.published), count(row.expected), count(row.received),
        share(ratio(row.received, row.expected)), count(row.duplicates), count(row.unexpected),
    ]  # fmt: skip


def over_time(tables: RunTables) -> Drawing:
    """Draw delivery by time of publication."""
    table = tables.table("delivery_over_time").sort_values("time")
    happened = marks(tables)
    drawing = delivery_over_time(
        floats(table["time"]),
        floats(table["width"]),
        floats(table["expected"]),
        floats(table["received"]),
        table["settled"].eq(True).to_numpy(bool),
        [mark.time for mark in happened],
        [(f.start, f.until(tables.observed)) for f in tables.run.faults],
    )
    return replace(drawing, caption=drawing.caption + listed(happened))


TOPICS = Section(tables=lambda tables: [topic_table(tables)])
OVER_TIME = Section(drawings=lambda tables: [("delivery", over_time(tables))])

"""Delay of one run: its distribution, and by hop count."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from nodeapp.pubsub.registry import service_of
from spark_analysis.pandas_rows import tuples
from spark_analysis.report.figures import Drawing, delay_cdf, floats
from spark_analysis.report.quantities import count, number, seconds
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, TextTable, zero
from spark_analysis.result import RunTables

LONG_ROUTE: Final = 10
"""Hops of a route that a reader will wonder at."""


def hops_table(tables: RunTables) -> TextTable:
    """Return the delay by hop count and over all."""
    rows: list[list[Cell]] = [
        [
            "0 (publisher's node)" if row.hops == 0 else number(row.hops), count(row.count_),
            *(seconds(value) for value in (row.mean_, row.p50, row.p90, row.p99, row.max_)),
        ]
        for row in tuples(
            tables.table("delay_by_hops")
            .rename(columns={"count": "count_", "mean": "mean_", "max": "max_"})
            .sort_values("hops")
        )
    ]  # fmt: skip
    if rows:
        statistics = ("delay_mean", "delay_p50", "delay_p90", "delay_p99", "delay_max")
        rows.append(
            [
                "all other nodes",
                count(zero(tables.value("delay_count"))),
                *(seconds(tables.value(name)) for name in statistics),
            ]
        )
    return TextTable(
        "Delay by hop count",
        "From PUBLISH of the publisher's client to the first NOTIFY of the receiver's.",
        ("radio hops", "n", "mean", "median", "p90", "p99", "max"),
        rows,
        empty="Nothing was delivered.",
        last_is_total=True,
    )


def distribution(tables: RunTables) -> Drawing:
    """Draw the distribution of the delay of deliveries to other nodes."""
    delay = tables.table("delay")
    delay = delay[~delay["local"].eq(True)]
    hops = delay["hops"].fillna(-1).to_numpy(np.int64)
    drawing = delay_cdf(floats(delay["delay"]), hops)
    longest = int(hops.max(initial=0))
    service = service_of(tables.scenario.protocol.name)
    if longest < LONG_ROUTE or not service.rounds_voids:
        return drawing
    why = (
        f" The longest route has {longest} hops: if no neighbour is nearer to the destination, GPSR"
        " goes round the void in perimeter mode, and a message to a position at which no node "
        "stands goes once round it to find the nearest."
    )
    return replace(drawing, caption=drawing.caption + why)


DISTRIBUTION = Section(drawings=lambda tables: [("delay", distribution(tables))])
BY_HOPS = Section(tables=lambda tables: [hops_table(tables)])

"""Delay: from the PUBLISH on the publisher's loopback to the first NOTIFY on the receiver's.

All captures of a run are stamped by one clock, so no clocks need to be compared.  Only deliveries
that were expected count; those at the publisher's own node (0 hops) are listed apart.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from nodeapp.pubsub.registry import service_of
from nodeapp.routing.gpsr_parameters import GpsrParameters
from spark_analysis.captures.schemas import (
    CLIENT,
    DOUBLE,
    LOCAL,
    LONG,
    PUBLISHER,
    RECEIVER,
    SEQUENCE,
    SHORT,
    column,
    run_schema,
)
from spark_analysis.engine.pandas_rows import floats, tuples
from spark_analysis.engine.tables import Table
from spark_analysis.measures.delivery import DELIVERY
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import count, number, seconds
from spark_analysis.report.text_table import Cell, TextTable, zero

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "c0533803bcd4")


DELIVERY_KEY: Final = ("publisher", "sequence", "receiver", "client")
"""Columns that tell the deliveries of a run apart."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Names and values of the quantiles reported (exact, interpolated between neighbours)."""

DELAY: Final = Table(
    name="delay",
    description="one row a delivery: delay and hops",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        CLIENT,
        LOCAL,
        column("time", DOUBLE, "s into the run of the PUBLISH"),
        column("hops", SHORT, "radio hops the event travelled; 0 at the publisher's node"),
        column("delay", DOUBLE, "s from PUBLISH on its loopback to NOTIFY on the receiver's"),
    ),
    order=("time", "publisher", "sequence", "receiver", "client", "hops"),
    make=lambda inputs: delay(inputs.of(DELIVERY)),
)
"""One delivery that was expected and made (its first NOTIFY)."""

_DELAY_STATISTICS: Final = [
    column("count", LONG, "deliveries"),
    column("mean", DOUBLE, "s"),
    column("p50", DOUBLE, "s, median"),
    column("p90", DOUBLE, "s, 90th percentile"),
    column("p99", DOUBLE, "s, 99th percentile"),
    column("max", DOUBLE, "s"),
]

DELAY_BY_HOPS: Final = Table(
    name="delay_by_hops",
    description="delay statistics by hop count",
    schema=run_schema(
        column("hops", SHORT, "radio hops; 0 at the publisher's node"), *_DELAY_STATISTICS
    ),
    order=("hops",),
    make=lambda inputs: delay_by_hops(inputs.of(DELAY)),
)
"""Delay by hop count."""


def delay(delivery: DataFrame) -> DataFrame:
    """Return `DELAY` from `DELIVERY`."""
    return delivery.filter(sf.col("expected") & sf.col("delay").isNotNull()).to(DELAY.schema)


def statistics() -> list[Column]:
    """Return the aggregates count, mean, the quantiles and max of a column `delay`."""
    return [
        sf.count("delay").alias("count"),
        sf.mean("delay").alias("mean"),
        *[sf.percentile("delay", share).alias(name) for name, share in QUANTILES.items()],
        sf.max("delay").alias("max"),
    ]


def delay_by_hops(delay: DataFrame) -> DataFrame:
    """Return `DELAY_BY_HOPS` from `DELAY`."""
    return delay.groupBy("run", "hops").agg(*statistics()).to(DELAY_BY_HOPS.schema)


LONG_ROUTE: Final = 10
"""Hops from which a route needs an explanation."""


def _hops(hops: float) -> str:
    if not hops >= 0:
        return "not known"
    return "0 (publisher's node)" if hops == 0 else number(hops)


def hops_table(tables: RunTables) -> TextTable:
    """Return the delay by hop count and over all."""
    rows: list[list[Cell]] = [
        [
            _hops(row.hops), count(row.count_),
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
    from spark_analysis.report.figures import delay_cdf

    delay = tables.table("delay")
    delay = delay[~delay["local"].eq(True)]
    hops = delay["hops"].fillna(-1).to_numpy(np.int64)
    drawing = delay_cdf(floats(delay["delay"]), hops)
    longest = int(hops.max(initial=0))
    service = service_of(tables.scenario.protocol.name)
    by_gpsr = service.needs_places and issubclass(service.Parameters, GpsrParameters)
    if longest < LONG_ROUTE or not by_gpsr:
        return drawing
    why = (
        f" The longest route has {longest} hops: if no neighbour is nearer to the destination, GPSR"
        " goes round the void in perimeter mode, and a message to a position at which no node "
        "stands goes once round it to find the nearest."
    )
    return replace(drawing, caption=drawing.caption + why)


DISTRIBUTION: Final = Section(drawings=lambda tables: [("delay", distribution(tables))])

BY_HOPS: Final = Section(tables=lambda tables: [hops_table(tables)])


def _counted(tables: RunTables) -> str:
    hops = tables.value("hops_mean")
    return f"deliveries to other nodes: {count(zero(tables.value('delay_count')))}" + (
        f", {number(hops)} hops on average" if math.isfinite(hops) else ""
    )


DELAY_MEAN: Final = Metric(
    column="delay_mean",
    title="Mean delay",
    caption="From PUBLISH to NOTIFY, mean of the deliveries made.",
    unit="ms",
    scale=1000.0,
    text=seconds,
)

DELAY_P50: Final = Metric(
    column="delay_p50",
    title="Median delay",
    caption="From PUBLISH at the publisher's node to NOTIFY at the subscriber's, deliveries to "
    "other nodes; median of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    swept=True,
    tile="Median delay",
    detail=_counted,
    heading="median delay",
    terminal="delay {value} ms median",
)

DELAY_P90: Final = Metric(
    column="delay_p90",
    title="90th percentile of the delay",
    caption="One delivery in ten takes longer; of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    swept=True,
)

DELAY_P99: Final = Metric(
    column="delay_p99",
    title="99th percentile of the delay",
    caption="One delivery in a hundred takes longer; of each run.",
    unit="ms",
    scale=1000.0,
    text=seconds,
    tile="99th percentile of delay",
    detail=lambda tables: f"longest {seconds(tables.value('delay_max'))}",
    heading="p99 delay",
    terminal="{value} ms p99",
)

HOPS_MEAN: Final = Metric(
    column="hops_mean",
    title="Radio hops",
    caption="Hops of a delivery to another node; mean of each run.",
    unit="hops",
    text=number,
    swept=True,
    if_known=True,
)


MEASURES: Final = (Measure(DELAY, DISTRIBUTION), Measure(DELAY_BY_HOPS, BY_HOPS))

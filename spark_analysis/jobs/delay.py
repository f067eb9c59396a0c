"""Delay: from the PUBLISH on the publisher's loopback to the first NOTIFY on the receiver's.

All captures of a run are stamped by one clock, so no clocks need to be compared.  Only deliveries
that were expected count; those at the publisher's own node (0 hops) are listed apart.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.jobs.delivery import DELIVERY
from spark_analysis.schemas import (
    CLIENT,
    DOUBLE,
    LOCAL,
    LONG,
    PUBLISHER,
    RECEIVER,
    RUN,
    SEQUENCE,
    SHORT,
    column,
)
from spark_analysis.table import Table

DELIVERY_KEY: Final = ("publisher", "sequence", "receiver", "client")
"""Columns that tell the deliveries of a run apart."""
QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Names and values of the quantiles reported (exact, interpolated between neighbours)."""

DELAY: Final = Table(
    name="delay",
    description="one row a delivery: delay and hops",
    schema=StructType(
        [
            RUN,
            PUBLISHER,
            SEQUENCE,
            RECEIVER,
            CLIENT,
            LOCAL,
            column("time", DOUBLE, "s into the run of the PUBLISH"),
            column("hops", SHORT, "radio hops the event travelled; 0 at the publisher's node"),
            column("delay", DOUBLE, "s from PUBLISH on its loopback to NOTIFY on the receiver's"),
        ]
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
    schema=StructType(
        [RUN, column("hops", SHORT, "radio hops; 0 at the publisher's node"), *_DELAY_STATISTICS]
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

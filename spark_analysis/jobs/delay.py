"""Delay: from the PUBLISH on the publisher's loopback to the first NOTIFY on the receiver's.

All captures of a run are stamped by one clock, so no clocks need to be compared.  Only deliveries
that were expected count; those at the publisher's own node (0 hops) are listed apart.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_analysis.schemas import DELAY, DELAY_BY_HOPS

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Names and values of the quantiles reported (exact, interpolated between neighbours)."""


def delay(delivery: DataFrame) -> DataFrame:
    """Return `DELAY` from `DELIVERY`."""
    return delivery.filter(sf.col("expected") & sf.col("delay").isNotNull()).to(DELAY)


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
    return delay.groupBy("run", "hops").agg(*statistics()).to(DELAY_BY_HOPS)

"""Overlays by interest: routing tables over time.

A peer sends heartbeats to all its links, so the peers to which it sends them in one interval of
heartbeats are its table: chosen and incoming links, and its ring.  Other protocols have no rows,
and cost no query.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from nodeapp.wire import Kind
from spark_analysis.jobs.overhead import PACKETS
from spark_analysis.jobs.runs import RUNS
from spark_analysis.schemas import DOUBLE, INT, LONG, RUN, column
from spark_analysis.table import Inputs, Table

INTERVAL: Final = "heartbeat_interval"


def links(inputs: Inputs) -> DataFrame:
    """Return `OVERLAY_LINKS`."""
    intervals = [
        (run.name, float(run.scenario.protocol.parameters[INTERVAL]))
        for run in inputs.runs
        if INTERVAL in run.scenario.protocol.parameters
    ]
    if not intervals:
        return inputs.rows([], OVERLAY_LINKS.schema)
    times = inputs.rows(intervals, "run string, interval double")
    since = (sf.col("time_ns") - sf.col("epoch_ns")) / sf.lit(1e9)
    return (
        inputs.of(PACKETS)
        .filter((sf.col("kind") == Kind.HEARTBEAT) & (sf.col("originator") == sf.col("node_id")))
        .filter("sent")
        .join(sf.broadcast(inputs.of(RUNS).select("run", "epoch_ns")), "run")
        .join(sf.broadcast(times), "run")
        .withColumn("time", sf.floor(since / sf.col("interval")) * sf.col("interval"))
        .groupBy("run", "node_id", "time")
        .agg(sf.countDistinct("destination").cast("int").alias("links"))
        .to(OVERLAY_LINKS.schema)
    )


OVERLAY_LINKS: Final[Table] = Table(
    name="overlay_links",
    description="overlays: routing table sizes over time, from heartbeats",
    schema=StructType(
        [
            RUN,
            column("node_id", LONG, "node id of the peer"),
            column("time", DOUBLE, "s into the run, begin of an interval of heartbeats"),
            column("links", INT, "peers that it sent heartbeats to in the interval"),
        ]
    ),
    order=("time", "node_id"),
    make=links,
)
"""The table of one peer in one interval."""

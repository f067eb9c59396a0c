"""Summary: one row a run, from the other tables."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.jobs.columns import count_if, sum_if
from spark_analysis.jobs.delay import statistics
from spark_analysis.schemas import BOOLEAN, DOUBLE, INT, LONG, RUN, STRING, SUMMARY, column

RUNS: Final = StructType(
    [
        RUN,
        column("topology", STRING, "topology of the scenario"),
        column("protocol", STRING, "publish/subscribe protocol"),
        column("backend", STRING, "backend that ran it"),
        column("ended", STRING, "completed, interrupted or failed"),
        column("seed", LONG, "seed of the scenario"),
        column("nodes", INT, "nodes of the scenario"),
        column("duration", DOUBLE, "s, as the scenario says"),
        column("epoch_ns", LONG, "Unix time of the scenario's time 0, ns"),
        column("epoch_estimated", BOOLEAN, "time 0 was worked out from the captures"),
        column("packets", LONG, "packets in all captures"),
        column("last_ns", LONG, "Unix time of the last packet, ns"),
        column("settled_ns", LONG, "Unix time up to which events are settled, ns"),
        column("settle", DOUBLE, "s between the two"),
    ]
)
"""What is known of a run before any job: from its folder, and the extent of its captures."""


def summary(
    runs: DataFrame,
    subscriptions: DataFrame,
    events: DataFrame,
    delivery: DataFrame,
    delay: DataFrame,
    overhead: DataFrame,
) -> DataFrame:
    """Return `SUMMARY` from `RUNS` and the tables of the jobs."""
    captured = (sf.col("last_ns") - sf.col("epoch_ns")) / sf.lit(1e9)
    testbed_frames = sf.col("event_frames") + sf.col("control_frames")
    testbed_bytes = sf.col("event_bytes") + sf.col("control_bytes")
    table = runs.withColumn("captured", captured)
    for part in (
        subscriptions.groupBy("run").agg(sf.count("*").alias("subscriptions")),
        _of_events(events),
        _of_delivery(delivery),
        _of_delay(delay),
        _of_overhead(overhead),
    ):
        table = table.join(part, "run", "left")
    counts = [field.name for field in SUMMARY if field.name in table.columns]
    whole = [name for name in counts if not _is_measure(name)]
    table = table.fillna(0, whole).withColumns(
        {
            "delivery_ratio": sf.try_divide("received", "expected"),
            "delivery_ratio_all": sf.try_divide("received_all", "expected_all"),
            "delivery_ratio_remote": sf.try_divide("received_remote", "expected_remote"),
            "event_frames_per_event": sf.try_divide("event_frames", "events"),
            "frames_per_event": sf.try_divide(testbed_frames, sf.col("events")),
            "bytes_per_event": sf.try_divide(testbed_bytes, sf.col("events")),
            "event_frames_per_delivery": sf.try_divide("event_frames", "received_all"),
            "frames_per_delivery": sf.try_divide(testbed_frames, sf.col("received_all")),
            "bytes_per_delivery": sf.try_divide(testbed_bytes, sf.col("received_all")),
            "load_mean": sf.try_divide(sf.col("sent_bytes"), sf.col("nodes") * sf.col("captured")),
            "load_max": sf.try_divide("busiest_bytes", "captured"),
        }
    )
    return table.to(SUMMARY)


def _is_measure(name: str) -> bool:
    """Whether nothing to measure makes it null instead of 0."""
    return name in {field.name for field in RUNS} or name.startswith(("delay_m", "delay_p", "hops"))


def _of_events(events: DataFrame) -> DataFrame:
    settled = sf.col("settled")
    return events.groupBy("run").agg(
        sf.count("*").alias("events"),
        count_if(settled).alias("events_settled"),
        sum_if(settled, sf.col("expected")).alias("expected"),
        sum_if(settled, sf.col("received")).alias("received"),
        sf.sum("expected").alias("expected_all"),
        sf.sum("received").alias("received_all"),
        sum_if(settled, sf.col("expected") - sf.col("expected_local")).alias("expected_remote"),
        sum_if(settled, sf.col("received") - sf.col("received_local")).alias("received_remote"),
    )


def _of_delivery(delivery: DataFrame) -> DataFrame:
    extra = sf.greatest(sf.col("notifications") - 1, sf.lit(0))
    return delivery.groupBy("run").agg(
        count_if(~sf.col("expected")).alias("unexpected"),
        count_if(sf.col("time").isNull()).alias("unknown"),
        sf.sum(extra).alias("duplicates"),
    )


def _of_delay(delay: DataFrame) -> DataFrame:
    remote = delay.filter(~sf.col("local")).groupBy("run")
    table = remote.agg(*statistics(), sf.mean("hops").alias("hops_mean"))
    return table.select(
        [
            sf.col(name).alias(name if name in ("run", "hops_mean") else f"delay_{name}")
            for name in table.columns
        ]
    )


def _of_overhead(overhead: DataFrame) -> DataFrame:
    per_node = overhead.groupBy("run", "node").agg(
        *[
            sum_if(sf.col("category") == name, sf.col(f"sent_{unit}")).alias(f"{name}_{unit}")
            for name in ("event", "control", "other")
            for unit in ("frames", "bytes")
        ],
        sf.sum("received_frames").alias("received_frames"),
        sf.sum("received_bytes").alias("received_bytes"),
        sf.sum("sent_bytes").alias("sent_bytes"),
    )
    totals = [sf.sum(name).alias(name) for name in per_node.columns[2:]]
    return per_node.groupBy("run").agg(*totals, sf.max("sent_bytes").alias("busiest_bytes"))

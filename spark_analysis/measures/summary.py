"""Summary: one row per run, from the other tables.  Its columns are the metrics.

A metric with a new column is a file beside this one with `METRICS`: it is found, and nothing else
changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_analysis.captures.schemas import BOOLEAN, DOUBLE, INT, LONG, RUN, STRING, column
from spark_analysis.engine.tables import Inputs, Rows, Table, driver_rows
from spark_analysis.measures.columns import count_if, sum_if
from spark_analysis.measures.delay import DELAY, statistics
from spark_analysis.measures.delivery import DELIVERY, EVENTS, LATE
from spark_analysis.measures.measure import Measure, Version, declared
from spark_analysis.measures.nodes import node_rows
from spark_analysis.measures.overhead import OVERHEAD
from spark_analysis.measures.packets import UNDECODED
from spark_analysis.measures.runs import FACTS, RUNS, facts
from spark_analysis.measures.subscriptions import SUBSCRIPTIONS
from spark_analysis.report.metric import MeasuredMetric

VERSION: Final = Version(2, "56bbd32ce6ee")

MEASURED: Final[tuple[MeasuredMetric, ...]] = tuple(declared("METRICS"))
"""The metrics of the other files that have columns of their own, by the names of the files."""

_COLUMNS: Final = (
    RUN,
    column("topology", STRING, "topology of the scenario"),
    column("protocol", STRING, "publish/subscribe protocol"),
    column("backend", STRING, "backend that ran it; null if run.json is missing"),
    column("ended", STRING, "completed, interrupted, failed, killed; null if run.json is missing"),
    column("seed", LONG, "seed of the scenario"),
    column("nodes", INT, "nodes of the scenario"),
    column("duration", DOUBLE, "s, as the scenario says"),
    column("captured", DOUBLE, "s into the run of the last packet captured"),
    column("observed", DOUBLE, "s into the run of its end; if not known, of the last packet"),
    column("epoch_ns", LONG, "Unix time of the scenario's time 0, ns"),
    column("epoch_estimated", BOOLEAN, "no run.json: time 0 was worked out from the captures"),
    column("packets", LONG, "packets in all captures"),
    column("subscriptions", INT, "stretches of subscription (table subscriptions)"),
    column("events", INT, "events published"),
    column("events_settled", INT, "of these, published `settle` s before the end or earlier"),
    column("settle", DOUBLE, "s before the end after which events are not settled"),
    column("expected", LONG, "deliveries expected, settled events"),
    column("received", LONG, "of these made"),
    column("delivery_ratio", DOUBLE, "received / expected, settled events"),
    column("expected_late", LONG, f"of `expected`: published less than {LATE:g} s before the end"),
    column("censored", LONG, "of `expected_late` not made: they may have been on their way"),
    column("expected_all", LONG, "deliveries expected, all events"),
    column("received_all", LONG, "of these made"),
    column("delivery_ratio_all", DOUBLE, "received_all / expected_all"),
    column("expected_remote", LONG, "deliveries expected at other nodes, settled events"),
    column("received_remote", LONG, "of these made"),
    column("delivery_ratio_remote", DOUBLE, "received_remote / expected_remote"),
    column("unexpected", LONG, "(event, client) pairs notified and not expected"),
    column("unknown", LONG, "of these, pairs whose PUBLISH is in no capture"),
    column("duplicates", LONG, "notifications beyond the first per (event, client)"),
    column("delay_count", LONG, "deliveries at other nodes than the publisher's"),
    column("delay_mean", DOUBLE, "s, of these"),
    column("delay_p50", DOUBLE, "s, of these"),
    column("delay_p90", DOUBLE, "s, of these"),
    column("delay_p99", DOUBLE, "s, of these"),
    column("delay_max", DOUBLE, "s, of these"),
    column("hops_mean", DOUBLE, "radio hops, of these"),
    column("event_frames", LONG, "event frames sent by radio, all nodes"),
    column("event_bytes", LONG, "bytes of these, from the Ethernet header"),
    column("control_frames", LONG, "control frames sent by radio, all nodes"),
    column("control_bytes", LONG, "bytes of these, from the Ethernet header"),
    column("other_frames", LONG, "packets sent that are not the testbed's"),
    column("other_bytes", LONG, "bytes of these, from the Ethernet header"),
    column("undecoded", LONG, "of `other_frames`: to the node port, so of messages in fragments"),
    column("received_frames", LONG, "frames received by radio, all nodes"),
    column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
    column("event_frames_per_event", DOUBLE, "event frames sent / events published"),
    column("frames_per_event", DOUBLE, "event and control frames sent / events published"),
    column("bytes_per_event", DOUBLE, "bytes of these / events published"),
    column("event_frames_per_delivery", DOUBLE, "event frames sent / deliveries (all events)"),
    column("frames_per_delivery", DOUBLE, "event and control frames sent / deliveries"),
    column("bytes_per_delivery", DOUBLE, "bytes of these / deliveries"),
    column("load_mean", DOUBLE, "bytes sent / observed, mean over nodes with a radio capture"),
    column("load_max", DOUBLE, "bytes sent / observed, of the busiest node"),
)

_COUNTS: Final = tuple(
    field.name
    for field in _COLUMNS
    if field.dataType in (INT, LONG) and field.name not in FACTS.names
)


def _make(inputs: Inputs) -> Rows:
    """Return `SUMMARY`.

    Its columns are joined in the driver: Spark takes longer to plan joins of one row per run than
    to make all the rows that they join.
    """
    rows: dict[str, dict[str, Any]] = {row.run: row._asdict() for row in inputs.once(facts)}
    events = inputs.of(EVENTS)
    parts = (
        inputs.of(SUBSCRIPTIONS).groupBy("run").agg(sf.count("*").alias("subscriptions")),
        _of_events(events),
        _of_late_events(events, inputs.of(RUNS)),
        _of_delivery(inputs.of(DELIVERY)),
        _of_delay(inputs.of(DELAY)),
        _of_overhead(inputs.of(OVERHEAD)),
        inputs.of(UNDECODED).drop("packets"),
    )
    for of_run in _rows(part.toArrow() for part in parts):
        rows[of_run["run"]].update(of_run)
    for name, *_, captured, _ in node_rows(inputs.runs, inputs.surveys):
        rows[name]["radios"] = rows[name].get("radios", 0) + captured
    summary = {run: _completed(row) for run, row in rows.items()}
    for of_run in _rows(inputs.by_run(metric.measure) for metric in MEASURED):
        summary[of_run["run"]].update(of_run)
    names = SUMMARY.schema.names
    summary_rows = [[row.get(name) for name in names] for row in summary.values()]
    return driver_rows(summary_rows, SUMMARY.schema)


def _rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    return itertools.chain.from_iterable(table.to_pylist() for table in tables)


SUMMARY: Final = Table(
    name="summary",
    description="the run in one row: its key figures",
    schema=StructType([*_COLUMNS, *(metric.measure.column for metric in MEASURED)]),
    order=(),
    make=_make,
)
"""One run: what follows from `FACTS` and the other tables, and a column for each metric of
`MEASURED`."""


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a run with those that follow from them; what was not seen counts 0."""
    row = row | {name: row.get(name) or 0 for name in _COUNTS}
    row["captured"] = (row["last_ns"] - row["epoch_ns"]) / 1e9
    row["observed"] = (row["end_ns"] - row["epoch_ns"]) / 1e9
    of_events = frames = octets = None
    if not row["undecoded"]:
        of_events = row["event_frames"]
        frames = of_events + row["control_frames"]
        octets = row["event_bytes"] + row["control_bytes"]
    events, deliveries = row["events"], row["received_all"]
    return row | {
        "delivery_ratio": _ratio(row["received"], row["expected"]),
        "delivery_ratio_all": _ratio(row["received_all"], row["expected_all"]),
        "delivery_ratio_remote": _ratio(row["received_remote"], row["expected_remote"]),
        "event_frames_per_event": _ratio(of_events, events),
        "frames_per_event": _ratio(frames, events),
        "bytes_per_event": _ratio(octets, events),
        "event_frames_per_delivery": _ratio(of_events, deliveries),
        "frames_per_delivery": _ratio(frames, deliveries),
        "bytes_per_delivery": _ratio(octets, deliveries),
        "load_mean": _ratio(row.get("sent_bytes") or 0, row["radios"] * row["observed"]),
        "load_max": _ratio(row.get("busiest_bytes") or 0, bool(row["radios"]) * row["observed"]),
    }


def _ratio(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else part / whole


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


def _of_late_events(events: DataFrame, runs: DataFrame) -> DataFrame:
    """Return what the end of each run may have cut off."""
    observed = (sf.col("end_ns") - sf.col("epoch_ns")) / sf.lit(1e9)
    ends = runs.select("run", observed.alias("observed"))
    late = events.join(sf.broadcast(ends), "run").filter(
        sf.col("settled") & (sf.col("time") > sf.col("observed") - sf.lit(LATE))
    )
    return late.groupBy("run").agg(
        sf.sum("expected").alias("expected_late"),
        sf.sum(sf.col("expected") - sf.col("received")).alias("censored"),
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


MEASURES: Final = (Measure(SUMMARY),)

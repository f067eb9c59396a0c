"""Delivery: who should have received each event, and who did.

An event is due to a client if, at the moment of the PUBLISH, the client has a subscription
(`jobs.subscriptions`) whose filter matches the event and whose attributes the event's policy
admits, and if the client's node is not cut off on purpose (`jobs.outages`), unless the event is its
own.  This is strict: no time is allowed for a new subscription to spread through the network.
It is received if at least one NOTIFY reaches the client, however late; further ones are
duplicates, and NOTIFYs to clients it is not due to are unexpected (as of an event that was
published before the client subscribed).  A publisher's own node can have subscribers too; their
deliveries count, and are told apart by `local`.

Events published shortly before the end (`jobs.runs`) cannot have arrived everywhere; an event
counts as settled if it was published `settle` seconds before the end or earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from nodeapp.events import Event, Subscription
from nodeapp.wire import Kind
from spark_analysis.jobs.clients import MESSAGES
from spark_analysis.jobs.columns import EVENT, PAIR, count_if, seconds
from spark_analysis.jobs.outages import SILENT, silences
from spark_analysis.jobs.publications import PUBLICATIONS
from spark_analysis.jobs.runs import RUNS, bucket_width
from spark_analysis.jobs.subscriptions import SUBSCRIPTIONS
from spark_analysis.schemas import (
    BOOLEAN,
    CLIENT,
    DOUBLE,
    INT,
    LOCAL,
    LONG,
    PUBLISHER,
    RECEIVER,
    RUN,
    SEQUENCE,
    SHORT,
    STRING,
    column,
)
from spark_analysis.table import Inputs, Kept, Table

DELIVERY: Final = Table(
    name="delivery",
    description="one row an event and client: expected, notifications, delay, hops",
    schema=StructType(
        [
            RUN,
            PUBLISHER,
            SEQUENCE,
            RECEIVER,
            CLIENT,
            LOCAL,
            column("time", DOUBLE, "s into the run of the PUBLISH; null if it was not captured"),
            column("settled", BOOLEAN, "the event counts in settled ratios; null without PUBLISH"),
            column("expected", BOOLEAN, "the client should receive the event"),
            column("notifications", INT, "NOTIFY messages of the event to the client"),
            column("delay", DOUBLE, "s from PUBLISH to the first NOTIFY; null if not received"),
            column("hops", SHORT, "radio hops of the first NOTIFY; null if not received"),
        ]
    ),
    order=("time", "publisher", "sequence", "receiver", "client", "hops"),
    make=lambda inputs: delivery(
        inputs.of(PUBLICATIONS),
        _within_reach(inputs, due(inputs.of(PUBLICATIONS), inputs.of(SUBSCRIPTIONS))),
        notifications(inputs.of(MESSAGES)),
        inputs.of(RUNS),
    ),
    kept=Kept.IN_DRIVER,
)
"""One (event, client) pair that was expected or notified or both."""

EVENTS: Final = Table(
    name="events",
    description="published events: expected, received, unexpected, duplicate deliveries",
    schema=StructType(
        [
            RUN,
            PUBLISHER,
            SEQUENCE,
            column("time", DOUBLE, "s into the run, when its publisher sent PUBLISH"),
            column("topic", STRING, "value of the attribute topic; null if there is none"),
            column("attributes", STRING, "the event's attributes as JSON"),
            column("policy", STRING, "access policy as text; null if it has none"),
            column("size", INT, "bytes of the event body"),
            column("settled", BOOLEAN, "published early enough before the end to be counted"),
            column("expected", INT, "clients that should receive the event"),
            column("received", INT, "clients out of `expected` that received it"),
            column("expected_local", INT, "of `expected`: clients at the publisher's own node"),
            column("received_local", INT, "of `received`: clients at the publisher's own node"),
            column("unexpected", INT, "clients that received it and should not have"),
            column("duplicates", INT, "notifications beyond the first per client"),
            column("ratio", DOUBLE, "received / expected; null if nobody was expected"),
        ]
    ),
    order=("time", "publisher", "sequence"),
    make=lambda inputs: events(inputs.of(PUBLICATIONS), inputs.of(DELIVERY), inputs.of(RUNS)),
    kept=Kept.IN_DRIVER,
)
"""One published event."""

DELIVERY_OVER_TIME: Final = Table(
    name="delivery_over_time",
    description="expected and received deliveries by time of publication",
    schema=StructType(
        [
            RUN,
            column("time", DOUBLE, "s into the run, start of the bucket"),
            column("width", DOUBLE, "s, width of the bucket"),
            column("events", INT, "events published in the bucket"),
            column("expected", LONG, "deliveries expected of these events"),
            column("received", LONG, "deliveries made of these events, whenever"),
            column("ratio", DOUBLE, "received / expected; null if nothing was expected"),
            column("settled", BOOLEAN, "every event of the bucket is settled"),
        ]
    ),
    order=("time",),
    make=lambda inputs: delivery_over_time(inputs.of(EVENTS), inputs.once(bucket_width)),
)
"""Delivery by time of publication."""

_CANDIDATES: Final = StructType([RUN, PUBLISHER, SEQUENCE, RECEIVER, CLIENT])


def due(publications: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return run, publisher, sequence, receiver, client: to whom each event is due.

    Spark pairs events and subscriptions by time and topic; `Subscription.accepts` decides on what
    is left.
    """
    events = publications.select(*EVENT, "time_ns", sf.col("topic").alias("event_topic"), "head")
    interest = subscriptions.select(
        sf.col("run").alias("of_run"),
        sf.col("node_id").alias("receiver"),
        "client",
        "topic",
        "body",
        "from_ns",
        "until_ns",
    )
    candidates = events.join(
        sf.broadcast(interest),
        (sf.col("run") == sf.col("of_run"))
        & (sf.col("from_ns") <= sf.col("time_ns"))
        & (sf.col("time_ns") < sf.col("until_ns"))
        & (sf.col("topic").isNull() | (sf.col("topic") == sf.col("event_topic"))),
    ).select(*PAIR, "head", "body")
    return candidates.mapInArrow(_accepted, _CANDIDATES).distinct()


def _accepted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the candidates whose subscription accepts the event.  Every body is decoded once."""
    interest: dict[bytes, Subscription] = {}
    for batch in batches:
        heads: list[Any] = batch["head"].to_pylist()
        bodies: list[Any] = batch["body"].to_pylist()
        events = {head: Event.decode(0, 0, head) for head in set(heads)}
        interest |= {body: Subscription.decode(body) for body in set(bodies) - set(interest)}
        keep = [
            interest[body].accepts(events[head]) for head, body in zip(heads, bodies, strict=True)
        ]
        yield batch.filter(pa.array(keep, pa.bool_())).select(_CANDIDATES.fieldNames())


def _within_reach(inputs: Inputs, due: DataFrame) -> DataFrame:
    """Leave out receivers whose radio was down when the event was published."""
    silent = inputs.once(silences)
    if not silent:
        return due
    times = inputs.of(PUBLICATIONS).select(*EVENT, "time_ns")
    outages = sf.broadcast(inputs.rows(silent, StructType(SILENT)))
    cut_off = (
        due.join(times, EVENT)
        .join(outages, ["run", "receiver"])
        .filter(
            (sf.col("silent_ns") <= sf.col("time_ns"))
            & (sf.col("time_ns") < sf.col("heard_ns"))
            & (sf.col("publisher") != sf.col("receiver"))
        )
    )
    return due.join(cut_off.select(*PAIR), PAIR, "left_anti")


def notifications(messages: DataFrame) -> DataFrame:
    """Return, per event and client, the number of NOTIFYs and the first one's time_ns and hops.

    `messages` are `jobs.clients.client_messages`.
    """
    return (
        messages.filter(~sf.col("request") & (sf.col("kind") == Kind.NOTIFY))
        .withColumnRenamed("node_id", "receiver")
        .groupBy(*PAIR)
        .agg(
            sf.count("*").alias("notifications"),
            sf.min("time_ns").alias("notified_ns"),
            sf.min_by("hops", "time_ns").alias("hops"),
        )
    )


def delivery(
    publications: DataFrame, due: DataFrame, notifications: DataFrame, runs: DataFrame
) -> DataFrame:
    """Return `DELIVERY`.  `runs` has run, epoch_ns and settled_ns (last settled Unix time)."""
    pairs = due.withColumn("due", sf.lit(True)).join(notifications, PAIR, "full_outer")
    known = pairs.join(publications.select(*EVENT, "time_ns"), EVENT, "left").join(
        sf.broadcast(runs.select("run", "epoch_ns", "settled_ns")), "run"
    )
    table = known.select(
        *PAIR,
        (sf.col("publisher") == sf.col("receiver")).alias("local"),
        seconds("time_ns").alias("time"),
        (sf.col("time_ns") <= sf.col("settled_ns")).alias("settled"),
        sf.coalesce("due", sf.lit(False)).alias("expected"),
        sf.coalesce("notifications", sf.lit(0)).alias("notifications"),
        seconds("notified_ns", "time_ns").alias("delay"),
        "hops",
    )
    return table.to(DELIVERY.schema)


def events(publications: DataFrame, delivery: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `EVENTS`.  `runs` as in `delivery`."""
    notified = sf.col("notifications") > 0
    expected, local = sf.col("expected"), sf.col("local")
    counts = delivery.groupBy(*EVENT).agg(
        count_if(expected).alias("expected"),
        count_if(expected & notified).alias("received"),
        count_if(expected & local).alias("expected_local"),
        count_if(expected & notified & local).alias("received_local"),
        count_if(~expected).alias("unexpected"),
        sf.sum(sf.greatest(sf.col("notifications") - 1, sf.lit(0))).alias("duplicates"),
    )
    table = (
        publications.join(counts, EVENT, "left")
        .fillna(0, counts.columns[len(EVENT) :])
        .join(sf.broadcast(runs.select("run", "epoch_ns", "settled_ns")), "run")
        .withColumn("time", seconds("time_ns"))
        .withColumn("settled", sf.col("time_ns") <= sf.col("settled_ns"))
        .withColumn("ratio", sf.try_divide("received", "expected"))
    )
    return table.to(EVENTS.schema)


def delivery_over_time(events: DataFrame, width: float) -> DataFrame:
    """Return `DELIVERY_OVER_TIME` from `events`, in buckets of `width` seconds."""
    table = (
        events.withColumn("time", sf.floor(sf.col("time") / width) * sf.lit(float(width)))
        .groupBy("run", "time")
        .agg(
            sf.count("*").alias("events"),
            sf.sum("expected").alias("expected"),
            sf.sum("received").alias("received"),
            sf.min("settled").alias("settled"),
        )
        .withColumn("width", sf.lit(float(width)))
        .withColumn("ratio", sf.try_divide("received", "expected"))
    )
    return table.to(DELIVERY_OVER_TIME.schema)

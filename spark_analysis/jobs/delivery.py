"""Delivery: who should have received each event, and who did.

An event is due to a client if, at the moment of the PUBLISH, the client has a subscription
(`jobs.subscriptions`) whose filter matches the event and whose attributes the event's policy
admits.  This is strict: no time is allowed for a new subscription to spread through the network.
It is received if at least one NOTIFY reaches the client, however late; further ones are
duplicates, and NOTIFYs to clients it is not due to are unexpected (as of an event that was
published before the client subscribed).  A publisher's own node can have subscribers too; their
deliveries count, and are told apart by `local`.

Events published shortly before the captures end cannot have arrived everywhere; an event counts
as settled if it was published `settle` seconds before the end or earlier.  The end is the last
packet that any capture of the run holds, so a run that goes on or was killed needs no other rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from nodeapp.events import Event, Subscription
from nodeapp.wire import Kind, WireError
from spark_analysis.jobs.columns import EVENT, PAIR, count_if, seconds
from spark_analysis.schemas import (
    BINARY,
    CLIENT,
    DELIVERY,
    DELIVERY_OVER_TIME,
    EVENTS,
    INT,
    LONG,
    PUBLISHER,
    RECEIVER,
    RUN,
    SEQUENCE,
    STRING,
    column,
)

SETTLE: Final = 2.0
"""Seconds before the end of the captures after which an event is not settled, by default."""

PUBLICATIONS: Final = StructType(
    [
        RUN,
        PUBLISHER,
        SEQUENCE,
        column("time_ns", LONG, "Unix time of the PUBLISH, ns"),
        column("topic", STRING, "value of the attribute topic"),
        column("attributes", STRING, "the event's attributes as JSON"),
        column("policy", STRING, "access policy as text"),
        column("size", INT, "bytes of the event body"),
        column("head", BINARY, "the event without its payload, encoded"),
    ]
)
"""One event as its publisher's node took it."""

_CANDIDATES: Final = StructType([RUN, PUBLISHER, SEQUENCE, RECEIVER, CLIENT])


def publications(requests: DataFrame) -> DataFrame:
    """Return `PUBLICATIONS` from the requests of clients (`jobs.clients.requests`).

    A client that misses the ACK sends again: the first PUBLISH of an event id counts.
    """
    first = (
        requests.filter(
            (sf.col("kind") == Kind.PUBLISH)
            & (sf.col("publisher") == sf.col("node_id"))
            & (sf.col("sequence") > 0)
        )
        .groupBy(*EVENT)
        .agg(sf.min("time_ns").alias("time_ns"), sf.min_by("body", "time_ns").alias("body"))
    )
    return first.mapInArrow(_describe, PUBLICATIONS)


def _describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode event bodies; events that no node would take are left out."""
    schema = to_arrow_schema(PUBLICATIONS)
    for batch in batches:
        rows = (_described(row) for row in batch.to_pylist())
        yield pa.RecordBatch.from_pylist([row for row in rows if row is not None], schema=schema)


def _described(row: dict[str, Any]) -> dict[str, Any] | None:
    body: bytes = row.pop("body")
    try:
        event = Event.decode(row["publisher"], row["sequence"], body)
    except WireError:
        return None
    return row | {
        "topic": event.topic,
        "attributes": json.dumps(dict(event.attributes), ensure_ascii=False),
        "policy": None if event.policy is None else str(event.policy),
        "size": len(body),
        "head": Event(event.publisher, event.sequence, event.attributes, event.policy).encode(),
    }


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
        heads, bodies = batch["head"].to_pylist(), batch["body"].to_pylist()
        events = {head: Event.decode(0, 0, head) for head in set(heads)}
        interest |= {body: Subscription.decode(body) for body in set(bodies) - set(interest)}
        keep = [
            interest[body].accepts(events[head]) for head, body in zip(heads, bodies, strict=True)
        ]
        yield batch.filter(pa.array(keep, pa.bool_())).select(_CANDIDATES.fieldNames())


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
    return table.to(DELIVERY)


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
    return table.to(EVENTS)


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
    return table.to(DELIVERY_OVER_TIME)

"""Publications: the events as their publishers' nodes took them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from nodeapp.events import Event
from nodeapp.wire import Kind, WireError
from spark_analysis.jobs.clients import REQUESTS
from spark_analysis.jobs.columns import EVENT
from spark_analysis.schemas import BINARY, INT, LONG, PUBLISHER, RUN, SEQUENCE, STRING, column
from spark_analysis.table import Kept, Query

PUBLISHED: Final = StructType(
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

PUBLICATIONS: Final = Query(
    make=lambda inputs: publications(inputs.of(REQUESTS)), kept=Kept.IN_DRIVER
)
"""`PUBLISHED` of all runs."""


def publications(requests: DataFrame) -> DataFrame:
    """Return `PUBLISHED` from the requests of clients (`jobs.clients.requests`).

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
    return first.mapInArrow(_describe, PUBLISHED)


def _describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode event bodies; events that no node would take are left out."""
    schema = to_arrow_schema(PUBLISHED)
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

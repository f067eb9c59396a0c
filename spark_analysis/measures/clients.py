"""What clients said to their nodes and heard from them: the loopback captures.

A request that its node refused (an ACK with the same token that carries a text) has had no
effect, and is left out.  One that was never acknowledged counts: the client has asked, and that no
node app was there to answer is a failure of delivery.

Publications are the events as their publishers' nodes accepted them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from nodeapp.events import Event
from nodeapp.kinds import FIRST_CLIENT_KIND, ClientKind
from nodeapp.wire import CLIENT_PORT, WireError, encode_body
from spark_analysis.captures.schemas import (
    BINARY,
    INT,
    LONG,
    PUBLISHER,
    SEQUENCE,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.tables import Kept, Query
from spark_analysis.measures.columns import EVENT
from spark_analysis.measures.measure import Version
from spark_analysis.measures.nodes import NODES

VERSION: Final = Version(1, "9e8bf92d4aaf")

_DONE: Final = encode_body(None)
"""Body of the ACK of a request that was done."""

MESSAGES: Final = Query(
    make=lambda inputs: client_messages(inputs.frames, inputs.of(NODES)), kept=Kept.IN_DRIVER
)
"""`client_messages` of all runs."""

REQUESTS: Final = Query(make=lambda inputs: requests(inputs.of(MESSAGES)))
"""`requests` of all runs."""


def client_messages(frames: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the messages on the loopbacks of the scenario's nodes.

    Columns: run, node_id, client (UDP port), request (true: to the node), time_ns, kind, token,
    destination, publisher, sequence, hops, body.
    """
    request = sf.col("port_dst") == CLIENT_PORT
    return (
        frames.filter((sf.col("interface") == "lo") & (sf.col("kind") >= FIRST_CLIENT_KIND))
        .join(sf.broadcast(nodes.select("run", "node", "node_id")), ["run", "node"])
        .select(
            "run",
            "node_id",
            sf.when(request, sf.col("port_src")).otherwise(sf.col("port_dst")).alias("client"),
            request.alias("request"),
            "time_ns",
            "kind",
            sf.col("originator").alias("token"),
            "destination",
            "publisher",
            "sequence",
            "hops",
            "body",
        )
    )


def requests(messages: DataFrame) -> DataFrame:
    """Return the requests among `client_messages` that were not refused."""
    refused = messages.filter(
        ~sf.col("request") & (sf.col("kind") == ClientKind.ACK) & (sf.col("body") != sf.lit(_DONE))
    ).select("run", "node_id", "client", "token", sf.col("destination").alias("kind"))
    return messages.filter("request").join(
        sf.broadcast(refused), ["run", "node_id", "client", "token", "kind"], "left_anti"
    )


PUBLISHED: Final = run_schema(
    PUBLISHER,
    SEQUENCE,
    column("time_ns", LONG, "Unix time of the PUBLISH, ns"),
    column("topic", STRING, "value of the attribute topic"),
    column("attributes", STRING, "the event's attributes as JSON"),
    column("policy", STRING, "access policy as text"),
    column("size", INT, "bytes of the event body"),
    column("head", BINARY, "the event without its payload, encoded"),
)
"""One event as its publisher's node accepted it."""

PUBLICATIONS: Final = Query(
    make=lambda inputs: publications(inputs.of(REQUESTS)), kept=Kept.IN_DRIVER
)
"""`PUBLISHED` of all runs."""


def publications(requests: DataFrame) -> DataFrame:
    """Return `PUBLISHED` from the requests of clients (`requests`).

    A client that misses the ACK sends again: the first PUBLISH of an event id counts.
    """
    first = (
        requests.filter(
            (sf.col("kind") == ClientKind.PUBLISH)
            & (sf.col("publisher") == sf.col("node_id"))
            & (sf.col("sequence") > 0)
        )
        .groupBy(*EVENT)
        .agg(sf.min("time_ns").alias("time_ns"), sf.min_by("body", "time_ns").alias("body"))
    )
    return first.mapInArrow(_describe, PUBLISHED)


def _describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode event bodies; events that no node would accept are left out."""
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

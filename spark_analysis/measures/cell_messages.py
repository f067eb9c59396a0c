"""Messages of rendezvous cells: what control messages that cells route say, from the radios.

Of protocols over cell hash routing, whose subscribers choose among a topic's rendezvous cells;
others have no rows, and cost no query.  A CELL_STATE lists several entries, and is a row for each,
as if its ADVERTISEMENT or SUBSCRIPTION had come when the entry says that it did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from emulation.scenario.runfolder import Run
from nodeapp import wire
from nodeapp.auth import TRAILER
from nodeapp.events import Subscription
from nodeapp.pubsub.messages import TopicKind, decode_located
from nodeapp.pubsub.rendezvous_cell import CellKind, Entry, decode_prune, decode_state
from nodeapp.routing.cell_hash_routing import CellRoutingParameters
from nodeapp.routing.cell_wire import decode_cell_route
from nodeapp.routing.cells import Cell
from nodeapp.wire import FLAG_SEALED, WireError
from spark_analysis.captures.schemas import (
    BINARY,
    BOOLEAN,
    INT,
    LONG,
    SHORT,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.tables import Inputs, Kept, Query, Rows, driver_rows
from spark_analysis.measures.measure import Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import with_parameters

VERSION: Final = Version(1, "1c2d7876d2c8")

ENTRIES: Final = (TopicKind.ADVERTISEMENT, TopicKind.SUBSCRIPTION)
"""Kinds of messages that the nodes of a rendezvous cell keep."""

_KINDS: Final = (*ENTRIES, CellKind.PRUNE, CellKind.DEMAND, CellKind.CELL_STATE)

CELL_MESSAGE: Final = run_schema(
    column("node_id", LONG, "node id of the sender or receiver of the frame"),
    column("sent", BOOLEAN, "the node sent the frame"),
    column("time_ns", LONG, "Unix time, ns; of an entry of a state when it was heard"),
    column("kind", SHORT, "message kind; of a state that of its entry"),
    column("flags", SHORT, "header flags"),
    column("hops", SHORT, "radio hops made, this one included"),
    column("destination", LONG, "node id of the final destination"),
    column("issuer", LONG, "node id of the issuer of the message"),
    column("topic", STRING, "topic"),
    column("replica", INT, "number of the topic's rendezvous cell"),
    column("item", BINARY, "the subscription, encoded; null: another kind"),
    column("size", INT, "bytes that it takes"),
    column("cell_column", INT, "column of the cell that it was sent from"),
    column("cell_row", INT, "row of that cell"),
    column("target_column", INT, "of a state: column of the cell that it is for; else null"),
    column("target_row", INT, "row of that cell"),
)
"""One message of a frame."""

CELL_MESSAGES: Final = Query(make=lambda inputs: cell_messages(inputs), kept=Kept.IN_SPARK)  # noqa: PLW0108
"""`CELL_MESSAGE` of all runs; malformed bodies are left out."""


def with_cells(inputs: Inputs) -> list[Run]:
    """Return the runs of protocols whose subscribers choose among rendezvous cells."""
    return with_parameters(inputs, CellRoutingParameters)


def replica() -> Column:
    """Return the replica number in the routing extension `route`."""
    return sf.conv(sf.hex(sf.substring("route", 2, 1)), 16, 10).cast("int")


def cell_messages(inputs: Inputs) -> Rows:
    """Return `CELL_MESSAGES`."""
    names = [run.name for run in with_cells(inputs)]
    if not names:
        return driver_rows([], CELL_MESSAGE)
    carried = inputs.of(PACKETS).filter(
        sf.col("run").isin(names)
        & sf.col("kind").isin([int(kind) for kind in _KINDS])
        & sf.col("sent").isNotNull()
        & sf.col("route").isNotNull()
    )
    columns = ("run", "node_id", "sent", "time_ns", "kind", "flags", "hops", "destination")
    return carried.select(*columns, "originator", "route", "body").mapInArrow(_decode, CELL_MESSAGE)


def _decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(CELL_MESSAGE)
    for batch in batches:
        rows = [entry for row in batch.to_pylist() for entry in entries_of(row)]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def entries_of(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the messages of a frame; none if it is malformed."""
    body = row["body"][:-TRAILER] if row["flags"] & FLAG_SEALED else row["body"]
    try:
        route = decode_cell_route(row["route"])
        base = dict(row) | _cell("cell", route.sender)
        if row["kind"] == CellKind.CELL_STATE:
            base |= _cell("target", route.target)
            entries = decode_state(body, row["time_ns"] / 1e9)
            yield from (base | _entry(row["time_ns"], body, len(entries), item) for item in entries)
        else:
            topic, item = _topic_and_item(row["kind"], body)
            base |= {"issuer": row["originator"], "topic": topic, "replica": route.key}
            yield base | {"item": item, "size": len(body)}
    except WireError:
        return


def _cell(name: str, cell: Cell) -> dict[str, int]:
    return {f"{name}_column": cell[0], f"{name}_row": cell[1]}


def _topic_and_item(kind: int, body: bytes) -> tuple[str | None, bytes | None]:
    """Return the topic of a message, and its subscription if it is one.  Raises `WireError`."""
    if kind == CellKind.PRUNE:
        return decode_prune(body)[0], None
    item = decode_located(body).item
    if kind == TopicKind.SUBSCRIPTION:
        return Subscription.decode(item).filter.topic, item
    topic = wire.decode_body(item)
    if not isinstance(topic, str):
        raise WireError("a message without a topic")
    return topic, None


def _entry(now_ns: int, body: bytes, entries: int, entry: Entry) -> dict[str, Any]:
    """Return what an entry of a state says; its size is its share of the body."""
    kind = TopicKind.ADVERTISEMENT if entry.subscription is None else TopicKind.SUBSCRIPTION
    age_ns = round((now_ns / 1e9 - entry.heard) * 1e3) * 1_000_000
    return {
        "time_ns": now_ns - age_ns,
        "kind": int(kind),
        "issuer": entry.node,
        "topic": entry.key[0],
        "replica": entry.key[1],
        "item": entry.subscription,
        "size": len(body) // entries,
    }

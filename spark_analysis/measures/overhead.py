"""Overhead: what the radio interfaces sent and received, by node and kind of message.

`bytes` are those of the Ethernet frame, `wire_bytes` those of the testbed's header, routing
extension and body.  `spark_analysis.measures.packets` says which frames count, and for whom.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.scenario.scenario import Scenario
from nodeapp.auth import TRAILER
from nodeapp.wire import HEADER_LENGTH
from spark_analysis.captures.schemas import LONG, SHORT, STRING, column, run_schema
from spark_analysis.engine.pandas_rows import floats
from spark_analysis.engine.tables import Kept, Table
from spark_analysis.measures.columns import count_if, sum_if
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.overlay import OVERLAY_DEPTH
from spark_analysis.measures.packets import PACKETS, addressed, begins, purpose, purpose_category
from spark_analysis.report.metric import AgreementBound, Metric
from spark_analysis.report.quantities import count, number, printable, quantity, share
from spark_analysis.report.text_table import Cell, TextTable, ratio, sums, zero

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "b1656838fc16")


OVERHEAD: Final = Table(
    name="overhead",
    description="radio frames and bytes by node and message kind",
    schema=run_schema(
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("kind", SHORT, "message kind; null if not a testbed frame"),
        column("kind_name", STRING, "HELLO, EVENT, ...; ARP, TCP ... of a middleware; or `other`"),
        column("category", STRING, "event, control or other"),
        column("sent_frames", LONG, "frames the node's radio interface sent"),
        column("messages", LONG, "of the frames sent, those that begin a message"),
        column("sent_bytes", LONG, "bytes of the frames sent, from the Ethernet header"),
        column("sent_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
        column("received_frames", LONG, "frames from other nodes that it received"),
        column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("received_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
        column("addressed_frames", LONG, "frames received, but not those that list others"),
        column("unattributed_frames", LONG, "packets without an IPv4 source: sender not known"),
        column("unattributed_bytes", LONG, "bytes of these, from the Ethernet header"),
    ),
    order=("node_id", "kind", "kind_name"),
    make=lambda inputs: overhead(inputs.of(PACKETS)),
    kept=Kept.IN_DRIVER,
)
"""Radio traffic of one node in one message kind."""


def overhead(packets: DataFrame) -> DataFrame:
    """Return `OVERHEAD` from `radio_packets`."""
    sent, received = sf.col("sent"), ~sf.col("sent")
    unattributed = sf.col("sent").isNull()
    length = sf.col("length")
    wire_length = HEADER_LENGTH + sf.col("route_length") + sf.col("body_length")
    table = (
        packets.withColumns({"kind_name": purpose(), "category": purpose_category()})
        .groupBy("run", "node", "node_id", "kind", "kind_name", "category")
        .agg(
            count_if(sent).alias("sent_frames"),
            count_if(sent & begins()).alias("messages"),
            sum_if(sent, length).alias("sent_bytes"),
            sum_if(sent, wire_length).alias("sent_wire_bytes"),
            count_if(received).alias("received_frames"),
            sum_if(received, length).alias("received_bytes"),
            sum_if(received, wire_length).alias("received_wire_bytes"),
            count_if(received & addressed()).alias("addressed_frames"),
            count_if(unattributed).alias("unattributed_frames"),
            sum_if(unattributed, length).alias("unattributed_bytes"),
        )
    )
    return table.to(OVERHEAD.schema)


OTHER = "other"
"""Kind of the packets that are not the testbed's, and have no seal."""


def by_kind(tables: RunTables) -> pd.DataFrame:
    """Return sent frames and bytes by kind name, for kinds that were sent at all."""
    totals = sums(tables.table("overhead"), "kind_name", ("sent_frames", "messages", "sent_bytes"))
    return totals[totals["sent_frames"] > 0]


def kind_table(tables: RunTables) -> TextTable:
    """Return the overhead by message kind."""
    totals = by_kind(tables).sort_values("sent_bytes", ascending=False, kind="stable")
    delivered = zero(tables.value("received_all"))
    octets = float(totals["sent_bytes"].sum())

    def row(name: str, sent_frames: float, messages: float, sent_bytes: float) -> list[Cell]:
        return [
            name, count(sent_frames), count(messages), quantity(sent_bytes, "B"),
            share(ratio(sent_bytes, octets)),
            number(ratio(sent_frames, delivered)),
            quantity(ratio(sent_bytes, delivered), "B"),
        ]  # fmt: skip

    rows = [
        row(printable(str(kind)), line.sent_frames, line.messages, line.sent_bytes)
        for kind, line in totals.iterrows()
    ]
    if rows:
        frames, messages = (float(totals[name].sum()) for name in ("sent_frames", "messages"))
        rows.append(row("all", frames, messages, octets))
    return TextTable(
        "Overhead by message kind",
        "Sent on all radios, radio captures; messages are the frames of a first hop. “Other” are "
        "packets that are not the testbed's."
        + seals(tables.scenario, totals["sent_frames"].drop(OTHER, errors="ignore").sum(), octets),
        (
            "kind",
            "frames",
            "messages",
            "bytes",
            "of bytes",
            "frames per delivery",
            "bytes per delivery",
        ),
        rows,
        empty="No frame was sent on the radio.",
        last_is_total=True,
    )


def seals(scenario: Scenario, frames: float, octets: float) -> str:
    """Return what the seals of so many frames cost, of all bytes sent; nothing without a key."""
    if scenario.auth == "none":
        return ""
    cost = TRAILER * frames
    return (
        f" Frames are sealed (auth={scenario.auth}): {TRAILER} bytes each, "
        f"{quantity(cost, 'B')} in all, {share(ratio(cost, octets))} of the bytes sent."
    )


def kinds_drawing(tables: RunTables) -> Drawing:
    """Draw what was sent, by message kind."""
    from spark_analysis.report.figures import overhead_by_kind

    kinds = by_kind(tables)
    return overhead_by_kind(
        [str(kind) for kind in kinds.index],
        floats(kinds["sent_frames"]),
        floats(kinds["sent_bytes"]),
        int(np.nan_to_num(tables.value("received_all"))),
    )


KINDS: Final = Section(
    tables=lambda tables: [kind_table(tables)],
    drawings=lambda tables: [("overhead", kinds_drawing(tables))],
)


def _frames(tables: RunTables) -> str:
    value = tables.value
    frames = sum(zero(value(name)) for name in ("event_frames", "control_frames"))
    carrying = value("event_frames_per_delivery")
    return f"frames sent: {count(frames)}, deliveries: {count(zero(value('received_all')))}" + (
        f"; {number(carrying)} with the event itself" if math.isfinite(carrying) else ""
    )


FRAMES_PER_DELIVERY: Final = Metric(
    column="frames_per_delivery",
    title="Frames per delivery",
    caption="Frames sent on all radios, event and control, for one delivery.",
    unit="frames",
    text=number,
    swept=True,
    tile="Frames per delivered event",
    detail=_frames,
    heading="frames per delivery",
    terminal="{value} frames per delivery",
)

BYTES_PER_DELIVERY: Final = Metric(
    column="bytes_per_delivery",
    title="Bytes per delivery",
    caption="Bytes sent on all radios, event and control, for one delivery.",
    unit="bytes",
    text=partial(quantity, unit="B"),
    heading="bytes per delivery",
)

EVENT_FRAMES_PER_EVENT: Final = Metric(
    column="event_frames_per_event",
    title="Event frames per event",
    caption="Frames that carry an event, for one published event.",
    unit="frames",
    text=number,
    swept=True,
    agreement=AgreementBound("messages of an event", 0.05, beside=OVERLAY_DEPTH.column),
)


MEASURES: Final = (Measure(OVERHEAD, KINDS),)

"""Load: what each node sends by radio in a second."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from spark_analysis.captures.files import SUFFIXES
from spark_analysis.captures.schemas import INT, LONG, STRING, column, run_schema
from spark_analysis.engine.pandas_rows import floats, tuples
from spark_analysis.engine.tables import Table
from spark_analysis.measures.columns import count_if, sum_if
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS
from spark_analysis.measures.subscriptions import roles
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import NOTHING, count, quantity, seconds
from spark_analysis.report.text_table import Cell, FileLink, TextTable, sums

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "78a2ead0262a")


LOAD: Final = Table(
    name="load",
    description="radio frames and bytes by node and second",
    schema=run_schema(
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("second", INT, "whole second into the run"),
        column("sent_frames", LONG, "frames sent by radio in that second"),
        column("sent_bytes", LONG, "bytes sent in that second, from the Ethernet header"),
        column("mesh_frames", LONG, "of the frames sent, those by the mesh radio"),
        column("received_frames", LONG, "frames received by radio in that second"),
        column("received_bytes", LONG, "bytes received in that second, from the Ethernet header"),
    ),
    order=("node_id", "second"),
    make=lambda inputs: load(inputs.of(PACKETS), inputs.of(RUNS)),
)
"""Radio traffic of one node in one second; seconds without any are left out."""


def load(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `LOAD` from `radio_packets`, of all packets.  `runs` has run and epoch_ns."""
    sent, received = sf.col("sent"), ~sf.col("sent")
    length = sf.col("length")
    since = sf.col("time_ns") - sf.col("epoch_ns")
    table = (
        packets.join(sf.broadcast(runs.select("run", "epoch_ns")), "run")
        .withColumn("second", sf.floor(since / sf.lit(1e9)))
        .groupBy("run", "node", "node_id", "second")
        .agg(
            count_if(sent).alias("sent_frames"),
            sum_if(sent, length).alias("sent_bytes"),
            count_if(sent & (sf.col("interface") == MESH)).alias("mesh_frames"),
            count_if(received).alias("received_frames"),
            sum_if(received, length).alias("received_bytes"),
        )
    )
    return table.to(LOAD.schema)


def per_node(tables: RunTables) -> pd.DataFrame:
    """Return one row per node of the scenario: traffic (NaN without radio capture), captures."""
    import pandas as pd

    columns = ("sent_frames", "sent_bytes", "received_frames", "received_bytes")
    nodes = tables.table("nodes").set_index("node_id")
    totals = sums(tables.table("overhead"), "node_id", columns)
    rows = []
    for node in tables.scenario.nodes:
        radio = bool(nodes["radio_captured"].get(node.id, False))
        traffic = totals.loc[node.id] if node.id in totals.index else dict.fromkeys(columns, 0.0)
        rows.append(
            {
                "node_id": node.id, "name": node.name, "radio": radio,
                "loopback": bool(nodes["loopback_captured"].get(node.id, False)),
                **{name: float(traffic[name]) if radio else math.nan for name in columns},
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    frame["load"] = frame["sent_bytes"] / tables.observed
    return frame


def node_table(tables: RunTables) -> TextTable:
    """Return traffic, role and captures of every node."""
    publishers, subscribers = roles(tables)
    heard = tables.table("links").groupby("receiver").size()
    rows: list[list[Cell]] = []
    for row in tuples(per_node(tables)):
        role = [
            name
            for name, ids in (("publisher", publishers), ("subscriber", subscribers))
            if row.node_id in ids
        ]
        missing = [
            name for name, there in (("radio", row.radio), ("loopback", row.loopback)) if not there
        ]
        rows.append(
            [
                row.name if isinstance(row.name, str) else str(row.name),
                ", ".join(role) or NOTHING,
                _files(tables, str(row.name), missing),
                str(row.node_id), count(row.sent_frames), quantity(row.sent_bytes, "B"),
                quantity(row.load, "B/s"), count(row.received_frames),
                quantity(row.received_bytes, "B"), count(heard.get(row.node_id, 0)),
            ]
        )  # fmt: skip
    return TextTable(
        "Nodes",
        f"Radio traffic by each node's own capture; sent per second over {seconds(tables.observed)}"
        " captured. Heard: neighbours from which a HELLO arrived.",
        ("node", "role", "captures", "id", "frames sent", "bytes sent", "sent per second",
         "frames received", "bytes received", "heard"),
        rows,
        words=3,
    )  # fmt: skip


def _files(tables: RunTables, node: str, missing: Sequence[str]) -> Cell:
    run = tables.run
    own = ACCESS if tables.scenario.wire is None else WIRED
    radios = [("radio" if own == ACCESS else "wire", f"{node}-{own}")]
    for point in tables.scenario.access_points:
        if node == tables.names.get(point.broker):
            radios = [(f"{which} radio", point.port(kind))
                      for which, kind in (("access", ACCESS), ("mesh", MESH))]  # fmt: skip
            radios.append(("wire", f"{node}-{WIRED}"))
    links = tuple(
        FileLink(text, run.link(f"captures/{name}"))
        for text, capture in (*radios, ("loopback", f"{node}-lo"))
        for name in (f"{capture}{end}" for end in SUFFIXES)
        if text not in missing and (run.captures / name).exists()
    )
    if missing:
        return (*links, FileLink(f"no {' or '.join(missing)}", ""))
    return links or NOTHING


def load_drawing(tables: RunTables) -> Drawing:
    """Draw what every node sent per second."""
    from spark_analysis.report.figures import load_per_node

    nodes = per_node(tables)
    return load_per_node(list(nodes["name"]), floats(nodes["load"]))


LOADS: Final = Section(drawings=lambda tables: [("load", load_drawing(tables))])

LOAD_MEAN: Final = Metric(
    column="load_mean",
    title="Load of a node",
    caption="Bytes a second that a node sends by radio, from the Ethernet header; mean of the "
    "nodes.",
    unit="bytes/s",
    text=partial(quantity, unit="B/s"),
    swept=True,
    tile="Load per node",
    detail=lambda tables: (
        f"sent by radio, mean; busiest node {quantity(tables.value('load_max'), 'B/s')}"
    ),
    heading="load per node",
)


MEASURES: Final = (Measure(LOAD, LOADS),)

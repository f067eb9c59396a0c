"""Radio traffic of one run: by message kind, and by node."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.scenario import Scenario
from nodeapp.auth import TRAILER
from spark_analysis.pandas_rows import tuples
from spark_analysis.report.figures import Drawing, floats, load_per_node, overhead_by_kind
from spark_analysis.report.quantities import (
    NOTHING,
    count,
    number,
    printable,
    quantity,
    seconds,
    share,
)
from spark_analysis.report.section import Section
from spark_analysis.report.text_table import Cell, FileLink, TextTable, ratio, sums, zero
from spark_analysis.result import RunTables

OTHER = "other"
"""Kind of the packets that are not the testbed's, and have no seal."""


def by_kind(tables: RunTables) -> pd.DataFrame:
    """Return sent frames and bytes by kind name, those that were sent at all."""
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
    kinds = by_kind(tables)
    return overhead_by_kind(
        [str(kind) for kind in kinds.index],
        floats(kinds["sent_frames"]),
        floats(kinds["sent_bytes"]),
        int(np.nan_to_num(tables.value("received_all"))),
    )


def per_node(tables: RunTables) -> pd.DataFrame:
    """Return one row a node of the scenario: traffic (NaN without radio capture) and captures."""
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


def roles(tables: RunTables) -> tuple[frozenset[int], frozenset[int]]:
    """Return the ids of nodes with publishers and of nodes with subscribers, as captured."""
    publishers = tables.table("events")["publisher"].dropna().astype(int)
    subscribers = tables.table("subscriptions")["node_id"].dropna().astype(int)
    return frozenset(publishers), frozenset(subscribers)


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
        " captured. Heard: neighbours of which a HELLO arrived.",
        ("node", "role", "captures", "id", "frames sent", "bytes sent", "sent per second",
         "frames received", "bytes received", "heard"),
        rows,
        words=3,
    )  # fmt: skip


def _files(tables: RunTables, node: str, missing: Sequence[str]) -> Cell:
    run = tables.run
    own = ACCESS if tables.scenario.wire is None else WIRED
    radios = [("radio" if own == ACCESS else "wire", f"{node}-{own}.pcap")]
    for point in tables.scenario.access_points:
        if node == tables.names.get(point.broker):
            radios = [(f"{each} radio", f"{point.port(kind)}.pcap")
                      for each, kind in (("access", ACCESS), ("mesh", MESH))]  # fmt: skip
            radios.append(("wire", f"{node}-{WIRED}.pcap"))
    links = tuple(
        FileLink(text, run.link(f"captures/{name}"))
        for text, name in (*radios, ("loopback", f"{node}-lo.pcap"))
        if text not in missing and (run.captures / name).exists()
    )
    if missing:
        return (*links, FileLink(f"no {' or '.join(missing)}", ""))
    return links or NOTHING


def load_drawing(tables: RunTables) -> Drawing:
    """Draw what every node sent in a second."""
    nodes = per_node(tables)
    return load_per_node(list(nodes["name"]), floats(nodes["load"]))


KINDS = Section(
    tables=lambda tables: [kind_table(tables)],
    drawings=lambda tables: [("overhead", kinds_drawing(tables))],
)
LOADS = Section(drawings=lambda tables: [("load", load_drawing(tables))])

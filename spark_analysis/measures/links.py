"""Links: who heard whom; and the map of a run, with its nodes, their paths and these links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.mobility.trajectory import Trace, until
from nodeapp.kinds import CommonKind
from spark_analysis.captures.schemas import DOUBLE, LONG, column, run_schema
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.engine.tables import Table
from spark_analysis.measures.columns import seconds_between
from spark_analysis.measures.load import per_node
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS
from spark_analysis.measures.subscriptions import roles
from spark_analysis.report.quantities import quantity

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables
    from spark_analysis.report import node_map
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "d0b410153267")


LINKS: Final = Table(
    name="links",
    description="HELLO beacons heard by pair of nodes",
    schema=run_schema(
        column("receiver", LONG, "node id that heard"),
        column("sender", LONG, "node id that was heard"),
        column("hellos", LONG, "HELLO beacons heard"),
        column("first", DOUBLE, "s into the run, first beacon"),
        column("last", DOUBLE, "s into the run, last beacon"),
    ),
    order=("receiver", "sender"),
    make=lambda inputs: links(inputs.of(PACKETS), inputs.of(RUNS)),
)
"""Who heard whom by radio (directed)."""


def links(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `LINKS` from `measures.packets.radio_packets`.  `runs` has run and epoch_ns.

    A HELLO goes one hop, so its originator is its sender.
    """
    table = (
        packets.filter((sf.col("kind") == CommonKind.HELLO) & ~sf.col("sent"))
        .groupBy("run", sf.col("node_id").alias("receiver"), sf.col("originator").alias("sender"))
        .agg(
            sf.count("*").alias("hellos"),
            sf.min("time_ns").alias("first_ns"),
            sf.max("time_ns").alias("last_ns"),
        )
        .join(sf.broadcast(runs.select("run", "epoch_ns")), "run")
        .withColumn("first", seconds_between("first_ns"))
        .withColumn("last", seconds_between("last_ns"))
    )
    return table.to(LINKS.schema)


START_WINDOW: Final = 5.0
"""Seconds into a run within which moving nodes heard each other, for the map of their starts."""


def map_drawing(tables: RunTables) -> Drawing:
    """Draw the nodes, their paths, and the links among them."""
    from spark_analysis.report import node_map

    publishers, subscribers = roles(tables)
    nodes = per_node(tables)
    scenario = tables.scenario
    drawn = []
    for node, load in zip(tables.run.driven, nodes["load"], strict=True):
        note = f", sends {quantity(load, 'B/s')}" if np.isfinite(load) else ""
        waypoints = until(node.waypoints, tables.observed)
        track = np.array([(point.x, point.y) for point in waypoints], dtype=float)
        drawn.append(
            node_map.MapNode(node.name, track, node.id in publishers, node.id in subscribers, note)
        )
    moving = Trace([node.waypoints for node in tables.run.driven]).moving
    return node_map.node_map(
        drawn,
        heard_links(tables, only_from_start=moving),
        scenario.area,
        scenario.radio.range,
        "Blue lines: pairs of nodes in whose radio captures HELLO beacons of the other appear"
        + (f", the first within {START_WINDOW:g} s of the start" if moving else "")
        + "; width and strength by the share of beacons sent in the whole run that were heard, "
        "mean of both directions.",
        scenario.road_map,
    )


def heard_links(tables: RunTables, *, only_from_start: bool) -> list[node_map.HeardLink]:
    """Return the pairs of nodes that heard each other and how much of each other.

    The share of a direction is beacons heard over beacons sent.  A direction in which nothing was
    heard counts 0; one whose sender's or receiver's capture is missing does not count.
    `only_from_start` leaves out pairs first heard after `START_WINDOW`: they met on the way.
    """
    from spark_analysis.report import node_map

    overhead = tables.table("overhead")
    beacons = overhead[overhead["kind_name"] == "HELLO"].set_index("node_id")["sent_frames"]
    beacons = beacons.astype(float)
    for point in tables.scenario.access_points:
        if point.broker in beacons.index:
            beacons[point.broker] /= 2  # sent on both channels, to different receivers
    captured = tables.table("nodes").set_index("node_id")["radio_captured"]
    ids = [node.id for node in tables.scenario.nodes]
    index = {node: number for number, node in enumerate(ids)}
    heard: dict[tuple[int, int], float] = {}
    first: dict[tuple[int, int], float] = {}
    for row in tuples(tables.table("links")):
        if row.sender in index and row.receiver in index and row.sender != row.receiver:
            heard[row.sender, row.receiver] = row.hellos
            pair = min(row.sender, row.receiver), max(row.sender, row.receiver)
            first[pair] = min(first.get(pair, np.inf), row.first)

    def part(sender: int, receiver: int) -> float:
        sent = float(beacons.get(sender, 0))
        if not sent or not captured.get(receiver, False):
            return np.nan
        return min(1.0, heard.get((sender, receiver), 0.0) / sent)

    pairs = []
    for (a, b), time in sorted(first.items()):
        if only_from_start and time > START_WINDOW:
            continue
        shares = [value for value in (part(a, b), part(b, a)) if np.isfinite(value)]
        pairs.append(
            node_map.HeardLink(index[a], index[b], float(np.mean(shares)) if shares else 0.0)
        )
    return pairs


MAP: Final = Section(drawings=lambda tables: [("map", map_drawing(tables))])


MEASURES: Final = (Measure(LINKS, MAP),)

"""Overhead: what the radio interfaces sent and received.

A frame is sent by the node whose own address is its IPv4 source, and received by any other that
captured it.  Of a broker behind an access point, the radios are the access point's two: what leaves
these is what the broker had sent, so a broadcast of it counts twice, once a channel, as it is on
the air twice; the wire between the two is no radio and does not count.

Counted are frames as the network layer hands them over, once each: retransmissions and
acknowledgements of the medium access layer, and its headers, are not in these captures.
`bytes` are those of the Ethernet frame, `wire_bytes` those of the testbed's header, routing
extension and body.

A message is told from its transmissions by its first hop, so `messages` of a kind are at most its
frames; what a node sends its neighbours of a message that it got (`FLAG_REPLICA`) is none.  Nodes
along a path that make a frame of their own, as dispatchers of a tree do, send a message each.

A broadcast that lists its addressees is one frame sent, however many it lists.  All in range
receive it; `addressed_frames` counts only the receptions of those it lists.

Messages of the kinds EVENT, DELIVERY, SEARCH and CUBE_EVENT are event messages, all other kinds
control.  Packets that are no whole testbed frame (other programs', and events so long that IP had
to fragment them) are `other`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from emulation.scenario.access_point import MESH
from nodeapp.wire import EVENT_KINDS, FLAG_REPLICA, HEADER_LENGTH, NODE_PORT, Kind
from spark_analysis.jobs.columns import count_if, sum_if
from spark_analysis.jobs.nodes import NODES
from spark_analysis.jobs.runs import RUNS
from spark_analysis.schemas import INT, LONG, RUN, SHORT, STRING, column
from spark_analysis.table import Kept, Query, Table

PACKETS: Final = Query(
    make=lambda inputs: radio_packets(inputs.frames, inputs.of(NODES)), kept=Kept.IN_SPARK_IF_FEW
)
"""`radio_packets` of all runs."""
UNDECODED: Final = Query(make=lambda inputs: undecoded(inputs.of(PACKETS)))
"""`undecoded` of all runs."""

OVERHEAD: Final = Table(
    name="overhead",
    description="radio frames and bytes by node and message kind",
    schema=StructType(
        [
            RUN,
            column("node", STRING, "name of the node"),
            column("node_id", LONG, "node id"),
            column("kind", SHORT, "message kind; null if not a testbed frame"),
            column("kind_name", STRING, "HELLO, EVENT, ...; `other` if not a testbed frame"),
            column("category", STRING, "event, control or other"),
            column("sent_frames", LONG, "frames the node's radio interface sent"),
            column("messages", LONG, "of the frames sent, those that begin a message"),
            column("sent_bytes", LONG, "bytes of the frames sent, from the Ethernet header"),
            column("sent_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
            column("received_frames", LONG, "frames from other nodes that it received"),
            column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
            column("received_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
            column("addressed_frames", LONG, "received frames but those whose list lacks the node"),
            column("unattributed_frames", LONG, "packets without an IPv4 source: sender not known"),
            column("unattributed_bytes", LONG, "bytes of these, from the Ethernet header"),
        ]
    ),
    order=("node_id", "kind"),
    make=lambda inputs: overhead(inputs.of(PACKETS)),
    kept=Kept.IN_DRIVER,
)
"""Radio traffic of one node in one message kind."""

LOAD: Final = Table(
    name="load",
    description="radio frames and bytes by node and second",
    schema=StructType(
        [
            RUN,
            column("node", STRING, "name of the node"),
            column("node_id", LONG, "node id"),
            column("second", INT, "whole second into the run"),
            column("sent_frames", LONG, "frames sent by radio in that second"),
            column("sent_bytes", LONG, "bytes sent in that second, from the Ethernet header"),
            column("mesh_frames", LONG, "of the frames sent, those by the mesh radio"),
            column("received_frames", LONG, "frames received by radio in that second"),
            column(
                "received_bytes", LONG, "bytes received in that second, from the Ethernet header"
            ),
        ]
    ),
    order=("node_id", "second"),
    make=lambda inputs: load(inputs.of(PACKETS), inputs.of(RUNS)),
)
"""Radio traffic of one node in one second; seconds without any are left out."""


def radio_packets(frames: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the packets of the radio interfaces of the scenario's nodes, with `FRAMES` columns.

    `node` is the node whose radio it is, the broker's if it is an access point's.  Adds node_id
    and `sent`: true, false (received), or null if there is no IPv4 source.
    """
    radios = nodes.select(
        "run",
        sf.coalesce("access_point", "node").alias("node"),
        sf.col("node").alias("owner"),
        "node_id",
        "ip",
    )
    return (
        frames.filter(sf.col("interface") != "lo")
        .join(sf.broadcast(radios), ["run", "node"])
        .withColumn("node", sf.col("owner"))
        .drop("owner")
        .withColumn("sent", sf.col("ip_src") == sf.col("ip"))
    )


def addressed() -> Column:
    """Return whether a frame is for the node `node_id`: it lists no addressees, or that node."""
    listed = sf.array_contains(sf.col("addressees"), sf.col("node_id"))
    return sf.coalesce(listed, sf.lit(True))


def begins() -> Column:
    """Return whether a frame begins a message: its first hop, and no copy that a receiver made."""
    copied = sf.col("flags").bitwiseAND(FLAG_REPLICA) != 0
    return (sf.col("hops") == 1) & ~copied


def kind_name(kind: Column) -> Column:
    """Return the name of a message kind; `other` for null."""
    name = sf.when(kind.isNull(), "other")
    for known in Kind:
        name = name.when(kind == int(known), known.name)
    return name.otherwise(kind.cast("string"))


def category(kind: Column) -> Column:
    """Return event, control or other."""
    is_event = kind.isin([int(event) for event in EVENT_KINDS])
    return sf.when(kind.isNull(), "other").when(is_event, "event").otherwise("control")


def overhead(packets: DataFrame) -> DataFrame:
    """Return `OVERHEAD` from `radio_packets`."""
    sent, received = sf.col("sent"), ~sf.col("sent")
    unattributed = sf.col("sent").isNull()
    length = sf.col("length")
    wire_length = HEADER_LENGTH + sf.col("route_length") + sf.col("body_length")
    table = (
        packets.groupBy("run", "node", "node_id", "kind")
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
        .withColumn("kind_name", kind_name(sf.col("kind")))
        .withColumn("category", category(sf.col("kind")))
    )
    return table.to(OVERHEAD.schema)


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


def undecoded(packets: DataFrame) -> DataFrame:
    """Return run, packets: to the node port, and no whole frame of the testbed."""
    strange = sf.col("kind").isNull() & (sf.col("port_dst") == NODE_PORT)
    return packets.filter(strange).groupBy("run").agg(sf.count("*").alias("packets"))

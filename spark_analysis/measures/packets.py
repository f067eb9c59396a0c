"""Packets: what the radio interfaces sent and received.

A frame is sent by the node whose own address is its IPv4 source, and received by any other that
captured it.  The radios of a broker behind an access point are the access point's two: what leaves
these is what the broker had sent, so a broadcast of its counts twice, once per channel, as it is on
the air twice; the wire between the two is no radio and does not count.

Frames are counted as the network layer hands them over, once each: retransmissions and
acknowledgements of the medium access layer, and its headers, are not in these captures.

A message is told from its transmissions by its first hop, so `messages` of a kind are at most its
frames; a copy of a received message that a node sends its neighbours (`FLAG_REPLICA`) is none.
Nodes along a path that make a frame of their own, as dispatchers of a tree do, send a message each.

A broadcast that lists its addressees is one frame sent, however many it lists.  All in range
receive it; `addressed_frames` counts only the receptions of those it lists.

Messages of the kinds EVENT, DELIVERY, SEARCH and CUBE_EVENT are event messages, all other kinds
control.  Packets that are not whole testbed frames (other programs', and events so long that IP had
to fragment them) are `other`; if nodes sent such packets, what follows from kinds is not known.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from capture.foreign import EVENT
from nodeapp.kinds import Role
from nodeapp.pubsub.registry import kinds, kinds_of
from nodeapp.wire import FLAG_REPLICA, NODE_PORT
from spark_analysis.captures.schemas import FOREIGN_FRAMES
from spark_analysis.engine.tables import Kept, Query
from spark_analysis.measures.columns import count_if
from spark_analysis.measures.measure import Version
from spark_analysis.measures.nodes import NODES

VERSION: Final = Version(2, "973fc79e0e18")

_OF_FOREIGN: Final = ("sender", "label", "first_hop", "publishers", "sequences")

PACKETS: Final = Query(
    make=lambda inputs: radio_packets(inputs.frames, inputs.of(NODES), inputs.foreign),
    kept=Kept.IN_SPARK_IF_FEW,
)
"""`radio_packets` of all runs."""

UNDECODED: Final = Query(make=lambda inputs: undecoded(inputs.of(PACKETS)))
"""`undecoded` of all runs."""


def radio_packets(
    frames: DataFrame, nodes: DataFrame, foreign: DataFrame | None = None
) -> DataFrame:
    """Return the packets of the radio interfaces of the scenario's nodes, with `FRAMES` columns.

    `node` is the node whose radio it is, the broker's if it is an access point's.  Adds node_id
    and `sent`: true, false (received), or null if there is no IPv4 source.  Adds the columns of
    `foreign`, `FOREIGN_FRAMES`, whose frames count as sent by the node whose radio sent them, also
    when forwarded.
    """
    if foreign is None:
        frames = frames.withColumns(
            {name: sf.lit(None).cast(FOREIGN_FRAMES[name].dataType) for name in _OF_FOREIGN}
        )
    else:
        frames = frames.join(foreign, ["run", "node", "interface", "number"], "left")
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
        .withColumn(
            "sent",
            sf.coalesce(sf.col("sender") == sf.col("node_id"), sf.col("ip_src") == sf.col("ip")),
        )
    )


def addressed() -> Column:
    """Return whether a frame is for the node `node_id`: it lists no addressees, or that node."""
    listed = sf.array_contains(sf.col("addressees"), sf.col("node_id"))
    return sf.coalesce(listed, sf.lit(True))


def begins() -> Column:
    """Return whether a frame begins a message: its first hop, and not a copy by a receiver."""
    copied = sf.col("flags").bitwiseAND(FLAG_REPLICA) != 0
    return sf.coalesce("first_hop", (sf.col("hops") == 1) & ~copied)


def kind_name(kind: Column) -> Column:
    """Return the name of a message kind; `other` for null."""
    name = sf.when(kind.isNull(), "other")
    for known in kinds().values():
        name = name.when(kind == int(known), known.name)
    return name.otherwise(kind.cast("string"))


def purpose() -> Column:
    """Return the name of a packet's kind, or what a foreign frame is for."""
    return sf.coalesce("label", kind_name(sf.col("kind")))


def purpose_category() -> Column:
    """Return event, control or other, of packets; a middleware's retransmissions are control."""
    of_label = sf.when(sf.col("label") == EVENT, "event").when(
        sf.col("label").isNotNull(), "control"
    )
    return sf.coalesce(of_label, category(sf.col("kind")))


def category(kind: Column) -> Column:
    """Return event, control or other."""
    is_event = kind.isin(kinds_of(Role.EVENT))
    return sf.when(kind.isNull(), "other").when(is_event, "event").otherwise("control")


def undecoded(packets: DataFrame) -> DataFrame:
    """Return run, packets, undecoded: to the node port, but not whole frames; those sent."""
    strange = sf.col("kind").isNull() & (sf.col("port_dst") == NODE_PORT)
    sent = count_if(sf.col("sent")).alias("undecoded")
    return packets.filter(strange).groupBy("run").agg(sf.count("*").alias("packets"), sent)

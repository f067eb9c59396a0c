"""Links: who heard whom; and the path of one event through the network."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from nodeapp.wire import Kind
from spark_analysis.jobs.columns import seconds
from spark_analysis.jobs.overhead import kind_name
from spark_analysis.schemas import LINKS, PATH


def links(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `LINKS` from `jobs.overhead.radio_packets`.  `runs` has run and epoch_ns.

    A HELLO goes one hop, so its originator is its sender.
    """
    table = (
        packets.filter((sf.col("kind") == Kind.HELLO) & ~sf.col("sent"))
        .groupBy("run", sf.col("node_id").alias("receiver"), sf.col("originator").alias("sender"))
        .agg(
            sf.count("*").alias("hellos"),
            sf.min("time_ns").alias("first_ns"),
            sf.max("time_ns").alias("last_ns"),
        )
        .join(sf.broadcast(runs.select("run", "epoch_ns")), "run")
        .withColumn("first", seconds("first_ns"))
        .withColumn("last", seconds("last_ns"))
    )
    return table.to(LINKS)


def path(
    frames: DataFrame, nodes: DataFrame, runs: DataFrame, publisher: int, sequence: int
) -> DataFrame:
    """Return `PATH`, in order of time: where the event (`publisher`, `sequence`) was seen.

    `frames` may hold several runs; `runs` has run and epoch_ns.
    """
    carries = sf.col("kind").isin([int(kind) for kind in (Kind.PUBLISH, Kind.EVENT, Kind.NOTIFY)])
    of_event = (sf.col("publisher") == publisher) & (sf.col("sequence") == sequence)
    table = (
        frames.filter(carries & of_event)
        .join(sf.broadcast(nodes.select("run", "node", "node_id", "ip")), ["run", "node"])
        .join(_address(nodes, "ip_src", "from_node"), ["run", "ip_src"], "left")
        .join(_address(nodes, "ip_dst", "to_node"), ["run", "ip_dst"], "left")
        .join(sf.broadcast(runs.select("run", "epoch_ns")), "run")
        .withColumn("sent", (sf.col("interface") == "lo") | (sf.col("ip_src") == sf.col("ip")))
        .withColumn("kind_name", kind_name(sf.col("kind")))
        .withColumn("time", seconds("time_ns"))
        .orderBy("run", "time_ns", "node_id", "number")
    )
    return table.to(PATH)


def _address(nodes: DataFrame, ip: str, node_id: str) -> DataFrame:
    return sf.broadcast(
        nodes.select("run", sf.col("ip").alias(ip), sf.col("node_id").alias(node_id))
    )

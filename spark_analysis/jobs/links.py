"""Links: who heard whom."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from nodeapp.wire import Kind
from spark_analysis.job import Job
from spark_analysis.jobs.columns import seconds
from spark_analysis.jobs.overhead import PACKETS
from spark_analysis.jobs.runs import RUNS
from spark_analysis.report.map_text import MAP
from spark_analysis.schemas import DOUBLE, LONG, RUN, column
from spark_analysis.table import Table

LINKS: Final = Table(
    name="links",
    description="HELLO beacons heard by pair of nodes",
    schema=StructType(
        [
            RUN,
            column("receiver", LONG, "node id that heard"),
            column("sender", LONG, "node id that was heard"),
            column("hellos", LONG, "HELLO beacons heard"),
            column("first", DOUBLE, "s into the run, first beacon"),
            column("last", DOUBLE, "s into the run, last beacon"),
        ]
    ),
    order=("receiver", "sender"),
    make=lambda inputs: links(inputs.of(PACKETS), inputs.of(RUNS)),
)
"""Who heard whom by radio (directed)."""


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
    return table.to(LINKS.schema)


JOB: Final = Job(LINKS, MAP)

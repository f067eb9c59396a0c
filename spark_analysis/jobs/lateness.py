"""Lateness by the captures: how long broadcasts take from radio to radio beyond their airtime.

The monitor of a backend's medium counts from the moment at which the medium reads a frame; what the
frame waited for before, and what its receiver's stack takes, it cannot see.  The captures of both
nodes can: from the sender's to the receiver's, less the time that the frame is on the air at the
basic rate.  Waiting for the channel is part of it, as 802.11 has it: the same scenario under the
virtual clock, where nothing is late, says how much of it that is.

A reception belongs to the last transmission of the same message by the same node before it, at most
`LONGEST` earlier.  With access points it is not known: frames are sent twice.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from emulation.radio.airtime import phy_for
from emulation.scenario.scenario import Scenario
from spark_analysis.job import Job
from spark_analysis.jobs.overhead import PACKETS
from spark_analysis.schemas import DOUBLE, LONG, RUN, column
from spark_analysis.table import Inputs, Table

LONGEST: Final = 0.5
"""Seconds."""
BROADCASTS: Final = (0xFFFFFFFF, 0x0AFFFFFF)
"""IPv4 addresses that all take."""
LARGEST: Final = 1514
"""Bytes of an Ethernet frame."""

LATENESS: Final[Table] = Table(
    name="lateness",
    description="broadcasts from radio to radio, beyond their airtime",
    schema=StructType(
        [
            RUN,
            column("receptions", LONG, "receptions of broadcasts whose transmission was captured"),
            column("p50", DOUBLE, "s from transmission to reception less airtime, median"),
            column("p99", DOUBLE, "s, of these"),
            column("max", DOUBLE, "s, of these"),
        ]
    ),
    order=(),
    make=lambda inputs: lateness(inputs),  # noqa: PLW0108  # it is below
)
"""One run."""


def airtimes(scenario: Scenario) -> list[float]:
    """Return the seconds that a broadcast is on the air, by the length of its Ethernet frame."""
    radio = scenario.radio
    phy = phy_for(radio.standard, radio.frequency_mhz)
    if radio.basic_rate_mbps is not None:
        phy = phy.with_basic_rate(radio.basic_rate_mbps)
    return [phy.duration(phy.basic_rate, phy.mpdu_bytes(size)) for size in range(LARGEST + 1)]


def lateness(inputs: Inputs) -> DataFrame:
    """Return `LATENESS` of the runs without access points."""
    runs = [run for run in inputs.runs if not run.scenario.access_points]
    rows = [
        (run.name, size, airtime)
        for run in runs
        for size, airtime in enumerate(airtimes(run.scenario))
    ]
    air = sf.broadcast(inputs.rows(rows, "run string, length int, airtime double"))
    packets = inputs.of(PACKETS).filter(
        sf.col("ip_dst").isin(*BROADCASTS) & sf.col("kind").isNotNull()
    )
    message = ("run", "ip_src", "kind", "originator", "publisher", "sequence", "hops", "length")
    until = (
        Window.partitionBy(*message)
        .orderBy("time_ns", sf.col("sent").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    sent_ns = sf.last(sf.when(sf.col("sent"), sf.col("time_ns")), ignorenulls=True).over(until)
    seconds = (sf.col("time_ns") - sf.col("sent_ns")) / sf.lit(1e9)
    found = (
        packets.select(*message, "time_ns", "sent")
        .withColumn("sent_ns", sent_ns)
        .filter(~sf.col("sent") & sf.col("sent_ns").isNotNull() & (seconds <= LONGEST))
        .join(air, ["run", "length"])
        .withColumn("beyond", seconds - sf.col("airtime"))
        .groupBy("run")
        .agg(
            sf.count("*").alias("receptions"),
            sf.expr("percentile(beyond, 0.5)").alias("p50"),
            sf.expr("percentile(beyond, 0.99)").alias("p99"),
            sf.max("beyond").alias("max"),
        )
    )
    return found.to(LATENESS.schema)


JOB: Final = Job(LATENESS)

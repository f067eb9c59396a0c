"""Copies: how often an event reaches a node that it is for, beyond the first time.

GeoRendezvous brings a first event over every rendezvous cell before the subscriber prunes; other
protocols with addressed events should have none.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from nodeapp.kinds import CommonKind
from spark_analysis.captures.schemas import DOUBLE, column
from spark_analysis.engine.tables import Inputs, SummaryColumn
from spark_analysis.measures.columns import EVENT
from spark_analysis.measures.measure import Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.report.metric import MeasuredMetric, significant

VERSION: Final = Version(1, "60fe5c342ee8")


def copies(inputs: Inputs) -> DataFrame:
    """Return run and copies, for runs with events that are addressed to nodes."""
    received = inputs.of(PACKETS).filter(
        (sf.col("kind") == CommonKind.EVENT)
        & ~sf.col("sent")
        & (sf.col("destination") == sf.col("node_id"))
    )
    arrived = received.groupBy(*EVENT, "node_id").agg(sf.count("*").alias("times"))
    extra = sf.mean(sf.col("times") - 1)
    return arrived.groupBy("run").agg(extra.alias("copies"))


COPIES: Final = MeasuredMetric(
    column="copies",
    measure=SummaryColumn(
        column=column("copies", DOUBLE, "copies of an event at a node it is for, beyond the first"),
        make=copies,
    ),
    title="Duplicate copies",
    caption="Copies of an event, beyond the first, that reach a node it is addressed to; none "
    "of them reaches a client.",
    unit="copies",
    text=significant,
    swept=True,
    if_known=True,
    tile="Duplicate copies",
    detail=lambda tables: "per event and node that it is addressed to; no client gets them",
    heading="copies",
)

METRICS: Final = (COPIES,)

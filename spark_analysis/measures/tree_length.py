"""Tree length: how many links an event is sent over, however often.

A link is a sender and the node, or all nodes, that it sends to: this is how many transmissions an
event needs if copies for the same next hop go together.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from nodeapp.kinds import Role
from nodeapp.pubsub.registry import kinds_of
from spark_analysis.captures.schemas import DOUBLE, column
from spark_analysis.engine.tables import Inputs, SummaryColumn
from spark_analysis.measures.columns import EVENT, mean_a_run
from spark_analysis.measures.measure import Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.report.metric import MeasuredMetric, significant

VERSION: Final = Version(1, "c41eebfba4bf")


def tree_length(inputs: Inputs) -> DataFrame:
    """Return run and tree_length."""
    carries = sf.col("kind").isin(kinds_of(Role.EVENT))
    sent = inputs.of(PACKETS).filter(carries & sf.col("sent"))
    links = sent.groupBy(*EVENT).agg(sf.countDistinct("node_id", "ip_dst").alias("links"))
    return mean_a_run(links, "links", "tree_length")


TREE_LENGTH: Final = MeasuredMetric(
    column="tree_length",
    measure=SummaryColumn(
        column=column("tree_length", DOUBLE, "distinct transmissions an event, sent by radio"),
        make=tree_length,
    ),
    title="Notification tree",
    caption="Links that an event is sent over, each counted once; mean of the events that were "
    "sent by radio.",
    unit="links",
    text=significant,
    swept=True,
    if_known=True,
    tile="Notification tree",
    detail=lambda tables: "links that an event is sent over, each counted once",
    heading="tree",
)

METRICS: Final = (TREE_LENGTH,)

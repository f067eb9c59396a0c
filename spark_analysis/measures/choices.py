"""Choices of rendezvous cells: what the cells cost that a subscriber tried and did not choose.

A subscriber that explores subscribes to a topic at several rendezvous cells at once, gets the first
event of each publisher over all of them, and prunes all but the one that it chooses.  So for each
cell that it does not choose there are a subscription for each filter, and of each publisher a
notification and a prune, all unnecessary: 3(n - 1) messages with n cells, one filter and one
publisher (docs/papers.md#georendezvous, section 4), (n - 1)(filters + 2 publishers) in general.

A **choice** is of a subscriber and a topic, from when it explores until it does so again.  One in
which no event came is left out, since nothing was chosen.  Unnecessary are

    subscriptions   that explore, at cells over which the last event of no publisher came
    notifications   arrivals of an event at the subscriber beyond the first
    prunes          that the subscriber sent

by their first hops, and as captured: what a node says to a rendezvous cell that it is in itself is
not on the air.  Prunes that were lost, and events that were under way when they were sent, make
more of them than the bound says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from nodeapp.kinds import CommonKind
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.wire import ANY_NODE, FLAG_EXPLORE, FLAG_REPLICA
from spark_analysis.captures.schemas import DOUBLE, INT, LONG, STRING, column, run_schema
from spark_analysis.engine.tables import Inputs, Kept, Rows, SummaryColumn, Table, driver_rows
from spark_analysis.measures.cell_messages import CELL_MESSAGES, replica, with_cells
from spark_analysis.measures.clients import PUBLICATIONS
from spark_analysis.measures.columns import EVENT, count_if, mean_a_run, seconds_between
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS
from spark_analysis.report.metric import MeasuredMetric, significant
from spark_analysis.report.quantities import count, number
from spark_analysis.report.text_table import TextTable

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "542b35e1674d")


APART: Final = 0.1
"""Seconds within which a subscriber sends the subscriptions of one exploration."""

_OF: Final = ["run", "subscriber", "topic"]

_CHOICE: Final = [*_OF, "number"]

_MADE: Final = ("filters", "tried", "publishers", "subscriptions", "notifications", "prunes")


def _explored(inputs: Inputs) -> DataFrame:
    """Return a row per subscription that explores: `_CHOICE`, time_ns, replica, item, sent_off.

    What a subscriber says to the cell that it is in is on the air as the copy for its neighbours
    alone, and not `sent_off`.
    """
    explored = inputs.of(CELL_MESSAGES).filter(
        sf.col("sent")
        & (sf.col("kind") == TopicKind.SUBSCRIPTION)
        & sf.col("target_row").isNull()
        & (sf.col("issuer") == sf.col("node_id"))
        & (sf.col("hops") == 1)
        & (sf.col("flags").bitwiseAND(FLAG_EXPLORE) != 0)
    )
    by_time = Window.partitionBy(*_OF).orderBy("time_ns")
    since = sf.col("time_ns") - sf.lag("time_ns").over(by_time)
    begins = sf.when(since < int(APART * 1e9), 0).otherwise(1)
    return (
        explored.withColumn("subscriber", sf.col("node_id"))
        .withColumn("begins", begins)
        .withColumn("number", sf.sum("begins").over(by_time).cast("int"))
        .select(*_CHOICE, "time_ns", "replica", "item", (~_copied()).alias("sent_off"))
    )


def _copied() -> Column:
    return sf.col("flags").bitwiseAND(FLAG_REPLICA) != 0


def _arrived(inputs: Inputs) -> DataFrame:
    """Return a row per arrival of an event at a node that it is addressed to."""
    arrived = inputs.of(PACKETS).filter(
        (sf.col("kind") == CommonKind.EVENT)
        & ~sf.col("sent")
        & (sf.col("destination") == sf.col("node_id"))
        & sf.col("route").isNotNull()
    )
    topics = inputs.of(PUBLICATIONS).select(*EVENT, "topic")
    return arrived.join(topics, EVENT).select(
        *EVENT,
        sf.col("node_id").alias("subscriber"),
        "topic",
        sf.col("time_ns").alias("at_ns"),
        "hops",
        replica().alias("over"),
    )


def _pruned(inputs: Inputs) -> DataFrame:
    """Return run, subscriber, topic and at_ns of the prunes that subscribers sent."""
    return (
        inputs.of(CELL_MESSAGES)
        .filter(
            sf.col("sent")
            & (sf.col("kind") == CellKind.PRUNE)
            & (sf.col("destination") == ANY_NODE)
            & (sf.col("issuer") == sf.col("node_id"))
            & (sf.col("hops") == 1)
            & ~_copied()
        )
        .select(
            "run", sf.col("node_id").alias("subscriber"), "topic", sf.col("time_ns").alias("at_ns")
        )
    )


def choices(inputs: Inputs) -> Rows:
    """Return `CHOICES`; no rows, and no work, if no run has rendezvous cells."""
    if not with_cells(inputs):
        return driver_rows([], CHOICES.schema)
    explored = _explored(inputs)
    windows = (
        explored.groupBy(*_CHOICE)
        .agg(
            sf.min("time_ns").alias("start_ns"),
            sf.countDistinct("item").cast("int").alias("filters"),
            sf.countDistinct("replica").cast("int").alias("tried"),
        )
        .withColumn("end_ns", sf.lead("start_ns").over(Window.partitionBy(*_OF).orderBy("number")))
    )
    until = sf.coalesce(sf.col("end_ns"), sf.lit(2**63 - 1))
    inside = (sf.col("at_ns") >= sf.col("start_ns")) & (sf.col("at_ns") < until)
    spans = windows.select(*_CHOICE, "start_ns", "end_ns")
    came = _arrived(inputs).join(spans, _OF).filter(inside)
    of_events = came.groupBy(*_CHOICE, "publisher", "sequence").agg(
        sf.count("*").alias("copies"),
        sf.min_by("over", sf.struct("hops", "at_ns")).alias("over"),
        sf.max("at_ns").alias("at_ns"),
    )
    of_publishers = of_events.groupBy(*_CHOICE, "publisher").agg(
        sf.sum(sf.col("copies") - 1).alias("extra"), sf.max_by("over", "at_ns").alias("over")
    )
    notified = of_publishers.groupBy(*_CHOICE).agg(
        sf.count("*").cast("int").alias("publishers"),
        sf.sum("extra").cast("int").alias("notifications"),
        sf.collect_set("over").alias("chosen"),
    )
    others = ~sf.array_contains(sf.col("chosen"), sf.col("replica"))
    subscribed = (
        explored.join(notified.select(*_CHOICE, "chosen"), _CHOICE)
        .groupBy(*_CHOICE)
        .agg(count_if(others & sf.col("sent_off")).cast("int").alias("subscriptions"))
    )
    pruned = (
        _pruned(inputs)
        .join(spans, _OF)
        .filter(inside)
        .groupBy(*_CHOICE)
        .agg(sf.count("*").cast("int").alias("prunes"))
    )
    unnecessary = sf.col("subscriptions") + sf.col("notifications") + sf.col("prunes")
    bound = (sf.col("tried") - 1) * (sf.col("filters") + 2 * sf.col("publishers"))
    table = (
        windows.join(notified.drop("chosen"), _CHOICE)
        .join(subscribed, _CHOICE, "left")
        .join(pruned, _CHOICE, "left")
        .join(sf.broadcast(inputs.of(RUNS).select("run", "epoch_ns")), "run")
        .fillna(0, list(_MADE))
        .withColumn("unnecessary", unnecessary.cast("int"))
        .withColumn("bound", bound.cast("int"))
        .withColumn("start", seconds_between("start_ns"))
    )
    return table.to(CHOICES.schema)


CHOICES: Final[Table] = Table(
    name="choices",
    description="subscribers' choices of rendezvous cells, and their unnecessary messages",
    schema=run_schema(
        column("subscriber", LONG, "node id of the subscriber"),
        column("topic", STRING, "topic that it subscribed to"),
        column("start", DOUBLE, "s into the run, when it explored"),
        column("filters", INT, "subscriptions to the topic that it has"),
        column("tried", INT, "rendezvous cells that it subscribed at"),
        column("publishers", INT, "publishers of which events came to it"),
        column("subscriptions", INT, "subscriptions at cells that it did not choose"),
        column("notifications", INT, "arrivals of an event beyond the first"),
        column("prunes", INT, "prunes that it sent"),
        column("unnecessary", INT, "the three together, messages"),
        column("bound", INT, "(tried - 1)(filters + 2 publishers), messages: the paper's 3(n - 1)"),
    ),
    order=("subscriber", "topic", "start"),
    make=choices,
    kept=Kept.IN_DRIVER,
)
"""A choice of a subscriber that has explored, and has got an event since."""


def choice_tables(tables: RunTables) -> list[TextTable]:
    """Return the costs of choices, by rendezvous cells tried; nothing if no cell was chosen."""
    rows_of_choices = tables.table("choices")
    if not len(rows_of_choices):
        return []
    columns = ["publishers", "subscriptions", "notifications", "prunes", "unnecessary", "bound"]
    rows = []
    for tried, of_these in rows_of_choices.groupby("tried"):
        means = of_these[columns].mean()
        rows.append([str(tried), count(len(of_these)), *(number(float(mean)) for mean in means)])
    return [
        TextTable(
            "Choices of rendezvous cells",
            "Mean of a subscriber's choices, by the n cells that it tried: messages at cells that "
            "it did not choose, beside their bound: (n−1)(filters + 2 publishers), which is 3(n−1) "
            "with one of each. Overhead by message kind has all signalling.",
            ("cells tried", "choices", "publishers", "subscriptions", "notifications", "prunes",
             "unnecessary", "bound"),
            rows,
        )
    ]  # fmt: skip


CHOSEN: Final = Section(tables=choice_tables)

UNNECESSARY_BOUND: Final = MeasuredMetric(
    column="unnecessary_bound",
    measure=SummaryColumn(
        column=column("unnecessary_bound", DOUBLE, "what `unnecessary_messages` should come to"),
        make=lambda inputs: mean_a_run(inputs.of(CHOICES), "bound", "unnecessary_bound"),
    ),
    title="Bound of unnecessary messages",
    caption="3(n - 1) messages per choice among n rendezvous cells, with one filter and one "
    "publisher; (n - 1)(filters + 2 publishers) with more of them.",
    unit="messages",
    text=significant,
    if_known=True,
)

UNNECESSARY_MESSAGES: Final = MeasuredMetric(
    column="unnecessary_messages",
    measure=SummaryColumn(
        column=column("unnecessary_messages", DOUBLE, "messages a choice of a rendezvous cell"),
        make=lambda inputs: mean_a_run(inputs.of(CHOICES), "unnecessary", "unnecessary_messages"),
    ),
    title="Unnecessary messages",
    caption="Subscriptions, notifications and prunes at rendezvous cells that a subscriber tried "
    "and did not choose; mean of its choices.",
    unit="messages",
    text=significant,
    swept=True,
    if_known=True,
    tile="Unnecessary messages",
    detail=lambda tables: (
        "per choice among rendezvous cells; the bound is "
        f"{significant(tables.value(UNNECESSARY_BOUND.column))}"
    ),
    heading="unnecessary messages, of the bound",
    of=UNNECESSARY_BOUND.column,
)


MEASURES: Final = (Measure(CHOICES, CHOSEN),)
METRICS: Final = (UNNECESSARY_BOUND, UNNECESSARY_MESSAGES)

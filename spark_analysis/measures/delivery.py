"""Delivery: who should have received each event, and who did.

An event is due to a client if, at the moment of the PUBLISH, the client has a subscription
(`measures.subscriptions`) whose filter matches the event and whose attributes the event's policy
admits, and if the client's node is not cut off on purpose (`measures.runs`), unless the event is
its own.  This is strict: no time is allowed for a new subscription to spread through the network.
It is received if at least one NOTIFY reaches the client, however late; further ones are
duplicates, and NOTIFYs to clients it is not due to are unexpected (for example of an event
published before the client subscribed).  A publisher's own node can have subscribers too; their
deliveries count, and are told apart by `local`.

Events published shortly before the end (`measures.runs`) cannot have arrived everywhere; an event
counts as settled if it was published `settle` seconds before the end or earlier.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from emulation.scenario.prompt import told_commands
from nodeapp.events import Event, Subscription
from nodeapp.kinds import ClientKind
from spark_analysis.captures.schemas import (
    BOOLEAN,
    CLIENT,
    DOUBLE,
    INT,
    LOCAL,
    LONG,
    PUBLISHER,
    RECEIVER,
    SEQUENCE,
    SHORT,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.pandas_rows import floats
from spark_analysis.engine.tables import Inputs, Kept, Table
from spark_analysis.measures.clients import MESSAGES, PUBLICATIONS
from spark_analysis.measures.columns import EVENT, PAIR, count_if, seconds_between
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.runs import RUNS, SILENT, bucket_width, silences
from spark_analysis.measures.subscriptions import SUBSCRIPTIONS, roles
from spark_analysis.report.metric import Metric
from spark_analysis.report.quantities import count, number, printable, seconds, share
from spark_analysis.report.text_table import Cell, TextTable, ratio, sums, zero

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "8556a62796ac")


LATE: Final = 45.0
"""Seconds before the end of a run in which an event may still be under way: the slowest path
is two of AODV's searches in a row, to a broker and on to a subscriber, of some 20 s each."""

DELIVERY: Final = Table(
    name="delivery",
    description="one row an event and client: expected, notifications, delay, hops",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        CLIENT,
        LOCAL,
        column("time", DOUBLE, "s into the run of the PUBLISH; null if it was not captured"),
        column("settled", BOOLEAN, "the event counts in settled ratios; null without PUBLISH"),
        column("expected", BOOLEAN, "the client should receive the event"),
        column("notifications", INT, "NOTIFY messages of the event to the client"),
        column("delay", DOUBLE, "s from PUBLISH to the first NOTIFY; null if not received"),
        column("hops", SHORT, "radio hops of the first NOTIFY; null if not received"),
    ),
    order=("time", "publisher", "sequence", "receiver", "client", "hops"),
    make=lambda inputs: delivery(
        inputs.of(PUBLICATIONS),
        _within_reach(inputs, due(inputs.of(PUBLICATIONS), inputs.of(SUBSCRIPTIONS))),
        notifications(inputs.of(MESSAGES)),
        inputs.of(RUNS),
    ),
    kept=Kept.IN_DRIVER,
)
"""One (event, client) pair that was expected or notified or both."""

EVENTS: Final = Table(
    name="events",
    description="published events: expected, received, unexpected, duplicate deliveries",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        column("time", DOUBLE, "s into the run, when its publisher sent PUBLISH"),
        column("topic", STRING, "value of the attribute topic; null if there is none"),
        column("attributes", STRING, "the event's attributes as JSON"),
        column("policy", STRING, "access policy as text; null if it has none"),
        column("size", INT, "bytes of the event body"),
        column("settled", BOOLEAN, "published early enough before the end to be counted"),
        column("expected", INT, "clients that should receive the event"),
        column("received", INT, "clients out of `expected` that received it"),
        column("expected_local", INT, "of `expected`: clients at the publisher's own node"),
        column("received_local", INT, "of `received`: clients at the publisher's own node"),
        column("unexpected", INT, "clients that received it and should not have"),
        column("duplicates", INT, "notifications beyond the first per client"),
        column("ratio", DOUBLE, "received / expected; null if nobody was expected"),
    ),
    order=("time", "publisher", "sequence"),
    make=lambda inputs: events(inputs.of(PUBLICATIONS), inputs.of(DELIVERY), inputs.of(RUNS)),
    kept=Kept.IN_DRIVER,
)
"""One published event."""

DELIVERY_OVER_TIME: Final = Table(
    name="delivery_over_time",
    description="expected and received deliveries by time of publication",
    schema=run_schema(
        column("time", DOUBLE, "s into the run, start of the bucket"),
        column("width", DOUBLE, "s, width of the bucket"),
        column("events", INT, "events published in the bucket"),
        column("expected", LONG, "deliveries expected of these events"),
        column("received", LONG, "deliveries made of these events, whenever"),
        column("ratio", DOUBLE, "received / expected; null if nothing was expected"),
        column("settled", BOOLEAN, "every event of the bucket is settled"),
    ),
    order=("time",),
    make=lambda inputs: delivery_over_time(inputs.of(EVENTS), inputs.once(bucket_width)),
)
"""Delivery by time of publication."""

_CANDIDATES: Final = run_schema(PUBLISHER, SEQUENCE, RECEIVER, CLIENT)


def due(publications: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return run, publisher, sequence, receiver, client: to whom each event is due.

    Spark pairs events and subscriptions by time and topic; `Subscription.accepts` decides on what
    is left.
    """
    events = publications.select(*EVENT, "time_ns", sf.col("topic").alias("event_topic"), "head")
    interest = subscriptions.select(
        sf.col("run").alias("of_run"),
        sf.col("node_id").alias("receiver"),
        "client",
        "topic",
        "body",
        "from_ns",
        "until_ns",
    )
    candidates = events.join(
        sf.broadcast(interest),
        (sf.col("run") == sf.col("of_run"))
        & (sf.col("from_ns") <= sf.col("time_ns"))
        & (sf.col("time_ns") < sf.col("until_ns"))
        & (sf.col("topic").isNull() | (sf.col("topic") == sf.col("event_topic"))),
    ).select(*PAIR, "head", "body")
    return candidates.mapInArrow(_accepted, _CANDIDATES).distinct()


def _accepted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Keep the candidates whose subscription accepts the event.  Every body is decoded once."""
    interest: dict[bytes, Subscription] = {}
    for batch in batches:
        heads: list[Any] = batch["head"].to_pylist()
        bodies: list[Any] = batch["body"].to_pylist()
        events = {head: Event.decode(0, 0, head) for head in set(heads)}
        interest |= {body: Subscription.decode(body) for body in set(bodies) - set(interest)}
        keep = [
            interest[body].accepts(events[head]) for head, body in zip(heads, bodies, strict=True)
        ]
        yield batch.filter(pa.array(keep, pa.bool_())).select(_CANDIDATES.fieldNames())


def _within_reach(inputs: Inputs, due: DataFrame) -> DataFrame:
    """Leave out receivers whose radio was down when the event was published."""
    silent = inputs.once(silences)
    if not silent:
        return due
    times = inputs.of(PUBLICATIONS).select(*EVENT, "time_ns")
    outages = sf.broadcast(inputs.local(silent, StructType(SILENT)))
    cut_off = (
        due.join(times, EVENT)
        .join(outages, ["run", "receiver"])
        .filter(
            (sf.col("silent_ns") <= sf.col("time_ns"))
            & (sf.col("time_ns") < sf.col("heard_ns"))
            & (sf.col("publisher") != sf.col("receiver"))
        )
    )
    return due.join(cut_off.select(*PAIR), PAIR, "left_anti")


def notifications(messages: DataFrame) -> DataFrame:
    """Return, per event and client, the number of NOTIFYs and the first one's time_ns and hops.

    `messages` are `measures.clients.client_messages`.
    """
    return (
        messages.filter(~sf.col("request") & (sf.col("kind") == ClientKind.NOTIFY))
        .withColumnRenamed("node_id", "receiver")
        .groupBy(*PAIR)
        .agg(
            sf.count("*").alias("notifications"),
            sf.min("time_ns").alias("notified_ns"),
            sf.min_by("hops", "time_ns").alias("hops"),
        )
    )


def delivery(
    publications: DataFrame, due: DataFrame, notifications: DataFrame, runs: DataFrame
) -> DataFrame:
    """Return `DELIVERY`.  `runs` has run, epoch_ns and settled_ns (last settled Unix time)."""
    pairs = due.withColumn("due", sf.lit(True)).join(notifications, PAIR, "full_outer")
    known = pairs.join(publications.select(*EVENT, "time_ns"), EVENT, "left").join(
        sf.broadcast(runs.select("run", "epoch_ns", "settled_ns")), "run"
    )
    table = known.select(
        *PAIR,
        (sf.col("publisher") == sf.col("receiver")).alias("local"),
        seconds_between("time_ns").alias("time"),
        (sf.col("time_ns") <= sf.col("settled_ns")).alias("settled"),
        sf.coalesce("due", sf.lit(False)).alias("expected"),
        sf.coalesce("notifications", sf.lit(0)).alias("notifications"),
        seconds_between("notified_ns", "time_ns").alias("delay"),
        # A middleware does not tell its clients how many hops an event took.
        sf.when((sf.col("hops") > 0) | (sf.col("publisher") == sf.col("receiver")), sf.col("hops"))
        .cast("short")
        .alias("hops"),
    )
    return table.to(DELIVERY.schema)


def events(publications: DataFrame, delivery: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `EVENTS`.  `runs` as in `delivery`."""
    notified = sf.col("notifications") > 0
    expected, local = sf.col("expected"), sf.col("local")
    counts = delivery.groupBy(*EVENT).agg(
        count_if(expected).alias("expected"),
        count_if(expected & notified).alias("received"),
        count_if(expected & local).alias("expected_local"),
        count_if(expected & notified & local).alias("received_local"),
        count_if(~expected).alias("unexpected"),
        sf.sum(sf.greatest(sf.col("notifications") - 1, sf.lit(0))).alias("duplicates"),
    )
    table = (
        publications.join(counts, EVENT, "left")
        .fillna(0, counts.columns[len(EVENT) :])
        .join(sf.broadcast(runs.select("run", "epoch_ns", "settled_ns")), "run")
        .withColumn("time", seconds_between("time_ns"))
        .withColumn("settled", sf.col("time_ns") <= sf.col("settled_ns"))
        .withColumn("ratio", sf.try_divide("received", "expected"))
    )
    return table.to(EVENTS.schema)


def delivery_over_time(events: DataFrame, width: float) -> DataFrame:
    """Return `DELIVERY_OVER_TIME` from `events`, in buckets of `width` seconds."""
    table = (
        events.withColumn("time", sf.floor(sf.col("time") / width) * sf.lit(float(width)))
        .groupBy("run", "time")
        .agg(
            sf.count("*").alias("events"),
            sf.sum("expected").alias("expected"),
            sf.sum("received").alias("received"),
            sf.min("settled").alias("settled"),
        )
        .withColumn("width", sf.lit(float(width)))
        .withColumn("ratio", sf.try_divide("received", "expected"))
    )
    return table.to(DELIVERY_OVER_TIME.schema)


def topic_table(tables: RunTables) -> TextTable:
    """Return delivery per topic, settled events."""
    events = tables.table("events")
    early = " early enough to be counted" if len(events) else ""
    events = events[events["settled"].eq(True)]
    columns = ("expected", "received", "unexpected", "duplicates")
    rows: list[list[Cell]] = []
    if not events.empty:
        events = events.assign(topic=events["topic"].fillna("(none)"), published=1)
        totals = sums(events, "topic", ("published", *columns))
        rows = [_topic_row(printable(str(topic)), row) for topic, row in totals.iterrows()]
        if len(rows) > 1:
            rows.append(_topic_row("all", totals.sum()))
    return TextTable(
        "Delivery per topic",
        "Events published early enough before the end to be counted; loopback captures.",
        ("topic", "events", "expected", "received", "ratio", "duplicates", "unexpected"),
        rows,
        empty=f"No event was published{early}.",
        last_is_total=len(rows) > 1,
    )


def _topic_row(name: str, row: pd.Series) -> list[Cell]:
    return [
        name, count(row.published), count(row.expected), count(row.received),
        share(ratio(row.received, row.expected)), count(row.duplicates), count(row.unexpected),
    ]  # fmt: skip


LISTED: Final = 12
"""Marks that a caption describes, at most."""


class Mark(NamedTuple):
    """Something that was done at the prompt at `time` seconds, which figures have to show.

    Links and radios that were cut, nodes that were moved, other programs; events published and
    subscriptions made by hand are in the captures like any other.
    """

    time: float
    text: str


def marks(tables: RunTables) -> list[Mark]:
    """Return what was done to the network, in order of time."""
    return [
        Mark(command.time, printable(command.command))
        for command, _ in told_commands(tables.run.prompt)
    ]


def listed(of_prompt: Sequence[Mark]) -> str:
    """Return marks in words, with the numbers that figures have at them; empty if none."""
    if not of_prompt:
        return ""
    texts = "; ".join(
        f"{index}: {mark.text} at {number(mark.time)} s"
        for index, mark in enumerate(of_prompt[:LISTED], start=1)
    )
    more = f"; and {len(of_prompt) - LISTED} more" if len(of_prompt) > LISTED else ""
    return f" Numbers at the top: what was done at the prompt. {texts}{more}."


def over_time(tables: RunTables) -> Drawing:
    """Draw delivery by time of publication."""
    from spark_analysis.report import figures

    table = tables.table("delivery_over_time").sort_values("time")
    happened = marks(tables)
    drawing = figures.delivery_over_time(
        floats(table["time"]),
        floats(table["width"]),
        floats(table["expected"]),
        floats(table["received"]),
        table["settled"].eq(True).to_numpy(bool),
        [mark.time for mark in happened],
        [
            (fault.start, fault.until(tables.observed))
            for fault in tables.run.faults
            if fault.start < tables.observed
        ],
    )
    return replace(drawing, caption=drawing.caption + listed(happened))


TOPICS: Final = Section(tables=lambda tables: [topic_table(tables)])

OVER_TIME: Final = Section(drawings=lambda tables: [("delivery", over_time(tables))])


def _delivered(tables: RunTables) -> str:
    value = tables.value
    settled = (
        f" (events of the last {seconds(value('settle'))} not counted)"
        if value("events_settled") < value("events")
        else ""
    )
    return (
        f"{count(zero(value('received')))} of {count(zero(value('expected')))} "
        f"expected deliveries{settled}{_remote(tables)}{_cut_off(tables)}"
    )


def _remote(tables: RunTables) -> str:
    """Return the ratio without clients at the publisher's own node, if there are any."""
    remote = tables.value("expected_remote")
    if not remote < tables.value("expected"):
        return ""
    return f"; {share(tables.value('delivery_ratio_remote'))} of {count(remote)} at other nodes"


def _cut_off(tables: RunTables) -> str:
    """Return how many deliveries the end of the run may have cut off, if any."""
    censored = tables.value("censored")
    if not censored > 0:
        return ""
    return f"; {count(censored)} of those missing had less than {seconds(LATE)} left"


def _strangers(tables: RunTables) -> str:
    unknown = tables.value("unknown")
    return "clients notified of an event that they should not have been" + (
        f"; {count(unknown)} without captured PUBLISH" if unknown > 0 else ""
    )


def _published(tables: RunTables) -> str:
    topics = tables.table("events")["topic"].nunique()
    publishers, subscribers = roles(tables)
    return (
        f"on {count(topics)} topic{'' if topics == 1 else 's'}; nodes with publishers: "
        f"{count(len(publishers))}, with subscribers: {count(len(subscribers))}"
    )


DELIVERY_RATIO: Final = Metric(
    column="delivery_ratio",
    title="Delivery",
    caption="Deliveries made out of those expected, events published early enough before the end.",
    unit="% of deliveries",
    scale=100.0,
    top=100.0,
    text=share,
    swept=True,
    tile="Delivery ratio",
    detail=_delivered,
    heading="delivery ratio",
    terminal="delivery {value} % ({received:.0f} of {expected:.0f})",
)

RECEIVED: Final = Metric(
    column="received",
    title="Deliveries",
    caption="Deliveries made, of events published early enough before the end.",
    unit="deliveries",
    text=count,
    heading="received of expected",
    of="expected",
)

CENSORED: Final = Metric(
    column="censored",
    title="Cut off by the end",
    caption=f"Deliveries not made of events published less than {LATE:g} s before the end of the "
    "run: they may have been on their way.",
    unit="deliveries",
    text=count,
    of="expected_late",
)

DUPLICATES: Final = Metric(
    column="duplicates",
    title="Duplicates",
    caption="Notifications beyond the first of an event to a client.",
    unit="notifications",
    text=count,
    tile="Duplicates",
    detail=lambda tables: "notifications beyond the first to a client",
    heading="duplicates",
)

UNEXPECTED: Final = Metric(
    column="unexpected",
    title="Unexpected",
    caption="Clients notified of an event that they should not have been.",
    unit="deliveries",
    text=count,
    tile="Unexpected",
    detail=_strangers,
    heading="unexpected",
)

EVENTS_PUBLISHED: Final = Metric(
    column="events",
    title="Events published",
    caption="Events that clients published.",
    unit="events",
    text=lambda value: count(zero(value)),
    tile="Events published",
    detail=_published,
)


MEASURES: Final = (
    Measure(EVENTS, TOPICS),
    Measure(DELIVERY),
    Measure(DELIVERY_OVER_TIME, OVER_TIME),
)

"""Legs: what it costs to bring events to a client of a mesh, from its serving broker, leg by leg.

The measures of the mesh-prediction paper (docs/papers.md#mesh-prediction, section V), from
captures.  A **leg** of a client begins when its navigator has announced a route and the pause
before it is over, and ends at the next announcement, on the client's loopback (NAVIGATE).  An event
is of the leg in which it was published.  Only protocols that learn of routes have legs
(`Service.needs_routes`); others have none, and cost no query.

*Packets* are the transmissions of DELIVERY frames of an event to that client: from the serving
broker on, one for each hop, repetitions, searches and handovers included; and the PROBEs that were
sent in the leg.  Those on mesh links are apart from those on access links, since the paper's
formula (its equation 6) counts the former and its definition (section V.B) both.

*Delay* is the paper's: from when the serving broker got the event, along the brokers' graph or from
a client on its own host, to when the client's application was notified.  *Waiting* is the part of
it that the event spent at serving brokers: at each, from its arrival to the first transmission.

Status reports, acknowledgements, tables and handover messages are in `overhead`, by kind.

The mean over legs of each leg's mean is what the mesh-prediction paper's equation (6) describes;
the mean over all events weighs long legs more, in which more events come (its source is
docs/papers.md#mesh-prediction).  Runs without legs have none of these.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema

from emulation.scenario.access_point import MESH
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.mesh.messages import MeshKind
from nodeapp.pubsub.registry import service_of
from spark_analysis.captures.schemas import DOUBLE, INT, LONG, column, run_schema
from spark_analysis.engine.tables import (
    Inputs,
    Kept,
    Query,
    Rows,
    SummaryColumn,
    Table,
    driver_rows,
)
from spark_analysis.measures.clients import MESSAGES, REQUESTS
from spark_analysis.measures.columns import EVENT, count_if, seconds_between
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS
from spark_analysis.report.metric import MeasuredMetric, significant
from spark_analysis.report.quantities import NOTHING, count, number, seconds
from spark_analysis.report.text_table import TextTable

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "efdf61d64a78")


LEGS: Final = Table(
    name="legs",
    description="one row a leg of a client of a mesh: packets, delay and waiting of its events",
    schema=run_schema(
        column("client", LONG, "node id of the client"),
        column("leg", INT, "number of the leg, from 1"),
        column("start", DOUBLE, "s into the run, when the client leaves"),
        column("end", DOUBLE, "s into the run, next route announced; null: the last"),
        column("events", LONG, "events of the leg that the client received"),
        column("mesh_packets", LONG, "transmissions of these on mesh links"),
        column("access_packets", LONG, "transmissions of these on access links"),
        column("mesh_probes", LONG, "transmissions of probes on mesh links"),
        column("access_probes", LONG, "transmissions of probes on access links"),
        column("delay", DOUBLE, "s, mean from the serving broker to the application"),
        column("waiting", DOUBLE, "s, mean part of it spent waiting at serving brokers"),
    ),
    order=("client", "leg"),
    make=lambda inputs: legs(inputs),  # noqa: PLW0108  # it is defined below
)
"""One leg with at least one event that was received."""

_OF_RUNS: Final = (
    "run string, leg_mesh_packets double, leg_packets double, leg_probes double, leg_delay double, "
    "leg_waiting double, event_mesh_packets double, event_packets double, event_delay double, "
    "event_frames_in_all double"
)
"""What `of_legs` returns."""

_STARTS: Final = run_schema(
    column("client", LONG, "node id of the client"),
    column("told_ns", LONG, "Unix time when its navigator announced the leg, ns"),
    column("start_ns", LONG, "when the pause before it is over, ns"),
)

_ROUTE: Final = struct.Struct(">BBdBdBdBdBd")
"""A route's body: an array of five binary64 floats (`nodeapp.pubsub.base.Route`)."""


def _has_legs(inputs: Inputs) -> bool:
    """Return whether some run's protocol learns of clients' routes, which legs are made of."""
    return any(service_of(run.scenario.protocol.name).needs_routes for run in inputs.runs)


def _starts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return when each leg is announced, and starts, from NAVIGATE requests."""
    for batch in batches:
        rows = batch.to_pydict()
        starts = []
        for time_ns, body in zip(rows["time_ns"], rows["body"], strict=True):
            remaining = _ROUTE.unpack(body)[-1] if len(body) == _ROUTE.size else 0.0
            starts.append(time_ns + int(max(remaining, 0.0) * 1e9))
        yield pa.RecordBatch.from_pydict(
            {
                "run": rows["run"],
                "client": rows["node_id"],
                "told_ns": rows["time_ns"],
                "start_ns": starts,
            },
            schema=to_arrow_schema(_STARTS),
        )


def _windows(inputs: Inputs) -> DataFrame:
    """Return run, client, leg, start_ns, end_ns."""
    routes = inputs.of(REQUESTS).filter(sf.col("kind") == ClientKind.NAVIGATE)
    starts = routes.select("run", "node_id", "time_ns", "body").mapInArrow(_starts, _STARTS)
    by_client = Window.partitionBy("run", "client").orderBy("told_ns")
    return starts.withColumns(
        {"leg": sf.row_number().over(by_client), "end_ns": sf.lead("told_ns").over(by_client)}
    )


def _in_leg(time_ns: str) -> Column:
    until = sf.coalesce(sf.col("end_ns"), sf.lit(2**63 - 1))
    return (sf.col(time_ns) >= sf.col("start_ns")) & (sf.col(time_ns) < until)


def _delivered(inputs: Inputs) -> DataFrame:
    """Return a row per event and client: packets, delay, waiting and when it was published."""
    packets = inputs.of(PACKETS)
    of_client = [*EVENT, "client"]
    delivery = packets.filter(sf.col("kind") == MeshKind.DELIVERY).withColumnRenamed(
        "destination", "client"
    )
    sent = delivery.filter("sent")
    on_mesh = sf.col("interface") == MESH
    counted = sent.groupBy(*of_client).agg(
        count_if(on_mesh).alias("mesh_packets"),
        count_if(~on_mesh).alias("access_packets"),
        sf.min_by("originator", "time_ns").alias("serving"),
    )
    # Arrivals of an event at each broker: along the graph, or from a client there.
    requested = inputs.of(REQUESTS).filter(sf.col("kind") == ClientKind.PUBLISH)
    by_graph = packets.filter((sf.col("kind") == CommonKind.EVENT) & ~sf.col("sent"))
    arrived = (
        by_graph.select(*EVENT, "node_id", "time_ns")
        .unionByName(requested.select(*EVENT, "node_id", "time_ns"))
        .groupBy(*EVENT, "node_id")
        .agg(sf.min("time_ns").alias("arrived_ns"))
    )
    at_serving = arrived.withColumnRenamed("node_id", "serving").withColumnRenamed(
        "arrived_ns", "served_ns"
    )
    notified = (
        inputs.of(MESSAGES)
        .filter(~sf.col("request") & (sf.col("kind") == ClientKind.NOTIFY))
        .groupBy(*EVENT, sf.col("node_id").alias("client"))
        .agg(sf.min("time_ns").alias("notified_ns"))
    )
    published = requested.groupBy(*EVENT).agg(sf.min("time_ns").alias("published_ns"))
    return (
        counted.join(notified, of_client)
        .join(at_serving, [*EVENT, "serving"], "left")
        .join(_waited(delivery, arrived), of_client, "left")
        .join(published, EVENT)
        .withColumn("delay", seconds_between("notified_ns", "served_ns"))
        .withColumn("waiting", sf.col("waited_ns") / sf.lit(1e9))
    )


def _waited(delivery: DataFrame, arrived: DataFrame) -> DataFrame:
    """Return how long an event for a client stayed at brokers, from arrival to departure, ns."""
    of_client = [*EVENT, "client"]
    handed = (
        delivery.filter(~sf.col("sent") & (sf.col("originator") != sf.col("node_id")))
        .groupBy(*of_client, "node_id")
        .agg(sf.min("time_ns").alias("handed_ns"))
    )
    departed = (
        delivery.filter(sf.col("sent") & (sf.col("originator") == sf.col("node_id")))
        .groupBy(*of_client, "node_id")
        .agg(sf.min("time_ns").alias("left_ns"))
    )
    stays = (
        departed.join(handed, [*of_client, "node_id"], "left")
        .join(arrived, [*EVENT, "node_id"], "left")
        .withColumn(
            "since_ns",
            sf.coalesce(
                sf.when(sf.col("handed_ns") <= sf.col("left_ns"), sf.col("handed_ns")),
                sf.col("arrived_ns"),
            ),
        )
    )
    return stays.groupBy(*of_client).agg(
        sf.sum(sf.greatest(sf.col("left_ns") - sf.col("since_ns"), sf.lit(0))).alias("waited_ns")
    )


def legs(inputs: Inputs) -> Rows:
    """Return `LEGS`; no rows, and no work, if no run has legs."""
    if not _has_legs(inputs):
        return driver_rows([], LEGS.schema)
    windows = _windows(inputs)
    of_leg = ["run", "client", "leg"]
    delivered = (
        _delivered(inputs)
        .join(sf.broadcast(windows), ["run", "client"])
        .filter(_in_leg("published_ns"))
    )
    events = delivered.groupBy(*of_leg).agg(
        sf.count("*").alias("events"),
        sf.sum("mesh_packets").alias("mesh_packets"),
        sf.sum("access_packets").alias("access_packets"),
        sf.mean("delay").alias("delay"),
        sf.mean("waiting").alias("waiting"),
    )
    on_mesh = sf.col("interface") == MESH
    probes = (
        inputs.of(PACKETS)
        .filter((sf.col("kind") == MeshKind.PROBE) & sf.col("sent"))
        .withColumnRenamed("originator", "client")
        .join(sf.broadcast(windows), ["run", "client"])
        .filter(_in_leg("time_ns"))
        .groupBy(*of_leg)
        .agg(count_if(on_mesh).alias("mesh_probes"), count_if(~on_mesh).alias("access_probes"))
    )
    table = (
        windows.join(events, of_leg)
        .join(probes, of_leg, "left")
        .fillna(0, ["mesh_probes", "access_probes"])
        .join(sf.broadcast(inputs.of(RUNS).select("run", "epoch_ns")), "run")
        .withColumns({"start": seconds_between("start_ns"), "end": seconds_between("end_ns")})
    )
    return table.to(LEGS.schema)


def _since_start(inputs: Inputs) -> DataFrame:
    """Return run, frames: all that radios sent since the first leg of the run began."""
    first = _windows(inputs).groupBy("run").agg(sf.min("start_ns").alias("first_ns"))
    return (
        inputs.of(PACKETS)
        .filter("sent")
        .join(sf.broadcast(first), "run")
        .filter(sf.col("time_ns") >= sf.col("first_ns"))
        .groupBy("run")
        .agg(sf.count("*").alias("frames"))
    )


def of_legs(inputs: Inputs) -> Rows:
    """Return the measures of each run that has legs: means over legs, and over all events."""
    if not _has_legs(inputs):
        return driver_rows([], _OF_RUNS)
    events = sf.col("events")
    mesh = sf.col("mesh_packets") + sf.col("mesh_probes")
    every = mesh + sf.col("access_packets") + sf.col("access_probes")
    probes = sf.col("mesh_probes") + sf.col("access_probes")
    timed = sf.when(sf.col("delay").isNotNull(), events)
    return (
        inputs.of(LEGS)
        .groupBy("run")
        .agg(
            sf.mean(mesh / events).alias("leg_mesh_packets"),
            sf.mean(every / events).alias("leg_packets"),
            sf.mean(probes / events).alias("leg_probes"),
            sf.mean("delay").alias("leg_delay"),
            sf.mean("waiting").alias("leg_waiting"),
            (sf.sum(mesh) / sf.sum(events)).alias("event_mesh_packets"),
            (sf.sum(every) / sf.sum(events)).alias("event_packets"),
            sf.try_divide(sf.sum(sf.col("delay") * events), sf.sum(timed)).alias("event_delay"),
            sf.sum(events).alias("events"),
        )
        .join(_since_start(inputs), "run")
        .withColumn("event_frames_in_all", sf.col("frames") / sf.col("events"))
        .drop("frames", "events")
    )


OF_LEGS: Final = Query(make=of_legs, kept=Kept.IN_DRIVER)
"""`of_legs` of all runs."""


def text_table(tables: RunTables) -> list[TextTable]:
    """Return the figures of a run's legs; nothing if it has none."""
    rows = tables.table("legs")
    if not len(rows):
        return []
    cells = []
    for client, own in rows.groupby("client"):
        events = own["events"].sum()
        mesh = (own["mesh_packets"] + own["mesh_probes"]).sum() / events
        access = (own["access_packets"] + own["access_probes"]).sum() / events
        timed = own.dropna(subset=["delay", "waiting"])
        cells.append(
            [
                tables.names.get(int(str(client)), str(client)),
                count(len(own)),
                count(int(events)),
                number(mesh),
                number(access),
                *(_mean(timed, name) for name in ("delay", "waiting")),
            ]
        )
    note = (
        "From the serving broker to the client, probes included, captures of the radios; the delay "
        "is from when the serving broker had the event."
    )
    heads = ("client", "legs", "events", "mesh packets per event", "access packets per event",
             "delay", "of that, waiting")  # fmt: skip
    return [TextTable("Clients of the mesh", note, heads, cells, empty="No leg has an event.")]


def _mean(legs: pd.DataFrame, name: str) -> str:
    """Return the mean of a column over the events of legs."""
    events = legs["events"].sum()
    return seconds(float((legs[name] * legs["events"]).sum() / events)) if events else NOTHING


CLIENTS: Final = Section(tables=text_table)


def _metric(name: str, title: str, caption: str, unit: str) -> MeasuredMetric:
    """Return the metric of a column of `OF_LEGS`."""
    return MeasuredMetric(
        column=name,
        measure=SummaryColumn(
            column=column(name, DOUBLE, f"{unit}; {title[0].lower()}{title[1:]}"),
            make=lambda inputs: inputs.of(OF_LEGS).select("run", name),
        ),
        title=title,
        caption=caption,
        unit=unit,
        text=significant,
    )


_LEGS: Final = "Mean over legs of each leg's mean."
_EVENTS: Final = "Mean over all events of all legs."
_MESH: Final = "Transmissions on mesh links from the serving broker on, probes counted."
_ALL: Final = "Transmissions on mesh and access links from the serving broker on, probes counted."
_DELAY: Final = "From the event's arrival at the serving broker to the application."

LEG_MESH_PACKETS: Final = _metric(
    "leg_mesh_packets", "Mesh packets per event", f"{_MESH} {_LEGS}", "packets"
)
LEG_PACKETS: Final = _metric("leg_packets", "Packets per event", f"{_ALL} {_LEGS}", "packets")
LEG_PROBES: Final = _metric(
    "leg_probes",
    "Probes per event",
    f"Transmissions of probes on mesh and access links. {_LEGS}",
    "packets",
)
LEG_DELAY: Final = _metric("leg_delay", "Delay from the serving broker", f"{_DELAY} {_LEGS}", "s")
LEG_WAITING: Final = _metric(
    "leg_waiting",
    "Waiting at brokers",
    f"Part of the delay that events wait at serving brokers. {_LEGS}",
    "s",
)
EVENT_MESH_PACKETS: Final = _metric(
    "event_mesh_packets", "Mesh packets per event, pooled", f"{_MESH} {_EVENTS}", "packets"
)
EVENT_PACKETS: Final = _metric(
    "event_packets", "Packets per event, pooled", f"{_ALL} {_EVENTS}", "packets"
)
EVENT_DELAY: Final = _metric(
    "event_delay", "Delay from the serving broker, pooled", f"{_DELAY} {_EVENTS}", "s"
)
EVENT_FRAMES_IN_ALL: Final = _metric(
    "event_frames_in_all",
    "Frames per event, everything counted",
    "All that radios sent since the first leg began, reports, acknowledgements, tables, handovers "
    "and beacons too, by event received.",
    "frames",
)


MEASURES: Final = (Measure(LEGS, CLIENTS),)
METRICS: Final = (
    *(EVENT_DELAY, EVENT_FRAMES_IN_ALL, EVENT_MESH_PACKETS, EVENT_PACKETS),
    *(LEG_DELAY, LEG_MESH_PACKETS, LEG_PACKETS, LEG_PROBES, LEG_WAITING),
)

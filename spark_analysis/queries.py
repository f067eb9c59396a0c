"""The jobs put together: from the frames of some runs to all tables, still unevaluated.

Time 0.  `run.json` has the Unix time of the scenario's time 0.  Where a killed run left none, it
is worked out from the publications: the driver sends each at its time in the scenario or a little
later, so the earliest they allow is taken; without publications, the first packet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from emulation.scenario.access_point import ACCESS, MESH
from emulation.scenario.runfolder import Run
from spark_analysis.captures.source import Survey
from spark_analysis.jobs import (
    airtime,
    clients,
    counters,
    delay,
    delivery,
    links,
    overhead,
    subscriptions,
    summary,
)
from spark_analysis.schemas import NODES

_WIDTHS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)
_BUCKETS: Final = 60
"""Buckets over time at most, unless the longest width is too short for that."""


class Facts(NamedTuple):
    """One row of `jobs.summary.RUNS`."""

    run: str
    topology: str
    protocol: str
    backend: str | None
    ended: str | None
    seed: int
    nodes: int
    duration: float
    epoch_ns: int
    epoch_estimated: bool
    packets: int
    last_ns: int
    settled_ns: int
    settle: float


class Extent(NamedTuple):
    """How many packets a run's captures hold, and the Unix times of the first and last, ns."""

    packets: int
    first_ns: int
    last_ns: int


@contextmanager
def queries(
    spark: SparkSession,
    runs: Sequence[Run],
    surveys: Mapping[str, Survey],
    frames: DataFrame,
    air: DataFrame,
    *,
    settle: float,
    width: float | None,
) -> Iterator[dict[str, DataFrame]]:
    """Give all tables, by name, and `undecoded`, for the block.

    `surveys` are the runs' captures, `frames` the packets in them and `air` the 802.11 frames in
    those of the air; `settle` and `width` as in
    `analysis.analyse`.  What several tables are made of is cached until the block ends.
    """
    cached: list[DataFrame] = []

    def cache(table: DataFrame) -> DataFrame:
        cached.append(table.cache())
        return table

    nodes = spark.createDataFrame(node_rows(runs, surveys), NODES)
    messages = cache(clients.client_messages(frames, nodes))
    requests = clients.requests(messages)
    publications = cache(delivery.publications(requests))
    facts = run_facts(runs, extents(frames), first_publications(runs, publications), settle)
    known = spark.createDataFrame(facts, summary.RUNS)
    if width is None:
        width = bucket_width(max((fact.last_ns - fact.epoch_ns) / 1e9 for fact in facts))
    subscribed = cache(subscriptions.subscriptions(requests))
    due = delivery.due(publications, subscribed)
    notified = delivery.notifications(messages)
    pairs = cache(delivery.delivery(publications, due, notified, known))
    events = cache(delivery.events(publications, pairs, known))
    delays = delay.delay(pairs)
    packets = overhead.radio_packets(frames, nodes)
    traffic = cache(overhead.overhead(packets))
    try:
        yield {
            "nodes": nodes,
            "subscriptions": subscribed,
            "delivery": pairs,
            "events": events,
            "delivery_over_time": delivery.delivery_over_time(events, width),
            "delay": delays,
            "delay_by_hops": delay.delay_by_hops(delays),
            "overhead": traffic,
            "load": overhead.load(packets, known),
            "links": links.links(packets, known),
            "counters": counters.counters(
                frames, nodes, spark.createDataFrame(counted_rows(runs), counters.COUNTED)
            ),
            "airtime": airtime.airtime(
                air, spark.createDataFrame(radio_rows(runs), airtime.RADIOS)
            ),
            "summary": summary.summary(known, subscribed, events, pairs, delays, traffic),
            "undecoded": overhead.undecoded(packets),
        }
    finally:
        for table in cached:
            table.unpersist()


def captured_interfaces(survey: Survey) -> set[tuple[str, str]]:
    """Return (node, interface) of every readable capture."""
    return {(found.capture.node, found.capture.interface) for found in survey.captures}


def node_rows(
    runs: Sequence[Run], surveys: Mapping[str, Survey]
) -> list[tuple[str, str, int, int, str | None, bool, bool]]:
    """Return the rows of `NODES`."""
    rows = []
    for run in runs:
        captured = captured_interfaces(surveys[run.name])
        points = {point.broker: point.name for point in run.scenario.access_points}
        for name, node, node_id, ip in run.nodes():
            point = points.get(node_id)
            radios = {(node, ACCESS)} if point is None else {(point, ACCESS), (point, MESH)}
            loopback = (node, "lo") in captured
            rows.append((name, node, node_id, ip, point, radios <= captured, loopback))
    return rows


def radio_rows(runs: Sequence[Run]) -> list[tuple[str, str, int, int]]:
    """Return the rows of `jobs.airtime.RADIOS`: whose each address on the air is."""
    rows = []
    for run in runs:
        for node in run.scenario.stations:
            rows.append((run.name, node.name, node.id, _number(node.mac)))
        for point in run.scenario.access_points:
            for address in (point.bssid, point.mesh_mac):
                rows.append((run.name, point.name, point.broker, _number(address)))
    return rows


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)


def counted_rows(runs: Sequence[Run]) -> list[tuple[str, str, str, str, int, int]]:
    """Return the rows of `jobs.counters.COUNTED`: the flow counters that the runs exported."""
    return [
        (run.name, point.name, each.path, each.traffic_class, each.frames, each.bytes)
        for run in runs
        if run.flows is not None
        for point in run.flows.access_points
        for each in point.counters
    ]


def extents(frames: DataFrame) -> dict[str, Extent]:
    """Return the extent of each run's captures; runs without a packet are not in it."""
    table = frames.groupBy("run").agg(sf.count("*"), sf.min("time_ns"), sf.max("time_ns"))
    return {run: Extent(*extent) for run, *extent in table.collect()}


def first_publications(
    runs: Sequence[Run], publications: DataFrame
) -> dict[str, dict[tuple[int, int], int]]:
    """Return, for runs without `run.json`, the Unix time (ns) of each (publisher, sequence)."""
    names = [run.name for run in runs if run.record is None]
    found: dict[str, dict[tuple[int, int], int]] = {name: {} for name in names}
    if names:
        table = publications.filter(sf.col("run").isin(names))
        for run, publisher, sequence, time_ns in table.select(
            "run", "publisher", "sequence", "time_ns"
        ).collect():
            found[run][publisher, sequence] = time_ns
    return found


def estimated_epoch(run: Run, published: Mapping[tuple[int, int], int], first_ns: int) -> int:
    """Return the Unix time, ns, of the scenario's time 0 of a run that has no `run.json`."""
    return min(
        (
            published[operation.node, operation.sequence] - round(operation.time * 1e9)
            for operation in run.scenario.workload
            if operation.action == "publish" and (operation.node, operation.sequence) in published
        ),
        default=first_ns,
    )


def run_facts(
    runs: Sequence[Run],
    extents: Mapping[str, Extent],
    published: Mapping[str, Mapping[tuple[int, int], int]],
    settle: float,
) -> list[Facts]:
    """Return what is known of each run before any table."""
    facts = []
    for run in runs:
        scenario, record = run.scenario, run.record
        start = record.epoch_ns if record is not None else 0
        extent = extents.get(run.name, Extent(0, start, start))
        if record is None:
            start = estimated_epoch(run, published[run.name], extent.first_ns)
        facts.append(
            Facts(
                run=run.name,
                topology=scenario.topology,
                protocol=scenario.protocol.name,
                backend=record.backend if record else None,
                ended=record.ended if record else None,
                seed=scenario.seed,
                nodes=len(scenario.nodes),
                duration=scenario.duration,
                epoch_ns=start,
                epoch_estimated=record is None,
                packets=extent.packets,
                last_ns=extent.last_ns,
                settled_ns=extent.last_ns - round(settle * 1e9),
                settle=float(settle),
            )
        )
    return facts


def bucket_width(span: float) -> float:
    """Return a round width, in seconds, that cuts `span` seconds into not too many buckets."""
    return float(next((w for w in _WIDTHS if span <= w * _BUCKETS), _WIDTHS[-1]))

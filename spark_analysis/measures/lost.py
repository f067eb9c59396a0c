"""Lost: why each missing delivery is missing, and where its event was last seen.

A row for each client that an event was due to and that was not notified of it
(`measures.delivery`), so there are as many rows as missing deliveries.  `measures.last_seen` says
how the place and the cause are found.  A medium that is not the testbed's keeps no log: on `hwsim`
and `mininet-wifi` it is known what was sent, received and out of range, and the rest is "lost on
the air".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from io import BytesIO
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from emulation.mobility.contacts import Contacts
from emulation.mobility.trajectory import Trace
from emulation.radio.losses import COLUMNS
from emulation.scenario.runfolder import Run
from nodeapp.kinds import Role
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import FLAG_REPLICA
from spark_analysis.captures.schemas import (
    BOOLEAN,
    CLIENT,
    DOUBLE,
    INT,
    LOCAL,
    LONG,
    LONGS,
    PUBLISHER,
    RECEIVER,
    SEQUENCE,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.groups import of_groups
from spark_analysis.engine.pandas_rows import floats
from spark_analysis.engine.tables import (
    Inputs,
    Kept,
    Rows,
    SummaryColumn,
    Table,
    driver_rows,
)
from spark_analysis.measures.columns import EVENT, PAIR
from spark_analysis.measures.delivery import DELIVERY
from spark_analysis.measures.last_seen import (
    MEANING,
    Cause,
    Conditions,
    EventTrace,
    Hop,
    Loss,
    Lost,
)
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.nodes import NODES
from spark_analysis.measures.overhead import OVERHEAD
from spark_analysis.measures.packets import PACKETS, addressed
from spark_analysis.measures.runs import END_NS, Facts, Outage, crashes, facts, silences
from spark_analysis.measures.subscriptions import SUBSCRIPTIONS
from spark_analysis.report.metric import MeasuredMetric
from spark_analysis.report.quantities import count, printable, share
from spark_analysis.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(4, "8c1dc6d7ac3d")

MOST: Final = 12
"""Nodes and links in the table of places."""

_MISSING, _HOP, _LOSS = "missing", "hop", "loss"
_LOSS_COLUMNS: Final = ("time_ns", "node_id", "hops", "destination", "cause", "nodes")

_CLUES: Final = run_schema(
    PUBLISHER,
    SEQUENCE,
    column("clue", STRING, "missing, hop or loss"),
    RECEIVER,
    CLIENT,
    column("published_ns", LONG, "Unix time of the PUBLISH, ns"),
    column("until_ns", LONG, "Unix time when the client's subscription ended, ns"),
    column("settled", BOOLEAN, "the event counts in settled ratios"),
    column("time_ns", LONG, "Unix time, ns"),
    column("node_id", LONG, "node id of who captured or sent it"),
    column("sent", BOOLEAN, "sent, not received"),
    column("source", LONG, "node id of the IPv4 source"),
    column("target", LONG, "node id of the IPv4 destination; null: broadcast"),
    column("hops", INT, "radio hops"),
    column("destination", LONG, "node id of the final destination"),
    column("nodes", LONGS, "addressees; nodes that lost it; all that it is due to"),
    column("cause", STRING, "of a loss"),
)
"""All that is known of an event that somebody missed, in one table."""


def lost(inputs: Inputs) -> Rows:
    """Return `LOST`."""
    missing = inputs.of(DELIVERY).filter("expected AND notifications = 0")
    if missing.isEmpty():
        return driver_rows((), LOST.schema)
    events = missing.select(*EVENT).distinct()
    logs, logged = losses(inputs)
    clues = _missing(inputs, missing).unionByName(_hops(inputs, events), allowMissingColumns=True)
    clues = clues.unionByName(logs.join(events, EVENT, "left_semi"), allowMissingColumns=True)
    around = conditions(inputs)
    return of_groups(
        clues.select(*(sf.col(field.name).cast(field.dataType) for field in _CLUES)),
        keys=EVENT,
        order=("time_ns", "node_id"),
        make=lambda rows: _of_event(rows, around, logged),
        schema=LOST.schema,
    )


def _missing(inputs: Inputs, missing: DataFrame) -> DataFrame:
    """Return the missing deliveries, with the nodes that each event is due to."""
    epochs = inputs.local([(row.run, row.epoch_ns) for row in inputs.once(facts)], _EPOCH)
    due = inputs.of(DELIVERY).filter("expected").groupBy(*EVENT)
    untils = (
        inputs.of(SUBSCRIPTIONS)
        .groupBy("run", sf.col("node_id").alias("receiver"), "client")
        .agg(sf.max("until_ns").alias("until_ns"))
    )
    return (
        missing.join(sf.broadcast(epochs), "run")
        .join(due.agg(sf.collect_set("receiver").alias("nodes")), EVENT)
        .join(untils, ["run", "receiver", "client"], "left")
        .select(
            *PAIR,
            sf.lit(_MISSING).alias("clue"),
            (sf.col("epoch_ns") + sf.round(sf.col("time") * 1e9).cast("long")).alias(
                "published_ns"
            ),
            "until_ns",
            "settled",
            "nodes",
        )
    )


_EPOCH: Final = "run string, epoch_ns long"


def _hops(inputs: Inputs, events: DataFrame) -> DataFrame:
    """Return the frames of events, sent, or received by a node that they are for."""
    nodes = inputs.of(NODES)
    source, target = (
        sf.broadcast(nodes.select("run", sf.col("ip").alias(ip), sf.col("node_id").alias(name)))
        for ip, name in (("ip_src", "source"), ("ip_dst", "target"))
    )
    carries = sf.col("kind").isin(kinds_of(Role.EVENT))
    for_it = addressed() & (sf.col("target").isNull() | (sf.col("target") == sf.col("node_id")))
    return (
        inputs.of(PACKETS)
        .filter(carries & sf.col("sent").isNotNull())
        .join(sf.broadcast(events), EVENT, "left_semi")
        .join(source, ["run", "ip_src"], "left")
        .join(target, ["run", "ip_dst"], "left")
        .filter(sf.col("sent") | for_it)
        .select(
            *EVENT,
            sf.lit(_HOP).alias("clue"),
            *("time_ns", "node_id", "sent", "source", "target", "hops", "destination"),
            sf.col("addressees").alias("nodes"),
        )
    )


def losses(inputs: Inputs) -> tuple[DataFrame, frozenset[str]]:
    """Return the rows of the runs' logs, and the names of runs that have one."""
    parts, logged = [], set()
    for run in inputs.runs:
        table = _log(run)
        if table is not None:
            logged.add(run.name)
            parts.append(table)
    # Spark reads Arrow up to the first batch without rows.
    rows = pa.concat_tables(parts).combine_chunks() if parts else _TYPES.empty_table()
    return inputs.spark.createDataFrame(rows, _LOGGED), frozenset(logged)


_LOGGED: Final = StructType([_CLUES[name] for name in (*EVENT, "clue", *_LOSS_COLUMNS)])
"""What a log tells of an event."""
_TYPES: Final = to_arrow_schema(_LOGGED)
_AS_LOGGED: Final = csv.ConvertOptions(
    column_types={name: pa.string() for name in COLUMNS}
    | {name: _TYPES.field(name).type for name in COLUMNS if name in _TYPES.names},
    null_values=[],
)


def _log(run: Run) -> pa.Table | None:
    """Return a run's log up to its last whole line; None if there is none, or it is damaged."""
    names = {node.name: node.id for node in run.scenario.nodes}
    names |= {point.name: point.broker for point in run.scenario.access_points}
    try:
        text, newline, _cut = run.folder.losses.read_bytes().rpartition(b"\n")
        log = csv.read_csv(BytesIO(text + newline), convert_options=_AS_LOGGED)
        columns: dict[str, Any] = {name: log[name] for name in log.column_names} | {
            "run": pa.repeat(pa.scalar(run.name), len(log)),
            "clue": pa.repeat(pa.scalar(_LOSS), len(log)),
            "node_id": [names[sender.as_py()] for sender in log["sender"]],
            "nodes": [[names[name] for name in row.as_py().split()] for row in log["receivers"]],
        }
        return pa.table([columns[name] for name in _TYPES.names], schema=_TYPES)
    except (OSError, ValueError, KeyError):
        return None


def conditions(inputs: Inputs) -> dict[str, Conditions]:
    """Return what the scenarios determine, by run."""
    known: dict[str, set[tuple[int, int]]] = {}
    kept = (
        inputs.of(PACKETS)
        .filter((sf.col("kind") == TopicKind.SUBSCRIPTION) & addressed())
        .groupBy("run", "node_id", "originator")
        .agg(sf.max(sf.col("sent") & (sf.col("flags").bitwiseAND(FLAG_REPLICA) == 0)).alias("on"))
    )
    for run, node, originator, on in kept.collect():
        if not on or node == originator:
            known.setdefault(run, set()).add((node, originator))
    kinds: dict[str, set[int]] = {}
    for row in inputs.collected(OVERHEAD).select(["run", "kind"]).to_pylist():
        kinds.setdefault(row["run"], set()).add(row["kind"])
    known_facts = {facts_row.run: facts_row for facts_row in inputs.once(facts)}
    return {
        run.name: _conditions(
            run,
            known_facts[run.name],
            [outage for outage in inputs.once(crashes) if outage.run == run.name],
            [outage for outage in inputs.once(silences) if outage.run == run.name],
            frozenset(known.get(run.name, ())),
            kinds.get(run.name, set()),
        )
        for run in inputs.runs
    }


def _conditions(
    run: Run,
    row: Facts,
    crashed: Sequence[Outage],
    silent: Sequence[Outage],
    known: frozenset[tuple[int, int]],
    kinds: set[int],
) -> Conditions:
    scenario = run.scenario
    ids = {node.name: node.id for node in scenario.nodes}

    def span(start: float, end: float | None) -> tuple[int, int]:
        until = END_NS if end is None else row.epoch_ns + round(end * 1e9)
        return row.epoch_ns + round(start * 1e9), until

    pairs: dict[str, dict[tuple[int, int], list[tuple[int, int]]]] = {"link": {}, "disturb": {}}
    lines = []
    for fault in run.faults:
        if fault.kind == "link" or fault.lose:
            one, other = sorted(ids[name] for name in fault.nodes)
            pairs[fault.kind].setdefault((one, other), []).append(span(fault.start, fault.end))
        elif fault.line is not None:
            lines.append((fault.line, span(fault.start, fault.end)))
    return Conditions(
        ids=[node.id for node in scenario.nodes],
        trace=Trace([node.waypoints for node in run.driven]),
        reach=scenario.environment().radio_range,
        epoch_ns=row.epoch_ns,
        end_ns=row.end_ns,
        is_ad_hoc=not scenario.access_points and scenario.wire is None,
        down=_by_node((*crashed, *silent)),
        crashed=_by_node(crashed),
        cut=pairs["link"],
        disturbed=pairs["disturb"],
        lines=lines,
        known=known,
        spreads=not kinds.isdisjoint(kinds_of(Role.INTEREST, Role.DEMAND)),
        spreads_to_publishers=not kinds.isdisjoint(kinds_of(Role.DEMAND)),
        contacts=None
        if scenario.contacts is None
        else Contacts(scenario.contacts, [node.id for node in scenario.nodes]),
    )


def _by_node(outages: Sequence[Outage]) -> Mapping[int, Sequence[tuple[int, int]]]:
    spans: dict[int, list[tuple[int, int]]] = {}
    for outage in outages:
        spans.setdefault(outage.node_id, []).append((outage.from_ns, outage.until_ns))
    return spans


_CAPTURED: Final = attrgetter(
    *("time_ns", "node_id", "sent", "source", "target", "hops", "destination", "nodes"),
)
_OF_LOG: Final = attrgetter(*_LOSS_COLUMNS)


def _of_event(
    rows: Iterator[Any], scenarios: Mapping[str, Conditions], logged: Container[str]
) -> Iterator[dict[str, Any]]:
    """Yield an event's rows from its clues."""
    clues: dict[str, list[Any]] = {_MISSING: [], _HOP: [], _LOSS: []}
    for row in rows:
        clues[row.clue].append(row)
    first = clues[_MISSING][0]
    around = scenarios[first.run]
    hops = [Hop(*_CAPTURED(row)) for row in clues[_HOP]]
    log = [Loss(*_OF_LOG(row)) for row in clues[_LOSS]] if first.run in logged else None
    trace = EventTrace(around, first.publisher, first.published_ns, set(first.nodes), hops, log)
    places: dict[tuple[int, int], Lost] = {}
    for row in clues[_MISSING]:
        key = row.receiver, row.until_ns or END_NS
        place = places[key] = places.get(key) or trace.lost(*key)
        x, y = around.position(place.node, place.time_ns)
        yield {
            "run": row.run,
            "publisher": row.publisher,
            "sequence": row.sequence,
            "receiver": row.receiver,
            "client": row.client,
            "local": row.receiver == row.publisher,
            "time": (row.published_ns - around.epoch_ns) / 1e9,
            "settled": row.settled,
            "cause": str(place.cause),
            "node_id": place.node,
            "following": place.following,
            "seen": (place.time_ns - around.epoch_ns) / 1e9,
            "x": x,
            "y": y,
        }


LOST: Final = Table(
    name="lost",
    description="one row a delivery that is missing: where the event was last seen, and why",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        CLIENT,
        LOCAL,
        column("time", DOUBLE, "s into the run of the PUBLISH"),
        column("settled", BOOLEAN, "the event counts in settled ratios"),
        column("cause", STRING, "why it went no further: " + ", ".join(Cause)),
        column("node_id", LONG, "node id where the event was last seen on its way"),
        column("following", LONG, "node id that it did not reach; null if it was not sent on"),
        column("seen", DOUBLE, "s into the run when it was last seen"),
        column("x", DOUBLE, "m, where the node was then"),
        column("y", DOUBLE, "m"),
    ),
    order=("time", "publisher", "sequence", "receiver", "client"),
    make=lost,
    kept=Kept.IN_DRIVER,
)
"""One missing delivery."""


def numbers(inputs: Inputs) -> Mapping[tuple[str, str], int]:
    """Return how many deliveries are missing, by run and cause."""
    rows = inputs.collected(LOST).select(["run", "cause"]).to_pylist()
    return Counter((str(row["run"]), str(row["cause"])) for row in rows)


def column_of(cause: Cause) -> str:
    """Return the column of the summary with the number of deliveries that a cause took."""
    return f"lost_{cause.name.lower()}"


def _metric(cause: Cause) -> MeasuredMetric:
    """Return the number of deliveries that a cause took from a run."""
    name = column_of(cause)

    def make(inputs: Inputs) -> Rows:
        counted = inputs.once(numbers)
        rows = [(run.name, counted.get((run.name, str(cause)), 0)) for run in inputs.runs]
        return driver_rows(rows, f"run string, {name} long")

    return MeasuredMetric(
        column=name,
        measure=SummaryColumn(
            column=column(name, LONG, f"deliveries missing, all events: {cause}"), make=make
        ),
        title=f"Missing: {cause}",
        caption=f"Deliveries that are missing: {MEANING[cause]}.",
        unit="deliveries",
        text=count,
    )


def by_cause(rows: pd.DataFrame) -> dict[str, int]:
    """Return how many deliveries are missing by cause, in the order of `Cause`."""
    counted = Counter(rows["cause"])
    return {str(cause): counted[str(cause)] for cause in Cause if counted[str(cause)]}


def _tables(tables: RunTables) -> list[TextTable]:
    rows = tables.table("lost")
    if rows.empty:
        return []
    settled = by_cause(rows[rows["settled"].eq(True)])
    causes = [
        [cause, MEANING[Cause(cause)], count(number), share(number / len(rows)),
         count(settled.get(cause, 0))]
        for cause, number in by_cause(rows).items()
    ]  # fmt: skip
    total = ["all", "", count(len(rows)), share(1.0), count(sum(settled.values()))]
    where = "at the hop where the event was last seen"
    return [
        TextTable(
            "Why deliveries are missing",
            f"Deliveries expected and not made, all events, by the cause {where}; captures, "
            f"positions and faults{_log_note(tables)}.",
            ("cause", "what it means", "missing", "share", "of events that count"),
            [*causes, total],
            words=2,
            last_is_total=True,
        ),
        TextTable(
            "Where deliveries were lost",
            f"The {MOST} nodes and links that lost most, {where}.",
            ("last seen at", "on the way to", "missing", "causes"),
            list(_places(tables, rows)),
            words=2,
        ),
    ]


def _log_note(tables: RunTables) -> str:
    if _log(tables.run) is not None:
        return ", and the medium's log"
    return (
        ". There is no readable log of the medium, so what the air did to a frame that was in "
        "range, and what waited in queues, is not known"
    )


def _places(tables: RunTables, rows: pd.DataFrame) -> Iterator[list[Cell]]:
    names = tables.names
    links = Counter(
        (int(node), 0 if np.isnan(following) else int(following))
        for node, following in zip(rows["node_id"], floats(rows["following"]), strict=True)
    )
    for (node, following), number in links.most_common(MOST):
        mine = rows[rows["node_id"].eq(node) & rows["following"].fillna(0).eq(following)]
        causes = ", ".join(f"{cause} {count(times)}" for cause, times in by_cause(mine).items())
        following_name = printable(names.get(following, "")) or "(not sent on)"
        yield [printable(names.get(node, str(node))), following_name, count(number), causes]


def _drawings(tables: RunTables) -> list[tuple[str, Drawing]]:
    rows = tables.table("lost")
    if rows.empty:
        return []
    from spark_analysis.report import losses

    buckets = tables.table("delivery_over_time").sort_values("time")
    start, width = floats(buckets["time"]), float(buckets["width"].iloc[0])
    edges = [*start, start[-1] + width]
    causes = list(by_cause(rows))
    missing = {
        cause: np.histogram(floats(rows.loc[rows["cause"].eq(cause), "time"]), edges)[0]
        for cause in causes
    }
    drawings = [("lost", losses.over_time(start, width, missing))]
    if tables.scenario.wire is None:
        points = list(zip(floats(rows["x"]), floats(rows["y"]), rows["cause"], strict=True))
        starts = np.array([node.waypoints[0][1:3] for node in tables.run.driven], dtype=float)
        drawings.append(("places", losses.places(points, causes, starts, tables.scenario.area)))
    return drawings


METRICS: Final = tuple(_metric(cause) for cause in Cause)
MEASURES: Final = (Measure(LOST, Section(tables=_tables, drawings=_drawings)),)

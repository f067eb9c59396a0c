"""Overlays by interest: who gets events, over how many overlay hops, and why if not interested.

An overlay hop is a frame from one peer to another, whatever lies between.  A frame that arrives at
the peer that it is for is a reception; the depth of a peer's first reception of an event is one
more than that of the sender's.  A reception by a peer without a subscription that matches the event
is a false positive.  Its cause follows from the peer's subscriptions at the time of the PUBLISH, as
its loopback shows them, and from the overlay's rules in the scenario:

    grid         the event's cell is one of the peer's, only part of which its filters ask for
    bloom        all bits of the event are the peer's, by a collision
    forwarding   neither: the peer is on the path to others

A peer sends heartbeats to all its links, so the peers to which it sends them in one interval of
heartbeats are its table: chosen and incoming links, and its ring.

Overlays are the protocols with `IdentifierParameters`; others have no rows, and cost no query.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as sf

from emulation.scenario.runfolder import Run
from nodeapp.events import Subscription
from nodeapp.kinds import Role
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits, covers, identifier
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.overlay.parameters import IdentifierParameters
from nodeapp.pubsub.overlay.space import Space
from nodeapp.pubsub.registry import kinds_of
from spark_analysis.captures.schemas import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    PUBLISHER,
    RECEIVER,
    SEQUENCE,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.pandas_rows import floats
from spark_analysis.engine.tables import Inputs, Rows, SummaryColumn, Table, driver_rows
from spark_analysis.measures.clients import PUBLICATIONS
from spark_analysis.measures.columns import EVENT, mean_a_run
from spark_analysis.measures.delivery import DELIVERY
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS, with_parameters
from spark_analysis.measures.subscriptions import SUBSCRIPTIONS
from spark_analysis.report.metric import AgreementBound, MeasuredMetric, significant
from spark_analysis.report.quantities import count, number, share
from spark_analysis.report.text_table import TextTable

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables
    from spark_analysis.report.figures import Drawing

VERSION: Final = Version(1, "f607e31e63b4")


def _overlays(inputs: Inputs) -> list[Run]:
    return with_parameters(inputs, IdentifierParameters)


class _Rules:
    """The cells and bits of a run's overlay."""

    def __init__(self, run: Run) -> None:
        parameters = run.scenario.protocol.parameters
        self._space = Space(parameters["space"])
        self._rules = parameters["bits"], parameters["hashes"]
        self._cells: dict[bytes, frozenset[int]] = {}

    def cause(self, event: Mapping[str, Any], bodies: list[bytes]) -> str:
        """Return why a peer with these subscriptions gets an event that none of them matches."""
        cell = self._space.cell(event)
        cells: set[int] = set()
        for body in bodies:
            if body not in self._cells:
                wanted = Subscription.decode(body).filter
                self._cells[body] = self._space.filter_cells(wanted)
            cells |= self._cells[body]
        if cell in cells:
            return "grid"
        wanted_bits = SHARED_BIT | cell_bits(cell, *self._rules)
        return "bloom" if covers(identifier(cells, *self._rules), wanted_bits) else "forwarding"


def receptions(inputs: Inputs) -> list[tuple[Any, ...]]:
    """Return the rows of `OVERLAY_RECEPTIONS`."""
    runs = _overlays(inputs)
    if not runs:
        return []
    rules = {run.name: _Rules(run) for run in runs}
    names = list(rules)
    wanting = {
        tuple(row)
        for row in inputs.of(DELIVERY)
        .filter(sf.col("run").isin(names) & sf.col("expected"))
        .select(*EVENT, "receiver")
        .collect()
    }
    published = {
        (row.run, row.publisher, row.sequence): (json.loads(row.attributes), row.time_ns)
        for row in inputs.of(PUBLICATIONS).filter(sf.col("run").isin(names)).collect()
    }
    subscribed: dict[tuple[str, int], list[tuple[int, int, bytes]]] = {}
    table = inputs.of(SUBSCRIPTIONS).filter(sf.col("run").isin(names))
    for run, node, begin, end, body in table.select(
        "run", "node_id", "from_ns", "until_ns", "body"
    ).collect():
        subscribed.setdefault((run, node), []).append((begin, end, bytes(body)))
    rows = []
    for event, node, depth, hops in _first(inputs, names):
        attributes, time_ns = published.get(event, (None, 0))
        if attributes is None:
            continue
        wanted = (*event, node) in wanting
        cause = None
        if not wanted:
            held = subscribed.get((event[0], node), ())
            bodies = [body for begin, end, body in held if begin <= time_ns < end]
            cause = rules[event[0]].cause(attributes, bodies)
        rows.append((*event, node, depth, hops, wanted, cause))
    return rows


def _first(
    inputs: Inputs, names: list[str]
) -> Iterator[tuple[tuple[str, int, int], int, int, int]]:
    """Yield event, receiver, depth and hops of each peer's first reception."""
    arrived = inputs.of(PACKETS).filter(
        sf.col("run").isin(names)
        & sf.col("kind").isin(kinds_of(Role.EVENT))
        & ~sf.col("sent")
        & (sf.col("destination") == sf.col("node_id"))
    )
    depths: dict[tuple[str, int, int], dict[int, int]] = {}
    columns = (*EVENT, "originator", "node_id", "hops")
    for run, publisher, sequence, sender, node, hops in (
        arrived.select(*columns, "time_ns").orderBy("time_ns").drop("time_ns").collect()
    ):
        event = run, publisher, sequence
        of_event = depths.setdefault(event, {publisher: 0})
        if node not in of_event:
            of_event[node] = of_event.get(sender, 0) + 1
            yield event, node, of_event[node], hops


OVERLAY_RECEPTIONS: Final[Table] = Table(
    name="overlay_receptions",
    description="overlays: the first time that each peer got each event, and why",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        column("depth", INT, "overlay hops from the publisher"),
        column("hops", INT, "hops of the network below, from the publisher"),
        column("wanted", BOOLEAN, "the event was due to a client of the receiver"),
        column("cause", STRING, "of an unwanted one: grid, bloom or forwarding"),
    ),
    order=("publisher", "sequence", "depth", "receiver"),
    make=lambda inputs: driver_rows(inputs.once(receptions), OVERLAY_RECEPTIONS.schema),
)
"""One peer that got an event over the overlay; the publisher's own node is left out."""

INTERVAL: Final = "heartbeat_interval"


def table_sizes(inputs: Inputs) -> Rows:
    """Return `OVERLAY_LINKS`."""
    intervals = [
        (run.name, float(run.scenario.protocol.parameters[INTERVAL]))
        for run in inputs.runs
        if INTERVAL in run.scenario.protocol.parameters
    ]
    if not intervals:
        return driver_rows([], OVERLAY_LINKS.schema)
    times = inputs.local(intervals, "run string, interval double")
    since = (sf.col("time_ns") - sf.col("epoch_ns")) / sf.lit(1e9)
    return (
        inputs.of(PACKETS)
        .filter(
            (sf.col("kind") == OverlayKind.HEARTBEAT) & (sf.col("originator") == sf.col("node_id"))
        )
        .filter("sent")
        .join(sf.broadcast(inputs.of(RUNS).select("run", "epoch_ns")), "run")
        .join(sf.broadcast(times), "run")
        .withColumn("time", sf.floor(since / sf.col("interval")) * sf.col("interval"))
        .groupBy("run", "node_id", "time")
        .agg(sf.countDistinct("destination").cast("int").alias("links"))
        .to(OVERLAY_LINKS.schema)
    )


OVERLAY_LINKS: Final[Table] = Table(
    name="overlay_links",
    description="overlays: routing table sizes over time, from heartbeats",
    schema=run_schema(
        column("node_id", LONG, "node id of the peer"),
        column("time", DOUBLE, "s into the run, start of an interval of heartbeats"),
        column("links", INT, "peers that it sent heartbeats to in the interval"),
    ),
    order=("time", "node_id"),
    make=table_sizes,
)
"""The table of one peer in one interval."""


def text_tables(tables: RunTables) -> list[TextTable]:
    """Return the figures of an overlay's run; nothing if no peer got an event."""
    got = tables.table("overlay_receptions")
    if not len(got):
        return []
    wanted = got[got["wanted"]]
    causes: Counter[str] = Counter(got["cause"].dropna())
    rows = [
        ["receptions of an event by a peer", count(len(got))],
        ["wanted", count(len(wanted))],
        ["overlay hops of these, mean", number(float(wanted["depth"].mean()))],
        *([f"not wanted: {cause}", count(causes[cause])] for cause in sorted(causes)),
        ["false positives", share(1 - len(wanted) / len(got))],
    ]
    sizes = tables.table("overlay_links")
    if len(sizes):
        last = sizes.sort_values("time").groupby("node_id")["links"].last()
        rows.append(["links of a peer by its last heartbeats, mean", number(float(last.mean()))])
        rows.append(["links of a peer, most", count(int(sizes["links"].max()))])
    note = "From the captures: first receptions at peers, and heartbeats."
    return [TextTable("Overlay", note, ("what", "value"), rows, words=1)]


def links_over_time(tables: RunTables) -> list[tuple[str, Drawing]]:
    """Draw the sizes of routing tables by intervals of heartbeats; nothing without heartbeats."""
    from spark_analysis.report import svg
    from spark_analysis.report.figures import WIDTH, Drawing

    sizes = tables.table("overlay_links")
    if not len(sizes):
        return []
    by_time = sizes.groupby("time")["links"].agg(["mean", "min", "max", "size"]).sort_index()
    times = by_time.index.to_numpy(float)
    interval = float(np.diff(times).min()) if len(times) > 1 else tables.observed
    edges = np.append(times, times[-1] + interval)  # or the last interval would have no width
    least, mean, most = (
        np.append(floats(by_time[name]), by_time[name].iloc[-1]) for name in ("min", "mean", "max")
    )
    title = "Routing tables over time"
    caption = (
        "Peers that a peer sent heartbeats to in an interval of these: mean over the peers that "
        "sent some, and from the smallest to the largest table."
    )
    with svg.style():
        figure = svg.new_figure(WIDTH, 260)
        axes = figure.subplots()
        axes.fill_between(edges, least, most, step="post", color=svg.BLUE, alpha=0.15, linewidth=0)
        axes.step(edges, mean, where="post", color=svg.BLUE)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time in the run, s")
        axes.set_ylabel("links of a peer")
    last = by_time.iloc[-1]
    description = (
        f"{number(float(last['mean']))} links of a peer in the last interval, "
        f"{number(float(by_time['mean'].iloc[0]))} in the first; never more than "
        f"{count(int(by_time['max'].max()))}."
    )
    values = by_time.rename(columns={"size": "peers"}).reset_index()
    return [("links", Drawing(figure, title, caption, description, values=values))]


OVERLAY: Final = Section(tables=text_tables, drawings=links_over_time)


def _of_runs(
    inputs: Inputs, name: str, value: Callable[[list[tuple[Any, ...]]], float | None]
) -> Rows:
    """Return a number for each run, from its rows of `OVERLAY_RECEPTIONS`."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for row in inputs.once(receptions):
        rows.setdefault(row[0], []).append(row)
    values = [(run, value(of_run)) for run, of_run in rows.items()]
    return driver_rows(values, f"run string, {name} double")


def _depth(rows: list[tuple[Any, ...]]) -> float | None:
    depths = [depth for *_, depth, _, wanted, _ in rows if wanted]
    return fmean(depths) if depths else None


def stretch(inputs: Inputs) -> Rows:
    """Return run and overlay_stretch: radio hops over overlay hops, of runs on the radio."""
    radio = {run.name for run in inputs.runs if run.scenario.wire is None}
    sums: dict[str, list[int]] = {}
    for run, _, _, _, depth, hops, wanted, _ in inputs.once(receptions):
        if wanted and run in radio:
            of_run = sums.setdefault(run, [0, 0])
            of_run[0] += hops
            of_run[1] += depth
    stretches = [(run, hops / depth) for run, (hops, depth) in sums.items()]
    return driver_rows(stretches, "run string, overlay_stretch double")


OVERLAY_DEPTH: Final = MeasuredMetric(
    column="overlay_depth",
    measure=SummaryColumn(
        column=column("overlay_depth", DOUBLE, "overlay hops of wanted receptions; null: none"),
        make=lambda inputs: _of_runs(inputs, "overlay_depth", _depth),
    ),
    title="Delivery depth",
    caption="Overlay hops from the publisher to peers that want an event, mean.",
    unit="hops",
    text=significant,
    swept=True,
    if_known=True,
    heading="depth",
    # Depths are those of a few paths to each peer, chosen by chance: the bound is wide.
    agreement=AgreementBound("overlay hops", 0.1),
)

OVERLAY_STRETCH: Final = MeasuredMetric(
    column="overlay_stretch",
    measure=SummaryColumn(
        column=column(
            "overlay_stretch", DOUBLE, "radio hops an overlay hop of wanted receptions; null: wired"
        ),
        make=stretch,
    ),
    title="Overlay stretch",
    caption="Radio hops of events on their way to peers that want them, over the overlay hops of "
    "that way; none on a wired network.",
    unit="radio hops",
    text=significant,
    swept=True,
    if_known=True,
    tile="Overlay stretch",
    detail=lambda tables: (
        "radio hops per overlay hop, of events on their way to peers that want them"
    ),
    heading="radio hops per overlay hop",
)

FALSE_POSITIVES: Final = MeasuredMetric(
    column="false_positives",
    measure=SummaryColumn(
        column=column("false_positives", DOUBLE, "receptions not wanted / all, of an overlay"),
        make=lambda inputs: _of_runs(
            inputs, "false_positives", lambda rows: fmean(not row[-2] for row in rows)
        ),
    ),
    title="False positives",
    caption="Of all peers that get an event, those of which no subscription matches it.",
    unit="%",
    scale=100.0,
    text=significant,
    swept=True,
    if_known=True,
    heading="false positives",
)

OVERLAY_TABLE: Final = MeasuredMetric(
    column="overlay_links",
    measure=SummaryColumn(
        column=column("overlay_links", DOUBLE, "links of a peer by heartbeats, mean"),
        make=lambda inputs: mean_a_run(inputs.of(OVERLAY_LINKS), "links", "overlay_links"),
    ),
    title="Routing table",
    caption="Peers that a peer sends heartbeats to, mean over peers and time.",
    unit="links",
    text=significant,
    swept=True,
    if_known=True,
    heading="links",
    agreement=AgreementBound("links of a peer", 0.05),
)


MEASURES: Final = (Measure(OVERLAY_RECEPTIONS, OVERLAY), Measure(OVERLAY_LINKS))
METRICS: Final = (FALSE_POSITIVES, OVERLAY_DEPTH, OVERLAY_STRETCH, OVERLAY_TABLE)

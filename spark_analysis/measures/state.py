"""State that nodes keep: neighbours, and the soft state of rendezvous cells, over time.

What a node keeps follows from what its radio sent and heard.  Every `STEP` seconds it knows

    neighbours      of which it heard a HELLO in the last `hello_timeout` intervals, and which are
                    not beyond the nominal range, if the protocol does not use those
    adjacent        those of them in its own cell and the eight around it, which routing uses
    advertisements  and subscriptions that were sent in the cell in which it is, by itself or by
                    another node in it, and were refreshed within `subscription_timeout`

Cells are those of the scenario's positions.  A node's own cell is its position, not an entry.
`bytes` are those that an entry took when last sent: of a neighbour, the body of its beacon.

Protocols without rendezvous cells have no rows, and cost no query.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from emulation.mobility.trajectory import Trace
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.messages import TopicKind
from nodeapp.routing.cell_hash_routing import grid_of
from nodeapp.wire import FLAG_REPLICA
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
from spark_analysis.measures.cell_messages import CELL_MESSAGES, ENTRIES, with_cells
from spark_analysis.measures.columns import count_if, mean_a_run, seconds_between, sum_if
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS, facts
from spark_analysis.report.metric import MeasuredMetric, significant, to_units
from spark_analysis.report.quantities import number, quantity
from spark_analysis.report.text_table import TextTable

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "ea60371ef275")


STEP: Final = 5.0
"""Seconds between the times at which state is counted."""

_PLACES: Final = (
    "run string, node_id long, step int, cell_column int, cell_row int, x double, y double"
)

_TIMES: Final = "run string, steps int, kept double, heard double, reach double"

_AT: Final = ["run", "node_id", "step"]

PLACES: Final = Query(
    make=lambda inputs: driver_rows(list(places(inputs)), _PLACES), kept=Kept.IN_DRIVER
)
"""The cell of every node at every step, and where it is, metres."""


def _steps(inputs: Inputs) -> dict[str, int]:
    """Return how many steps each run has: up to its end, no longer than the scenario."""
    return {
        row.run: int(min((row.end_ns - row.epoch_ns) / 1e9, row.duration) // STEP)
        for row in inputs.once(facts)
    }


def places(inputs: Inputs) -> Iterator[tuple[str, int, int, int, int, float, float]]:
    """Yield the rows of `PLACES`."""
    steps = _steps(inputs)
    for run in with_cells(inputs):
        scenario, environment = run.scenario, run.scenario.environment()
        side = float(scenario.protocol.parameters["cell_size"])
        grid = grid_of(environment.area, environment.radio_range, side)
        trace = Trace([node.waypoints for node in run.driven])
        for step in range(1, steps[run.name] + 1):
            for node, (x, y) in zip(scenario.nodes, trace.positions(STEP * step), strict=True):
                at = float(x), float(y)
                yield run.name, node.id, step, *grid.cell(at), *at


def _times(inputs: Inputs) -> DataFrame:
    """Return run, steps, how long entries and neighbours are kept, s, and how far those are, m."""
    steps = _steps(inputs)
    rows = []
    for run in with_cells(inputs):
        values = run.scenario.protocol.parameters
        heard = float(values["hello_timeout"]) * float(values["hello_interval"])
        reach = math.inf if values["beyond_range"] else run.scenario.environment().radio_range
        kept = float(values["subscription_timeout"])
        rows.append((run.name, steps[run.name], kept, heard, reach))
    return inputs.local(rows, _TIMES)


def _kept(rows: DataFrame, inputs: Inputs, kept: str) -> DataFrame:
    """Return rows for every step at which their entry is kept, `kept` seconds long."""
    first = sf.greatest(sf.ceil(sf.col("time") / STEP), sf.lit(1)).cast("int")
    # An entry as old as the time it is kept is gone.
    last = sf.least(sf.ceil((sf.col("time") + sf.col(kept)) / STEP) - 1, sf.col("steps"))
    span = sf.when(first <= last, sf.sequence(first, last.cast("int")))
    return (
        rows.join(sf.broadcast(inputs.of(RUNS).select("run", "epoch_ns")), "run")
        .join(sf.broadcast(_times(inputs)), "run")
        .withColumn("time", seconds_between("time_ns"))
        .withColumn("step", sf.explode(span))
    )


def _neighbours(inputs: Inputs) -> DataFrame:
    """Return run, node_id, step, neighbours, adjacent, beacon_bytes."""
    heard = inputs.of(PACKETS).filter((sf.col("kind") == CommonKind.HELLO) & ~sf.col("sent"))
    known = (
        _kept(heard, inputs, "heard")
        .groupBy(*_AT, "originator", "reach")
        .agg(sf.max_by("body_length", "time_ns").alias("size"))
    )
    places = inputs.of(PLACES)
    theirs = places.select(
        "run",
        sf.col("node_id").alias("originator"),
        "step",
        sf.col("cell_column").alias("its_column"),
        sf.col("cell_row").alias("its_row"),
        sf.col("x").alias("its_x"),
        sf.col("y").alias("its_y"),
    )
    distance = sf.hypot(sf.col("x") - sf.col("its_x"), sf.col("y") - sf.col("its_y"))
    beside = (sf.abs(sf.col("cell_column") - sf.col("its_column")) <= 1) & (
        sf.abs(sf.col("cell_row") - sf.col("its_row")) <= 1
    )
    return (
        known.join(places, _AT)
        .join(theirs, ["run", "originator", "step"])
        .filter(distance <= sf.col("reach"))
        .groupBy(*_AT)
        .agg(
            sf.count("*").alias("neighbours"),
            count_if(beside).alias("adjacent"),
            sf.sum("size").alias("beacon_bytes"),
        )
    )


def _at_cell(name: str) -> Column:
    """Return whether a row's cell `name` is the one that its node is in."""
    return (sf.col(f"{name}_column") == sf.col("own_column")) & (
        sf.col(f"{name}_row") == sf.col("own_row")
    )


def _entries(inputs: Inputs) -> DataFrame:
    """Return run, node_id, step, advertisements, subscriptions, entry_bytes."""
    entries = inputs.of(CELL_MESSAGES).filter(
        sf.col("kind").isin([int(kind) for kind in ENTRIES])
        & (sf.col("flags").bitwiseAND(FLAG_REPLICA) != 0)
    )
    own = inputs.of(PLACES).withColumnsRenamed({"cell_column": "own_column", "cell_row": "own_row"})
    entry = ("kind", "issuer", "topic", "replica", "item")
    stored = (
        _kept(entries, inputs, "kept")
        .join(own, _AT)
        .filter(_at_cell("cell") | sf.coalesce(_at_cell("target"), sf.lit(False)))
        .groupBy(*_AT, *entry)
        .agg(sf.max_by("size", "time_ns").alias("size"))
    )
    return stored.groupBy(*_AT).agg(
        count_if(sf.col("kind") == TopicKind.ADVERTISEMENT).alias("advertisements"),
        count_if(sf.col("kind") == TopicKind.SUBSCRIPTION).alias("subscriptions"),
        sum_if(sf.col("size") > 0, sf.col("size")).alias("entry_bytes"),
    )


def state(inputs: Inputs) -> Rows:
    """Return `STATE`; no rows, and no work, if no run has rendezvous cells."""
    if not with_cells(inputs):
        return driver_rows([], STATE.schema)
    counts = ["neighbours", "adjacent", "advertisements", "subscriptions"]
    table = (
        inputs.of(PLACES)
        .join(_neighbours(inputs), _AT, "left")
        .join(_entries(inputs), _AT, "left")
        .fillna(0, [*counts, "beacon_bytes", "entry_bytes"])
        .withColumn("time", sf.col("step") * STEP)
        .withColumn("bytes", sf.col("beacon_bytes") + sf.col("entry_bytes"))
    )
    entries = sf.col("neighbours") + sf.col("advertisements") + sf.col("subscriptions")
    return table.withColumn("entries", entries).to(STATE.schema)


STATE: Final[Table] = Table(
    name="state",
    description="what nodes keep over time: neighbours, and entries of their rendezvous cells",
    schema=run_schema(
        column("node_id", LONG, "node id"),
        column("time", DOUBLE, "s into the run"),
        column("neighbours", INT, "neighbours that it knows"),
        column("adjacent", INT, "of these, in its own cell or an adjacent one"),
        column("advertisements", INT, "advertisements of its cell that it keeps"),
        column("subscriptions", INT, "subscriptions of its cell that it keeps"),
        column("entries", INT, "neighbours, advertisements and subscriptions"),
        column("bytes", LONG, "bytes that these took when last sent"),
    ),
    order=("time", "node_id"),
    make=state,
    kept=Kept.IN_DRIVER,
)
"""What one node keeps at one time."""


def state_tables(tables: RunTables) -> list[TextTable]:
    """Return what nodes keep; nothing if that is not known."""
    kept = tables.table("state")
    if not len(kept):
        return []
    last = kept[kept["time"] == kept["time"].max()]
    rows = [
        [
            name.replace("adjacent", "of these, in its cell or an adjacent one"),
            *(write(float(value)) for value in (kept[name].mean(), kept[name].max())),
            write(float(last[name].mean())),
        ]
        for name, write in (
            ("neighbours", number),
            ("adjacent", number),
            ("advertisements", number),
            ("subscriptions", number),
            ("entries", number),
            ("bytes", lambda value: quantity(value, "B")),
        )
    ]
    return [
        TextTable(
            "State of a node",
            "What nodes keep, from beacons and from what is sent in cells: over nodes and time.",
            ("what", "mean", "most", "mean at the end"),
            rows,
            words=1,
        )
    ]


KEPT: Final = Section(tables=state_tables)

STATE_BYTES: Final = MeasuredMetric(
    column="state_bytes",
    measure=SummaryColumn(
        column=column("state_bytes", DOUBLE, "bytes of `state_entries` as last sent, mean"),
        make=lambda inputs: mean_a_run(inputs.of(STATE), "bytes", "state_bytes"),
    ),
    title="State of a node, bytes",
    caption="Bytes of the neighbours, advertisements and subscriptions that a node keeps, as sent; "
    "mean over nodes and time.",
    unit="bytes",
    text=to_units,
    swept=True,
    if_known=True,
    heading="bytes a node",
)

STATE_ENTRIES: Final = MeasuredMetric(
    column="state_entries",
    measure=SummaryColumn(
        column=column("state_entries", DOUBLE, "entries that a node keeps, mean; null: not known"),
        make=lambda inputs: mean_a_run(inputs.of(STATE), "entries", "state_entries"),
    ),
    title="State of a node",
    caption="Neighbours, advertisements and subscriptions that a node keeps, mean over nodes and "
    "time.",
    unit="entries",
    text=significant,
    swept=True,
    if_known=True,
    tile="State of a node",
    detail=lambda tables: (
        "neighbours, advertisements and subscriptions, mean; sent in "
        f"{to_units(tables.value(STATE_BYTES.column))} bytes"
    ),
    heading="entries a node",
)


MEASURES: Final = (Measure(STATE, KEPT),)
METRICS: Final = (STATE_BYTES, STATE_ENTRIES)

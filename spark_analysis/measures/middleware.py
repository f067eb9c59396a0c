"""Middlewares: where the events of other people's systems went, and what their processes used.

An event is followed by its marker through the radio captures (`capture.foreign`): which nodes sent
it, how often, and which frames were retransmissions.  What processes used is in the run's
`usage.json`, for every run in real time, so that protocols can be compared with middlewares.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from capture.foreign import EVENT
from spark_analysis.captures.schemas import (
    DOUBLE,
    LONG,
    PUBLISHER,
    SEQUENCE,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.tables import Inputs, Rows, SummaryColumn, Table, driver_rows
from spark_analysis.measures.columns import count_if
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.packets import PACKETS
from spark_analysis.measures.runs import RUNS
from spark_analysis.report.metric import MeasuredMetric
from spark_analysis.report.quantities import count, number, quantity, seconds
from spark_analysis.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(4, "da38ee6f045d")

CARRIED: Final[Table] = Table(
    name="carried_events",
    description="frames of a middleware with an event, by event and sending node",
    schema=run_schema(
        PUBLISHER,
        SEQUENCE,
        column("node", STRING, "name of the node whose radio sent it"),
        column("node_id", LONG, "node id"),
        column("time", DOUBLE, "s into the run of the first frame"),
        column("frames", LONG, "frames that carried it for the first time"),
        column("repeated", LONG, "TCP retransmissions that carried it again"),
    ),
    order=("publisher", "sequence", "time", "node_id"),
    make=lambda inputs: (
        driver_rows([], CARRIED.schema)
        if inputs.foreign is None
        else carried(inputs.of(PACKETS), inputs.of(RUNS))
    ),
)
"""One event at one node that sent it by radio."""

USAGE: Final = Table(
    name="usage",
    description="processor time and memory of the nodes' processes",
    schema=run_schema(
        column("node", STRING, "name of the node"),
        column("program", STRING, "nodeapp, or what runs beside it: mosquitto, babeld, ..."),
        column("cpu_seconds", DOUBLE, "s of processor time, from the start to the run's end"),
        column(
            "memory", LONG, "bytes at the end, with its part of what is shared; 0: killed before"
        ),
    ),
    order=("node", "program"),
    make=lambda inputs: used(inputs),  # noqa: PLW0108  # it is defined below
)
"""One process of a node; only of runs in real time."""


def carried(packets: DataFrame, runs: DataFrame) -> DataFrame:
    """Return `CARRIED` from `radio_packets`.  `runs` has run and epoch_ns."""
    inside = sf.explode(sf.arrays_zip("publishers", "sequences")).alias("inside")
    table = (
        packets.filter(sf.col("sent"))
        .select("run", "node", "node_id", "time_ns", "label", inside)
        .join(sf.broadcast(runs.select("run", "epoch_ns")), "run")
        .groupBy(
            "run",
            sf.col("inside.publishers").alias("publisher"),
            sf.col("inside.sequences").alias("sequence"),
            "node",
            "node_id",
        )
        .agg(
            sf.min((sf.col("time_ns") - sf.col("epoch_ns")) / sf.lit(1e9)).alias("time"),
            count_if(sf.col("label") == EVENT).alias("frames"),
            count_if(sf.col("label") != EVENT).alias("repeated"),
        )
    )
    return table.to(CARRIED.schema)


def used(inputs: Inputs) -> Rows:
    """Return `USAGE`."""
    rows = [
        (run.name, process.node, process.program, process.cpu_seconds, process.memory)
        for run in inputs.runs
        if run.usage is not None
        for process in run.usage.processes
    ]
    return driver_rows(rows, USAGE.schema)


def _per_node(inputs: Inputs, use: Literal["cpu_seconds", "memory"]) -> Iterator[tuple[str, float]]:
    """Yield the runs whose usage is known, each with a use of a node's processes: their mean.

    What a fault has killed has no memory, which says nothing of what it had.
    """
    for run in inputs.runs:
        sums: dict[str, float] = {}
        for process in () if run.usage is None else run.usage.processes:
            if amount := getattr(process, use):
                sums[process.node] = sums.get(process.node, 0.0) + amount
        if sums:
            yield run.name, fmean(sums.values())


def processor_shares(inputs: Inputs) -> Rows:
    """Return run and processor_share; a run whose usage or end is not known has no row."""
    lasted = {run.name: run.record.lasted for run in inputs.runs if run.record}
    shares = [
        (run, spent / length)
        for run, spent in _per_node(inputs, "cpu_seconds")
        if (length := lasted.get(run))
    ]
    return driver_rows(shares, "run string, processor_share double")


def carried_table(tables: RunTables) -> list[TextTable]:
    """Return how events went over the radio, by publisher; nothing for protocols."""
    events = tables.table("carried_events")
    if events.empty:
        return []
    rows: list[list[Cell]] = []
    for publisher, own in events.groupby("publisher"):
        by_event = own.groupby("sequence").agg(
            nodes=("node_id", "nunique"), frames=("frames", "sum"), repeated=("repeated", "sum")
        )
        rows.append(
            [
                tables.names.get(int(str(publisher)), str(publisher)), count(len(by_event)),
                number(by_event["nodes"].mean()), count(by_event["nodes"].max()),
                number(by_event["frames"].mean()), count(by_event["repeated"].sum()),
            ]
        )  # fmt: skip
    return [
        TextTable(
            "Events over the radio",
            "Events by the markers in frames, radio captures: which nodes' radios sent each, and "
            "in how many frames; TCP retransmissions apart.",
            (
                "publisher", "events", "nodes that sent one, mean", "most", "frames per event",
                "TCP retransmissions",
            ),
            rows,
        )
    ]  # fmt: skip


def usage_table(tables: RunTables) -> list[TextTable]:
    """Return what the programs of the nodes used; nothing if that is not known."""
    processes = tables.table("usage")
    if processes.empty:
        return []
    rows: list[list[Cell]] = []
    for program, own in processes.groupby("program"):
        spent, memory = own.groupby("node")["cpu_seconds"].sum(), own["memory"][own["memory"] > 0]
        rows.append(
            [
                str(program), count(len(spent)), seconds(spent.sum()), seconds(spent.max()),
                quantity(memory.mean(), "B"), quantity(memory.max(), "B"),
            ]
        )  # fmt: skip
    return [
        TextTable(
            "Processes of the nodes",
            "Processor time until the run's end, and memory then; shared memory is divided among "
            "its processes. The node app is in Python, and is each system's client.",
            (
                "program", "nodes", "processor time, all", "of the busiest", "memory, mean",
                "of the largest",
            ),
            rows,
        )
    ]  # fmt: skip


PROCESSOR_SHARE: Final = MeasuredMetric(
    column="processor_share",
    measure=SummaryColumn(
        column=column(
            "processor_share", DOUBLE, "processor time of a node's processes / observed, mean"
        ),
        make=processor_shares,
    ),
    title="Processor time",
    caption="Processor time of all processes of a node, their start included, for each second of "
    "the run; mean over the nodes. The node app, in Python, is the client of a middleware.",
    unit="ms/s a node",
    scale=1000.0,
    text=lambda value: f"{number(1000 * value)} ms/s",
    swept=True,
    if_known=True,
    heading="processor time per node",
)

MEMORY: Final = MeasuredMetric(
    column="memory_per_node",
    measure=SummaryColumn(
        column=column("memory_per_node", DOUBLE, "bytes of a node's processes at the end, mean"),
        make=lambda inputs: driver_rows(
            [*_per_node(inputs, "memory")], "run string, memory_per_node double"
        ),
    ),
    title="Memory",
    caption="Memory of all processes of a node at the end, its part of what is shared (PSS); mean "
    "over the nodes.",
    unit="MB a node",
    scale=1e-6,
    text=lambda value: quantity(value, "B"),
    swept=True,
    if_known=True,
    heading="memory per node",
)

MEASURES: Final = (
    Measure(CARRIED, Section(tables=carried_table)),
    Measure(USAGE, Section(tables=usage_table)),
)
METRICS: Final = (PROCESSOR_SHARE, MEMORY)

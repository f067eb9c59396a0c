"""Runs: what is known of each before any table, from its folder and its captures' extent.

Time 0.  `run.json` has the Unix time of the scenario's time 0.  If a killed run left none, it is
worked out from the publications: the driver sends each at its time in the scenario or a little
later, so the earliest that they allow is taken; without publications, the first packet.

The end.  The length of the run in `run.json` counts, or the last packet if that came later:
protocols without beacons are silent between events.  If it was killed, or captures are damaged, the
last packet is the end.

The driver holds these facts as rows, so queries run to find them.

Outages.  Nodes are down on purpose, by faults of the scenario or made at the prompt.  A node app
that has crashed has no subscriptions, whatever its clients ask for meanwhile.  A node
whose radio fails keeps them, but can be given nothing.  Both are known without the captures.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.scenario.faults import Kind, down
from emulation.scenario.runfolder import Run
from nodeapp.pubsub.registry import has_parameters
from spark_analysis.captures.schemas import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    RECEIVER,
    RUN,
    STRING,
    column,
    run_schema,
)
from spark_analysis.engine.tables import Inputs, Query, driver_rows
from spark_analysis.measures.clients import PUBLICATIONS
from spark_analysis.measures.measure import Version

VERSION: Final = Version(1, "58db6b7dcdb1")

SETTLE: Final = 2.0
"""Seconds before the end of a run: later events are not settled."""

_WIDTHS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)

_BUCKETS: Final = 60
"""Buckets over time at most, unless the longest width is too short for that."""

FACTS: Final = run_schema(
    column("topology", STRING, "topology of the scenario"),
    column("protocol", STRING, "publish/subscribe protocol"),
    column("backend", STRING, "backend that ran it"),
    column("ended", STRING, "completed, interrupted or failed"),
    column("seed", LONG, "seed of the scenario"),
    column("nodes", INT, "nodes of the scenario"),
    column("duration", DOUBLE, "s, as the scenario says"),
    column("epoch_ns", LONG, "Unix time of the scenario's time 0, ns"),
    column("epoch_estimated", BOOLEAN, "time 0 was worked out from the captures"),
    column("packets", LONG, "packets in all captures"),
    column("last_ns", LONG, "Unix time of the last packet, ns"),
    column("end_ns", LONG, "Unix time of the end; of the last packet if it is not known, ns"),
    column("settled_ns", LONG, "Unix time up to which events are settled, ns"),
    column("settle", DOUBLE, "s between the two"),
)
"""What is known of a run."""


class Facts(NamedTuple):
    """One row of `FACTS`."""

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
    end_ns: int
    settled_ns: int
    settle: float


class Extent(NamedTuple):
    """How many packets a run's captures hold, and the Unix times of the first and last, ns."""

    packets: int
    first_ns: int
    last_ns: int


def facts(inputs: Inputs) -> list[Facts]:
    """Return what is known of each run."""
    published = first_publications(inputs.runs, inputs.of(PUBLICATIONS))
    damaged = {name for name, survey in inputs.surveys.items() if survey.problems.get(name)}
    return run_facts(inputs.runs, extents(inputs.frames), published, SETTLE, damaged)


RUNS: Final = Query(make=lambda inputs: driver_rows(inputs.once(facts), FACTS))
"""`FACTS` of all runs."""


def bucket_width(inputs: Inputs) -> float:
    """Return the width of buckets over time, seconds: by the longest run."""
    span = max((row.end_ns - row.epoch_ns) / 1e9 for row in inputs.once(facts))
    return round_width(span, max(map(publishing_interval, inputs.runs)))


def publishing_interval(run: Run) -> float:
    """Return the seconds between a publisher's events, 0 if they have no interval."""
    spec = run.scenario.workload_spec
    values = {**run.scenario.topology_parameters, **(spec.parameters if spec else {})}
    interval = values.get("interval", 0.0)
    return float(interval) if isinstance(interval, int | float) else 0.0


def round_width(span: float, interval: float = 0.0) -> float:
    """Return a round width, in seconds, that cuts `span` seconds into not too many buckets.

    It is not below `interval`, that of publishers: else every other bucket would be empty.
    """
    wide = (width for width in _WIDTHS if span <= width * _BUCKETS and width >= interval)
    return float(next(wide, _WIDTHS[-1]))


def extents(frames: DataFrame) -> dict[str, Extent]:
    """Return the extent of each run's captures; runs without a packet are not in it."""
    table = frames.groupBy("run").agg(sf.count("*"), sf.min("time_ns"), sf.max("time_ns"))
    return {run: Extent(*extent) for run, *extent in table.collect()}


def first_publications(
    runs: Sequence[Run], publications: DataFrame
) -> dict[str, dict[tuple[int, int], int]]:
    """Return, for runs without `run.json`, the Unix time (ns) of each (publisher, sequence)."""
    names = [run.name for run in runs if run.record is None]
    first: dict[str, dict[tuple[int, int], int]] = {name: {} for name in names}
    if names:
        table = publications.filter(sf.col("run").isin(names))
        for run, publisher, sequence, time_ns in table.select(
            "run", "publisher", "sequence", "time_ns"
        ).collect():
            first[run][publisher, sequence] = time_ns
    return first


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
    damaged: Collection[str] = (),
) -> list[Facts]:
    """Return what is known of each run before any table; in `damaged` runs captures may lack."""
    facts = []
    for run in runs:
        scenario, record = run.scenario, run.record
        start = record.epoch_ns if record is not None else 0
        extent = extents.get(run.name, Extent(0, start, start))
        if record is None:
            start = estimated_epoch(run, published[run.name], extent.first_ns)
        end = extent.last_ns
        if record is not None and record.ended != "running" and run.name not in damaged:
            end = max(end, start + round((record.lasted or 0.0) * 1e9))
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
                end_ns=end,
                settled_ns=end - round(settle * 1e9),
                settle=float(settle),
            )
        )
    return facts


END_NS: Final = 2**62
"""Unix time of the end of what never ends."""

SILENT: Final = [RUN, RECEIVER, column("silent_ns", LONG, "Unix time of the beginning, ns"),
                 column("heard_ns", LONG, "Unix time of the end, ns; exclusive")]  # fmt: skip
"""A node was out of everybody's reach."""


class Outage(NamedTuple):
    """A node was down in [from_ns, until_ns)."""

    run: str
    node_id: int
    from_ns: int
    until_ns: int


def with_parameters(inputs: Inputs, declaration: type[Any]) -> list[Run]:
    """Return the runs of protocols that have all parameters of a dataclass, as subclasses do."""
    return [run for run in inputs.runs if has_parameters(run.scenario.protocol.name, declaration)]


def crashes(inputs: Inputs) -> list[Outage]:
    """Return when node apps were down."""
    return list(_outages(inputs, ("crash",)))


CUT_OFF: Final[tuple[Kind, ...]] = ("radio", "access-point")
"""Kinds of faults that leave a node without a radio: its own, or that of its access point."""


def silences(inputs: Inputs) -> list[Outage]:
    """Return when nodes had no radio: their own, or those of the access point they are wired to."""
    return list(_outages(inputs, CUT_OFF))


def _outages(inputs: Inputs, kinds: Sequence[Kind]) -> Iterator[Outage]:
    if not any(run.faults for run in inputs.runs):
        return
    epochs = {row.run: row.epoch_ns for row in inputs.once(facts)}
    for run in inputs.runs:
        for kind in kinds:
            yield from outages(run, kind, epochs[run.name])


def outages(run: Run, kind: Kind, epoch_ns: int) -> Iterator[Outage]:
    """Yield when nodes of a run were down by faults of a kind; `epoch_ns` is its Unix time 0."""
    scenario = run.scenario
    named = {node.name: node.id for node in scenario.nodes}
    if kind == "access-point":
        named = {point.name: point.broker for point in scenario.access_points}
    for name, node_id in named.items():
        for start, end in down(run.faults, name, kind):
            until = END_NS if end is None else epoch_ns + round(end * 1e9)
            yield Outage(run.name, node_id, epoch_ns + round(start * 1e9), until)

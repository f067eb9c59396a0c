"""Counters: what the bridges of access points counted as passed on, beside the captures.

A bridge counts frames and bytes by the path that they take through it and by their class of
messages, told by the DS field (`emulation.network.controller.flows`).  The paths give what passed
each of its ports in each direction.  The captures show the same again: those of the access point's
two radio ports, and that of the broker's end of the wire, where a frame whose IPv4 source is the
broker comes from it and any other goes to it.

The two come from different places, packet sockets and flow tables, so if they agree neither has
missed anything.  Frames of no class (not IPv4, or another code point) are left out: captures do not
say which way they went.  What is in a bridge when the last counters are read is in one of the two
only; a run ends its traffic first, so that nothing is.

At a handover the two may differ.  Open vSwitch works out only at the next revalidation
(`REVALIDATION_MS`) by which flows it has passed frames, and uses the flows that are there by then:
so a unicast that a bridge dropped, because its station was not there yet, counts as passed on if
the station came meanwhile, and vice versa.  What came from the broker is counted correctly in
either case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from emulation.network.controller.flows import (
    ACCESS_PORT,
    BROKER_PORT,
    MESH_PORT,
    OUTPUTS,
    FlowPath,
)
from emulation.network.switches import REVALIDATION_MS
from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.runfolder import Run
from nodeapp.kinds import TrafficClass
from nodeapp.pubsub.registry import MIDDLEWARE
from spark_analysis.captures.schemas import LONG, STRING, column, run_schema
from spark_analysis.engine.tables import Inputs, Rows, Table, driver_rows, local_rows
from spark_analysis.measures.measure import Measure, Section, Version
from spark_analysis.measures.nodes import NODES
from spark_analysis.report.quantities import count, printable, quantity
from spark_analysis.report.text_table import Cell, TextTable

if TYPE_CHECKING:
    import pandas as pd

    from spark_analysis.engine.results import RunTables

VERSION: Final = Version(1, "d2a59ad2c164")


COUNTED: Final = (
    "run string, access_point string, path string, traffic_class string, "
    "counted_frames long, counted_bytes long"
)
"""Flow counters as exported."""

COUNTERS: Final = Table(
    name="counters",
    description="flow counters of access points beside their captures",
    schema=run_schema(
        column("access_point", STRING, "name of the access point"),
        column("port", STRING, "wlan0 (stations), mesh0 (mesh) or eth0 (broker)"),
        column("direction", STRING, "in or out, as the bridge sees it"),
        column("traffic_class", STRING, "class of messages by the DS field"),
        column("counted_frames", LONG, "by the bridge's flow counters"),
        column("counted_bytes", LONG, "by the bridge's flow counters, from the Ethernet header"),
        column("captured_frames", LONG, "in the capture of the port, or of the broker's wire"),
        column("captured_bytes", LONG, "bytes of these, from the Ethernet header"),
    ),
    order=("access_point", "port", "direction", "traffic_class"),
    make=lambda inputs: of_bridges(inputs),  # noqa: PLW0108  # it is defined below
)
"""What passed one port of an access point in one direction, counted twice."""

_KINDS: Final = {ACCESS_PORT: ACCESS, MESH_PORT: MESH, BROKER_PORT: WIRED}

_PORTS: Final = {ACCESS: "stations", MESH: "mesh", WIRED: "broker"}

_KEY: Final = ["run", "access_point", "port", "direction", "traffic_class"]


def passages() -> list[tuple[str, str, str]]:
    """Return (path, port, direction) of every port that frames on a path pass."""
    passed = []
    for path, outputs in OUTPUTS.items():
        name = path.name
        if path is FlowPath.ASSOCIATION:
            continue
        source = name.partition("_")[0]
        entry = {"STATION": ACCESS, "MESH": MESH, "BROKER": WIRED}[source]
        passed.append((name, entry, "in"))
        passed += [(name, _KINDS[port], "out") for port in outputs]
    return passed


def of_bridges(inputs: Inputs) -> Rows:
    """Return `COUNTERS` of runs; those that exported no counters have no rows."""
    counted = counted_rows(inputs.runs)
    if not counted:
        return driver_rows([], COUNTERS.schema)
    return counters(inputs.frames, inputs.of(NODES), inputs.local(counted, COUNTED))


def counters(frames: DataFrame, nodes: DataFrame, counted: DataFrame) -> DataFrame:
    """Return `COUNTERS` of `counted` (`COUNTED`) and the captures in `frames`."""
    session = frames.sparkSession
    ways = local_rows(session, passages(), "path string, port string, direction string")
    classes = local_rows(
        session,
        [(traffic_class.name, int(traffic_class)) for traffic_class in TrafficClass],
        "traffic_class string, dscp short",
    )
    counts = (
        counted.join(sf.broadcast(ways), "path")
        .join(sf.broadcast(classes.select("traffic_class")), "traffic_class")
        .groupBy(*_KEY)
        .agg(
            sf.sum("counted_frames").alias("counted_frames"),
            sf.sum("counted_bytes").alias("counted_bytes"),
        )
    )
    brokers = nodes.filter(sf.col("access_point").isNotNull()).select(
        "run", "node", "access_point", "ip"
    )
    at_radios = brokers.select("run", sf.col("access_point").alias("node"), "access_point", "ip")
    of_brokers = brokers.union(at_radios.select("run", "node", "access_point", "ip"))
    wired = sf.col("interface") == WIRED
    own = sf.col("ip_src") == sf.col("ip")
    captured = (
        frames.filter((sf.col("interface") != "lo") & sf.col("ip_src").isNotNull())
        .join(sf.broadcast(counted.select("run").distinct()), "run", "semi")
        .join(sf.broadcast(of_brokers), ["run", "node"])
        .join(sf.broadcast(classes), "dscp")
        # From the broker: into the bridge at the wire, out of it at a radio.
        .withColumn("direction", sf.when(own == wired, "in").otherwise("out"))
        .withColumn("port", sf.col("interface"))
        .groupBy(*_KEY)
        .agg(sf.count("*").alias("captured_frames"), sf.sum("length").alias("captured_bytes"))
    )
    table = counts.join(captured, _KEY, "full").fillna(
        0, ["counted_frames", "counted_bytes", "captured_frames", "captured_bytes"]
    )
    return table.to(COUNTERS.schema)


def counted_rows(runs: Sequence[Run]) -> list[tuple[str, str, str, str, int, int]]:
    """Return the rows of `COUNTED`: the flow counters that the runs exported.

    Not those of middlewares: brokers' kernels route them, so their packets are of other sources.
    """
    return [
        (run.name, point.name, counter.path, counter.traffic_class, counter.frames, counter.bytes)
        for run in runs
        if run.flows is not None and run.scenario.protocol.name not in MIDDLEWARE
        for point in run.flows.access_points
        for counter in point.counters
    ]


def _differs(frame: pd.DataFrame) -> pd.Series:
    """Return whether counters and captures differ, by row."""
    return (frame["counted_frames"] != frame["captured_frames"]) | (
        frame["counted_bytes"] != frame["captured_bytes"]
    )


def _around_handovers(frame: pd.DataFrame, moves: int) -> str:
    """Return what explains differences if all of them are of frames to stations; empty if not."""
    differs = _differs(frame)
    to_stations = (frame["port"] == ACCESS) & (frame["direction"] == "out")
    if not moves or not to_stations[differs].all():
        return ""
    return (
        " All of these are frames to stations, which came to an access point "
        f"{count(moves)} times: what its bridge dropped in the {REVALIDATION_MS} ms before may be "
        "counted as passed on, and vice versa."
    )


def counter_tables(tables: RunTables) -> list[TextTable]:
    """Return the table of the report; none without access points."""
    if not tables.scenario.access_points or tables.scenario.protocol.name in MIDDLEWARE:
        return []
    columns = ("counted_frames", "captured_frames", "counted_bytes", "captured_bytes")
    frame = tables.table("counters")
    off = int((frame["counted_frames"] - frame["captured_frames"]).abs().sum())
    octets = int((frame["counted_bytes"] - frame["captured_bytes"]).abs().sum())
    if tables.run.flows is None:
        verdict = "There are no counters: the controller exported none."
    elif off or octets:
        verdict = f"They DIFFER, port by port, by {count(off)} frames and {quantity(octets, 'B')}."
    else:
        verdict = (
            f"They agree at every port, in all {count(frame['counted_frames'].sum())} passages."
        )
    if tables.run.flows is not None and (off or octets):
        verdict += _around_handovers(frame, len(tables.run.flows.moves))
    if tables.run.flows is not None and not tables.run.flows.complete:
        verdict += " The last counters are missing: the run did not end in order."
    rows: list[list[Cell]] = []
    for (port, direction), group in frame.groupby(["port", "direction"]):
        for kind, own in group.groupby("traffic_class"):
            line = own[list(columns)].sum()
            passage = f"{_PORTS.get(str(port), port)}, {direction}"
            frames, octets_ = line["counted_frames"], line["counted_bytes"]
            same = not _differs(own).any()
            rows.append(
                [
                    passage, printable(str(kind)).lower().replace("_", " "),
                    "equal" if same else "DIFFERENT", count(frames),
                    count(line["captured_frames"]), quantity(octets_, "B"),
                    quantity(line["captured_bytes"], "B"),
                ]
            )  # fmt: skip
    return [
        TextTable(
            "The network's own counters",
            "Flow counters of the access points' bridges beside the captures of the same ports, "
            f"all access points together. {verdict}",
            ("port and direction", "class", "verdict", "counted frames", "captured frames",
             "counted bytes", "captured bytes"),
            rows,
            words=3,
            empty="No frame passed an access point."
            if tables.run.flows is not None
            else "There is nothing to compare with the captures.",
        )
    ]  # fmt: skip


MEASURES: Final = (Measure(COUNTERS, Section(tables=counter_tables)),)

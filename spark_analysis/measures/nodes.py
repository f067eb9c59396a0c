"""Nodes: who is in the scenario, and which captures of theirs can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.runfolder import Run
from spark_analysis.captures.schemas import BOOLEAN, LONG, STRING, column, run_schema
from spark_analysis.captures.source import Survey
from spark_analysis.engine.tables import Table, driver_rows
from spark_analysis.measures.measure import Measure, Version

VERSION: Final = Version(1, "8d889133570a")

NODES: Final[Table] = Table(
    name="nodes",
    description="nodes and which captures of theirs can be read",
    schema=run_schema(
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("ip", LONG, "the node's IPv4 address as an integer"),
        column("access_point", STRING, "whose radios send for it; null if it has its own"),
        column("radio_captured", BOOLEAN, "readable captures of all these radios exist"),
        column("loopback_captured", BOOLEAN, "a readable capture of the loopback exists"),
    ),
    order=("node_id", "access_point"),
    make=lambda inputs: driver_rows(node_rows(inputs.runs, inputs.surveys), NODES.schema),
)
"""One node of a scenario."""


def captured_interfaces(survey: Survey) -> set[tuple[str, str]]:
    """Return (node, interface) of every readable capture."""
    return {(readable.capture.node, readable.capture.interface) for readable in survey.captures}


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
            own = ACCESS if run.scenario.wire is None else WIRED
            radios = {(node, own)} if point is None else {(point, ACCESS), (point, MESH)}
            loopback = (node, "lo") in captured
            rows.append((name, node, node_id, ip, point, radios <= captured, loopback))
    return rows


MEASURES: Final = (Measure(NODES),)

"""The commands `export-trace` and `export-workload`: what is fixed, for other programs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from emulation.errors import ScenarioError
from emulation.mobility import ns2
from emulation.workloads import recorded
from emulation.workloads.registry import WORKLOAD
from testbed.options import (
    DurationOption,
    NodesOption,
    SeedOption,
    SetOption,
    Topology,
    WorkloadOption,
    console,
    scenario_of,
    settings_of,
    writing,
)
from topologies.catalog import all_parameters

TOPICS = "topics"
"""Parameter of the topologies' own workload: how many; without any, nobody publishes."""
REPLAYED = "flooding"
"""A protocol that every topology can carry: neither motion nor workload depends on it."""


def export_trace(
    topology: Topology,
    out: Annotated[Path, typer.Option("--out", help="file to write, usually .tcl", dir_okay=False)],
    nodes: NodesOption = None,
    duration: DurationOption = 60.0,
    seed: SeedOption = 1,
    settings: SetOption = None,
) -> None:
    """Write how the stations of a topology move as an ns-2 movement file (setdest lines).

    Example: export-trace manhattan --set speed=20 --duration 900 --out m.tcl

    ns-2, ns-3 and others read it; so does the topology movement_trace (--set file=m.tcl).
    """
    values = _silent(topology, settings_of(settings, nodes))
    scenario = scenario_of(topology, REPLAYED, values, duration, seed)
    x0, y0, x1, y1 = scenario.area
    about = (
        f"{topology}, seed {seed}, {duration:g} s, area {x0:g},{y0:g} to {x1:g},{y1:g} m\n"
        + " ".join(f"{key}={value}" for key, value in scenario.topology_parameters.items())
    )
    tracks = [node.waypoints for node in scenario.nodes]
    with writing(str(out)), out.open("w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in ns2.lines(tracks, about))
    console.say(f"motion of {len(tracks)} stations: {out}")


def _silent(topology: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without topics, unless asked for: motion needs no time to publish."""
    try:
        parameters = all_parameters(topology, REPLAYED, values.get(WORKLOAD, ""))
    except ScenarioError:
        return values  # making the scenario reports it
    return {TOPICS: 0, **values} if TOPICS in parameters else values


def export_workload(
    topology: Topology,
    out: Annotated[
        Path | None, typer.Option("--out", help="file to write, usually .jsonl", dir_okay=False)
    ] = None,
    nodes: NodesOption = None,
    duration: DurationOption = 60.0,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
) -> None:
    """Write what the clients of a topology do as JSON lines; to standard output without --out.

    Example: export-workload manhattan --duration 900 --out w.jsonl

    A run with --workload file:w.jsonl repeats it; docs/running.md has the format.
    """
    values = settings_of(settings, nodes, workload)
    scenario = scenario_of(topology, REPLAYED, values, duration, seed)
    names = {node.id: node.name for node in scenario.nodes}
    with (
        writing(str(out or "standard output")),
        out.open("wb") if out else nullcontext(sys.stdout.buffer) as file,
    ):
        file.writelines(f"{line}\n".encode() for line in recorded.lines(scenario.workload, names))
        file.flush()
    console.say(f"operations: {len(scenario.workload)}{f', in {out}' if out else ''}")

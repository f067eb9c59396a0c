"""What a report says about how a run was set up, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from emulation.errors import ScenarioError
from emulation.radio.spec import RadioSpec
from emulation.scenario.runfolder import Run
from emulation.scenario.scenario import Scenario
from emulation.scenario.settings import AUTH
from emulation.workloads.registry import WORKLOAD
from nodeapp.installation import COMMAND
from spark_analysis.engine.results import RunTables
from spark_analysis.report.quantities import NOTHING, count, moment, number, printable, seconds
from spark_analysis.report.text_table import Cell, TextTable
from topologies.catalog import all_parameters

UNREAD: Final = "unknown (no readable run.json)"


def facts(tables: RunTables) -> list[tuple[str, str]]:
    """Return the facts that identify a run, for the head of its page."""
    run, scenario = tables.run, tables.scenario
    record = run.record
    return [
        ("Topology", scenario.topology),
        ("Protocol", scenario.protocol.name),
        ("Backend", record.backend if record else UNREAD),
        ("Nodes", count(len(scenario.nodes))),
        ("Duration", duration(tables)),
        ("Seed", str(scenario.seed)),
        ("Started", moment(record.started) if record else UNREAD),
        ("Ended", record.ended if record else UNREAD),
    ]


def duration(tables: RunTables) -> str:
    """Return how long the run was to be, and how long it was if that is less."""
    planned, record = tables.scenario.duration, tables.run.record
    lasted = None if record is None else record.lasted
    if lasted is None or lasted > 0.99 * planned:
        return seconds(planned)
    return f"{seconds(lasted)} of {seconds(planned)}"


def prompt_table(tables: RunTables) -> list[TextTable]:
    """Return what was done at the prompt, if there was one."""
    if not tables.run.prompt:
        return []
    rows: list[list[Cell]] = [
        [number(command.time), printable(command.command), printable(command.error) or "done"]
        for command in tables.run.prompt
    ]
    return [
        TextTable(
            "At the prompt",
            "Every command, with seconds into the run. Its changes are marked in the figures.",
            ("time, s", "command", "answer"),
            rows,
            words=3,
        )
    ]


def scenario_tables(tables: RunTables) -> list[TextTable]:
    """Return the parameters of topology, protocol and radio, and the facts of the host."""
    scenario, record = tables.scenario, tables.run.record
    width, height = scenario.area[2] - scenario.area[0], scenario.area[3] - scenario.area[1]
    topology = {
        **scenario.topology_parameters,
        "area": f"{number(width)} × {number(height)} m",
        "client operations": count(len(scenario.workload)),
    }
    host = {**record.host, "wall seconds": record.wall_seconds} if record else {}
    versions: dict[str, Any] = dict(record.versions) if record else {}
    if record and record.code:
        versions["testbed"] = record.code.in_words()
    return [
        _parameters("Topology", scenario.topology, topology),
        _parameters("Protocol", scenario.protocol.name, scenario.protocol.parameters),
        _radio("Radio", scenario.radio),
        *_mesh(scenario),
        _parameters("Host", "", host),
        _parameters("Versions", "", versions),
    ]


def _radio(title: str, radio: RadioSpec) -> TextTable:
    values = radio.model_dump()
    propagation = values.pop("propagation")
    kind = f"802.11{values.pop('standard')}, {propagation.pop('model')}"
    return _parameters(title, kind, {**values, **propagation})


def _mesh(scenario: Scenario) -> list[TextTable]:
    """Return the radio among access points and how stations choose one, if there are any."""
    if scenario.mesh_radio is None:
        return []
    chosen = {"access points": count(len(scenario.access_points))}
    return [
        _radio("Mesh radio", scenario.mesh_radio),
        _parameters("Access points", "", chosen | scenario.association.model_dump()),
    ]


def _parameters(title: str, note: str, values: Mapping[str, Any]) -> TextTable:
    rows = [[key, plain(value)] for key, value in values.items()]
    return TextTable(title, note, ("parameter", "value"), rows, words=2, empty="none")


def plain(value: object) -> str:
    """Return a parameter's value as a reader would write it."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.12g}" if np.isfinite(value) else str(value)
    return printable(str(value))


def again(run: Run) -> str:
    """Return the command that repeats a run as it went at its prompt, if it had one.

    That is with what was moved and failed there, and as long as it was open.  No command
    repeats that an access point was moved.
    """
    if run.performed == run.scenario or run.moved_points:
        return ""
    backend = f" --backend {shlex.quote(run.record.backend)}" if run.record else ""
    return f"{COMMAND} run{backend} --scenario {shlex.quote(str(run.path))}"


def command(scenario: Scenario, backend: str | None) -> str:
    """Return the command line that makes this scenario again: all that is not a default."""
    topology, protocol, workload = scenario.topology, scenario.protocol, scenario.workload_spec
    settings = {**protocol.parameters, **scenario.topology_parameters}
    if workload is not None:
        settings = {**workload.parameters, **settings, WORKLOAD: workload.name}
    if scenario.auth != "none":
        settings[AUTH] = scenario.auth
    try:
        name = "" if workload is None else workload.name
        defaults = {
            key: parameter.default
            for key, parameter in all_parameters(topology, protocol.name, name).items()
        }
    except ScenarioError:  # it is not of this testbed
        defaults = {}
    changed = {
        key: value
        for key, value in settings.items()
        if key not in defaults or value != defaults[key]
    }
    faults = [fault.text for fault in scenario.faults]
    return " \\\n  ".join(
        run_command(
            topology, protocol.name, backend, scenario.duration, scenario.seed, changed, faults
        )
    )


def run_command(
    topology: str,
    protocol: str,
    backend: str | None,
    duration: float,
    seed: int,
    settings: Mapping[str, Any],
    faults: Sequence[str],
) -> list[str]:
    """Return the command `run`, in parts that could be lines, each quoted for a shell."""
    parts = [f"{COMMAND} run {shlex.quote(topology)} {shlex.quote(protocol)}"]
    parts += [f"--backend {shlex.quote(backend)}"] if backend else []
    parts += [f"--duration {plain(duration)}", f"--seed {seed}"]
    for key, value in sorted(settings.items()):
        chosen = f"--workload {shlex.quote(str(value))}"
        parts.append(chosen if key == WORKLOAD else "--set " + shlex.quote(f"{key}={value}"))
    return parts + ["--fault " + shlex.quote(fault) for fault in faults]

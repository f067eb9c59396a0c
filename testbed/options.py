"""Options that several commands share, and how commands end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.markup import escape

from capture.process import explained
from emulation.errors import RunFolderError, ScenarioError
from emulation.scenario.faults import FAULTS
from emulation.scenario.runfolder import read_run
from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.scenario.settings import check_served
from emulation.workloads.registry import WORKLOAD
from nodeapp.installation import IS_CHECKOUT, PROJECT
from nodeapp.parameters import ParameterError, suggestion
from nodeapp.pubsub.registry import SYSTEMS, ProtocolError, typed
from testbed import completing
from testbed.display import Terminal
from testbed.interruption import INTERRUPTED, interruption
from topologies.catalog import make_scenario, topology_names

HOME = PROJECT if IS_CHECKOUT else Path.cwd()
"""Where runs, sweeps and reproductions go: here if the testbed is installed as a package."""
RUNS = HOME / "runs"
FAILED, USAGE = 1, 2

console = Terminal(stderr=True, emoji=False)


TOPOLOGY_ARGUMENT: Final = typer.Argument(
    help="a topology; see list", metavar="TOPOLOGY", autocompletion=topology_names
)
PROTOCOL_ARGUMENT: Final = typer.Argument(
    help="a protocol; see list", metavar="PROTOCOL", autocompletion=completing.protocols
)
Topology = Annotated[str, TOPOLOGY_ARGUMENT]
Protocol = Annotated[str, PROTOCOL_ARGUMENT]
BackendOption = Annotated[
    str,
    typer.Option(
        "--backend", help="how to execute; see doctor", autocompletion=completing.backend_names
    ),
]
ScenarioOption = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        help="repeat a scenario.json, in place of TOPOLOGY PROTOCOL and their options; or a run "
        "folder, with what was moved and failed at its prompt",
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="print the outcome as JSON on standard output")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="exit with 1 if a run lost real time or has damaged files")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", help="print errors only (and what --json prints)")
]
LiveOption = Annotated[
    bool, typer.Option("--live", help="show the run on a page at 127.0.0.1 while it goes on")
]
NodesOption = Annotated[
    int | None, typer.Option("--nodes", help="number of stations (short for --set nodes=N)")
]
DurationOption = Annotated[float, typer.Option("--duration", help="seconds of the scenario")]
SeedOption = Annotated[
    int, typer.Option("--seed", help="decides placement, motion, workload and channel")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="a parameter of topology, protocol or workload; see list NAME",
        autocompletion=completing.settings,
    ),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="NAME",
        help="what the clients do, instead of the topology's own: see list, or file:PATH",
        autocompletion=completing.workloads,
    ),
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="FAULT",
        help="what fails, such as 'crash 30% at 20 for 10'; also radio, off, access-point, link, "
        "partition, jam, or file:PATH (docs/faults.md)",
    ),
]


def local_folder(path: Path | None) -> Path | None:
    """Refuse a URI, in place of which a folder of that name would be made."""
    if path is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)):
        raise typer.BadParameter(f"{path} is a URI: give the path of a folder")
    return path


RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs", help="where run folders are made", file_okay=False, callback=local_folder
    ),
]
AnalyseOption = Annotated[
    bool, typer.Option("--analyze/--no-analyze", help="write metrics and report after the run")
]
LOCAL: Final = "local[*]"
"""Spark on all processors of this machine."""
MasterOption = Annotated[
    str, typer.Option("--master", help="Spark master: local[*], local[2], spark://host:port")
]

ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="an option of Spark's, such as spark.driver.memory=8g; repeatable",
    ),
]


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End with one line that says what to do; after Ctrl-C, end as Ctrl-C does."""
    interruption.check()
    print_error(message)
    raise typer.Exit(code)


@contextmanager
def writing(place: str) -> Iterator[None]:
    """End in one line if a file, or "in" and a folder, cannot be written."""
    try:
        yield
    except OSError as error:
        fail(f"cannot write {place}: {explained(error)}")


def end_interrupted(message: str) -> NoReturn:
    """End after Ctrl-C with a line that says what is kept and how to go on."""
    interruption.announced = True
    console.say(message)
    raise typer.Exit(INTERRUPTED)


def print_error(message: str) -> None:
    """Print an error that is not the last one."""
    # Not to `console`, which may be quiet.
    Terminal(stderr=True, emoji=False).say(f"[red]error:[/red] {escape(message)}")


def assignment(word: str, option: str = "--set", form: str = "KEY=VALUE") -> tuple[str, str]:
    """Return the name of a parameter, and the value that an option gives it."""
    key, value = _pair(word, option, form)
    return key.replace("-", "_"), value


def _pair(word: str, option: str, form: str = "KEY=VALUE") -> tuple[str, str]:
    key, separator, value = word.partition("=")
    if not separator or not key:
        fail(f"{option} takes {form}, not {word!r}", USAGE)
    return key, value


def configure_spark(words: list[str] | None) -> None:
    """Have Spark take the options that `--conf` gives."""
    if not words:
        return
    from spark_analysis.engine.session import SessionError, choose

    options = dict(_pair(word, "--conf") for word in words)
    try:
        choose(options)
    except SessionError as error:
        fail(f"--conf: {error}", USAGE)


def settings_of(
    settings: list[str] | None,
    nodes: int | None = None,
    workload: str | None = None,
    faults: list[str] | None = None,
) -> dict[str, Any]:
    """Return what options set, by name, as it was typed."""
    values: dict[str, Any] = {}
    for name, value in map(assignment, settings or []):
        if name in values:
            fail(f"--set {name} is given twice, {values[name]} and {value}: give it once", USAGE)
        values[name] = value
    if nodes is not None:
        if "nodes" in values:
            fail(f"--nodes {nodes} and --set nodes={values['nodes']}: give one of them", USAGE)
        values["nodes"] = nodes
    if workload is not None:
        if WORKLOAD in values:
            other = f"--set {WORKLOAD}={values[WORKLOAD]}"
            fail(f"--workload {workload} and {other}: give one of them", USAGE)
        values[WORKLOAD] = workload
    if faults:
        before = [str(values[FAULTS])] if values.get(FAULTS) else []
        values[FAULTS] = "; ".join([*before, *faults])
    return values


def check_duration(duration: float) -> None:
    """End with an error if a scenario cannot be so long."""
    if not 0 < duration <= 7 * 86_400:
        fail("--duration must be above 0 and at most 604800 (a week), in seconds", USAGE)


def scenario_of(
    topology: str, protocol: str, settings: dict[str, Any], duration: float, seed: int
) -> Scenario:
    """Return the scenario that a command asks for; `settings` are as `settings_of` returns them."""
    check_duration(duration)
    if not 0 <= seed < 2**63:
        fail("--seed must be between 0 and 2**63 - 1", USAGE)
    try:
        return make_scenario(topology, protocol, seed=seed, duration=duration, settings=settings)
    except ScenarioError as error:
        fail(str(error), USAGE)


def scenario_again(path: Path) -> Scenario:
    """Return the scenario in a file, or that of a run folder with what its prompt made of it."""
    try:
        run = read_run(path) if path.is_dir() else None
        scenario = Scenario.load(path) if run is None else run.performed
    except (ScenarioError, RunFolderError) as error:
        fail(str(error), USAGE)
    if run is not None and run.moved_points:
        fail(
            f"{path}: {', '.join(run.moved_points)} moved at the prompt, which a scenario cannot "
            f"repeat; to run it without: --scenario {path / 'scenario.json'}",
            USAGE,
        )
    if scenario.protocol.name not in SYSTEMS:
        names = ", ".join(SYSTEMS)
        near = suggestion(scenario.protocol.name, SYSTEMS)
        fail(f"{path}: no protocol {scenario.protocol.name!r}{near}; there are: {names}", USAGE)
    name = scenario.protocol.name
    try:
        values = asdict(typed(name, scenario.protocol.parameters))
        full = ProtocolSpec(name=name, parameters=values)
        check_served(scenario.model_copy(update={"protocol": full}))
    except (ParameterError, ProtocolError) as error:
        fail(f"{path}: {name}: {error}", USAGE)
    except ScenarioError as error:
        fail(f"{path}: {error}", USAGE)
    return scenario


def quiet(wanted: bool) -> None:
    """Silence the console from now on, if `wanted`; errors are printed anyway."""
    console.quiet = wanted

"""The command line of the testbed: `./run_testbed.sh COMMAND`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from emulation.backends.base import Backend, BackendError
from emulation.backends.registry import backends
from emulation.errors import ScenarioError
from emulation.network import processes
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.workloads.registry import (
    workload_names,
    workload_parameters,
    workload_summary,
)
from nodeapp.parameters import Parameter
from nodeapp.pubsub.registry import PROTOCOLS
from testbed import agree as cli_agree
from testbed import reproduce as cli_reproduce
from testbed import sweep as cli_sweep
from testbed import trace as cli_trace
from testbed import vm as cli_vm
from testbed.display import AnalysisDisplay, RunDisplay, summarise, warn_of_infidelity
from testbed.options import (
    FAILED,
    INTERRUPTED,
    PROGRAM,
    RUNS,
    USAGE,
    AnalyseOption,
    BackendOption,
    DurationOption,
    MasterOption,
    NodesOption,
    Protocol,
    RunsOption,
    SeedOption,
    SetOption,
    Topology,
    WorkloadOption,
    console,
    fail,
    scenario_of,
)
from topologies.catalog import (
    protocol_parameters,
    topology_class,
    topology_names,
    topology_parameters,
)

DEMO = ("roaming_field", "broker-gpsr")

app = typer.Typer(
    name=PROGRAM,
    help="Publish/subscribe over emulated wireless networks: run, capture, analyse.",
    epilog="Without a command: sets up on first use and runs the demo "
    f"({DEMO[1]} on {DEMO[0]}), then opens nothing but writes a report.",
    rich_markup_mode=None,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def demo(context: typer.Context) -> None:
    """Run the demo where no command is given."""
    if context.invoked_subcommand is None:
        run(*DEMO)


@app.command()
def run(
    topology: Topology,
    protocol: Protocol,
    backend: BackendOption = "tap",
    nodes: NodesOption = None,
    duration: DurationOption = 60.0,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    runs: RunsOption = RUNS,
    analyze: AnalyseOption = True,
    captures: Annotated[
        bool,
        typer.Option(
            "--captures/--no-captures",
            help="virtual backend: write captures, or only what the analysis reads",
        ),
    ] = True,
) -> None:
    """Run one scenario, capture it, analyse the captures and write a report.

    Example: run roaming_field broker-gpsr --nodes 30 --duration 120 --set speed=10
    """
    scenario = scenario_of(topology, protocol, nodes, duration, seed, settings, workload)
    if not captures:
        if backend != "virtual":
            fail("--no-captures works with --backend virtual only", USAGE)
        from spark_analysis.captures.virtual_run import FramesBackend

        _execute(scenario, FramesBackend(), runs, analyze)
        return
    _execute(scenario, _backend(backend), runs, analyze)


@app.command()
def cli(
    topology: Topology,
    protocol: Protocol,
    backend: BackendOption = "tap",
    nodes: NodesOption = None,
    duration: DurationOption = 600.0,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    runs: RunsOption = RUNS,
    analyze: AnalyseOption = True,
) -> None:
    """Run one scenario with the Mininet CLI open; leaving the prompt ends the run.

    Example: cli roaming_field broker-gpsr --nodes 10, then: sta1 pubsub pub traffic speed=10
    """
    scenario = scenario_of(topology, protocol, nodes, duration, seed, settings, workload)

    def interact(tap_run: Any) -> None:
        from testbed.console import Console as Prompt

        Prompt(tap_run)

    _execute(scenario, _backend(backend), runs, analyze, interact)


@app.command()
def analyze(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders")],
    master: MasterOption = "local[*]",
) -> None:
    """Compute delivery, delay and overhead from captures; write Parquet tables and reports.

    Example: analyze runs/20260101-120000-roaming_field-flooding
    """
    _analyse([_resolve(folder) for folder in folders], master)


@app.command(name="list")
def list_(
    name: Annotated[
        str | None, typer.Argument(help="a topology, workload or protocol: lists its parameters")
    ] = None,
) -> None:
    """List topologies, workloads and protocols, or the parameters of one of them."""
    out = Console()
    if name is None:
        for title, rows in (
            ("Topologies", [(n, _summary(topology_class(n))) for n in topology_names()]),
            ("Workloads", [(n, workload_summary(n)) for n in workload_names()]),
            ("Protocols", [(n, entry.summary) for n, entry in PROTOCOLS.items()]),
            ("Backends", [(n, entry.summary) for n, entry in backends().items()]),
        ):
            table = Table(title=title, title_justify="left", box=None, show_header=False)
            for row in rows:
                table.add_row(*row)
            out.print(table)
        out.print("Parameters of one: list NAME")
        return
    try:
        if name in PROTOCOLS:
            parameters = protocol_parameters(name)
        elif name in topology_names():
            parameters = topology_parameters(name)
        elif name in workload_names():
            parameters = workload_parameters(name)
        else:
            known = ", ".join([*topology_names(), *PROTOCOLS, *workload_names()])
            fail(f"no topology or protocol {name!r}, nor a workload; there are: {known}", USAGE)
    except ScenarioError as error:
        fail(str(error), USAGE)
    table = Table("parameter", "default", "range", "meaning", title=name, title_justify="left")
    for parameter in parameters:
        table.add_row(parameter.name, str(parameter.default), _range(parameter), parameter.help)
    out.print(table)


@app.command()
def doctor() -> None:
    """Say what this machine can run and, for what it cannot, why and what to do.

    The exit code is 1 where something lacks that the main job needs.
    """
    from testbed.doctor import WAYS, Finding, examine

    def mark(finding: Finding) -> str:
        if not finding.obstacles:
            return "[green]yes[/green]"
        return "[red]no[/red]" if finding.needed else "[yellow]no[/yellow]"

    why = Column("why not, and what to do", overflow="fold")  # addresses stay whole
    table = Table("", "what", "for", why)
    findings = {finding.subject: finding for finding in examine()}
    for subject, finding in findings.items():
        table.add_row(mark(finding), subject, finding.purpose, "\n".join(finding.obstacles))
    ways = Table("", "a radio", "is", title="Three ways to Wi-Fi (docs/wifi.md)")
    for way in WAYS:
        ways.add_row(mark(findings[way.subject]), way.command, way.gives)
    Console().print(table, ways)
    if any(finding.obstacles and finding.needed for finding in findings.values()):
        raise typer.Exit(FAILED)


@app.command()
def clean() -> None:
    """Remove what killed runs and builds left: processes, namespaces, devices, images."""
    from emulation.vm import build, staging
    from emulation.vm.errors import VmError

    if os.geteuid() != 0:
        fail(f"needs root: sudo {PROGRAM} clean")
    for line in processes.sweep():
        console.print(line, highlight=False)
    try:
        for line in build.clean():
            console.print(line, highlight=False, soft_wrap=True)
    except VmError as error:
        fail(str(error))
    for folder in staging.recover(RUNS):
        console.print(f"kept the run of a killed machine: {folder}", highlight=False)
    running = processes.running()
    if running:
        pids = ", ".join(str(pid) for pid in running)
        console.print(f"left alone: runs under way (process {pids})", highlight=False)
    console.print("clean")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def test(context: typer.Context) -> None:
    """Check style and types and run the tests; further arguments go to pytest.

    Without arguments three processes share the tests: one has those that look at all of the host,
    one those of the virtual machine.
    """
    os.chdir(processes.PROJECT)
    steps = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
    if context.args:
        steps = [["pytest", *context.args]]
    else:
        steps.append(["pytest", "--numprocesses=3"])
    for step in steps:
        console.rule(shlex.join(step))
        code = subprocess.run([sys.executable, "-m", *step], check=False).returncode
        if code != 0:
            raise typer.Exit(code)


def _backend(name: str) -> Backend:
    known = backends()
    if name not in known:
        fail(f"no backend {name!r}; there are: {', '.join(known)}", USAGE)
    return known[name]


def _execute(
    scenario: Scenario,
    backend: Backend,
    runs: Path,
    analyze: bool,
    interact: Callable[[Any], None] | None = None,
) -> None:
    obstacles = backend.obstacles()
    if obstacles:
        fail(obstacles[0])
    try:
        folder = RunFolder.create(runs, scenario)
    except OSError as error:
        fail(f"cannot write a run folder under {runs}: {error.strerror}")
    interrupted = False
    try:
        with RunDisplay(console, scenario.duration, bar=interact is None) as display:
            backend.execute(scenario, folder, display, interact)
    except KeyboardInterrupt:
        interrupted = True
        console.print("interrupted: stopped everything; captures up to here are kept")
    except BackendError as error:
        folder.give_to_caller()
        fail(f"{error} (logs: {folder.logs})")
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or folder.path}")
    console.print(f"run folder: {folder.path}", highlight=False, soft_wrap=True)
    try:
        if analyze and not interrupted:
            _analyse([folder.path], "local[*]")
        else:
            from emulation.scenario.runfolder import read_run

            warn_of_infidelity(console, read_run(folder.path))
    finally:
        folder.give_to_caller()
    if interrupted:
        console.print(f"analyse it: {PROGRAM} analyze {folder.path}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED)


def _analyse(folders: list[Path], master: str) -> None:
    from spark_analysis.errors import AnalysisError
    from spark_analysis.report.reports import analyse_and_report

    try:
        with AnalysisDisplay(console) as display:
            outcome = analyse_and_report(folders, master, display.progress)
    except AnalysisError as error:
        fail(str(error))
    summarise(console, outcome.analysis)
    for page in outcome.reports:
        console.print(f"report: {page}", highlight=False, soft_wrap=True)


def _resolve(folder: Path) -> Path:
    """Return the run folder meant: as given, or by its name under the default place."""
    found = next((each for each in (folder, RUNS / folder) if each.is_dir()), None)
    return found or fail(f"no run folder {folder}; runs are made under {RUNS}", USAGE)


def _summary(topology: type) -> str:
    return (topology.__doc__ or "").splitlines()[0]


def _range(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(str(choice) for choice in parameter.choices)
    if parameter.low is None and parameter.high is None:
        return ""
    low = "" if parameter.low is None else f"{parameter.low:g}"
    high = "" if parameter.high is None else f"{parameter.high:g}"
    return f"{low} … {high}"


cli_sweep.register(app)
cli_agree.register(app)
cli_reproduce.register(app)
cli_trace.register(app)
cli_vm.register(app, _analyse, lambda: set(typer.main.get_group(app).commands))


def main() -> None:
    """Run the command line; interrupts end with one line."""
    try:
        app(prog_name=PROGRAM)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()

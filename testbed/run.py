"""The commands `run` and `cli`: one scenario, run, captured and analysed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from emulation.backends.base import Backend, BackendError, LiveRun
from emulation.backends.registry import backends
from emulation.errors import explained
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from testbed.display import RunDisplay, warn_of_infidelity
from testbed.options import (
    INTERRUPTED,
    PROGRAM,
    RUNS,
    USAGE,
    AnalyseOption,
    BackendOption,
    DurationOption,
    FaultOption,
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

DEMO: Final = ("roaming_field", "broker-gpsr")
"""Topology and protocol of the main job."""


def run(
    topology: Topology,
    protocol: Protocol,
    backend: BackendOption = "tap",
    nodes: NodesOption = None,
    duration: DurationOption = 60.0,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    fault: FaultOption = None,
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
    scenario = scenario_of(topology, protocol, nodes, duration, seed, settings, workload, fault)
    if not captures:
        if backend != "virtual":
            fail("--no-captures works with --backend virtual only", USAGE)
        # Apache Arrow writes them, which the virtual machine has not.
        from spark_analysis.captures.virtual_run import FramesBackend

        _execute(scenario, FramesBackend(), runs, analyze)
        return
    _execute(scenario, _backend(backend), runs, analyze)


def cli(
    topology: Topology,
    protocol: Protocol,
    backend: BackendOption = "tap",
    nodes: NodesOption = None,
    duration: DurationOption = 600.0,
    seed: SeedOption = 1,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    fault: FaultOption = None,
    runs: RunsOption = RUNS,
    analyze: AnalyseOption = True,
) -> None:
    """Run one scenario with the Mininet CLI open; leaving the prompt ends the run.

    Example: cli roaming_field broker-gpsr --nodes 10, then: sta1 pubsub pub traffic speed=10
    """
    scenario = scenario_of(topology, protocol, nodes, duration, seed, settings, workload, fault)

    def interact(run: LiveRun) -> None:
        from testbed.console import Console as Prompt  # Mininet's, which only this command needs

        Prompt(run)

    _execute(scenario, _backend(backend), runs, analyze, interact)


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
    interact: Callable[[LiveRun], None] | None = None,
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
        fail(f"{explained(error)}: {error.filename or folder.path}")
    console.print(f"run folder: {folder.path}", highlight=False, soft_wrap=True)
    try:
        if analyze and not interrupted:
            # Spark and its packages: not in the virtual machine, and a second to load.
            from testbed.analyze import analyse_folders

            analyse_folders([folder.path])
        else:
            warn_of_infidelity(console, read_run(folder.path))
    finally:
        folder.give_to_caller()
    if interrupted:
        console.print(f"analyse it: {PROGRAM} analyze {folder.path}", soft_wrap=True)
        raise typer.Exit(INTERRUPTED)

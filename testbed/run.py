"""The commands `run` and `cli`: one scenario, run, captured and analysed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from capture.process import explained
from emulation.backends.base import Backend, BackendError, LiveRun
from emulation.scenario.runfolder import RunFolder, defects_of, read_run
from emulation.scenario.scenario import Scenario
from emulation.vm.waiting import NOT_IN_REAL_TIME, all_backends
from nodeapp.installation import PROGRAM
from nodeapp.parameters import suggestion
from testbed.ahead import AnalysisOutcome, Analyst
from testbed.display import RunDisplay, warn_of_infidelity
from testbed.live.page import Live, tell_address
from testbed.options import (
    FAILED,
    PROTOCOL_ARGUMENT,
    RUNS,
    TOPOLOGY_ARGUMENT,
    USAGE,
    AnalyseOption,
    BackendOption,
    DurationOption,
    FaultOption,
    JsonOption,
    LiveOption,
    NodesOption,
    Protocol,
    QuietOption,
    RunsOption,
    ScenarioOption,
    SeedOption,
    SetOption,
    StrictOption,
    Topology,
    WorkloadOption,
    console,
    end_interrupted,
    fail,
    quiet,
    scenario_again,
    scenario_of,
    settings_of,
)
from testbed.outcome import note_failure, outcome, print_json

MaybeTopology = Annotated[str | None, TOPOLOGY_ARGUMENT]
MaybeProtocol = Annotated[str | None, PROTOCOL_ARGUMENT]

DEMO: Final = ("roaming_field", "broker-gpsr")
"""Topology and protocol of the main job."""
ADDRESS_LIMIT: Final = 5.0
"""Seconds that a prompt waits for the address of `--live`, which is printed above it."""


FIXED: Final = (
    *("topology", "protocol", "nodes", "duration", "seed", "workload", "settings", "fault"),
)
"""What `--scenario` fixes."""


class _End(NamedTuple):
    """How a run ends, for programs: `strict`, and what is printed."""

    strict: bool
    as_json: bool


_AS_IT_IS: Final = _End(strict=False, as_json=False)


def run(
    context: typer.Context,
    topology: MaybeTopology = None,
    protocol: MaybeProtocol = None,
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
    again: ScenarioOption = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    be_quiet: QuietOption = False,
    live: LiveOption = False,
) -> None:
    """Run one scenario, capture it, analyse the captures and write a report.

    Example: run roaming_field broker-gpsr --nodes 30 --duration 120 --set speed=10
    """
    quiet(be_quiet)
    end = _End(strict, as_json)
    if again is not None:
        for name in FIXED:
            source = context.get_parameter_source(name)
            if source is not None and source.name != "DEFAULT":
                fail(f"--scenario fixes everything: leave out {name}", USAGE)
        scenario = scenario_again(again)
    elif topology is None or protocol is None:
        missing = "TOPOLOGY" if topology is None else "PROTOCOL"
        raise typer.BadParameter(f"{missing} is missing: see list, or give --scenario", context)
    else:
        values = settings_of(settings, nodes, workload, fault)
        scenario = scenario_of(topology, protocol, values, duration, seed)
    if not captures:
        if backend != "virtual":
            fail("--no-captures works with --backend virtual only", USAGE)
        # Apache Arrow writes them, which the virtual machine lacks.
        from spark_analysis.captures.virtual_run import FramesBackend

        _execute(scenario, FramesBackend(), runs, analyze, end=end, live=live)
        return
    _execute(scenario, _backend(backend), runs, analyze, end=end, live=live)


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
    live: LiveOption = False,
) -> None:
    """Run one scenario with the Mininet CLI open; leaving the prompt ends the run.

    Example: cli roaming_field broker-gpsr --nodes 10, then: sta1 pubsub pub traffic speed=10
    """
    values = settings_of(settings, nodes, workload, fault)
    scenario = scenario_of(topology, protocol, values, duration, seed)

    def interact(run: LiveRun) -> None:
        from testbed.prompt.console import (
            Console as Prompt,  # Mininet's, which only this command needs
        )

        Prompt(run)

    _execute(scenario, _backend(backend), runs, analyze, interact, live=live)


def _backend(name: str) -> Backend:
    available = all_backends()
    if name not in available:
        near = suggestion(name, available)
        fail(f"no backend {name!r}{near}; there are: {', '.join(available)}", USAGE)
    return available[name]


def _execute(
    scenario: Scenario,
    backend: Backend,
    runs: Path,
    analyze: bool,
    interact: Callable[[LiveRun], None] | None = None,
    end: _End = _AS_IT_IS,
    live: bool = False,
) -> None:
    if live and backend.name in NOT_IN_REAL_TIME:
        fail(
            f"--live is for runs in real time: with {backend.name}, see the report's replay",
            USAGE,
        )
    if interact is not None and backend.name in NOT_IN_REAL_TIME:
        fail(f"cli needs a backend that runs in real time, which {backend.name} does not", USAGE)
    if obstacles := backend.obstacles(scenario):
        fail(obstacles[0])
    try:
        folder = RunFolder.create(runs, scenario)
    except OSError as error:
        fail(
            f"cannot write a run folder under {runs}: {explained(error)}; name another with --runs"
        )
    folder.give_to_caller()  # whose analysis writes there
    with Analyst(folder.path) as analyst:

        def prompt(run: LiveRun) -> None:
            shown.await_address(ADDRESS_LIMIT)
            assert interact is not None
            interact(run)

        def under_way() -> None:
            if live:
                shown.start(folder.path, tell_address)
            if analyze:
                analyst.start()

        with Live() as shown:
            _perform(scenario, backend, folder, prompt if interact else None, under_way)
        _conclude(folder, end, analyst if analyze else None)


def _perform(
    scenario: Scenario,
    backend: Backend,
    folder: RunFolder,
    interact: Callable[[LiveRun], None] | None,
    under_way: Callable[[], None],
) -> None:
    """Run the scenario; KeyboardInterrupt ends it early, and the command if it is raised.

    `under_way` is called once it is under way, possibly again.
    """
    try:
        with RunDisplay(
            console, scenario.duration, bar=interact is None, under_way=under_way
        ) as display:
            backend.execute(scenario, folder, display, interact)
    except KeyboardInterrupt:
        folder.give_to_caller()
        _refuse_defects(folder)
        if not any(folder.captures.iterdir()):
            end_interrupted(f"interrupted: nothing was captured (run folder: {folder.path})")
        end_interrupted(
            "interrupted: captures up to here are kept; analyse them: "
            f"{PROGRAM} analyze {folder.path}"
        )
    except BackendError as error:
        note_failure(folder, backend.name, str(error))
        folder.give_to_caller()
        fail(f"{error} (logs: {folder.logs})")
    except OSError as error:
        cause = f"{explained(error)}: {error.filename or folder.path}"
        note_failure(folder, backend.name, cause)
        folder.give_to_caller()
        fail(cause)
    _tell_folder(folder)


def _tell_folder(folder: RunFolder) -> None:
    console.say(f"run folder: {folder.path}")


def _conclude(folder: RunFolder, end: _End, analyst: Analyst | None) -> None:
    """Have the run analysed if wanted, print the outcome, and fail if it is not good enough."""
    analysis = None
    folder.give_to_caller()
    try:
        if analyst is not None:
            analysis = analyst.analyse(folder.path, quiet=console.quiet)
        else:
            warn_of_infidelity(console, read_run(folder.path))
    except KeyboardInterrupt:
        end_interrupted(
            f"interrupted: the run is complete; analyse it: {PROGRAM} analyze {folder.path}"
        )
    finally:
        folder.give_to_caller()
    if end.as_json:
        print_json(outcome(read_run(folder.path)) if analysis is None else analysis.outcome)
    _refuse_defects(folder)
    if end.strict:
        _refuse_flaws(folder, analysis)


def _refuse_defects(folder: RunFolder) -> None:
    """End with an error if node apps raised exceptions: the run does not measure its protocol."""
    if (defects := defects_of(folder)) is not None:
        fail(f"{defects} (logs: {folder.logs}); correct the protocol and run it again", FAILED)


def _refuse_flaws(folder: RunFolder, analysis: AnalysisOutcome | None) -> None:
    """End with an error if the run or its captures are not as they should be (`--strict`)."""
    if analysis is not None:
        reasons = analysis.flaws
    else:
        run = read_run(folder.path)
        lost = run.fidelity is not None and run.fidelity.kept_real_time is False
        reasons = [*run.problems, *(["the run lost real time or packets"] if lost else [])]
    if reasons:
        fail(f"--strict: {reasons[0]}" + (f" (and {len(reasons) - 1} more)" if reasons[1:] else ""))

"""The command `sweep`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from emulation.caller import drop
from emulation.errors import ScenarioError, VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.vm.build import ensure_image
from emulation.vm.waiting import MachineBackend, room_for
from emulation.workloads.registry import expanded
from spark_analysis.errors import AnalysisError
from spark_analysis.report.page import FIGURES
from spark_analysis.sweeps.folder import PAGE, RESULTS, SPEC, SweepFolder, outdated
from spark_analysis.sweeps.page import compared, write_results
from spark_analysis.sweeps.spec import VIRTUAL, SpecError, SweepSpec, points
from spark_analysis.sweeps.sweep import Progress as Done
from spark_analysis.sweeps.sweep import SweepOutcome, run_sweep
from testbed import completing
from testbed.analyze import analyse_folders
from testbed.campaign import run_campaign
from testbed.display import Display, print_problems
from testbed.options import (
    FAILED,
    HOME,
    LOCAL,
    USAGE,
    BackendOption,
    ConfOption,
    DurationOption,
    FaultOption,
    JsonOption,
    MasterOption,
    NodesOption,
    SetOption,
    Topology,
    WorkloadOption,
    assignment,
    check_duration,
    configure_spark,
    console,
    end_interrupted,
    fail,
    local_folder,
    settings_of,
    writing,
)
from testbed.outcome import print_json
from testbed.vm import Stages

VARIED = "KEY=VALUE,VALUE,..."
SWEEPS = HOME / "sweeps"
QUIET = 5.0
"""Seconds between lines of progress when there is no terminal."""


class SweepDisplay(Display):
    """Points done of those wanted, and how many have failed."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=3600.0,  # points take minutes
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting Spark", total=None, failed="")
        self._printed = 0.0

    def update(self, progress: Done, what: str = "") -> None:
        """Show how far the sweep is.  Raises KeyboardInterrupt if the user wants to stop."""
        doing = f"{what}: {progress.doing}" if what else progress.doing
        failed = f"{progress.failed} failed" if progress.failed else ""
        self._progress.update(
            self._task,
            description=doing,
            completed=progress.done,
            total=progress.total,
            failed=failed,
        )
        if not console.is_terminal and time.monotonic() - self._printed >= QUIET:
            self._printed = time.monotonic()
            note = f", {failed}" if failed else ""
            console.print(f"... {doing}: {progress.done} of {progress.total}{note}")
        self._interrupts.check()


Protocols = Annotated[
    list[str],
    typer.Argument(
        metavar="PROTOCOL...",
        help="protocols to compare; see list",
        autocompletion=completing.protocols,
    ),
]
VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="KEY=V,V...",
        help="a parameter and its values; the first is the axis",
        autocompletion=completing.settings,
    ),
]
DrawsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--draws",
        metavar="KEY",
        help="a parameter whose values change the random draws too",
        autocompletion=completing.keys,
    ),
]
OpenOption = Annotated[
    str | None,
    typer.Option(
        "--open", metavar="POINT", help="only write the report and replay of a point that has run"
    ),
]


OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="folder of the sweep", file_okay=False, callback=local_folder),
]
KeepOption = Annotated[
    bool, typer.Option("--keep-frames", help="keep the packets of every run, as columns")
]


def sweep(
    topology: Topology,
    protocols: Protocols,
    vary: VaryOption = None,
    seeds: Annotated[int, typer.Option("--seeds", help="runs of every point: seeds 1 to N")] = 3,
    draws: DrawsOption = None,
    backend: BackendOption = VIRTUAL,
    nodes: NodesOption = None,
    duration: DurationOption = 60.0,
    workload: WorkloadOption = None,
    settings: SetOption = None,
    fault: FaultOption = None,
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    out: OutOption = None,
    keep_frames: KeepOption = False,
    opened: OpenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run many scenarios under the virtual clock as Spark tasks, and draw the results.

    So does --backend machine; others run one after another.  The same command resumes a sweep.

    Example: sweep roaming_field flooding broker-gpsr --vary speed=1,5,10 --seeds 3
    Example: sweep roaming_field mqtt flooding --vary nodes=10,20 --backend tap --set routing=babel
    """
    check_duration(duration)
    configure_spark(conf)
    spec = SweepSpec(
        topology,
        tuple(protocols),
        _varied(vary or []),
        seeds,
        duration,
        _expanded(settings_of(settings, nodes, workload, fault)),
        tuple(dict.fromkeys(key.replace("-", "_") for key in draws or [])),
        backend,
    )
    folder = out or SWEEPS / _name(spec)
    if (folder / SPEC).exists():
        RunFolder(folder).give_to_caller()
    if opened is not None or not spec.in_real_time:
        drop(folder)
    try:
        with writing(f"in {folder}"):
            if opened is not None:
                analyse_folders([SweepFolder(folder).chosen(points(spec), opened)], master)
                return
            _tell_what_runs_again(spec, folder)
            _tell(_swept(spec, folder, master, keep_frames=keep_frames), as_json=as_json)
    except KeyboardInterrupt:
        end_interrupted("interrupted: finished points are kept; the same command goes on from here")
    except SpecError as error:
        fail(str(error), USAGE)
    except AnalysisError as error:
        fail(str(error), FAILED)
    finally:
        if (folder / SPEC).exists():  # else it is a folder of something else, and was refused
            RunFolder(folder).give_to_caller()


def _expanded(values: dict[str, Any]) -> dict[str, Any]:
    try:
        return expanded(values)
    except ScenarioError as error:
        fail(str(error), USAGE)


def _tell_what_runs_again(spec: SweepSpec, folder: Path) -> None:
    if changed := outdated(spec, folder):
        every = set(changed) == set(spec.protocols)
        which = "all points" if every else f"points of {', '.join(changed)}"
        console.print(f"the testbed has changed since this sweep began: {which} run again")


def _swept(spec: SweepSpec, folder: Path, master: str, *, keep_frames: bool) -> SweepOutcome:
    """Run and analyse what is missing, and write figures and page."""
    if spec.in_real_time:
        return run_campaign(spec, folder, master, keep_packets=keep_frames)
    if spec.captured:
        master = _for_machines(spec, folder, master)
    with Interrupts() as interrupts, SweepDisplay(interrupts) as display:
        outcome = run_sweep(
            spec, folder, master=master, keep_frames=keep_frames, progress=display.update
        )
    write_results(outcome)
    return outcome


def _for_machines(spec: SweepSpec, folder: Path, master: str) -> str:
    """Return the master for runs in machines whose clock waits, or end with what keeps them.

    Their image is built if it is missing.
    """
    if not master.startswith("local"):
        fail(f"machines run here, not on {master}: --master local[2] runs two at a time", USAGE)
    sweep = SweepFolder(folder)
    scenarios = [point.scenario() for point in points(spec) if not sweep.finished(point)]
    if scenarios:
        for problem in MachineBackend().obstacles(*scenarios):
            fail(problem)
        try:
            with Interrupts() as interrupts, Stages() as stages:
                ensure_image(stages, interrupts=interrupts)
        except VmError as error:
            fail(str(error))
        room = room_for(max(len(scenario.nodes) for scenario in scenarios))
        if master == LOCAL and room < len(os.sched_getaffinity(0)):
            return f"local[{room}]"
    return master


def _tell(outcome: SweepOutcome, *, as_json: bool) -> None:
    """Print where the results are, and end with an error if points have failed."""
    if (outcome.folder / FIGURES).is_dir():
        console.say(f"figures: {outcome.folder / FIGURES}")
    console.say(f"results: {outcome.folder / RESULTS}")
    console.say(f"report: {outcome.folder / PAGE}")
    if as_json:
        print_json(_facts(outcome))
    print_problems(console, outcome.problems)
    end_with_failures(list(outcome.failures.items()))


def _facts(outcome: SweepOutcome) -> dict[str, Any]:
    """Return the results of a sweep, for programs."""
    return {
        "folder": outcome.folder,
        "results": outcome.folder / RESULTS,
        "report": outcome.folder / PAGE,
        "runs": len(outcome.results),
        "failures": dict(outcome.failures),
        "problems": dict(outcome.problems),
        "differences": [gap.facts() for gap in compared(outcome)],
        "points": outcome.results.filter(["run", "command"]).to_dict("records"),
    }


def end_with_failures(failures: Sequence[tuple[str, str]]) -> None:
    """End with an error if there are failures: points, each with its reason."""
    for point, reason in failures:
        console.say(f"[red]failed:[/red] {point}: {reason}")
    if failures:
        fail(f"failed points: {len(failures)}; the same command tries them again")


def _varied(words: list[str]) -> dict[str, tuple[str, ...]]:
    varied: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, values = assignment(word, "--vary", VARIED)
        split = tuple(dict.fromkeys(value.strip() for value in values.split(",")))
        if not all(split):
            fail(f"--vary takes {VARIED}, not {word!r}", USAGE)
        if key in varied:
            fail(f"--vary {key} is given twice: name all its values in one", USAGE)
        varied[key] = split
    return varied


def _name(spec: SweepSpec) -> str:
    backend = [spec.backend] if spec.captured else []
    return "-".join([spec.topology, *backend, "+".join(spec.protocols), *spec.vary])[:120]

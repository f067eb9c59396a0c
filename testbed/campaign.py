"""The points of sweeps and reproductions in real time: one after another here, as root.

Each is a run into its folder.  Every `BETWEEN` seconds, and at the end, those that have come to
their end are analysed, and the page is written, by a process that needs no root
(`testbed.ahead`) and waits beside the runs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

import typer

from emulation.backends.base import Backend, BackendError
from emulation.backends.registry import backends
from emulation.network.processes import STATE, running
from emulation.scenario.runfolder import RunFolder
from emulation.vm.locks import locked
from spark_analysis.measures.versions import check_versions
from spark_analysis.papers.cost import about
from spark_analysis.papers.paper import Paper, Preset
from spark_analysis.papers.planned import parts_of
from spark_analysis.papers.published import read_known
from spark_analysis.papers.reproduction import in_real_time
from spark_analysis.sweeps.folder import RUNNING, SweepFolder, alone
from spark_analysis.sweeps.spec import RunPoint, SweepSpec, is_current, points
from spark_analysis.sweeps.sweep import SweepOutcome
from spark_analysis.sweeps.tasks import note_failure, ran, refuse_defects
from testbed.ahead import Analyst
from testbed.display import RunDisplay
from testbed.options import LOCAL, USAGE, console, fail

BETWEEN: Final = 600.0
"""Seconds of runs between two analyses."""
TURN: Final = ".campaign"
"""What is locked while points run, in the folder of the machine's runs."""
POLL: Final = 0.5
"""Seconds between looks for other runs."""
OVERHEAD: Final = 5.0
"""Seconds that a run takes besides its duration, before one has ended."""


def run_campaign(spec: SweepSpec, folder: Path, master: str, *, keep_packets: bool) -> SweepOutcome:
    """Run what a spec asks for and has not run yet, and analyse it.

    Raises `SweepError` and OSError; KeyboardInterrupt once the run that it interrupts is stopped.
    """
    sweep = SweepFolder(folder)

    def missing() -> list[tuple[Path, RunPoint]]:
        return [
            (sweep.path(point), point)
            for point in points(spec)
            if not (sweep.finished(point, frames=keep_packets) or ran(sweep.path(point)))
        ]

    backend = _ready(spec.backend, missing(), master)
    with alone(folder, RUNNING), _turn(), Analyst(folder) as analyst:
        with sweep.alone():
            sweep.note(spec)
        RunFolder(folder).give_to_caller()
        analyse = partial(analyst.sweep, folder, keep_packets=keep_packets)
        _run(missing(), backend, analyst, analyse)
        return analyse()


def run_reproduction(
    paper: Paper, preset: Preset, folder: Path, published: Sequence[Path], master: str
) -> None:
    """Run what a paper's preset asks for in real time and has not run yet, and analyse it.

    Points in the folders `published` are not run.  Raises `AnalysisError` and OSError;
    KeyboardInterrupt once the run that it interrupts is stopped.
    """
    plan = parts_of(paper, preset, folder)
    sources = [part.source for _, of_way in plan for part in of_way]
    known = read_known(paper, published)
    to_run = in_real_time(plan, known)
    (name,) = {source.backend for source in sources if source.in_real_time}
    backend = _ready(name, to_run, master)
    if not to_run:
        return
    if not folder.exists():  # the analysis, which has no root, is to write there
        folder.mkdir(parents=True)
        RunFolder(folder).give_to_caller()
    with alone(folder, RUNNING), _turn(), Analyst(folder) as analyst:
        analyse = partial(analyst.reproduction, paper.key, preset.name, folder, published)
        _run(in_real_time(plan, known), backend, analyst, analyse)
        analyse()


def _ready(name: str, to_run: Sequence[tuple[Path, RunPoint]], master: str) -> Backend:
    """Return the backend that is to run points here, or end with why it cannot.

    Raises `SpecError` for a point that has no scenario, `AnalysisError` for outdated measures.
    """
    backend = backends()[name]
    if master != LOCAL:
        fail(
            f"--master is for runs in parallel: those of {backend.name} go on here, "
            "one after another",
            USAGE,
        )
    scenarios = [point.scenario() for _, point in to_run]
    if scenarios:
        check_versions()
        for problem in backend.obstacles(*scenarios):
            fail(problem)
    return backend


def _run(
    to_run: Sequence[tuple[Path, RunPoint]],
    backend: Backend,
    analyst: Analyst,
    analyse: Callable[[], object],
) -> None:
    """Run points into their folders, and `analyse` now and then.  Raises as `run_campaign`."""
    begun = analysed = time.monotonic()
    for number, (path, point) in enumerate(to_run):
        if not is_current(point):
            fail("the code of the runs has changed: begin again; what it ran is run once more")
        _await_others()
        left = _left(len(to_run) - number, number, time.monotonic() - begun, point.duration)
        console.say(f"run {number + 1} of {len(to_run)}, {about(left)} left: {point}")
        with RunDisplay(console, point.duration, under_way=analyst.start) as display:
            run_point(path, point, backend, display)
        if time.monotonic() - analysed > BETWEEN and number + 1 < len(to_run):
            try:
                analyse()
            except typer.Exit:
                console.say("the runs go on without it; what they give is analysed at the end")
            analysed = time.monotonic()


def _turn() -> AbstractContextManager[None]:
    """Wait until no other points run in real time on this machine, and let none meanwhile."""
    STATE.mkdir(parents=True, exist_ok=True)
    waits = "waiting for another sweep or reproduction in real time on this machine"
    return locked(STATE / TURN, None, lambda: console.say(waits))


def _await_others() -> None:
    """Wait until no other run is under way, which would take processors from the next one."""
    if others := running():
        console.say(f"waiting for the run of process {others[0]} on this machine to end")
    while running():
        time.sleep(POLL)


def _left(runs: int, done: int, spent: float, duration: float) -> float:
    """Return how many seconds `runs` more runs take, by those that are done."""
    return runs * (spent / done if done else duration + OVERHEAD)


def run_point(path: Path, point: RunPoint, backend: Backend, display: RunDisplay) -> None:
    """Run a point into its folder, which is replaced; an error of the run is left in there.

    Raises OSError and KeyboardInterrupt.
    """
    shutil.rmtree(path, ignore_errors=True)
    scenario = point.scenario()
    run = RunFolder.at(path, scenario)
    try:
        backend.execute(scenario, run, display)
        refuse_defects(run)
    except BackendError as error:
        note_failure(path, error)
    finally:
        run.give_to_caller()

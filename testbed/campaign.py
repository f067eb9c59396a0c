"""The points of a sweep in real time: one after another on this machine, as root.

Each is a run into its folder.  Every `BETWEEN` seconds, and at the end, those that have come to
their end are analysed, and the sweep's page is written, by a process that needs no root
(`testbed.ahead`) and waits beside the runs.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Final

from emulation.backends.base import Backend, BackendError
from emulation.network.processes import running
from emulation.scenario.runfolder import RunFolder
from spark_analysis.papers.cost import about
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.spec import RunPoint, SweepSpec, points
from spark_analysis.sweeps.sweep import SweepOutcome
from spark_analysis.sweeps.tasks import note_failure, ran
from testbed.ahead import Analyst, possible
from testbed.comparing import analyse_sweep
from testbed.display import RunDisplay
from testbed.options import console

BETWEEN: Final = 600.0
"""Seconds of runs between two analyses."""
POLL: Final = 0.5
"""Seconds between looks for other runs."""
OVERHEAD: Final = 5.0
"""Seconds that a run takes besides its duration, before one has ended."""


def run_campaign(
    spec: SweepSpec, folder: Path, backend: Backend, *, keep_packets: bool
) -> SweepOutcome:
    """Run what a spec asks for and has not run yet, and analyse it.

    Raises `SweepError` and OSError; KeyboardInterrupt once the run that it interrupts is stopped.
    """
    sweep = SweepFolder(folder)
    missing = _missing(spec, sweep, keep_packets=keep_packets)
    with sweep.alone():
        sweep.note(spec)
    RunFolder(folder).give_to_caller()
    with Analyst(folder) as analyst:
        beside = possible()
        analyse = analyst.sweep if beside else analyse_sweep
        under_way = analyst.start if beside else _nothing
        begun = analysed = time.monotonic()
        for number, point in enumerate(missing):
            _await_others()
            left = _left(len(missing) - number, number, time.monotonic() - begun, spec.duration)
            console.say(f"run {number + 1} of {len(missing)}, {about(left)} left: {point}")
            with RunDisplay(console, spec.duration, under_way=under_way) as display:
                run_point(sweep.path(point), point, backend, display)
            if time.monotonic() - analysed > BETWEEN and number + 1 < len(missing):
                analyse(folder, keep_packets=keep_packets)
                analysed = time.monotonic()
        return analyse(folder, keep_packets=keep_packets)


def _missing(spec: SweepSpec, sweep: SweepFolder, *, keep_packets: bool) -> list[RunPoint]:
    """Return the points that are to run, after making their scenarios.  Raises `SpecError`."""
    missing = [
        point
        for point in points(spec)
        if not (sweep.finished(point, frames=keep_packets) or ran(sweep.path(point)))
    ]
    for point in missing:
        point.scenario()
    return missing


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
    path.mkdir(parents=True)
    run, scenario = RunFolder(path), point.scenario()
    run.begin(scenario)
    try:
        backend.execute(scenario, run, display)
    except BackendError as error:
        note_failure(path, error)
    finally:
        run.give_to_caller()


def _nothing() -> None: ...

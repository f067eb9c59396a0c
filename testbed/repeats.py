"""Run one scenario several times on two or more backends, for `spark_analysis.agreement.agreement`.

Repeat i is the scenario with its seed raised by i: placement, motion and workload, which were
drawn before, stay; what nodes and the channel draw while they run changes.  The backends take
turns, so that a machine that becomes slower or faster does so for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from capture.process import explained
from emulation.backends.base import Backend, BackendError, Observer
from emulation.scenario.runfolder import STAMP, RunFolder, defects_of, new_folder
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.registry import MIDDLEWARE
from testbed.outcome import note_failure

MOST: Final = 6
"""Backends of a comparison; with more, the table would be unreadable."""


class AgreeError(Exception):
    """A comparison that cannot be made; the message is one line that says what to do."""


@dataclass(frozen=True)
class RepeatTurn:
    """One run of the comparison, while it is under way."""

    number: int
    """From 1."""
    of: int
    repeat: int
    """From 1."""
    backend: str


Watch = Callable[[RepeatTurn], AbstractContextManager[Observer]]
"""Provides the observer of a run, for the time of the run."""


def names(backends: Sequence[Backend]) -> tuple[str, ...]:
    """Return distinct names for the backends, even if two are the same."""
    distinct: list[str] = []
    for backend in backends:
        name = backend.name
        while name in distinct:
            name += " again"
        distinct.append(name)
    return tuple(distinct)


def make_folder(out: Path | None, runs: Path, scenario: Scenario) -> Path:
    """Make and return the empty folder of a comparison: `out`, or a new one under `runs`.

    Raises `AgreeError`.
    """
    stem = f"agree-{time.strftime(STAMP)}-{scenario.topology}-{scenario.protocol.name}"
    try:
        if out is None:
            return new_folder(runs, stem)
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise AgreeError(f"{out} is not empty: name another folder with --out")
    except OSError as error:
        raise AgreeError(f"cannot write in {out or runs}: {explained(error)}") from None
    return out


def check(backends: Sequence[Backend], scenario: Scenario) -> None:
    """Raise `AgreeError` if this machine cannot run the scenario on one of the backends.

    Backends are compared hop by hop, and by kind, which only frames of the testbed show.
    """
    for backend in backends:
        if obstacles := backend.obstacles(scenario):
            raise AgreeError(f"backend {backend.name}: {obstacles[0]}")
    if scenario.protocol.name in MIDDLEWARE:
        raise AgreeError(
            f"{scenario.protocol.name} is no protocol of the testbed, so its events cannot be "
            "followed hop by hop: compare runs of it with analyze"
        )


def run_repeats(
    scenario: Scenario,
    backends: Sequence[Backend],
    repeats: int,
    out: Path,
    watch: Watch,
    first: int = 0,
) -> list[tuple[Path, ...]]:
    """Run repeats `first` to `repeats` - 1 on all backends; return the folders, a tuple per repeat.

    Raises `AgreeError` if a run fails, and OSError; KeyboardInterrupt once the run that it
    interrupts is stopped.
    """
    sides = len(backends)
    done = []
    for repeat in range(first, repeats):
        seed = (scenario.seed + repeat) % 2**63
        again = scenario.model_copy(update={"seed": seed})
        folders = []
        for index, (backend, name) in enumerate(zip(backends, names(backends), strict=True)):
            turn = RepeatTurn(sides * repeat + index + 1, sides * repeats, repeat + 1, name)
            folder = RunFolder.at(out / f"repeat{repeat + 1}-{name.replace(' ', '-')}", again)
            with watch(turn) as observer:
                try:
                    backend.execute(again, folder, observer)
                    if (defects := defects_of(folder)) is not None:
                        raise BackendError(f"{defects}; correct the protocol")
                except BackendError as error:
                    note_failure(folder, backend.name, str(error))
                    raise AgreeError(
                        f"run {turn.number} of {turn.of} on {name}: {error} (logs: {folder.logs})"
                    ) from error
            folders.append(folder.path)
        done.append(tuple(folders))
    return done

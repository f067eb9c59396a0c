"""The backend interface: execute a scenario and write a run folder in the common form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario

RUNNING: Final = "running"
"""The stage of a run that is under way."""


class BackendError(RuntimeError):
    """A run that could not start or go on; the message says what to do."""


class Observer(Protocol):
    """Watches a run: the command line's progress display, or a test."""

    def stage(self, text: str) -> None:
        """Show the current stage."""

    def elapsed(self, seconds: float) -> None:
        """Show how much of the scenario has run."""

    def problem(self, text: str) -> None:
        """Show a problem while the run goes on."""


class Unwatched:
    """An observer that nobody looks at."""

    def stage(self, text: str) -> None: ...

    def elapsed(self, seconds: float) -> None: ...

    def problem(self, text: str) -> None: ...


def lacking(backend: Backend, scenarios: Iterable[Scenario]) -> list[str]:
    """Return what of scenarios a backend lacks on any machine, each line once."""
    return [*dict.fromkeys(line for one in scenarios for line in backend.unsupported(one))]


class FaultMaker(Protocol):
    """Injects faults into a run under way.  Both methods raise `BackendError` if they cannot."""

    def begin(self, fault: Fault) -> None:
        """Begin a fault now; it ends at its end time, if it has one."""

    def end(self, fault: Fault) -> None:
        """End a fault that has no end time."""


class LiveRun(Protocol):
    """A run under way, as the prompt (`testbed.prompt.console`) uses it."""

    scenario: Scenario
    folder: RunFolder
    """Where the prompt records its commands."""
    net: Any
    """The Mininet network: nodes by name, and all that run a node app in `members`."""
    medium_control: Path
    """Socket of the medium (`emulation.media.scenario` has its requests)."""
    gpsd_control: Path
    """Socket of the position servers (`emulation.network.gpsd`)."""

    @property
    def faults(self) -> FaultMaker:
        """Begins and ends faults, of radios and of node apps."""

    def now(self) -> float:
        """Return the scenario's time, seconds."""


class Backend(Protocol):
    """Executes scenarios."""

    name: str
    summary: str

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return what of a scenario the backend lacks on any machine, and what to do."""

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        """Return what keeps this machine from running the backend, and the scenarios on it.

        Each is one line that says what to do; there are none twice.
        """

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; `interact` receives the run while it is under way.

        Raises `BackendError`; an interrupted run (KeyboardInterrupt) leaves a readable folder.
        """

"""What a backend is: it executes a scenario and writes a run folder, the same from each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario


class BackendError(RuntimeError):
    """A run that could not start or go on; the message says what to do."""


class Observer(Protocol):
    """Who watches a run: the command line's progress display, or a test."""

    def stage(self, text: str) -> None:
        """Say what is being done now."""

    def elapsed(self, seconds: float) -> None:
        """Say how much of the scenario has run."""

    def problem(self, text: str) -> None:
        """Say what went wrong while the run goes on."""


class Backend(Protocol):
    """Executes scenarios."""

    name: str
    summary: str

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend and what to do, one line each."""

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; `interact` gets the network while it runs.

        Raises `BackendError`; an interrupted run (KeyboardInterrupt) leaves a readable folder.
        """

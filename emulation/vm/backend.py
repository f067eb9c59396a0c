"""A backend run in the virtual machine: NAME@vm.

The machine sees the run folder at the same path and executes the scenario with
`python -m emulation.backends`; it writes captures and figures straight into the run folder.  Every
run boots its own machine, except within `GuestBackend.kept`: under emulation, loading and
translating the code that a guest runs for the first time takes much of a short run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from emulation.backends.base import Backend, BackendError, LiveRun, Observer, lacking
from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.vm import tools
from emulation.vm.machine import Machine
from emulation.vm.qemu import Share
from emulation.vm.run import MachineOptions, booted, guest_environment, run_in_vm
from nodeapp.installation import PROJECT

SUFFIX: Final = "@vm"


class GuestBackend:
    """Another backend, executed in the virtual machine."""

    def __init__(self, backend: Backend, options: MachineOptions | None = None) -> None:
        self._inner = backend
        self._options = options
        self.name = f"{backend.name}{SUFFIX}"
        self.summary = f"{backend.summary}; in the virtual machine"
        self._kept: _Kept | None = None

    @contextmanager
    def kept(self, folder: Path, others: Iterable[GuestBackend] = ()) -> Iterator[None]:
        """Let runs into folders below `folder` share one machine during the block.

        Runs of `others` share it too.  The first run boots it, with this backend's options.  A run
        that fails or is interrupted ends it, and the next one boots another.
        """
        sharing = (self, *others)
        with ExitStack() as ending:
            kept = _Kept(folder.resolve(), self._options or MachineOptions(), ending)
            for backend in sharing:
                backend._kept = kept
            try:
                yield
            finally:
                for backend in sharing:
                    backend._kept = None

    def unsupported(self, scenario: Scenario) -> list[str]:
        """Return what of a scenario the backend lacks, and what to do."""
        return self._inner.unsupported(scenario)

    def obstacles(self, *scenarios: Scenario) -> list[str]:
        """Return what is in the way of a guest here; it checks itself what is in its own way."""
        return vm_obstacles(self, scenarios)

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario, which is already in `folder`, in the guest.

        Raises `BackendError` and KeyboardInterrupt.  There is no prompt: use `vm cli`.
        """
        if interact is not None:
            raise BackendError("no prompt here: use vm cli")
        path = folder.path.resolve()
        heard = GuestReports(observer)
        errors = bytearray()
        with Interrupts() as interrupts:
            try:
                command = ["python3", "-m", "emulation.backends", self._inner.name, str(path)]
                if self._kept is not None and path.is_relative_to(self._kept.folder):
                    code = self._kept.run(command, heard, errors, interrupts)
                else:
                    code = run_in_vm(
                        command,
                        observer=heard,
                        share_rw=path,
                        options=self._options,
                        output=heard.lines,
                        errors=errors.extend,
                        interrupts=interrupts,
                    )
            except VmError as error:
                raise BackendError(str(error)) from error
        if code == 130:
            raise KeyboardInterrupt
        if code != 0:
            raise BackendError(heard.reason(code, errors.decode(errors="replace")))


class _Kept:
    """A machine shared by several runs, which writes below the host's `folder`."""

    def __init__(self, folder: Path, options: MachineOptions, ending: ExitStack) -> None:
        self.folder = folder
        self._options = options
        self._ending = ending
        self._machine: Machine | None = None

    def run(
        self, command: list[str], heard: GuestReports, errors: bytearray, interrupts: Interrupts
    ) -> int:
        """Run a command of the guest; return its exit code.  Raises as `run_in_vm` does."""
        try:
            if self._machine is None:
                shared = Share(self.folder, self.folder, readonly=False)
                self._machine = self._ending.enter_context(
                    booted(heard, shared, self._options, interrupts)
                )
            else:
                self._machine.interrupts = interrupts
                self._machine.set_clock()
            code = self._machine.run(
                command,
                folder=PROJECT,
                environment=guest_environment(PROJECT),
                output=heard.lines,
                errors=errors.extend,
                time_limit=self._options.time_limit,
            )
        except BaseException:
            if self._machine is not None:
                self._machine.kill()  # it may hang
            self._end()
            raise
        if code != 0:
            self._end()
        return code

    def _end(self) -> None:
        self._machine = None
        self._ending.close()


class GuestReports:
    """Passes on the reports of the machine and of the run in it."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._rest = b""
        self._error = ""

    def reason(self, code: int, errors: str) -> str:
        """Return why a run failed, from its exit code and what it wrote to standard error."""
        last = errors.strip().rpartition("\n")[2]
        return self._error or last or f"it ended with code {code}"

    def stage(self, text: str) -> None:
        self._observer.stage(text)

    def hide(self) -> None:
        """Do nothing: the command in the guest has no terminal."""

    def lines(self, data: bytes) -> None:
        """Process output of `emulation.backends.__main__`: lines of JSON in arbitrary pieces."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            match _parsed(line):
                case {"stage": str() as text}:
                    self._observer.stage(text)
                case {"elapsed": int() | float() as seconds}:
                    self._observer.elapsed(seconds)
                case {"problem": str() as text}:
                    self._observer.problem(text)
                case {"error": str() as text}:
                    self._error = text


def vm_obstacles(backend: Backend, scenarios: Iterable[Scenario]) -> list[str]:
    """Return why this machine cannot boot a virtual one for scenarios, one line each."""
    return [*lacking(backend, scenarios), *filter(None, [tools.obstacle()])]


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # printed by a library
        return None

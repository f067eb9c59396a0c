"""A backend run in the virtual machine: NAME@vm.

Every run boots a machine, which sees the run folder at the same path and executes the scenario with
`python -m emulation.backends`; it writes captures and figures straight into the run folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from emulation.backends.base import Backend, BackendError, LiveRun, Observer
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.vm import tools
from emulation.vm.errors import VmError
from emulation.vm.run import Options, run_in_vm

SUFFIX: Final = "@vm"


class GuestBackend:
    """Another backend, executed in the virtual machine."""

    def __init__(self, backend: Backend, options: Options | None = None) -> None:
        self._inner = backend.name
        self._options = options
        self.name = f"{backend.name}{SUFFIX}"
        self.summary = f"{backend.summary}; in the virtual machine"

    def obstacles(self) -> list[str]:
        """Return why this machine cannot boot a virtual one; the guest checks its own obstacles."""
        obstacle = tools.obstacle()
        return [] if obstacle is None else [obstacle]

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[LiveRun], None] | None = None,
    ) -> None:
        """Run the scenario, which is in `folder` already, in the guest.

        Raises `BackendError` and KeyboardInterrupt.  There is no prompt: use `vm cli`.
        """
        if interact is not None:
            raise BackendError("no prompt here: use vm cli")
        path = folder.path.resolve()
        heard = _Heard(observer)
        errors = bytearray()
        with Interrupts() as interrupts:
            try:
                code = run_in_vm(
                    ["python3", "-m", "emulation.backends", self._inner, str(path)],
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
            raise BackendError(heard.error or _last_line(errors) or f"it ended with {code}")


class _Heard:
    """Passes on what the machine and the run in it report."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._rest = b""
        self.error = ""

    def stage(self, text: str) -> None:
        self._observer.stage(text)

    def hide(self) -> None:
        """Leave the display as it is: the command in the guest has no terminal."""

    def lines(self, data: bytes) -> None:
        """Take output of `emulation.backends.__main__`: lines of JSON, cut anywhere."""
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
                    self.error = text


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # printed by a library
        return None


def _last_line(data: bytearray) -> str:
    lines = data.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""

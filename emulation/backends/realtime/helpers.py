"""The helper processes of a run: its medium, position servers, recorder, driver, switch...

Each is `python -m MODULE CONFIG.json`, forked from a warm process (`emulation.network.warm`), or a
program that a backend starts itself; all carry the run's mark (`emulation.network.processes`) and
end with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from capture.scan import RADIOTAP
from emulation.backends.base import BackendError
from emulation.network import processes
from emulation.network.interrupts import Interrupts
from emulation.network.processes import (
    Process,
    StateFolder,
    await_condition,
    doing,
    ended,
    last_line,
)
from emulation.network.warm import Warm
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario

START_LIMIT: Final = 120.0
"""Seconds that a process of the emulation may take to be ready."""
CAPTURE_BUFFER: Final = 4 << 20
"""Receive buffer of a capturing socket, bytes."""


class Helpers(dict[str, Process]):
    """The helper processes by name; their output goes to the file `log`."""

    def __init__(self, state: StateFolder, log: Path, interrupts: Interrupts) -> None:
        super().__init__()
        self._state = state
        self._log = log
        self._output = log.open("ab")
        self._interrupts = interrupts
        self._reported: set[str] = set()
        self._warm: Warm | None = None

    def load(self, modules: Sequence[str]) -> None:
        """Begin loading modules that `start` will run, or modules that they import."""
        self._warm = Warm(modules, self._state.environment(), self._output)

    def start(self, name: str, module: str, config: Mapping[str, Any]) -> None:
        """Start a module of the testbed, which gets its configuration as a file of JSON.

        Called after `load`.  Raises `BackendError` if no process can be started.
        """
        assert self._warm is not None
        path = self._state.path / f"{name}.config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        try:
            self[name] = self._warm.start(module, [str(path)], self._output)
        except OSError as error:
            raise BackendError(f"the {name} did not start: {error.strerror or error}") from None

    def start_program(self, name: str, command: Sequence[str]) -> None:
        """Start a program.  Raises `BackendError` if it cannot be started."""
        environment, output = self._state.environment(), self._output
        try:
            self[name] = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        except OSError as error:
            raise BackendError(f"the {name} did not start: {error.strerror}") from None

    def wait(self, condition: Callable[[], bool], limit: float | None = None) -> bool:
        """Wait until a condition holds, at most `limit` or `START_LIMIT` seconds.

        Return whether it does.  Raises KeyboardInterrupt if the run is to end.
        """

        def holds() -> bool:
            self._interrupts.check()
            return condition()

        return await_condition(holds, START_LIMIT if limit is None else limit)

    def await_ready(self, name: str, ready: Callable[[], bool], log: Path | None = None) -> None:
        """Wait until a process is ready; it writes to `log`, or to that of the helpers.

        Raises `BackendError` if it ends, or is not ready in time.
        """
        process = self[name]
        if not self.wait(lambda: process.poll() is not None or ready()):
            state = doing(process)
            process.send_signal(signal.SIGABRT)
            await_condition(lambda: process.poll() is not None, processes.GRACE)  # it writes
            raise BackendError(f"the {name} was not ready within {START_LIMIT:g} s: {state}")
        if process.poll() is not None:
            problem = self._last_line() if log is None else last_line(log)
            raise BackendError(f"the {name} did not start: {problem}")

    def check(self, done: Container[str] = ()) -> None:
        """Raise `BackendError` if one of them has ended since the last call.

        Those that are `done` may end by themselves.
        """
        trouble = self._warm.trouble() if self._warm is not None else None
        if trouble is not None:
            raise BackendError(f"the process that helpers are forked from {trouble}")
        for name, process in self.items():
            code = process.poll()
            if code is None or name in self._reported or (code == 0 and name in done):
                continue
            self._reported.add(name)
            why = self._last_line() if code else "it was ended from outside"
            raise BackendError(f"the {name} {ended(code)}: {why}")

    def end(self, *names: str) -> None:
        """End those of `names` that were started, one after the other."""
        for name in names:
            if name in self:
                processes.end(self[name])

    def close(self) -> None:
        """End the warm process and close the log."""
        if self._warm is not None:
            self._warm.close()
        self._output.close()

    def _last_line(self) -> str:
        self._output.flush()
        return last_line(self._log)


def recorder_config(
    scenario: Scenario,
    folder: RunFolder,
    pids: Mapping[str, int],
    ports: Iterable[tuple[int, str]],
    air: str | None,
    status: Path,
) -> dict[str, Any]:
    """Return the recorder's configuration.

    `pids` has a process in each node's namespace; `ports` are access points' radio interfaces, each
    with such a process; `air` is an interface of this namespace that shows all frames, if there is
    one; `status` is the recorder's status file.
    """
    interfaces = []
    for spec in scenario.nodes:
        pid = pids[spec.name]
        for interface, file, loopback in (
            (spec.interface, folder.radio_capture(spec), False),
            ("lo", folder.loopback_capture(spec), True),
        ):
            entry = {"pid": pid, "interface": interface, "file": str(file.resolve())}
            interfaces.append(entry | {"loopback": loopback})
    for pid, port in ports:
        file = folder.port_capture(port).resolve()
        entry = {"pid": pid, "interface": port, "file": str(file)}
        interfaces.append(entry | {"loopback": False})
    if air is not None:
        file = folder.air_capture.resolve()
        entry = {"pid": os.getpid(), "interface": air, "file": str(file)}
        interfaces.append(entry | {"loopback": False, "linktype": RADIOTAP})
    return {"interfaces": interfaces, "status": str(status), "buffer_bytes": CAPTURE_BUFFER}

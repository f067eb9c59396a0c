"""A script's Open vSwitch (`emulation.network.openvswitch`) and its `controller` program.

Mininet finds them through the environment (`emulation.mn.session.environment`); they run in the
script's own process namespace and end with it.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mininet.node import Controller, OVSSwitch, RemoteController

from emulation.mn.session import ScriptError, Session
from emulation.network.openvswitch import NEEDED, THREADS, OpenVSwitch, SwitchError, installed
from emulation.network.processes import accepts_connections, await_condition

READY: Final = 20.0
"""Seconds that a process of Open vSwitch or a controller may take to answer."""


class ScriptSwitch:
    """The Open vSwitch of one script, started when it is first needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.running = False

    def start(self) -> None:
        """Start database and switch, unless they are running.  Raises `ScriptError`."""
        if self.running:
            return
        if not installed():
            raise ScriptError(f"access points and switches need {NEEDED}")
        log = self._session.logs / "openvswitch.log"
        own = OpenVSwitch(self._session.switches, log, _begin)
        try:
            own.start_database()
            if not await_condition(own.database_ready, READY):
                raise ScriptError(f"Open vSwitch did not start: see {log}")
            own.start_switch()
            own.vsctl(["set", "Open_vSwitch", ".", *THREADS])
        except SwitchError as error:
            raise ScriptError(str(error)) from None
        self.running = True


def _begin(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C at the prompt is not for it
        )


def write_controller(folder: Path) -> None:
    """Write the program `controller` into a folder of the nodes' PATH."""
    program = folder / "controller"
    words = f'exec {shlex.quote(sys.executable)} -m emulation.mn.controller "$@"'
    program.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    program.chmod(0o755)


class LocalController(Controller):  # type: ignore[misc]  # Mininet has no types
    """A controller of this run, with its log in the run folder."""

    log: Path

    def checkListening(self) -> None:
        """Raise `ScriptError` if another process of this run listens on the port."""
        if self.command and accepts_connections((self.ip, self.port)):
            raise ScriptError(f"{self.name}: another controller listens on port {self.port}")

    def start(self) -> None:
        """Start it and wait until it listens."""
        words = f"{self.command} {self.cargs % self.port}"
        self.cmd(f"{words} >{shlex.quote(str(self.log))} 2>&1 &")
        if not await_condition(lambda: accepts_connections((self.ip, self.port)), READY):
            raise ScriptError(f"{self.name} does not listen on port {self.port}: see {self.log}")


def controller_class(cls: Any, logs: Path, name: str) -> Any:
    """Return a controller class that fits this run: Mininet's, or a script's own."""
    if not isinstance(cls, type) or issubclass(cls, RemoteController):
        return cls
    if getattr(cls, "start", None) is not Controller.start:
        return cls
    return type(cls.__name__, (LocalController, cls), {"log": logs / f"{name}.log"})


def switch_options(cls: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a wired switch, with the available datapath."""
    if isinstance(cls, type) and issubclass(cls, OVSSwitch):
        return options | {"datapath": "user"}
    return options

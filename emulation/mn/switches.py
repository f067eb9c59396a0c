"""A script's Open vSwitch (`emulation.network.openvswitch`) and its `controller` program.

Mininet finds them through the environment (`emulation.mn.session.environment`); they run in the
script's own process namespace and end with it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mininet.node import Controller, OVSSwitch, RemoteController

from emulation.mn.session import ScriptError, Session
from emulation.network.openvswitch import NEEDED, THREADS, OpenVSwitch, SwitchError, installed
from emulation.network.processes import accepts_connections, await_condition
from emulation.network.switches import CONTROLLER_PORT, controller
from nodeapp.installation import PROJECT

PORTS: Final = (CONTROLLER_PORT, 6633)
"""TCP ports of OpenFlow: IANA's, and the one used before it."""
MANAGERS: Final = ("ryu-manager", "osken-manager")
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
            start_new_session=True,  # Ctrl-C at the prompt must not reach it
        )


def write_controllers(folder: Path) -> None:
    """Write `controller` and, if Ryu is installed, `ryu-manager` into a folder of nodes' PATH."""
    programs = {"controller": [sys.executable, "-m", "emulation.mn.controller"]}
    ryu = controller()
    for name in MANAGERS if ryu is not None else ():
        assert ryu is not None
        if shutil.which(name) is None:
            module = "emulation.network.controller.manager"
            programs[name] = [str(ryu.python), "-W", "ignore", "-m", module]
    path = f"PYTHONPATH={shlex.quote(str(PROJECT))}${{PYTHONPATH:+:$PYTHONPATH}}"
    for name, words in programs.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\n{path} exec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)


def start_controller(session: Session, command: str) -> None:
    """Start the command of `--controller`, and wait until it listens.  Raises `ScriptError`."""
    log = session.logs / "controller.log"
    process = _begin(["sh", "-c", f"exec {command}"], log)

    def listens() -> bool:
        return any(accepts_connections(("127.0.0.1", port)) for port in PORTS)

    await_condition(lambda: listens() or process.poll() is not None, READY)
    if not listens():
        ports = " or ".join(map(str, PORTS))
        raise ScriptError(f"--controller: {command} does not listen on port {ports}: see {log}")


class LocalController(Controller):  # type: ignore[misc]  # Mininet has no types
    """A controller of this run, with its log in the run folder."""

    log: Path
    external: bool
    """Whether `--controller` has started one in its place."""

    def stop(self, deleteIntfs: bool = False) -> None:
        """End it, unless it is the one of `--controller`."""
        if self.external:
            super(Controller, self).stop(deleteIntfs)
        else:
            super().stop(deleteIntfs)

    def checkListening(self) -> None:
        """Raise `ScriptError` if another process of this run listens on the port."""
        if self.command and not self.external and accepts_connections((self.ip, self.port)):
            raise ScriptError(f"{self.name}: another controller listens on port {self.port}")

    def start(self) -> None:
        """Start it and wait until it listens."""
        if self.external:
            self.port = next(port for port in PORTS if accepts_connections((self.ip, port)))
            return
        words = f"{self.command} {self.cargs % self.port}"
        self.cmd(f"{words} >{shlex.quote(str(self.log))} 2>&1 &")
        if not await_condition(lambda: accepts_connections((self.ip, self.port)), READY):
            raise ScriptError(f"{self.name} does not listen on port {self.port}: see {self.log}")


def controller_class(cls: Any, session: Session, name: str) -> Any:
    """Return a controller class that fits this run: Mininet's, or a script's own."""
    if not isinstance(cls, type) or issubclass(cls, RemoteController):
        return cls
    if getattr(cls, "start", None) is not Controller.start:
        return cls
    external = session.spec.controller is not None
    return type(
        cls.__name__,
        (LocalController, cls),
        {"log": session.logs / f"{name}.log", "external": external},
    )


def switch_options(cls: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a wired switch, with the available datapath."""
    if isinstance(cls, type) and issubclass(cls, OVSSwitch):
        return options | {"datapath": "user"}
    return options

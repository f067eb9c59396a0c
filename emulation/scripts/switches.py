"""Open vSwitch of a script: database, switch with the user-space datapath, and a `controller`.

Mininet finds them by the environment (`emulation.scripts.session.environment`); they are processes
of the script's own process namespace and end with it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from mininet.node import Controller, OVSSwitch, RemoteController

from emulation.network.processes import await_condition
from emulation.network.switches import PROGRAMS, SCHEMA, serves
from emulation.scripts.session import ScriptError, Session

READY: Final = 20.0
"""Seconds that a process of Open vSwitch or a controller may take to answer."""


class OpenVSwitch:
    """The database and the switch of one script, started when they are first needed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = session.switches
        self.running = False

    def start(self) -> None:
        """Start both, unless they run.  Raises `ScriptError`."""
        if self.running:
            return
        missing = [program for program in PROGRAMS if shutil.which(program) is None]
        if missing or not SCHEMA.exists():
            raise ScriptError(
                "access points and switches need Open vSwitch: apt-get install openvswitch-switch "
                "(it need not run as a service)"
            )
        folder = self._folder
        folder.mkdir(exist_ok=True)
        quiet = ("-vconsole:warn", "-vsyslog:off", "-vfile:off")
        database, served = folder / "conf.db", folder / "db.sock"
        self._run("ovsdb-tool", "create", str(database), str(SCHEMA))
        self._begin(
            *("ovsdb-server", str(database), f"--remote=punix:{served}", *quiet),
            f"--unixctl={folder / 'ovsdb.ctl'}",
        )
        if not await_condition(lambda: serves(served), READY):
            raise ScriptError(f"Open vSwitch did not start: see {self._log}")
        self._run("ovs-vsctl", "--no-wait", "init")
        self._begin(
            *("ovs-vswitchd", f"unix:{served}", "--disable-system", *quiet),
            f"--unixctl={folder / f'ovs-vswitchd.{os.getpid()}.ctl'}",
        )
        self._run("ovs-vsctl", f"--timeout={READY:g}", "set", "Open_vSwitch", ".", *_THREADS)
        self.running = True

    @property
    def _log(self) -> Path:
        return self._session.logs / "openvswitch.log"

    def _begin(self, *command: str) -> None:
        with self._log.open("ab") as log:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at the prompt is not for it
            )

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ScriptError(f"{command[0]} failed: {said}")


_THREADS: Final = (
    "other_config:n-handler-threads=1",
    "other_config:n-revalidator-threads=1",
)


def write_controller(folder: Path) -> None:
    """Write the program `controller` into a folder of the nodes' PATH."""
    program = folder / "controller"
    words = f'exec {sys.executable} -m emulation.scripts.controller "$@"'
    program.write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    program.chmod(0o755)


class LocalController(Controller):  # type: ignore[misc]  # Mininet has no types
    """A controller of this run, whose log is the run folder's."""

    log: Path

    def checkListening(self) -> None:
        """Refuse a port that something of this run listens at.  Raises `ScriptError`."""
        if self.command and listens(self.ip, self.port):
            raise ScriptError(f"{self.name}: another controller listens at port {self.port}")

    def start(self) -> None:
        """Start it and wait until it listens."""
        words = f"{self.command} {self.cargs % self.port}"
        self.cmd(f"{words} >{self.log} 2>&1 &")
        deadline = time.monotonic() + READY
        while not listens(self.ip, self.port):
            if time.monotonic() > deadline:
                raise ScriptError(f"{self.name} does not listen at port {self.port}: {self.log}")
            time.sleep(0.02)


def listens(address: str, port: int) -> bool:
    """Return whether something takes TCP connections there."""
    with suppress(OSError), socket.create_connection((address, port), timeout=1.0):
        return True
    return False


def controller_class(cls: Any, logs: Path, name: str) -> Any:
    """Return a controller's class that fits this run: Mininet's, or a script's own."""
    if not isinstance(cls, type) or issubclass(cls, RemoteController):
        return cls
    if getattr(cls, "start", None) is not Controller.start:
        return cls
    return type(cls.__name__, (LocalController, cls), {"log": logs / f"{name}.log"})


def switch_options(cls: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a wired switch, with the datapath that is there."""
    if isinstance(cls, type) and issubclass(cls, OVSSwitch):
        return options | {"datapath": "user"}
    return options

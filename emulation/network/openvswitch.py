"""Open vSwitch of one run: a database, and a switch with the user-space datapath.

Theory of operation.  With the datapath in user space no kernel module is needed.  Database, sockets
and logs are the run's own; the system's own Open vSwitch, if there is one, is not touched, and
everything vanishes with the processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from emulation.network.processes import accepts_connections

SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")
PROGRAMS: Final = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
NEEDED: Final = "Open vSwitch: apt-get install openvswitch-switch (it need not run as a service)"
"""Advice if it is missing."""
SET_UP_LIMIT: Final = 60
"""Seconds that changes of the database may take to take effect."""
THREADS: Final = ("other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")
"""Settings of a switch with few flows: one thread of each kind, not one per core."""
_QUIET: Final = ("-vconsole:warn", "-vsyslog:off", "-vfile:off")

Popen = Callable[[Sequence[str], Path], "subprocess.Popen[bytes]"]
"""Starts a program with its output in a log file."""


class SwitchError(RuntimeError):
    """Bridges that cannot be made; the message is one line."""


def installed() -> bool:
    """Return whether this machine has Open vSwitch."""
    return SCHEMA.exists() and all(shutil.which(program) for program in PROGRAMS)


def environment(folder: Path) -> dict[str, str]:
    """Return the variables by which the programs of Open vSwitch find their files in `folder`."""
    return {f"OVS_{name}": str(folder) for name in ("RUNDIR", "DBDIR", "LOGDIR", "SYSCONFDIR")}


class OpenVSwitch:
    """Database and switch with their files in `folder`; `popen` starts them, `log` is for both.

    To start: the database; when that is ready, the switch.
    """

    def __init__(self, folder: Path, log: Path, popen: Popen) -> None:
        self._folder = folder
        self._log = log
        self._popen = popen
        self._socket = folder / "db.sock"
        self.database_control = folder / "ovsdb.ctl"
        self.switch_control = folder / "vswitchd.ctl"
        """Sockets for ovs-appctl(8): unixctl."""
        self._environment = dict(os.environ) | environment(folder)
        folder.mkdir(exist_ok=True)

    def start_database(self) -> subprocess.Popen[bytes]:
        """Make an empty database and serve it.  Raises `SwitchError`."""
        database = str(self._folder / "conf.db")
        self._run(["ovsdb-tool", "create", database, str(SCHEMA)])
        control = f"--unixctl={self.database_control}"
        command = ["ovsdb-server", database, f"--remote=punix:{self._socket}", control, *_QUIET]
        return self._popen(command, self._log)

    def database_ready(self) -> bool:
        """Return whether the database accepts connections; its socket file appears sooner."""
        return accepts_connections(self._socket)

    def start_switch(self) -> subprocess.Popen[bytes]:
        """Start the switch, with the user-space datapath only.  Raises `SwitchError`."""
        self.vsctl(["--no-wait", "init"])
        control = f"--unixctl={self.switch_control}"
        command = ["ovs-vswitchd", f"unix:{self._socket}", control, "--disable-system", *_QUIET]
        return self._popen(command, self._log)

    def vsctl(self, words: Sequence[str]) -> str:
        """Return what `ovs-vsctl` prints.  Raises `SwitchError`."""
        database = f"--db=unix:{self._socket}"
        return self._run(["ovs-vsctl", database, f"--timeout={SET_UP_LIMIT}", *words])

    def _run(self, command: Sequence[str]) -> str:
        try:
            result = subprocess.run(
                command,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=SET_UP_LIMIT,
            )
        except subprocess.TimeoutExpired:
            raise SwitchError(f"{command[0]} has not ended within {SET_UP_LIMIT} s") from None
        if result.returncode != 0:
            problem = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise SwitchError(f"{command[0]} failed: {problem}")
        return result.stdout

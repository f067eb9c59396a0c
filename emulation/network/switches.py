"""The bridges of the mesh access points and their controller: private to a run.

Theory of operation.  All access points of a run live in one network namespace.  In it run an
ovsdb-server, an ovs-vswitchd with the user-space datapath (so no kernel module is needed) and the
Ryu controller (`emulation.network.controller`), whose OpenFlow channel is TCP on that namespace's
loopback.  Database, sockets and pid files are in the run's state folder; the system's own Open
vSwitch, if there is one, is not touched, and everything vanishes with the processes.

A bridge without flows passes nothing on (fail_mode secure).  Flow counters come from the datapath
at every revalidation, so these are made frequent (`REVALIDATION_MS`).
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from emulation.network.controller.flows import ACCESS_PORT, BROKER_PORT, MESH_PORT
from emulation.network.processes import PROJECT
from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.scenario import Scenario
from nodeapp.wire import TrafficClass

RYU_PYTHON: Final = PROJECT / ".ryu" / "bin" / "python"
SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")
PROGRAMS: Final = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl")
CONTROLLER_PORT: Final = 6653
"""TCP, IANA's for OpenFlow; on the loopback of the run's own namespace."""
RETRY_MS: Final = 1000
"""Milliseconds between a bridge's attempts to reach its controller, at most."""
REVALIDATION_MS: Final = 100
"""Milliseconds until a frame is in the counter of its flow, roughly at most."""
SET_UP_LIMIT: Final = 60
"""Seconds that the bridges may take to appear."""

Popen = Callable[[Sequence[str], Path], "subprocess.Popen[bytes]"]
"""Starts a program inside the access points' namespace, with its output in a log file."""


def serves(path: Path) -> bool:
    """Return whether a process takes connections at a Unix socket; its file is there sooner."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        return True
    return False


class SwitchError(RuntimeError):
    """Bridges that cannot be made; the message is one line."""


def obstacles() -> list[str]:
    """Return why this machine cannot run access points and what to do, one line each."""
    found = []
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or not SCHEMA.exists():
        found.append(
            "mesh access points need Open vSwitch: apt-get install openvswitch-switch "
            "(it need not run as a service)"
        )
    if not RYU_PYTHON.exists():
        found.append("mesh access points need the Ryu controller: run ./run_testbed.sh setup")
    return found


def controller_config(scenario: Scenario, flows: Path, status: Path) -> dict[str, object]:
    """Return the controller's configuration; `flows` is the file for the counters."""
    macs = {node.id: node.mac for node in scenario.nodes}
    return {
        "port": CONTROLLER_PORT,
        "bridges": [
            {"name": point.name, "datapath": point.datapath_id, "broker": macs[point.broker]}
            for point in scenario.access_points
        ],
        "classes": {each.name: int(each) for each in TrafficClass},
        "flows": str(flows.resolve()),
        "status": str(status),
    }


def environment(folder: Path) -> dict[str, str]:
    """Return the variables by which the programs of Open vSwitch find their files in `folder`."""
    return {f"OVS_{name}": str(folder) for name in ("RUNDIR", "DBDIR", "LOGDIR", "SYSCONFDIR")}


class Switches:
    """Database, switch and controller of one run; `folder` is theirs, `logs` gets their output."""

    def __init__(self, scenario: Scenario, folder: Path, logs: Path, popen: Popen) -> None:
        self._scenario = scenario
        self._folder = folder
        self._logs = logs
        self._popen = popen
        self._environment = dict(os.environ) | environment(folder)
        self.status = folder / "controller.status"
        folder.mkdir(exist_ok=True)

    def start_controller(self, flows: Path) -> subprocess.Popen[bytes]:
        """Start the controller; it is ready with the bridges once `status` exists."""
        config = self._folder / "controller.json"
        text = json.dumps(controller_config(self._scenario, flows, self.status))
        config.write_text(text, encoding="utf-8")
        command = [
            str(RYU_PYTHON),
            "-W",
            "ignore",
            "-m",
            "emulation.network.controller",
            str(config),
        ]
        return self._popen(command, self._logs / "controller.log")

    def start_database(self) -> subprocess.Popen[bytes]:
        """Make an empty database and serve it.  Raises `SwitchError`."""
        database = self._folder / "conf.db"
        self._run(["ovsdb-tool", "create", str(database), str(SCHEMA)])
        served, control = self._folder / "db.sock", self._folder / "ovsdb.ctl"
        return self._popen(
            [
                *("ovsdb-server", str(database), f"--remote=punix:{served}"),
                *(f"--unixctl={control}", "-vconsole:warn", "-vsyslog:off", "-vfile:off"),
            ],
            self._logs / "openvswitch.log",
        )

    def database_ready(self) -> bool:
        """Return whether the database serves."""
        return serves(self._folder / "db.sock")

    def start_switch(self) -> subprocess.Popen[bytes]:
        """Start the switch, with the user-space datapath only."""
        self._vsctl(["--no-wait", "init"])
        served, control = self._folder / "db.sock", self._folder / "vswitchd.ctl"
        return self._popen(
            [
                *("ovs-vswitchd", f"unix:{served}", f"--unixctl={control}", "--disable-system"),
                *("-vconsole:warn", "-vsyslog:off", "-vfile:off"),
            ],
            self._logs / "openvswitch.log",
        )

    def make_bridges(self) -> None:
        """Make all bridges with their ports, which must exist, and connect them to the controller.

        Raises `SwitchError`.
        """
        words = ["set", "Open_vSwitch", ".", f"other_config:max-revalidator={REVALIDATION_MS}"]
        words += ["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"]
        numbers: Mapping[str, int] = {
            ACCESS: ACCESS_PORT,
            MESH: MESH_PORT,
            WIRED: BROKER_PORT,
        }
        for point in self._scenario.access_points:
            bridge = point.name
            words += ["--", "add-br", bridge, "--", "set", "Bridge", bridge]
            words += ["datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"]
            words += [f"other_config:datapath-id={point.datapath_id:016x}"]
            for kind, number in numbers.items():
                port = point.port(kind)
                words += ["--", "add-port", bridge, port]
                words += ["--", "set", "Interface", port, f"ofport_request={number}"]
            words += ["--", "set-controller", bridge, f"tcp:127.0.0.1:{CONTROLLER_PORT}"]
            words += ["--", "set", "Controller", bridge, f"max_backoff={RETRY_MS}"]
            words += ["connection_mode=out-of-band"]
        self._vsctl(words)
        wanted = {
            point.port(kind): str(number)
            for point in self._scenario.access_points
            for kind, number in numbers.items()
        }
        words = [word for port in wanted for word in ("--", "get", "Interface", port, "ofport")]
        got = self._vsctl(words[1:]).split()
        for (port, ofport), given in zip(wanted.items(), got, strict=True):
            if ofport != given:
                raise SwitchError(f"Open vSwitch did not take the port {port}; see {self._logs}")

    def _vsctl(self, words: list[str]) -> str:
        database = f"--db=unix:{self._folder / 'db.sock'}"
        return self._run(["ovs-vsctl", database, f"--timeout={SET_UP_LIMIT}", *words])

    def _run(self, command: list[str]) -> str:
        result = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            said = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise SwitchError(f"{command[0]} failed: {said}")
        return result.stdout

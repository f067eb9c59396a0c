"""The bridges of the mesh access points and their controller: private to a run.

Theory of operation.  All access points of a run live in one network namespace, together with Open
vSwitch (`emulation.network.openvswitch`), whose files are in the run's state folder, and the Ryu
controller (`emulation.network.controller`), whose OpenFlow channel is TCP on that namespace's
loopback.

The controller runs in its own environment, `.ryu`, which has Ryu, or os-ken if Ryu cannot be
installed.  The virtual machine's guest sees the host's `.ryu`; if that is of another Python, the
guest cannot use it and has Debian's os-ken.

A bridge without flows forwards nothing (fail_mode secure).  Flow counters are updated from the
datapath at every revalidation, so these are frequent (`REVALIDATION_MS`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from emulation.network.controller.flows import ACCESS_PORT, BROKER_PORT, MESH_PORT
from emulation.network.openvswitch import (
    NEEDED,
    THREADS,
    OpenVSwitch,
    Popen,
    SwitchError,
    installed,
)
from emulation.scenario.access_point import ACCESS, MESH, WIRED
from emulation.scenario.scenario import Scenario
from nodeapp.installation import COMMAND, IS_CHECKOUT, PROJECT
from nodeapp.kinds import TrafficClass

RYU_PYTHON: Final = PROJECT / ".ryu" / "bin" / "python"
SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
SYSTEM_PACKAGES: Final = Path("/usr/lib/python3/dist-packages")
"""Folder of the packages of Debian's own Python."""
FRAMEWORKS: Final[Mapping[str, str]] = {"ryu": "Ryu", "os_ken": "os-ken"}
"""Packages that the controller runs on, preferred one first, with their display names."""
CONTROLLER_PORT: Final = 6653
"""TCP, IANA's for OpenFlow; on the loopback of the run's own namespace."""
CONTROLLER_LOG: Final = "controller.log"
RETRY_MS: Final = 1000
"""Milliseconds between a bridge's attempts to reach its controller, at most."""
REVALIDATION_MS: Final = 100
"""Milliseconds until a frame shows in the counter of its flow, at most, roughly."""


def obstacles() -> list[str]:
    """Return why this machine cannot run access points and what to do, one line each."""
    obstacles = []
    if not installed():
        obstacles.append(f"mesh access points need {NEEDED}")
    if controller() is None:
        advice = f"run {COMMAND} setup" if IS_CHECKOUT else "use a checkout: setup installs it"
        obstacles.append(f"mesh access points need the Ryu controller: {advice}")
    return obstacles


class Controller(NamedTuple):
    """A Python that can run the controller, and the framework that it uses."""

    python: Path
    framework: str


def controller() -> Controller | None:
    """Return the Python of `.ryu` for the controller, else the system's; None if neither will do.

    Looks only for files, as a Python takes a second to start on an emulated processor.
    """
    # A link to, say, python3.11, which looks for its packages in lib/python3.11.
    packages = RYU_PYTHON.parent.parent / "lib" / RYU_PYTHON.resolve().name / "site-packages"
    for python, folder in ((RYU_PYTHON, packages), (SYSTEM_PYTHON, SYSTEM_PACKAGES)):
        if python.exists() and (name := framework_in(folder)) is not None:
            return Controller(python, name)
    return None


def framework_in(packages: Path) -> str | None:
    """Return the display name of the framework in a folder of packages; None without one."""
    there = (name for package, name in FRAMEWORKS.items() if (packages / package).is_dir())
    return next(there, None)


def controller_config(scenario: Scenario, flows: Path, status: Path) -> dict[str, object]:
    """Return the controller's configuration; `flows` is the file for the counters."""
    macs = {node.id: node.mac for node in scenario.nodes}
    return {
        "port": CONTROLLER_PORT,
        "bridges": [
            {"name": point.name, "datapath": point.datapath_id, "broker": macs[point.broker]}
            for point in scenario.access_points
        ],
        "classes": {kind.name: int(kind) for kind in TrafficClass},
        "flows": str(flows.resolve()),
        "status": str(status),
    }


class Switches:
    """Database, switch and controller of one run; `folder` is theirs, `logs` gets their output."""

    def __init__(self, scenario: Scenario, folder: Path, logs: Path, popen: Popen) -> None:
        self._scenario = scenario
        self._folder = folder
        self._logs = logs
        self._popen = popen
        self.openvswitch = OpenVSwitch(folder, logs / "openvswitch.log", popen)
        self.status = folder / "controller.status"

    def start_controller(self, flows: Path) -> subprocess.Popen[bytes]:
        """Start the controller; it is ready with the bridges once `status` exists."""
        config = self._folder / "controller.json"
        text = json.dumps(controller_config(self._scenario, flows, self.status))
        config.write_text(text, encoding="utf-8")
        chosen = controller()
        if chosen is None:
            raise SwitchError(obstacles()[-1])
        command = [
            str(chosen.python),
            "-W",
            "ignore",
            "-m",
            "emulation.network.controller",
            str(config),
        ]
        return self._popen(command, self._logs / CONTROLLER_LOG)

    def make_bridges(self) -> None:
        """Make all bridges with their ports, which must exist, and connect them to the controller.

        Raises `SwitchError`.
        """
        words = ["set", "Open_vSwitch", ".", f"other_config:max-revalidator={REVALIDATION_MS}"]
        words += THREADS
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
        self.openvswitch.vsctl(words)
        requested = {
            point.port(kind): str(number)
            for point in self._scenario.access_points
            for kind, number in numbers.items()
        }
        words = [word for port in requested for word in ("--", "get", "Interface", port, "ofport")]
        got = self.openvswitch.vsctl(words[1:]).split()
        for (port, ofport), actual in zip(requested.items(), got, strict=True):
            if ofport != actual:
                raise SwitchError(f"Open vSwitch did not add the port {port}; see {self._logs}")

"""The access points of a run in namespaces: their switch and controller, started and watched.

For backends whose access points are `emulation.network.net.AccessPoint` nodes; the radio ports may
be of any kind, as long as they exist in that namespace before `start_bridges`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from emulation.backends.base import BackendError
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.signs import UNIXCTL, Heartbeat, Replaced, Sign
from emulation.network.openvswitch import SwitchError, environment
from emulation.network.processes import StateFolder, end, read_json
from emulation.network.switches import CONTROLLER_LOG, Switches
from emulation.scenario.access_point import ACCESS, MESH, AccessPointSpec
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario

CONTROLLER: Final = "controller"
DATABASE: Final = "switch database"
SWITCH: Final = "switch"
"""Names of the processes."""
LAST_ROUND: Final = 6.0
"""Seconds that the controller has for the last round of counters."""


class AccessPointNetwork(Protocol):
    """A network with access points and Mininet's names, like `emulation.network.net.WifiNet`."""

    @property
    def aps(self) -> Sequence[Any]:
        """The access points, in one namespace; each has `pid`, `popen` and `environment`."""

    def __getitem__(self, name: str) -> Any:
        """Return a node."""

    def addAccessPoint(  # noqa: N802
        self, name: str, spec: AccessPointSpec, *, environment: Mapping[str, str]
    ) -> Any:
        """Add an access point; `environment` is that of what runs in it."""

    def addLink(self, host: Any, point: Any, /) -> Any:  # noqa: N802
        """Wire a broker's host to its access point."""


class MeshBackbone:
    """Switch and controller of one run; adds their `processes` to `helpers`, by name."""

    processes: Final = (CONTROLLER, SWITCH, DATABASE)
    """In the order in which they end."""

    def __init__(
        self,
        scenario: Scenario,
        folder: RunFolder,
        state: StateFolder,
        helpers: Helpers,
    ) -> None:
        self._scenario = scenario
        self._folder = folder
        self._state = state
        self._helpers = helpers
        self._home = state.path / "switch"
        self._net: AccessPointNetwork

    def add_access_points(self, net: AccessPointNetwork) -> None:
        """Make the access points in the network `net`, wired to their brokers."""
        self._net = net
        variables = self._state.environment() | environment(self._home)
        names = {node.id: node.name for node in self._scenario.nodes}
        for point in self._scenario.access_points:
            added = net.addAccessPoint(point.name, point, environment=variables)
            net.addLink(net[names[point.broker]], added)
        self._switches = Switches(self._scenario, self._home, self._folder.logs, self._popen)
        # It takes a while to start, and then waits for bridges.
        self._helpers[CONTROLLER] = self._switches.start_controller(self._folder.flows)

    def signs(self) -> dict[str, Sign]:
        """Return the signs of life of its processes, by name, once there are access points."""
        openvswitch = self._switches.openvswitch
        return {
            CONTROLLER: Replaced(self._switches.status),
            DATABASE: Heartbeat(openvswitch.database_control, UNIXCTL),
            SWITCH: Heartbeat(openvswitch.switch_control, UNIXCTL),
        }

    def _popen(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            process: subprocess.Popen[bytes] = self._net.aps[0].popen(
                # setpriv: they die with a killed run.
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._net.aps[0].environment,
            )
        return process

    def start_bridges(self) -> None:
        """Make the bridges from ports that are up; return once they have their flows.

        Raises `BackendError`.
        """
        switches = self._switches
        try:
            self._helpers[DATABASE] = switches.openvswitch.start_database()
            self._helpers.await_ready(DATABASE, switches.openvswitch.database_ready)
            self._helpers[SWITCH] = switches.openvswitch.start_switch()
            switches.make_bridges()
        except SwitchError as error:
            raise BackendError(str(error)) from None
        log = self._folder.logs / CONTROLLER_LOG
        self._helpers.await_ready(CONTROLLER, switches.status.exists, log)

    def ports(self) -> list[tuple[int, str]]:
        """Return process and interface of every radio port."""
        pid = self._net.aps[0].pid
        points = self._scenario.access_points
        return [(pid, point.port(kind)) for point in points for kind in (ACCESS, MESH)]

    def radios(self) -> list[dict[str, Any]]:
        """Return the access points for the configuration of the TAP medium."""
        macs = {node.id: node.mac for node in self._scenario.nodes}
        pid = self._net.aps[0].pid
        return [
            {
                "name": point.name,
                "pid": pid,
                "access": {"interface": point.port(ACCESS), "mac": point.bssid},
                "mesh": {"interface": point.port(MESH), "mac": point.mesh_mac},
                "host_mac": macs[point.broker],
                "position": point.position,
            }
            for point in self._scenario.access_points
        ]

    def last_counters(self) -> str | None:
        """End the controller, which exports the counters once more; return what went wrong."""
        if CONTROLLER in self._helpers:
            end(self._helpers[CONTROLLER], LAST_ROUND)
        if read_json(self._folder.flows).get("complete"):
            return None
        return "the flow counters of the access points are incomplete: see controller.log"

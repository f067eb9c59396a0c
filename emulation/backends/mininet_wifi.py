"""The `mininet-wifi` backend: the scenario on Mininet-WiFi and wmediumd themselves.

As on `hwsim` (`emulation.backends.hwsim`), but Mininet-WiFi makes the stations and their radios,
and its wmediumd is the medium (`emulation.mininet_wifi`).  Node apps, positions, captures and the
driver are those of the other backends.  wmediumd does not report how late it delivers frames or
which it dropped: the fidelity of such a run is unknown unless another check fails.  Nor does it use
the scenario's seed: its losses differ from run to run.

Access points are Mininet-WiFi's, with the hostapd that it starts and a mesh link on the second
radio, but they share one namespace, in which the bridges are the testbed's own
(`emulation.backends.realtime.backbone`).  Stations have a wpa_supplicant, started by Mininet-WiFi,
which changes the access point by its own rule: the scenario's hysteresis does not apply.

Neither program is in a package registry:
https://github.com/intrig-unicamp/mininet-wifi, https://github.com/ramonfontes/wmediumd (the branch
mininet-wifi) and https://github.com/ramonfontes/mac80211_hwsim_mgmt.
"""

from __future__ import annotations

import importlib.util
import shutil
from functools import partial
from typing import Final

from emulation.backends.base import BackendError
from emulation.backends.realtime.backbone import AccessPointNetwork
from emulation.backends.realtime.mac80211 import ASSOCIATION_LIMIT, Mac80211Backend, monitor
from emulation.backends.realtime.run import RealTimeRun
from emulation.mininet_wifi.network import SOCKET, MininetWifiError, MininetWifiNetwork
from emulation.mininet_wifi.positions import Positions, PositionThread
from emulation.mininet_wifi.settings import NoEqualError, settings_of
from emulation.network.processes import accepts_connections, last_line
from emulation.scenario.scenario import Scenario

PROGRAMS: Final = (
    ("wmediumd", "https://github.com/ramonfontes/wmediumd (branch mininet-wifi)"),
    ("hwsim_mgmt", "https://github.com/ramonfontes/mac80211_hwsim_mgmt"),
)


class MininetWifiRun(RealTimeRun):
    """One run of the `mininet-wifi` backend."""

    measures_medium = False
    _network: MininetWifiNetwork | None = None
    _positions: PositionThread | None = None

    def make_nodes(self) -> AccessPointNetwork:
        settings = settings_of(self.scenario)
        if _served():
            raise BackendError(
                f"a wmediumd is already running (it listens on {SOCKET}): end the other run first"
            )
        for line in settings.departures:
            self.problem(line)
        network = self._network = MininetWifiNetwork(
            self.scenario.nodes,
            settings,
            self.state.environment(),
            self.state.path,
            self.folder.logs,
        )
        try:
            network.add_members()
        except MininetWifiError as error:
            raise BackendError(str(error)) from None
        self.net = network.net
        return network

    def start_radios(self) -> None:
        # Mininet is optional: `obstacles` reports if it is missing.
        from emulation.network.net import add_neighbours

        assert self._network is not None
        network = self._network
        try:
            network.start_radios()
            joining = self.net.aps or self.net.stations
            for number, node in enumerate(joining, 1):
                self.interrupts.check()
                self.observer.stage(f"joining the network: {number} of {len(joining)}")
                if self.mesh is not None:
                    network.join_mesh(node)
                else:
                    network.join(node, self.scenario.radio)
        except MininetWifiError as error:
            raise BackendError(str(error)) from None
        if self.mesh is not None:
            network.bring_up_wires()
        add_neighbours(self.net.members)
        associations = network.associations if self.mesh is not None else dict
        positions = Positions(self.scenario.stations, network.set_position, associations)
        self._positions = PositionThread(positions, self.medium_control)

    def start_access_points(self) -> None:
        assert self._network is not None
        for point in self.net.aps:
            if not self.helpers.wait(partial(self._network.sends_beacons, point)):
                problem = last_line(self.folder.logs / "hostapd.log")
                raise BackendError(f"the hostapd of {point.name} did not start: {problem}")

    def associate(self) -> None:
        assert self._network is not None
        self.observer.stage("associating")
        for station in self.net.stations:
            self.interrupts.check()
            self._network.associate(station)

    def await_associations(self) -> None:
        assert self._network is not None
        network = self._network
        self.helpers.wait(lambda: None not in network.associations().values(), ASSOCIATION_LIMIT)
        associations = network.associations()
        self.report_unassociated([name for name, point in associations.items() if point is None])

    def check(self) -> None:
        if self._positions is not None and self._positions.error is not None:
            error, self._positions.error = self._positions.error, None
            raise BackendError(f"wmediumd no longer accepts positions ({error})")

    def air(self) -> str | None:
        return monitor()

    def stop_radios(self) -> None:
        if self._positions is not None:
            self._positions.close()

    def stop_nodes(self) -> None:
        if self._network is not None:
            self._network.close()


class MininetWifiBackend(Mac80211Backend):
    """Mininet-WiFi's stations, and wmediumd between their radios."""

    name = "mininet-wifi"
    summary = "Mininet-WiFi and wmediumd themselves, if they are installed"
    run_type = MininetWifiRun

    def unsupported(self, scenario: Scenario) -> list[str]:
        lines = super().unsupported(scenario)
        try:
            settings_of(scenario)
        except NoEqualError as error:
            lines.append(str(error))
        of_radio = next((fault for fault in scenario.faults if fault.kind != "crash"), None)
        if of_radio is not None:
            lines.append(
                f"wmediumd cannot make radio faults ({of_radio.text}): leave them out, or run "
                "with --backend tap, hwsim or virtual"
            )
        return lines

    def radio_obstacles(self) -> list[str]:
        missing = [
            line.replace("--backend hwsim", f"--backend {self.name}")
            for line in super().radio_obstacles()
        ]
        if importlib.util.find_spec("mn_wifi") is None:
            missing.append(
                "Mininet-WiFi is missing: install https://github.com/intrig-unicamp/mininet-wifi, "
                "here or into the virtual machine (docs/backends.md)"
            )
        return missing + [
            f"{program} is not on the path: build {source}"
            for program, source in PROGRAMS
            if shutil.which(program) is None
        ]


def _served() -> bool:
    """Return whether a wmediumd is running."""
    return accepts_connections(SOCKET)

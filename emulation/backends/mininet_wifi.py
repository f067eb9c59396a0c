"""The `mininet-wifi` backend: the scenario on Mininet-WiFi and wmediumd themselves.

As on `hwsim` (`emulation.backends.hwsim`), but Mininet-WiFi makes the stations and their radios,
and its wmediumd is the medium (`emulation.mininet_wifi`).  Node apps, positions, captures and the
driver are those of the other backends.  wmediumd does not say how late it delivers frames or which
it dropped: the fidelity of such a run is unknown where nothing else fails.  It does not have the
scenario's seed either: its losses differ from run to run.

Access points are Mininet-WiFi's, with the hostapd that it starts and a mesh link on the second
radio, but they share one namespace, in which the bridges are the testbed's own
(`emulation.backends.mesh`).  Stations have a wpa_supplicant, started by Mininet-WiFi, which changes
the access point by its own rule: the scenario's hysteresis does not count.

Neither program is in a package registry:
https://github.com/intrig-unicamp/mininet-wifi, https://github.com/ramonfontes/wmediumd (the branch
mininet-wifi) and https://github.com/ramonfontes/mac80211_hwsim_mgmt.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from emulation.backends.base import BackendError
from emulation.backends.hwsim import ASSOCIATION_LIMIT, HwsimBackend
from emulation.backends.tap import TapRun
from emulation.backends.watching import last_line
from emulation.mininet_wifi.network import SOCKET, MininetWifiError, Network
from emulation.mininet_wifi.positions import Positions, PositionThread
from emulation.mininet_wifi.settings import NoEqualError, settings_of
from emulation.scenario.scenario import NodeSpec

PROGRAMS: Final = (
    ("wmediumd", "https://github.com/ramonfontes/wmediumd (branch mininet-wifi)"),
    ("hwsim_mgmt", "https://github.com/ramonfontes/mac80211_hwsim_mgmt"),
)


class MininetWifiBackend(HwsimBackend):
    """Mininet-WiFi's stations, and wmediumd between their radios."""

    name = "mininet-wifi"
    summary = "Mininet-WiFi and wmediumd themselves, where they are installed"
    measures_medium = False

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend and what to do, one line each."""
        found = []
        if importlib.util.find_spec("mn_wifi") is None:
            found.append(
                "Mininet-WiFi is missing: install https://github.com/intrig-unicamp/mininet-wifi, "
                "here or into the virtual machine (docs/mininet-wifi.md)"
            )
        found += [
            f"{program} is not on the path: build {source}"
            for program, source in PROGRAMS
            if shutil.which(program) is None
        ]
        common = [
            line.replace(f"--backend {HwsimBackend.name}", f"--backend {self.name}")
            for line in super().obstacles()
        ]
        return [*common, *found]

    def run_type(self) -> type[TapRun]:
        """Return what runs a scenario."""
        return MininetWifiRun


class MininetWifiRun(TapRun):
    """One run of the `mininet-wifi` backend."""

    _network: Network | None = None
    _positions: PositionThread | None = None

    def _make_nodes(self, specs: Sequence[NodeSpec]) -> None:
        try:
            self._settings = settings_of(self.scenario)
        except NoEqualError as error:
            raise BackendError(str(error)) from None
        if _served():
            raise BackendError(
                f"a wmediumd runs already (it serves {SOCKET}): there can be one; end the other run"
            )
        for line in self._settings.departures:
            self._problem(line)
        place, logs = self.state.path, self.folder.logs
        self._network = Network(specs, self._settings, self.state.environment(), place, logs)
        try:
            self._network.add_members()
        except MininetWifiError as error:
            raise BackendError(str(error)) from None
        self.net = self._network.net
        self._add_access_points(self._network)

    def _start_radios(self, pids: Mapping[str, int]) -> None:
        from emulation.network.net import add_neighbours

        assert self._network is not None
        network = self._network
        try:
            network.start_radios()
            joining = self.net.aps or self.net.stations
            for number, node in enumerate(joining, 1):
                self._interrupts.check()
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

    def _start_access_points(self) -> None:
        assert self._network is not None
        for point in self.net.aps:
            if not self._await(partial(self._network.sends_beacons, point)):
                said = last_line(self.folder.logs / "hostapd.log")
                raise BackendError(f"the hostapd of {point.name} did not start: {said}")

    def _associate(self) -> None:
        assert self._network is not None
        network = self._network
        self.observer.stage("associating")
        for station in self.net.stations:
            self._interrupts.check()
            network.associate(station)
        self._await(lambda: None not in network.associations().values(), ASSOCIATION_LIMIT)
        found = network.associations()
        self._tell_of_unassociated([name for name, point in found.items() if point is None])

    def _report_deaths(self) -> None:
        super()._report_deaths()
        if self._positions is not None and self._positions.error is not None:
            error, self._positions.error = self._positions.error, None
            raise BackendError(f"wmediumd takes no positions any more ({error})")

    def _stop_net(self) -> None:
        if self._network is not None:
            self._network.close()

    def _stop_processes(self) -> None:
        super()._stop_processes()
        if self._positions is not None:
            self._positions.close()


def _served() -> bool:
    """Say whether a wmediumd runs."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(SOCKET))
        except OSError:
            return False
        return True

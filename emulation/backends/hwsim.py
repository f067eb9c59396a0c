"""The `hwsim` backend: the kernel's own 802.11 stack under the radio model of the testbed.

As on `tap` (`emulation.backends.tap`), but every station has a radio of mac80211_hwsim, in ad hoc
mode, or in a mesh of 802.11s where the scenario's radio says so.  Frames are 802.11 frames, with
the rate control, the beacons and the acknowledgement reports of mac80211.  The medium process
(`emulation.realtime.hwsim`) stands where wmediumd would.

With access points, hostapd runs on their access radios and wpa_supplicant on every station
(`emulation.network.wifi`); their mesh radios are peers in a mesh of 802.11s that forwards nothing.
A station scans as often as the scenario says, but what makes it change its access point is
wpa_supplicant's own rule: the scenario's hysteresis does not count.  A mesh radio learns from
broadcasts, such as beacons of the node apps, which hosts are behind the others: before the first
one of a host, unicasts to it find no way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from emulation.backends.base import BackendError, Observer
from emulation.backends.tap import TapBackend, TapRun
from emulation.network.processes import end
from emulation.network.wifi import infrastructure
from emulation.network.wifi.infrastructure import InfrastructureNetwork, Interface
from emulation.network.wifi.settings import ALWAYS_DBM, Roaming, SettingsError
from emulation.realtime.hwsim_wire import FAMILY
from emulation.realtime.wifi import MISSING, bring_up, has_family
from emulation.scenario.access_point import ACCESS
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario

MODULE: Final = "mac80211_hwsim"
ASSOCIATION_LIMIT: Final = 30.0
"""Seconds at the start for stations to find an access point; one may be out of reach of all."""
MONITOR: Final = "hwsim0"
"""The module's interface that shows every frame of every radio once, and the ACKs to them."""


class HwsimBackend(TapBackend):
    """Kernel network stack and mac80211; the radios are mac80211_hwsim's."""

    name = "hwsim"
    summary = "as tap, with the kernel's 802.11 stack: mac80211_hwsim over the radio model"
    medium = "emulation.realtime.hwsim"
    needs_tun = False

    def obstacles(self) -> list[str]:
        """Return why this machine cannot run the backend and what to do, one line each."""
        found = super().obstacles()
        if not has_family(FAMILY) and not _loadable():
            found.append(MISSING)
        return found

    def prepare(self) -> None:
        """Load the module, without radios of its own, where it is not there yet."""
        if not has_family(FAMILY):
            done = _modprobe(MODULE, "radios=0")
            if not has_family(FAMILY):
                lines = done.stderr.strip().splitlines() if done is not None else []
                reason = f" ({lines[-1]})" if lines else ""
                raise BackendError(f"{MISSING}{reason}")
        if Path("/sys/class/net", MONITOR).exists():  # only in the namespace of the module
            bring_up(MONITOR)
            self.air = MONITOR

    def execute(
        self,
        scenario: Scenario,
        folder: RunFolder,
        observer: Observer,
        interact: Callable[[Any], None] | None = None,
    ) -> None:
        """Run the scenario into the folder; see `TapBackend.execute`."""
        obstacles = self.obstacles()
        if scenario.access_points:
            obstacles += infrastructure.obstacles()
        if obstacles:
            raise BackendError(obstacles[0])
        super().execute(scenario, folder, observer, interact)

    def run_type(self) -> type[TapRun]:
        """Return what runs a scenario."""
        return HwsimRun


class HwsimRun(TapRun):
    """One run of the `hwsim` backend: as on `tap`, with hostapd and wpa_supplicant."""

    def _start_access_points(self) -> None:
        points, stations = self.scenario.access_points, self.scenario.stations
        ssids = sorted({point.ssid for point in points})
        if len(ssids) > 1:
            raise BackendError(
                f"the hwsim backend has one network, not {len(ssids)} ({', '.join(ssids)}): "
                "give all access points the same ssid"
            )
        place = self.state.path / "wifi"
        place.mkdir()
        home, pids = self.net.aps[0].pid, self.pids()
        self._wifi = InfrastructureNetwork(
            ssids[0],
            self.scenario.radio,
            [Interface(each.name, home, each.port(ACCESS), each.bssid) for each in points],
            [Interface(each.name, pids[each.name], each.interface, each.mac) for each in stations],
            folder=place,
            logs=self.folder.logs,
            environment=self.state.environment(),
            helpers=self.helpers,
            await_helper=self._await_daemon,
        )
        # From station to station is the business of the bridges.
        with _settings_of_the_scenario():
            self._wifi.start_access_points(isolate=True)

    def _associate(self) -> None:
        often = max(1, round(self.scenario.association.scan_interval))
        self.observer.stage("associating")
        with _settings_of_the_scenario():
            self._wifi.start_stations(Roaming(ALWAYS_DBM, often, often))
        left = self._wifi.await_association(lambda ready: self._await(ready, ASSOCIATION_LIMIT))
        self._tell_of_unassociated(left)

    def _await_daemon(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait for hostapd or a wpa_supplicant, which have logs of their own."""
        self._await_helper(name, ready, self.folder.logs / f"{name.partition(' ')[0]}.log")

    def _stop_processes(self) -> None:
        super()._stop_processes()
        for process in self.helpers.values():
            end(process)


@contextmanager
def _settings_of_the_scenario() -> Iterator[None]:
    """Turn what hostapd or wpa_supplicant cannot be told into a `BackendError`."""
    try:
        yield
    except SettingsError as error:
        raise BackendError(str(error)) from None


def _loadable() -> bool:
    """Say whether modprobe finds the module for the kernel that runs."""
    done = _modprobe("--dry-run", MODULE)
    return done is not None and done.returncode == 0


def _modprobe(*words: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(["modprobe", *words], capture_output=True, text=True, check=False)
    except OSError:
        return None

"""The `hwsim` backend: the kernel's own 802.11 stack under the radio model of the testbed.

As on `tap` (`emulation.backends.tap`), but every station has a radio of mac80211_hwsim, in ad hoc
mode, or in an 802.11s mesh if the scenario's radio says so.  Frames are 802.11 frames, with
the rate control, the beacons and the acknowledgement reports of mac80211.  The medium process
(`emulation.media.hwsim`) plays the part of wmediumd.  It also makes RTS, CTS and ACKs: mac80211
leaves them to its devices, and a device of mac80211_hwsim sends none.

With access points, hostapd runs on their access radios and wpa_supplicant on every station
(`emulation.network.hostapd`); their mesh radios are peers in an 802.11s mesh that forwards nothing.
A station scans as often as the scenario says, but changes its access point by wpa_supplicant's own
rule: the scenario's hysteresis does not apply.  A mesh radio learns from broadcasts, like node app
beacons, which hosts are behind the others: before a host's first one, unicasts to it fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from emulation.backends.base import BackendError
from emulation.backends.realtime.mac80211 import ASSOCIATION_LIMIT, Mac80211Backend, monitor
from emulation.backends.realtime.own_medium import OwnMediumRun
from emulation.backends.realtime.signs import HOSTAP, Heartbeat
from emulation.media.hwsim_radios import BEACON_INTERVAL
from emulation.network.hostapd.infrastructure import InfrastructureNetwork, Interface
from emulation.network.hostapd.settings import ALWAYS_DBM, Roaming, SettingsError
from emulation.radio.spec import HT_FIELDS
from emulation.scenario.access_point import ACCESS
from emulation.scenario.radio_settings import changed_settings
from emulation.scenario.scenario import Scenario

OF_THE_KERNEL: Final = frozenset(
    {"data_rate", "basic_rate", "retry_limit", "long_retry_limit", "queue_order"}
    | set(HT_FIELDS.values())
)
"""Radio settings that mac80211 decides; the medium decides the others."""

BEACONS: Final = 4
"""Beacons of every radio until nodes count as known to each other."""


class HwsimRun(OwnMediumRun):
    """One run of the `hwsim` backend: its own medium, hostapd and wpa_supplicant."""

    medium = "emulation.media.hwsim"
    modules = (medium,)

    def start_radios(self) -> None:
        """Start them, and wait for beacons.

        mac80211 drops the first frame from a station that it does not know.  Radios are joined at
        the same time and send their beacons all at once, so many collide.
        """
        super().start_radios()
        heard = time.monotonic() + BEACONS * BEACON_INTERVAL * 1024e-6
        self.helpers.wait(lambda: time.monotonic() >= heard)

    def air(self) -> str | None:
        return monitor()

    def start_access_points(self) -> None:
        points, stations = self.scenario.access_points, self.scenario.stations
        settings = self.state.path / "wifi"
        settings.mkdir()
        home, pids = self.net.aps[0].pid, self.pids()
        self._wifi = InfrastructureNetwork(
            points[0].ssid,
            self.scenario.radio,
            [Interface(point.name, home, point.port(ACCESS), point.bssid) for point in points],
            [Interface(sta.name, pids[sta.name], sta.interface, sta.mac) for sta in stations],
            folder=settings,
            logs=self.folder.logs,
            environment=self.state.environment(),
            helpers=self.helpers,
            await_helper=self._await_daemon,
        )
        # The bridges handle traffic from station to station.
        with _settings_of_the_scenario():
            self._wifi.start_access_points(isolate=True)
        self._watch_daemons()

    def associate(self) -> None:
        often = max(1, round(self.scenario.association.scan_interval))
        with _settings_of_the_scenario():
            self._wifi.start_stations(Roaming(ALWAYS_DBM, often, often))
        self._watch_daemons()
        self.route()

    def await_associations(self) -> None:
        self.observer.stage("associating")
        left = self._wifi.await_association(
            lambda ready: self.helpers.wait(ready, ASSOCIATION_LIMIT)
        )
        self.report_unassociated(left)

    def _watch_daemons(self) -> None:
        """Have the started daemons checked for signs of life."""
        for name, control in self._wifi.controls.items():
            self.signs.setdefault(name, Heartbeat(control, HOSTAP))

    def _await_daemon(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait for hostapd or a wpa_supplicant, which have logs of their own."""
        self.helpers.await_ready(name, ready, self.folder.logs / f"{name.partition(' ')[0]}.log")


class HwsimBackend(Mac80211Backend):
    """Kernel network stack and mac80211; the radios are mac80211_hwsim's."""

    name = "hwsim"
    summary = "as tap, with the kernel's 802.11 stack: mac80211_hwsim over the radio model"
    run_type = HwsimRun

    def unsupported(self, scenario: Scenario) -> list[str]:
        lines = super().unsupported(scenario)
        ssids = sorted({point.ssid for point in scenario.access_points})
        if len(ssids) > 1:
            lines.append(
                f"the hwsim backend has one network, not {len(ssids)} ({', '.join(ssids)}): "
                "give all access points the same ssid"
            )
        changed = changed_settings(scenario.radio, scenario.mesh_radio)
        refused = [name for name in changed if name in OF_THE_KERNEL]
        if refused:
            lines.append(
                f"on hwsim the kernel decides {', '.join(refused)}: leave them out (and "
                "radio=ns2, which sets them), or run with --backend tap"
            )
        other = next((f for f in scenario.faults if f.kind in ("disturb", "stranger")), None)
        if other is not None:
            lines.append(
                f"the hwsim backend has no fault of kind {other.kind} ({other.text}): leave it "
                "out, or run with --backend tap or virtual"
            )
        return lines


@contextmanager
def _settings_of_the_scenario() -> Iterator[None]:
    """Turn settings that hostapd or wpa_supplicant do not support into a `BackendError`."""
    try:
        yield
    except SettingsError as error:
        raise BackendError(str(error)) from None

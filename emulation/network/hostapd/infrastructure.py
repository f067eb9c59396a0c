"""hostapd and wpa_supplicant in the namespaces of a run: started, awaited, watched.

For backends with real 802.11 interfaces.  One hostapd serves all access points of a namespace, and
every station has a wpa_supplicant of its own, which looks for the network and stays associated.
Both are processes of the run, in its `helpers`, and end with it; the interfaces have been made,
moved and named before.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from emulation.network.hostapd import control
from emulation.network.hostapd.settings import (
    Roaming,
    hostapd_settings,
    supplicant_settings,
)
from emulation.network.processes import Process
from emulation.radio.spec import RadioSpec

PATIENCE: Final = 3.0
"""Seconds that an access point may take to learn of a station that considers itself associated."""
PROGRAMS: Final = {"hostapd": "hostapd", "wpa_supplicant": "wpasupplicant"}
"""Programs, and the packages that contain them."""


class Interface(NamedTuple):
    """An interface `device` of `owner` in the network namespace of process `pid`."""

    owner: str
    pid: int
    device: str
    mac: str


def obstacles() -> list[str]:
    """Return what infrastructure mode lacks on this machine and what to do, one line each."""
    return [
        f"{program} is missing: apt-get install {package}"
        for program, package in PROGRAMS.items()
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/usr/local/sbin") is None
    ]


class InfrastructureNetwork:
    """Access points and stations of one open network.

    Adds its processes to `helpers`; `await_helper(name, ready)` waits for one of these and raises
    if it ends, which propagates.  `folder` is for sockets and settings, its path short enough for
    a socket's name (107 bytes); logs go to `logs`, one file per program.
    """

    def __init__(
        self,
        ssid: str,
        radio: RadioSpec,
        points: Sequence[Interface],
        stations: Sequence[Interface],
        *,
        folder: Path,
        logs: Path,
        environment: Mapping[str, str],
        helpers: dict[str, Process],
        await_helper: Callable[[str, Callable[[], bool]], None],
    ) -> None:
        self._ssid = ssid
        self._radio = radio
        self._points = points
        self._stations = stations
        self._folder = folder
        self._logs = logs
        self._environment = dict(environment)
        self._helpers = helpers
        self._await = await_helper
        self.controls: dict[str, Path] = {}
        """A control socket of each process, by its name among the helpers."""
        self._by_mac = {point.mac: point.owner for point in points}

    def start_access_points(self, *, isolate: bool = False) -> None:
        """Start hostapd and return once all access points send beacons.  Raises `SettingsError`."""
        together = sorted(self._points, key=lambda point: point.pid)
        for pid, group in itertools.groupby(together, key=lambda point: point.pid):
            points = list(group)
            files = []
            for point in points:
                text = hostapd_settings(
                    point.device,
                    self._ssid,
                    self._radio,
                    self._folder,
                    isolate=isolate,
                )
                files.append(str(self._write(f"{point.owner}.hostapd", text)))
            name = f"hostapd of {points[0].owner}"
            self._start(name, pid, "hostapd", files)
            self.controls[name] = self.socket(points[0])
            for point in points:
                self._await(name, partial(control.enabled, self.socket(point)))

    def start_stations(self, roaming: Roaming | None = None) -> None:
        """Start wpa_supplicant for every station, which then looks for the network.

        Raises `SettingsError`.
        """
        for station in self._stations:
            # A folder of its own: when wpa_supplicant ends, it removes the folder if it is empty.
            sockets = self.socket(station).parent
            sockets.mkdir(mode=0o700, exist_ok=True)
            text = supplicant_settings(self._ssid, self._radio, sockets, roaming)
            file = self._write(f"{station.owner}.supplicant", text)
            arguments = ["-D", "nl80211", "-i", station.device, "-c", str(file)]
            self._start(_supplicant(station), station.pid, "wpa_supplicant", arguments)
            self.controls[_supplicant(station)] = self.socket(station)

    def associations(self) -> dict[str, str | None]:
        """Return the access point of each station, by name; None if it has none now."""
        points = {}
        for station in self._stations:
            mac = control.associated(self.socket(station))
            points[station.owner] = None if mac is None else self._by_mac.get(mac, mac)
        return points

    def await_association(self, wait: Callable[[Callable[[], bool]], bool]) -> list[str]:
        """Wait until all stations are associated; return those that are not when `wait` gives up.

        A station may be out of reach of all access points; that is not an error.  If an access
        point missed the acknowledgement of its answer, only the station considers itself
        associated: it is told to associate again.  An error that `await_helper` raises because a
        wpa_supplicant has ended propagates.
        """
        waiting = {station.owner: station for station in self._stations}
        since: dict[str, float] = {}

        def all_are() -> bool:
            for owner, station in list(waiting.items()):
                mac = control.associated(self.socket(station))
                if mac is not None and self._knows(mac, station):
                    del waiting[owner]
                elif mac is not None:
                    now = time.monotonic()
                    if now - since.setdefault(owner, now) > PATIENCE:
                        del since[owner]
                        with suppress(control.NoAnswerError):
                            control.ask(self.socket(station), "REASSOCIATE")
                elif self._helpers[_supplicant(station)].poll() is not None:
                    return True
            return not waiting

        wait(all_are)
        for station in waiting.values():
            name = _supplicant(station)
            if self._helpers[name].poll() is not None:
                self._await(name, lambda: False)  # raises, with its last message
        return list(waiting)

    def _knows(self, mac: str, station: Interface) -> bool:
        """Return whether the access point with this address knows the station."""
        for point in self._points:
            if point.mac == mac:
                with suppress(control.NoAnswerError):
                    return station.mac in control.stations(self.socket(point))
                return False
        return True  # not one of ours, so it cannot be asked

    def socket(self, interface: Interface) -> Path:
        """Return the control socket of an access point or a station."""
        if interface in self._points:
            return self._folder / interface.device
        return self._folder / interface.owner / interface.device

    def _write(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def _start(self, name: str, pid: int, program: str, arguments: Sequence[str]) -> None:
        """Start a program in a namespace; if the run is killed, it is too (setpriv)."""
        command = ["setpriv", "--pdeathsig", "KILL"]
        command += ["nsenter", "-t", str(pid), "-n", "--", program, *arguments]
        with (self._logs / f"{program}.log").open("ab") as log:
            self._helpers[name] = subprocess.Popen(
                command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _supplicant(station: Interface) -> str:
    return f"wpa_supplicant of {station.owner}"

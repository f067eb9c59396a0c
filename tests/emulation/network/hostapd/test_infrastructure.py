"""Access points and stations on real 802.11 interfaces: needs a kernel with mac80211_hwsim.

If the kernel has none, `tests.emulation.vm.test_hwsim_in_the_guest` runs them in the guest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulation.backends.base import BackendError
from emulation.network.hostapd import control
from emulation.network.hostapd.infrastructure import InfrastructureNetwork, Interface, obstacles
from emulation.network.hostapd.settings import SettingsError
from emulation.network.processes import Process, await_condition, end, last_line
from emulation.radio.spec import RadioSpec
from tests.hwsim import HERE

LIMIT = 90.0
"""Seconds that anything here may take in a virtual machine without hardware acceleration."""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def inside(pid: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["nsenter", "-t", str(pid), "-n", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


class Lab:
    """One access point and two stations, each a radio in a namespace of its own."""

    def __init__(self) -> None:
        self.helpers: dict[str, Process] = {}
        self.folder = Path("/nowhere")  # until it begins
        self.holders: list[subprocess.Popen[bytes]] = []
        run("modprobe", "-r", "mac80211_hwsim")  # there may be one without radios
        run("modprobe", "mac80211_hwsim", "radios=3")
        found = sorted(Path("/sys/class/ieee80211").iterdir(), key=lambda phy: int(phy.name[3:]))
        names = ("ap1", "sta1", "sta2")
        self.interfaces = [
            self._move(phy.name, name, number)
            for number, (phy, name) in enumerate(zip(found, names, strict=True), start=1)
        ]
        self.point, *self.stations = self.interfaces

    def _move(self, phy: str, name: str, number: int) -> Interface:
        device = next(Path(f"/sys/class/ieee80211/{phy}/device/net").iterdir()).name
        holder = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
        self.holders.append(holder)
        own = Path("/proc/self/ns/net").readlink()
        assert await_condition(lambda: Path(f"/proc/{holder.pid}/ns/net").readlink() != own, LIMIT)
        run("iw", "phy", phy, "set", "netns", str(holder.pid))
        mac = f"02:00:00:00:00:{number:02x}"
        interface = Interface(name, holder.pid, f"{name}-wlan0", mac)
        for command in (
            f"link set {device} name {interface.device} address {mac}",
            f"addr add 10.0.0.{number}/24 dev {interface.device}",
        ):
            assert inside(holder.pid, "ip", *command.split()).returncode == 0
        return interface

    def network(self, points: list[Interface] | None = None) -> InfrastructureNetwork:
        return InfrastructureNetwork(
            "mesh",
            RadioSpec(),
            [self.point] if points is None else points,
            self.stations,
            folder=self.folder,
            logs=self.folder,
            environment=os.environ,
            helpers=self.helpers,
            await_helper=self.await_helper,
        )

    def await_helper(self, name: str, ready: Callable[[], bool]) -> None:
        process = self.helpers[name]
        assert await_condition(lambda: process.poll() is not None or ready(), LIMIT)
        if process.poll() is not None:
            log = self.folder / f"{name.partition(' ')[0]}.log"
            raise BackendError(f"the {name} did not start: {last_line(log)}")

    def answers(self, station: Interface, address: str, seconds: float = 3.0) -> bool:
        """Return whether a ping is answered."""
        ping = inside(station.pid, "ping", "-c", "20", "-i", "0.2", "-w", f"{seconds:g}", address)
        return " 0 received" not in ping.stdout

    def begin(self) -> None:
        """Prepare for a test, which finds nothing running."""
        self.folder = Path(tempfile.mkdtemp(prefix="wifi-", dir="/run"))

    def clear(self) -> None:
        """End what a test has started; the radios remain."""
        for process in self.helpers.values():
            end(process)
        self.helpers.clear()
        shutil.rmtree(self.folder)

    def close(self) -> None:
        for process in self.holders:
            end(process)
        assert await_condition(self._unload, LIMIT)

    def _unload(self) -> bool:
        unload = subprocess.run(
            ["modprobe", "-r", "mac80211_hwsim"], capture_output=True, check=False, timeout=60
        )
        return unload.returncode == 0


@pytest.fixture(scope="module")
def radios() -> Iterator[Lab]:
    """Radios that all tests share: the module and its interfaces take as long as a test."""
    made = Lab()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def lab(radios: Lab) -> Iterator[Lab]:
    radios.begin()
    try:
        yield radios
    finally:
        radios.clear()


@HERE
def test_two_stations_associate_and_reach_each_other(lab: Lab) -> None:
    network = lab.network()
    began = time.monotonic()
    network.start_access_points()
    assert network.associations() == {"sta1": None, "sta2": None}
    network.start_stations()
    assert network.await_association(lambda ready: await_condition(ready, LIMIT)) == []
    print(f"associated after {time.monotonic() - began:.1f} s")
    assert network.associations() == {"sta1": "ap1", "sta2": "ap1"}
    known = control.stations(network.socket(lab.point))
    assert sorted(known) == [station.mac for station in lab.stations]
    one, two = lab.stations
    assert lab.answers(one, "10.0.0.3", LIMIT)
    link = inside(two.pid, "iw", "dev", two.device, "link").stdout
    assert "Connected to 02:00:00:00:00:01" in link
    rates = inside(two.pid, "iw", "dev", two.device, "station", "dump").stdout
    assert "MCS" not in rates  # 802.11g

    end(lab.helpers["hostapd of ap1"])
    gone = {"sta1": None, "sta2": None}
    assert await_condition(lambda: network.associations() == gone, LIMIT)
    network.start_access_points()
    assert network.await_association(lambda ready: await_condition(ready, LIMIT)) == []


@HERE
def test_isolated_stations_reach_the_access_point_and_not_each_other(lab: Lab) -> None:
    network = lab.network()
    network.start_access_points(isolate=True)
    network.start_stations()
    assert network.await_association(lambda ready: await_condition(ready, LIMIT)) == []
    one, _ = lab.stations
    assert lab.answers(one, "10.0.0.1", LIMIT)
    assert not lab.answers(one, "10.0.0.3")


@HERE
def test_stations_out_of_reach_are_named(lab: Lab) -> None:
    network = lab.network()
    network.start_stations()
    left = network.await_association(lambda ready: await_condition(ready, 3.0))
    assert left == ["sta1", "sta2"]
    end(lab.helpers["wpa_supplicant of sta2"])
    with pytest.raises(BackendError, match="wpa_supplicant of sta2 did not start"):
        network.await_association(lambda ready: await_condition(ready, 3.0))


@HERE
def test_an_interface_that_is_not_there_is_said_in_a_line(lab: Lab) -> None:
    nowhere = lab.point._replace(device="ap9-wlan0")
    with pytest.raises(BackendError, match=r"the hostapd of ap1 did not start: \S"):
        lab.network([nowhere]).start_access_points()


@HERE
def test_a_radio_without_channel_is_said_before_anything_starts(lab: Lab) -> None:
    network = InfrastructureNetwork(
        "mesh",
        RadioSpec(frequency_mhz=914),
        [lab.point],
        lab.stations,
        folder=lab.folder,
        logs=lab.folder,
        environment=os.environ,
        helpers=lab.helpers,
        await_helper=lab.await_helper,
    )
    with pytest.raises(SettingsError, match=r"no 802\.11 channel is at 914 MHz"):
        network.start_access_points()
    with pytest.raises(SettingsError, match=r"no 802\.11 channel is at 914 MHz"):
        network.start_stations()
    assert lab.helpers == {}


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program, path: None)
    assert obstacles() == [
        "hostapd is missing: apt-get install hostapd",
        "wpa_supplicant is missing: apt-get install wpasupplicant",
    ]

"""The `mininet-wifi` backend: what it says if it cannot run, and runs if it can.

Neither Mininet-WiFi nor wmediumd is in a package registry, so runs are skipped if nobody has
brought them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import socket
from pathlib import Path

import psutil
import pytest

from emulation.backends import mininet_wifi
from emulation.backends.base import BackendError
from emulation.backends.mininet_wifi import MininetWifiBackend, _served
from emulation.backends.registry import backends
from emulation.network import switches
from emulation.network.fidelity import LATE_MEDIAN
from emulation.network.hostapd import infrastructure
from emulation.network.processes import await_condition
from emulation.scenario.runfolder import RunFolder
from tests.emulation.backends.test_hwsim import Quiet
from tests.emulation.mesh_lab import check_counters, handover, moves, notified
from topologies.catalog import make_scenario

HERE = pytest.mark.skipif(
    bool(MininetWifiBackend().obstacles()),
    reason=f"mininet-wifi: {(MininetWifiBackend().obstacles() or [''])[0]}",
)
NEEDS_SWITCH = pytest.mark.skipif(
    bool(switches.obstacles() + infrastructure.obstacles()), reason="no Open vSwitch, Ryu, hostapd"
)


def test_it_is_a_backend() -> None:
    assert isinstance(backends()["mininet-wifi"], MininetWifiBackend)


def test_each_program_that_is_missing_has_a_line_with_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    obstacles = MininetWifiBackend().obstacles()
    assert all("\n" not in line for line in obstacles)
    for word, source in (
        ("Mininet-WiFi is missing", "intrig-unicamp/mininet-wifi"),
        ("wmediumd is not on the path", "ramonfontes/wmediumd"),
        ("hwsim_mgmt is not on the path", "mac80211_hwsim_mgmt"),
    ):
        (line,) = [each for each in obstacles if each.startswith(word)]
        assert source in line


def test_a_machine_without_it_is_told_before_anything_starts(tmp_path: Path) -> None:
    backend = MininetWifiBackend()
    if not backend.obstacles():
        pytest.skip("this machine has Mininet-WiFi and wmediumd")
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=60, settings={})
    observer = Quiet()
    with pytest.raises(BackendError) as refused:
        backend.execute(scenario, RunFolder.create(tmp_path, scenario), observer)
    assert str(refused.value) == backend.obstacles(scenario)[0]
    assert not observer.said


def test_a_wmediumd_that_runs_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wmediumd.sock"
    monkeypatch.setattr(mininet_wifi, "SOCKET", path)
    assert not _served()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        assert _served()
    assert path.exists()  # as after a kill: a file alone is nobody
    assert not _served()


@HERE
@pytest.mark.root
@pytest.mark.parametrize("mode", ["adhoc", "mesh"])
def test_stations_hear_each_other_and_nothing_is_left(tmp_path: Path, mode: str) -> None:
    settings = {"nodes": 3, "side": 60, "speed": 0, "topics": 0, "mode": mode}
    scenario = make_scenario("roaming_field", "broker-gpsr", seed=3, duration=8, settings=settings)
    folder = RunFolder.create(tmp_path, scenario)
    MininetWifiBackend().execute(scenario, folder, Quiet())
    macs = [bytes.fromhex(node.mac.replace(":", "")) for node in scenario.nodes]
    for node in scenario.nodes:
        captured = folder.radio_capture(node).read_bytes()
        assert [mac in captured for mac in macs] == [True] * len(macs)  # their beacons
    checks = json.loads(folder.fidelity.read_text(encoding="utf-8"))["checks"]
    values = {check["name"]: check["value"] for check in checks}
    assert values[LATE_MEDIAN] is None
    assert values["client operations late, p99"] is not None
    assert await_condition(lambda: not list(Path("/sys/class/ieee80211").iterdir()), 10.0)
    assert not _served()


@HERE
@NEEDS_SWITCH
@pytest.mark.root
def test_a_station_that_moves_changes_its_access_point_and_nothing_is_left(tmp_path: Path) -> None:
    scenario = handover()
    folder = RunFolder.create(tmp_path, scenario)
    MininetWifiBackend().execute(scenario, folder, Quiet())
    station = scenario.nodes[5].mac
    assert [move for move in moves(folder) if move[0] == station] == [
        (station, "ap1", None),
        (station, "ap2", "ap1"),
    ]
    received = notified(folder, scenario)
    assert set(received.values()) == {1}
    assert len(received) >= 25  # of 40: wpa_supplicant takes its time
    check_counters(folder, scenario)
    assert await_condition(lambda: not list(Path("/sys/class/ieee80211").iterdir()), 10.0)
    assert not _served()
    running = {process.name() for process in psutil.process_iter()}
    assert not running & {"hostapd", "wpa_supplicant", "ovs-vswitchd", "wmediumd"}
    assert not list(Path.cwd().glob("mn*conf"))

"""Mesh access points on the hwsim backend; needs the module: see `tests.hwsim`.

`tests.emulation.vm.test_hwsim` looks at the captures of a whole run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulation.backends.hwsim import HwsimBackend
from emulation.media.control import request
from emulation.mobility.trajectory import Waypoint
from emulation.network import switches
from emulation.network.hostapd import infrastructure
from emulation.network.processes import await_condition
from emulation.scenario.runfolder import RunFolder
from tests.emulation.backends.test_tap import Recorded
from tests.emulation.mesh_lab import (
    counted,
    handover,
    mesh,
    moves,
    notified,
)
from tests.hwsim import HERE

NEEDS_SWITCH = pytest.mark.skipif(bool(switches.obstacles()), reason="no Open vSwitch or Ryu")
REAL = [pytest.mark.root, HERE, NEEDS_SWITCH]


def real(test: Any) -> Any:
    for mark in REAL:
        test = mark(test)
    return test


@real
def test_stations_change_their_access_points_and_the_prompt_knows(tmp_path: Path) -> None:
    scenario = handover()
    seen: list[Any] = []

    def look(run: Any) -> None:
        def associations() -> Any:
            return request(run.medium_control, {"op": "associations"})["associations"]

        seen.append(associations())
        daemons = ["hostapd of ap1", "wpa_supplicant of sta1", "wpa_supplicant of sta2"]
        assert set(daemons) <= run.signs.keys()  # longer than the watchdog waits for an answer
        # sta2 goes its way.
        assert await_condition(lambda: run.now() > scenario.duration, 60)
        seen.append(associations())
        # A mesh radio learns from a frame of it what is behind another one.
        run.net["br4"].cmd("ping -b -c 1 -W 1 10.255.255.255")
        for name, other, answered in (
            ("sta1", "br1", True),  # over its access point
            ("br1", "br4", True),  # over the mesh, diagonally
            ("sta1", "sta2", False),  # the broker does not forward
        ):
            address = run.net[other].spec.address
            said = run.net[name].cmd(f"ping -c 3 -i 0.2 -W 2 {address}")
            assert (" 0 received" not in said) == answered, (name, other, said)
        request(run.medium_control, {"op": "move", "name": "sta1", "x": 370, "y": 125})
        assert await_condition(lambda: associations()["sta1"] == "ap2", 60)
        seen.append(request(run.medium_control, {"op": "stats"}))

    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()
    HwsimBackend().execute(scenario, folder, observer, interact=look)
    facts = json.loads(folder.record.read_text())
    assert (facts["ended"], facts["problems"], observer.problems) == ("completed", [], [])
    assert seen[0] == {"sta1": "ap1", "sta2": "ap1"}
    assert seen[1] == {"sta1": "ap1", "sta2": "ap2"}
    assert seen[2]["handovers"] == 2
    assert seen[2]["malformed"] == seen[2]["write_drops"] == 0
    assert counted(folder)["ap1", "BROKER_TO_STATION", "EVENTS"][0] >= 1
    for node in scenario.nodes[4:6]:
        assert [move for move in moves(folder) if move[0] == node.mac] == [
            (node.mac, "ap1", None),
            (node.mac, "ap2", "ap1"),
        ]
    received = notified(folder, scenario)
    assert set(received.values()) == {1}
    assert len(received) >= 30  # of 40: wpa_supplicant takes its time


def test_access_points_of_two_networks_are_refused_in_one_line() -> None:
    scenario = mesh(5.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    first, *others = scenario.access_points
    points = (first.model_copy(update={"ssid": "other"}), *others)
    [line] = HwsimBackend().unsupported(scenario.model_copy(update={"access_points": points}))
    assert "one network, not 2 (mesh, other)" in line
    assert "\n" not in line


def test_without_hostapd_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infrastructure, "obstacles", lambda: ["hostapd is missing: install it"])
    scenario = mesh(5.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    assert "hostapd is missing: install it" in HwsimBackend().obstacles(scenario)
    assert "hostapd is missing: install it" not in HwsimBackend().obstacles()

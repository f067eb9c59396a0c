"""Faults of a scenario on the tap backend: real processes are killed, real radios silenced."""

from __future__ import annotations

import select
import socket
from pathlib import Path

import psutil
import pytest

from emulation.backends.base import BackendError
from emulation.backends.mininet_wifi import MininetWifiBackend
from emulation.backends.tap import TapBackend
from emulation.network.driver import client_socket
from emulation.network.processes import await_condition
from emulation.scenario.runfolder import RunFolder
from nodeapp.wire import Frame, Kind, decode, decode_body
from tests.emulation.backends.test_tap import (
    Recorded,
    _nothing_left,  # noqa: F401  # a fixture
    facts,
    packets,
    quiet,
)

pytestmark = pytest.mark.root


def test_node_apps_come_back_and_radios_fall_silent(tmp_path: Path) -> None:
    faults = "crash sta2 at 1 for 1.5; radio sta3 at 0; jam 0,0 power -90 at 1 for 1"
    scenario = quiet(duration=5.0, faults=faults)
    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    assert facts(folder.path)["ended"] == "completed"
    logs = {node.name: folder.log(node).read_text() for node in scenario.nodes}
    assert logs["sta2"].count("runs broker-gpsr") == 2
    assert logs["sta1"].count("runs broker-gpsr") == 1
    sent = {node.name: packets(folder.radio_capture(node)) for node in scenario.nodes}
    assert sent["sta3"] < 0.6 * sent["sta1"]  # it hears nobody


def test_wmediumd_makes_no_faults_of_radios(tmp_path: Path) -> None:
    scenario = quiet(faults="radio sta3 at 1")
    with pytest.raises(BackendError, match=r"no faults of radios \(radio sta3 at 1\): leave them"):
        MininetWifiBackend().execute(scenario, RunFolder(tmp_path), Recorded())


def test_node_apps_that_share_a_key_hear_each_other(tmp_path: Path) -> None:
    scenario = quiet(duration=3.0, auth="psk")
    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()
    said: list[str] = []

    def ask(seconds: float) -> None:
        if seconds > 2.0 and not said:
            with client_socket(pid_of("sta1")) as client:
                client.send(Frame(Kind.STATUS, 1, 0, hops=0).encode())
                assert await_condition(lambda: readable(client), 5.0)
                said.append(str(decode_body(decode(client.recv(65_535)).body)))

    TapBackend().execute(scenario, folder, Recorded(ask))
    assert observer.problems == []
    assert "refused" not in said[0]
    assert "'neighbours': {'2'" in said[0]


def pid_of(name: str) -> int:
    """Return the node app of a node of this run."""
    (found,) = (
        int(child.pid)
        for child in psutil.Process().children(recursive=True)
        if "nodeapp" in child.cmdline() and f"{name}-wlan0" in child.cmdline()
    )
    return found


def readable(client: socket.socket) -> bool:
    return bool(select.select([client], (), (), 0)[0])

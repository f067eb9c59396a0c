"""Faults of a scenario on the tap backend: real processes are killed, real radios silenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.backends.base import BackendError
from emulation.backends.mininet_wifi import MininetWifiBackend
from emulation.backends.tap import TapBackend
from emulation.scenario.runfolder import RunFolder
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

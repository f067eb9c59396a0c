"""Energy on the other backends: tap counts as the virtual clock does, wmediumd cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.backends.tap import TapBackend, TapRun
from emulation.backends.virtual import VirtualBackend
from emulation.mininet_wifi.settings import NoEqualError, settings_of
from emulation.scenario.runfolder import Run, RunFolder, read_run
from emulation.scenario.scenario import Scenario
from tests.emulation.backends.test_tap import (
    Recorded,
    _nothing_left,  # noqa: F401  # a fixture
    perform,
    quiet,
)
from tests.emulation.mesh_lab import require_real_time


def ran(backend: TapBackend | VirtualBackend, scenario: Scenario, root: Path) -> Run:
    observer = Recorded()
    folder = RunFolder.create(root / backend.name, scenario)
    backend.execute(scenario, folder, observer)
    assert observer.problems == []
    return read_run(folder.path)


@pytest.mark.root
def test_tap_counts_what_the_virtual_clock_counts(tmp_path: Path) -> None:
    scenario = quiet(energy="esp32-s2", faults="radio sta3 at 0.5; off sta4 at 1 for 1")
    runs = [ran(backend, scenario, tmp_path) for backend in (TapBackend(), VirtualBackend())]
    require_real_time(runs[0].folder)
    tap, virtual = (run.energy for run in runs)
    assert tap is not None
    assert virtual is not None
    assert [each.node for each in tap.stations] == [each.node for each in virtual.stations]
    # On tap they go on until the medium is asked, and faults begin when a process gets to it.
    for one, other in zip(tap.stations, virtual.stations, strict=True):
        assert one.transmit == pytest.approx(other.transmit, rel=0.5)
        assert one.receive == pytest.approx(other.receive, rel=0.5)
        assert one.off == pytest.approx(other.off, abs=0.5)
        assert one.sleep == pytest.approx(other.sleep, abs=0.5)
        whole = one.transmit + one.receive + one.overhear + one.idle + one.sleep + one.off
        assert whole == pytest.approx(scenario.duration, abs=0.5)


@pytest.mark.root
def test_an_empty_battery_ends_the_node_app_on_tap(tmp_path: Path) -> None:
    running: dict[float, int] = {}

    def look(run: TapRun, seconds: float) -> None:
        running[seconds] = [app.poll() for app in run.nodes.values()].count(None)

    scenario = quiet(energy="intel-5300", battery=0.82 * 1.5)
    folder = RunFolder.create(tmp_path, scenario)
    assert perform(scenario, folder, look).problems == []
    require_real_time(folder)
    run = read_run(folder.path)
    assert run.energy is not None
    empty = [each.empty or 0.0 for each in run.energy.stations]
    assert empty == pytest.approx([1.5] * 4, abs=0.5)
    assert [fault.kind for fault in run.faults] == ["off"] * 4
    assert {apps for seconds, apps in running.items() if seconds < 1.2} == {4}
    assert running[max(running)] == 0


def test_wmediumd_counts_no_energy() -> None:
    with pytest.raises(NoEqualError, match="wmediumd has no energy, battery: leave") as refused:
        settings_of(quiet(energy="esp32-s2", battery=5))
    assert "\n" not in str(refused.value)

"""The `hwsim` backend: what it says if it cannot run; `tests.emulation.vm` has it run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emulation.backends.base import BackendError
from emulation.backends.hwsim import HwsimBackend
from emulation.media.hwsim_radios import has_family
from emulation.media.hwsim_wire import FAMILY
from emulation.scenario.runfolder import RunFolder
from topologies.catalog import make_scenario


class Quiet:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)

    def elapsed(self, seconds: float) -> None:
        pass

    def problem(self, text: str) -> None:
        self.said.append(text)

    def hide(self) -> None:
        """There is nothing to hide."""


def test_a_kernel_without_the_module_is_told_in_one_line_what_to_do() -> None:
    backend = HwsimBackend()
    if has_family(FAMILY) or not any("mac80211" in each for each in backend.obstacles()):
        pytest.skip("this kernel has mac80211_hwsim")
    (line,) = [each for each in backend.obstacles() if "mac80211" in each]
    assert "\n" not in line
    assert "modprobe mac80211_hwsim" in line
    assert "vm run" in line


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"data_rate": 12.0}, "data_rate"),
        ({"radio": "ns2"}, "retry_limit, data_rate, basic_rate, queue_order"),
    ],
)
def test_rates_and_tries_that_are_the_kernels_are_refused_in_one_line(
    settings: dict[str, Any], named: str, tmp_path: Path
) -> None:
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=30, settings=settings)
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=rf"decides {named}: leave .*--backend tap") as refused:
        HwsimBackend().execute(scenario, folder, Quiet())
    assert "\n" not in str(refused.value)


def test_mesh_access_points_need_the_module_first(tmp_path: Path) -> None:
    if not HwsimBackend().obstacles():
        pytest.skip("this kernel has mac80211_hwsim")
    scenario = make_scenario("mesh_grid", "flooding", seed=1, duration=60, settings={})
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError) as refused:
        HwsimBackend().execute(scenario, folder, Quiet())
    assert str(refused.value) == HwsimBackend().obstacles()[0]

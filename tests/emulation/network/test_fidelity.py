import re
import time
from typing import Any

import pytest

from emulation.network.fidelity import CpuSampler, assess, percentile
from emulation.scenario.records import Fidelity


def verdict(**changes: Any) -> Fidelity:
    cpu = CpuSampler()
    cpu.samples = changes.pop("samples", [50.0] * 10)
    figures: dict[str, Any] = {
        "medium": {
            "lateness": {"p50_us": 80.0, "p99_us": 900.0, "max_us": 5000.0},
            "write_drops": 0,
            "tap_drops": {"sta1": 0},
        },
        "recorder": {"kernel_drops": 0, "write_errors": 0},
        "driver": {"lateness": [0.001] * 100},
        "socket_drops": 0,
    }
    return assess(**(figures | changes), cpu=cpu)


def failed(fidelity: Fidelity) -> list[str]:
    return [check.name for check in fidelity.checks if not check.ok]


def test_a_run_within_all_limits_kept_real_time() -> None:
    fidelity = verdict()
    assert fidelity.kept_real_time
    assert failed(fidelity) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"medium": {"lateness": {"p50_us": 2000}}}, "frames delivered late, median"),
        ({"medium": {"lateness": {"p99_us": 20_000}}}, "frames delivered late, p99"),
        ({"medium": {"lateness": {"max_us": 2e6}}}, "frames delivered late, maximum"),
        ({"medium": {"write_drops": 1}}, "frames not written to a radio interface"),
        ({"socket_drops": 1}, "datagrams dropped by full sockets"),
        ({"medium": {"tap_drops": {"sta1": 1}}}, "frames the radio interfaces dropped"),
        ({"recorder": {"kernel_drops": 1}}, "packets the captures missed"),
        ({"recorder": {"write_errors": 1}}, "packets not written to a capture file"),
        ({"driver": {"lateness": [0.0] * 90 + [0.21] * 10}}, "client operations late, p99"),
    ],
)
def test_each_figure_beyond_its_limit_fails_the_run(changes: dict[str, Any], name: str) -> None:
    fidelity = verdict(**changes)
    assert not fidelity.kept_real_time
    assert failed(fidelity) == [name]
    assert all(check.advice for check in fidelity.checks if not check.ok)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"driver": {"lateness": [0.0] * 90 + [0.19] * 10}}, "client operations late, p99"),
        ({"samples": [99.0] * 5 + [20.0] * 5}, "seconds with all cores busy"),
    ],
)
def test_what_neither_delays_nor_loses_a_frame_is_a_caution(
    changes: dict[str, Any], name: str
) -> None:
    fidelity = verdict(**changes)
    assert fidelity.kept_real_time
    assert failed(fidelity) == [name]
    lost = verdict(**changes, socket_drops=1)
    assert lost.kept_real_time is False


def test_the_load_is_sampled_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    cpu = CpuSampler()
    for _ in range(25):
        now += 0.125
        cpu.sample()
    assert len(cpu.samples) == 3


def test_a_busy_machine_is_explained_by_its_processes() -> None:
    cpu = CpuSampler()
    said, end = "", time.process_time() + 10.0
    while not re.search(r"(pytest|python\S*) \d", said) and time.process_time() < end:
        spent = time.process_time()
        while time.process_time() < spent + 0.1:  # others may use more at first
            pass
        said = cpu.used_by()
    assert re.search(r"(pytest|python\S*) \d", said)


def test_of_a_medium_without_figures_it_is_unknown_whether_it_kept_real_time() -> None:
    fidelity = verdict(medium=None)
    assert fidelity.kept_real_time is None
    unknown = [check.name for check in fidelity.checks if check.value is None]
    assert len(unknown) == 6
    assert all("medium" in name or "frames" in name for name in unknown)
    assert failed(fidelity) == []


def test_a_failed_check_is_known_without_figures_of_the_medium() -> None:
    fidelity = verdict(medium=None, socket_drops=1)
    assert fidelity.kept_real_time is False
    assert failed(fidelity) == ["datagrams dropped by full sockets"]


def test_percentile() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([1.0], 0.99) == 1
    assert percentile(list(range(100)), 0.99) == 99

import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

import psutil
import pytest

from emulation.network import fidelity
from emulation.network.fidelity import CpuSampler, assess, percentile
from emulation.scenario.records import Fidelity
from nodeapp.installation import PROJECT


def verdict(**changes: Any) -> Fidelity:
    cpu = CpuSampler()
    cpu.samples = changes.pop("samples", [50.0] * 10)
    share = changes.pop("others", 2.0)
    setattr(cpu, "others", lambda: share)  # noqa: B010  a method
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
    result = verdict()
    assert result.kept_real_time
    assert failed(result) == []


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
        ({"recorder": {"left": 1}}, "packets the captures missed"),
        ({"recorder": {"vanished": 1}}, "captures that ended early"),
        ({"recorder": {"write_errors": 1}}, "packets not written to a capture file"),
        ({"driver": {"lateness": [0.0] * 90 + [0.21] * 10}}, "client operations late, p99"),
    ],
)
def test_each_figure_beyond_its_limit_fails_the_run(changes: dict[str, Any], name: str) -> None:
    result = verdict(**changes)
    assert not result.kept_real_time
    assert failed(result) == [name]
    assert all(check.advice for check in result.checks if not check.ok)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"driver": {"lateness": [0.0] * 90 + [0.19] * 10}}, "client operations late, p99"),
        ({"samples": [99.0] * 5 + [20.0] * 5}, "seconds with all cores busy"),
        ({"others": 12.5}, "processors used by other programs"),
    ],
)
def test_what_neither_delays_nor_loses_a_frame_is_a_caution(
    changes: dict[str, Any], name: str
) -> None:
    result = verdict(**changes)
    assert result.kept_real_time
    assert failed(result) == [name]
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


def test_what_other_programs_use_is_all_that_the_own_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = {"busy": 100.0, "own": 10.0, "now": 50.0}
    monkeypatch.setattr(fidelity, "_busy_seconds", lambda: state["busy"])
    monkeypatch.setattr(fidelity, "_own_seconds", lambda: state["own"])
    monkeypatch.setattr(time, "monotonic", lambda: state["now"])
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    cpu = CpuSampler()
    state.update(busy=103.0, own=11.0, now=60.0)
    assert cpu.others() == pytest.approx(10.0)
    state.update(own=14.0)  # clock ticks
    assert cpu.others() == 0.0
    monkeypatch.setattr(fidelity, "_processor_time", lambda: {1: ("init", 0.01)})
    assert cpu.used_by(others=True).startswith("some that have ended, ")


BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"
ALONE = f"""
import subprocess, sys, time, psutil
from emulation.network import fidelity
before = fidelity._own_seconds()
subprocess.run([sys.executable, "-c", {BUSY!r}], check=True)
ended = fidelity._own_seconds()
assert ended - before >= 0.25
with subprocess.Popen([sys.executable, "-c", {BUSY + "input()"!r}], stdin=subprocess.PIPE) as child:
    used = psutil.Process(child.pid)
    while sum(used.cpu_times()[:2]) < 0.25:  # clock ticks
        time.sleep(0.02)
    assert fidelity._own_seconds() - ended >= 0.2
    assert child.pid in {{process.pid for process in fidelity._own_processes()}}
    child.communicate(b"\\n")
"""


def test_own_processor_time_has_that_of_children_and_of_those_that_have_ended() -> None:
    # In a process of its own: one of the tests' has children of other tests, which come and go.
    subprocess.run([sys.executable, "-c", ALONE], check=True, cwd=PROJECT)


def test_what_nodes_use_is_that_of_a_process_and_of_what_it_has_started() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True) as shell:
        while len(psutil.Process(shell.pid).children()) < 2:
            time.sleep(0.01)
        of_node = [("sta1", shell.pid)]
        every = list(fidelity.usage(of_node))
        assert [(each.node, each.program) for each in every] == [
            ("sta1", "sh"),
            ("sta1", "sleep"),
            ("sta1", "sleep"),
        ]
        assert all(each.memory > 0 for each in every)
        (alone,) = fidelity.usage(of_node, descendants=False, memory=False)
        assert (alone.program, alone.memory) == ("sh", 0)
        os.killpg(shell.pid, signal.SIGKILL)


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
    result = verdict(medium=None)
    assert result.kept_real_time is None
    unknown = [check.name for check in result.checks if check.value is None]
    assert len(unknown) == 6
    assert all("medium" in name or "frames" in name for name in unknown)
    assert failed(result) == []


def test_a_failed_check_is_known_without_figures_of_the_medium() -> None:
    result = verdict(medium=None, socket_drops=1)
    assert result.kept_real_time is False
    assert failed(result) == ["datagrams dropped by full sockets"]


UDP = """\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode ...
  101: 00000000:15AE 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 31 2 0000 1
  102: 0100007F:15AF 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 32 2 0000 2
  103: 0100007F:D2F0 0100007F:15AF 01 00000000:00000000 00:00000000 00000000 0 0 33 2 0000 4
  104: 0100007F:15B0 0100007F:0035 01 00000000:00000000 00:00000000 00000000 0 0 34 2 0000 8
"""
"""/proc/net/udp: a node app's radio and client port, one of its clients, and a stranger."""


def test_what_a_node_app_and_its_clients_lose_is_counted_and_nothing_else() -> None:
    assert fidelity.socket_drops(UDP) == 1 + 2 + 4


def test_percentile() -> None:
    assert percentile([], 0.5) == 0
    assert percentile([1.0], 0.99) == 1
    assert percentile(list(range(100)), 0.99) == 99

"""Processes of a run that hang: told, with the culprit and since when."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emulation.backends.base import BackendError, LiveRun
from emulation.backends.realtime import backbone, watchdog
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.node_apps import NodeApps
from emulation.backends.realtime.signs import Heartbeat
from emulation.backends.realtime.watchdog import Watchdog
from emulation.backends.tap import TapBackend
from emulation.mobility.trajectory import Waypoint
from emulation.network import processes, switches
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, await_condition
from emulation.scenario.runfolder import RunFolder
from nodeapp.installation import PROJECT
from tests.emulation.backends.test_tap import (
    QUIET,
    Recorded,
    _nothing_left,  # noqa: F401  # a fixture
    command,
    facts,
    quiet,
)
from tests.emulation.mesh_lab import mesh

pytestmark = pytest.mark.root
PAUSE = {"x86_64": bytes.fromhex("b8220000000f05ebf7")}
"""Machine code that calls pause(2) again and again."""


def helper(name: str) -> psutil.Process:
    """Return the helper of this run that is called so, after its configuration."""
    found = [
        child
        for child in psutil.Process().children(recursive=True)
        if any(word.strip().endswith(f"/{name}.config.json") for word in child.cmdline())
    ]
    return min(found, key=psutil.Process.create_time)  # the recorder has a guard beside it


@pytest.mark.parametrize(
    ("name", "duration"),
    [("medium", 20.0), ("driver", 3.0)],  # or noticed only after the end
)
def test_a_helper_that_hangs_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, duration: float
) -> None:
    monkeypatch.setattr(watchdog, "LIMIT", 3.0)
    scenario = quiet(duration=duration)
    folder = RunFolder.create(tmp_path, scenario)
    stopped: list[psutil.Process] = []

    def stop(seconds: float) -> None:
        if seconds > 0.5 and not stopped:
            stopped.append(helper(name))
            stopped[0].suspend()

    with pytest.raises(
        BackendError, match=f"the {name} has hung since .* s of the scenario"
    ) as caught:
        TapBackend().execute(scenario, folder, Recorded(stop))
    assert f"the run failed: {caught.value}" in facts(folder.path)["problems"]
    assert facts(folder.path)["ended"] == "failed"


def test_a_medium_that_is_stopped_tells_its_figures_when_the_run_is_ended(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, quiet(duration=60.0))
    stopped: list[psutil.Process] = []

    def stop(seconds: float) -> None:
        if seconds > 0.5 and not stopped:
            stopped.append(helper("medium"))
            stopped[0].suspend()
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        TapBackend().execute(quiet(duration=60.0), folder, Recorded(stop))
    assert facts(folder.path)["ended"] == "interrupted"
    assert folder.fidelity.exists()


def test_the_end_of_a_run_that_waits_for_a_sign_is_not_held_up_by_it(tmp_path: Path) -> None:
    with Interrupts() as interrupts, subprocess.Popen(["sleep", "300"]) as silent:
        try:
            helpers = Helpers(StateFolder(tmp_path), tmp_path / "log", interrupts)
            helpers["medium"] = silent
            signs = {"medium": Heartbeat(tmp_path / "medium")}
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                Watchdog(helpers, {}, signs, lambda: 5.0).await_signs()
        finally:
            silent.kill()


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
"""


def test_node_apps_that_do_not_end_share_one_limit(tmp_path: Path) -> None:
    scenario = quiet()
    apps = NodeApps(scenario, RunFolder.create(tmp_path, scenario), StateFolder(tmp_path / "state"))
    for node in scenario.nodes:
        process = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as output:
            assert output.readline() == b"ready\n"
        apps[node.name] = process
    began = time.monotonic()
    apps.end()
    assert time.monotonic() - began < len(apps) * processes.GRACE - 1.0
    assert {process.poll() for process in apps.values()} == {-signal.SIGKILL}


def test_a_run_whose_helpers_have_lost_their_origin_ends(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, quiet(duration=20.0))
    hit: list[psutil.Process] = []

    def strike(seconds: float) -> None:
        if seconds > 0.3 and not hit:
            words = ((child, child.cmdline()) for child in psutil.Process().children())
            hit.extend(child for child, line in words if "capture.recorder" in line)
            hit[0].suspend()

    observer = Recorded(strike)
    message = "the process that helpers are forked from was stopped by a signal"
    with pytest.raises(BackendError, match=message):
        TapBackend().execute(quiet(duration=20.0), folder, observer)
    assert facts(folder.path)["problems"][-1] == f"the run failed: {message}"


def test_at_the_prompt_a_lasting_failure_is_told_once(tmp_path: Path) -> None:
    scenario = quiet(duration=20.0, faults="radio sta3 at 1")  # due when nobody makes it any more
    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()
    spent: list[float] = []

    def prompt(run: LiveRun) -> None:
        words = ((child, child.cmdline()) for child in psutil.Process().children())
        (origin,) = (child for child, line in words if "nodeapp.__main__" in line)
        origin.kill()
        assert await_condition(lambda: bool(observer.problems) and run.now() > 1.1, 10.0)
        before = time.process_time()
        time.sleep(1.0)
        spent.append(time.process_time() - before)

    message = "the process that node apps are forked from has ended"
    with pytest.raises(BackendError, match=message):
        TapBackend().execute(scenario, folder, observer, prompt)
    assert observer.problems == [message]
    assert spent[0] < 0.4, "it looks a few times a second"


def waited() -> float:
    """Return the seconds for which some process had to wait for a processor, since the start.

    0 if the kernel does not count them.
    """
    pressure = Path("/proc/pressure/cpu")
    if not pressure.exists():
        return 0.0
    some = pressure.read_text(encoding="ascii").splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_that_hangs_in_other_code_ends_with_a_signal(
    tmp_path: Path, number: signal.Signals
) -> None:
    mnexec = tmp_path / "bin" / "mnexec"
    mnexec.parent.mkdir()
    mnexec.write_text("#!/bin/sh\nexec sleep 1000\n")
    mnexec.chmod(0o755)
    process = subprocess.Popen(
        command("--duration", "60", *QUIET, runs=tmp_path / "runs"),
        env=os.environ | {"PATH": f"{mnexec.parent}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "starting 4 stations" in line:
            break
    time.sleep(0.5)
    asked, busy = time.monotonic(), waited()
    if number == signal.SIGINT:  # a terminal sends it to all in the foreground
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output = process.stderr.read()
    assert process.wait(30) == 130, output
    seconds, others = time.monotonic() - asked, waited() - busy
    assert "Traceback" not in output
    assert seconds < 4.0
    assert seconds - others < 2.0, "but for what others made it wait"
    (folder,) = (tmp_path / "runs").iterdir()
    assert facts(folder)["ended"] == "interrupted"


def hang(process: psutil.Process) -> None:
    """Let a process wait forever where it waits now, without stopping it."""

    folder = Path(f"/proc/{process.pid}")
    where: list[str] = []

    def waits() -> bool:
        where[:] = (folder / "syscall").read_text(encoding="ascii").split()
        return len(where) > 2  # else it runs

    assert await_condition(waits, 10.0)
    with (folder / "mem").open("r+b", buffering=0) as memory:
        memory.seek(int(where[-1], 16))
        memory.write(PAUSE[platform.machine()])


@pytest.mark.skipif(platform.machine() not in PAUSE, reason="no machine code for it")
@pytest.mark.skipif(bool(switches.obstacles()), reason="; ".join(switches.obstacles()))
def test_switch_database_controller_and_recorder_that_hang_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "LIMIT", 4.0)
    monkeypatch.setattr(backbone, "LAST_ROUND", 0.1)
    scenario = mesh(60.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()

    def prompt(run: LiveRun) -> None:
        assert await_condition(lambda: run.now() > 4.5, 30.0, 0.1)
        assert observer.problems == []
        family = psutil.Process().children(recursive=True)
        found = [
            each
            for each in family
            if each.name() in ("ovsdb-server", "ovs-vswitchd")
            or "emulation.network.controller" in each.cmdline()
        ]
        assert len(found) == 3
        recorder = helper("recorder")
        recorder.suspend()
        for each in found:
            hang(each)
        assert await_condition(lambda: len(observer.problems) == 4, 30.0, 0.1)
        recorder.kill()
        for each in found:
            assert each.status() == psutil.STATUS_SLEEPING
            each.kill()

    with pytest.raises(BackendError, match=r"has hung since .* s of the scenario: no sign of life"):
        TapBackend().execute(scenario, folder, observer, interact=prompt)
    told = [line.partition(" has hung since ") for line in observer.problems[:4]]
    backbone_parts = {"the controller", "the switch database", "the switch"}
    assert {name for name, _, _ in told} == backbone_parts | {"the recorder"}
    assert all(float(when.split()[0]) > 0.5 for _, _, when in told)  # they did answer
    assert facts(folder.path)["ended"] == "failed"

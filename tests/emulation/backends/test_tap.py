"""The tap backend with real namespaces, TAP devices, node apps and captures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from scapy.utils import RawPcapReader
from typer.testing import CliRunner

from capture.namespaces import network_namespace
from emulation.backends.base import BackendError
from emulation.backends.tap import TapBackend, TapRun
from emulation.media.control import ControlError
from emulation.media.device import LEAST_QUEUE
from emulation.network.interrupts import Interrupts
from emulation.network.processes import (
    RUN_VARIABLE,
    STATE,
    await_condition,
    running,
    sweep,
)
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import ProtocolSpec, Scenario
from nodeapp.installation import PROJECT
from testbed.app import app
from tests.benchmarks.node_startup import footprint
from topologies.catalog import make_scenario

pytestmark = pytest.mark.root


class Recorded:
    """An observer that remembers."""

    def __init__(self, on_elapsed: Callable[[float], None] | None = None) -> None:
        self.stages: list[str] = []
        self.problems: list[str] = []
        self._on_elapsed = on_elapsed

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def elapsed(self, seconds: float) -> None:
        if self._on_elapsed is not None:
            self._on_elapsed(seconds)

    def problem(self, text: str) -> None:
        self.problems.append(text)


def quiet(nodes: int = 4, duration: float = 3.0, **settings: object) -> Scenario:
    """A scenario without clients."""
    return make_scenario(
        "roaming_field",
        "broker-gpsr",
        seed=1,
        duration=duration,
        settings={"nodes": nodes, "topics": 0, "speed": 0, "hello_interval": 0.05} | settings,
    )


class Unanswered(TapRun):
    """Asks a medium that has stopped answering."""

    def begin(self, epoch: float) -> None:
        raise ControlError("medium: no answer within 5 s")


def perform(
    scenario: Scenario, folder: RunFolder, on_elapsed: Callable[[TapRun, float], None]
) -> Recorded:
    """Run a scenario, calling `on_elapsed(run, seconds)` while it goes on."""
    observer = Recorded(lambda seconds: on_elapsed(run, seconds))
    with Interrupts() as interrupts:
        run = TapRun(TapBackend(), scenario, folder, observer, interrupts)
        try:
            run.start()
            run.watch_until_end()
            run.ended = "completed"
        finally:
            run.stop()
    return observer


def traces_left() -> list[str]:
    """Everything a run could leave: marked processes, state, devices of the root namespace.

    Runs that somebody else has under way on this machine are theirs.
    """
    left = [
        str(process.pid)
        for process in psutil.process_iter()
        if (name := _run_of(process.pid)) is not None and not _foreign(name)
    ]
    if STATE.exists():
        names = [entry.name for entry in STATE.iterdir()]
        # Locks of campaigns stay.
        left += [name for name in names if name[0] != "." and not _foreign(name)]
    return left + [
        device.name for device in Path("/sys/class/net").iterdir() if "wlan" in device.name
    ]


def _run_of(pid: int) -> str | None:
    """Return the name of the state folder of the run that a process belongs to."""
    marker = RUN_VARIABLE.encode() + b"="
    for entry in _environment(pid).split(b"\0"):
        if entry.startswith(marker):
            return Path(entry.removeprefix(marker).decode()).name
    return None


def _foreign(name: str) -> bool:
    """Whether a run, named after its owner's process id, is under way and not of these tests."""
    try:
        owner = psutil.Process(int(name.partition("-")[0]))
        family = [owner.pid, *(parent.pid for parent in owner.parents())]
    except (ValueError, psutil.Error):
        return False
    return os.getpid() not in family


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    sweep()
    yield
    assert await_condition(lambda: not traces_left(), 10.0), traces_left()


TESTBED = (sys.executable, "-m", "testbed")


def command(*arguments: str, runs: Path) -> list[str]:
    return [
        *TESTBED,
        "run",
        "roaming_field",
        "broker-gpsr",
        "--no-analyze",
        "--runs",
        str(runs),
        *arguments,
    ]


QUIET = ("--nodes", "4", "--set", "topics=0")


@contextmanager
def ended_well(line: list[str]) -> Iterator[None]:
    """Run a command meanwhile, and wait for its end, which must be good."""
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        try:
            yield
            _, errors = process.communicate(timeout=90)
        finally:
            process.kill()
    assert process.returncode == 0, errors


def packets(capture: Path) -> int:
    with RawPcapReader(str(capture)) as reader:
        return sum(1 for _ in reader)


def facts(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return value


def test_a_run_leaves_a_complete_folder_beside_another_run(tmp_path: Path) -> None:
    scenario = make_scenario(
        "manhattan",
        "broker-gpsr-map",
        seed=2,
        duration=14.0,
        settings={
            **{"nodes": 6, "topics": 1, "publishers": 1, "subscribers": 3, "interval": 1},
            "side": 500,
        },
    )
    folder = RunFolder.create(tmp_path / "this", scenario)
    observer = Recorded()
    with ended_well(command("--duration", "3", *QUIET, runs=tmp_path / "other")):
        TapBackend().execute(scenario, folder, observer)
    (other,) = (tmp_path / "other").iterdir()
    assert facts(other)["ended"] == "completed"
    assert observer.problems == []
    assert Scenario.load(folder.scenario) == scenario
    road_map = json.loads((folder.path / "map.json").read_text())
    assert road_map == {"waypoints": [list(point) for point in scenario.road_map]}
    assert facts(folder.path)["ended"] == "completed"
    assert facts(folder.path)["problems"] == []
    assert folder.losses.read_text().startswith("time_ns,sender,publisher,")
    fidelity = json.loads(folder.fidelity.read_text())
    names = {check["name"]: check["value"] for check in fidelity["checks"]}
    assert names["packets the captures missed"] == names["captures that ended early"] == 0
    assert names["frames delivered late, median"] > 0
    for node in scenario.nodes:
        assert packets(folder.radio_capture(node)) > 10  # its own beacons alone
        assert "runs broker-gpsr-map" in folder.log(node).read_text()  # it has the road map
    publishers = {o.node for o in scenario.workload if o.action == "publish"}
    for node in scenario.nodes:
        if node.id in publishers:
            assert packets(folder.loopback_capture(node)) >= 2


def test_node_apps_that_die_or_stop_are_reported_and_the_run_goes_on(tmp_path: Path) -> None:
    scenario = quiet(duration=4.0)
    folder = RunFolder.create(tmp_path, scenario)

    memory: dict[str, float] = {}
    room: list[int] = []

    def strike(run: TapRun, seconds: float) -> None:
        if seconds > 1.0 and run.nodes["sta2"].poll() is None:
            memory.update(footprint(run.nodes["sta1"].pid))
            with network_namespace(run.net["sta1"].pid):
                (device,) = json.loads(
                    subprocess.check_output(["ip", "-json", "link", "show", "sta1-wlan0"])
                )
            room.append(device["txqlen"])
            run.nodes["sta2"].kill()
            psutil.Process(run.nodes["sta3"].pid).suspend()

    observer = perform(scenario, folder, strike)
    assert room[0] >= LEAST_QUEUE > scenario.radio.queue_frames  # the medium's queue is the bound
    dead, stopped = sorted(observer.problems)
    assert dead.startswith("sta2: the node app was killed by signal 9")
    assert stopped.startswith("sta3: the node app was stopped by a signal at ")
    assert facts(folder.path)["problems"] == observer.problems
    assert facts(folder.path)["ended"] == "completed"
    # Started by itself, it would have all of its anonymous memory for itself.
    assert memory["Pss_Anon"] < 0.75 * memory["Anonymous"]
    assert memory["Pss"] < 0.5 * memory["Rss"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (signal.SIGKILL, "the medium was killed by signal 9"),
        (signal.SIGTERM, "the medium ended with exit code 0: it was ended from outside"),
    ],
)
def test_the_medium_dying_ends_the_run_with_a_reason(
    tmp_path: Path, how: signal.Signals, reason: str
) -> None:
    scenario = quiet(duration=30.0)
    folder = RunFolder.create(tmp_path, scenario)

    signals = [how]

    def kill_medium(run: TapRun, seconds: float) -> None:
        if seconds > 0.5 and signals:  # once: a process that is about to exit is killed by another
            run.helpers["medium"].send_signal(signals.pop())

    with pytest.raises(BackendError, match=reason):
        perform(scenario, folder, kill_medium)
    assert not folder.fidelity.exists()  # nobody knows
    assert facts(folder.path)["ended"] == "failed"


def test_of_a_helper_that_does_not_answer_one_learns_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulation.backends.realtime.helpers.START_LIMIT", 2.0)
    monkeypatch.setattr(TapRun, "medium", "tests.emulation.backends.asleep")
    scenario = quiet()
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=r"the medium was not ready within 2 s: sleeping in \w"):
        TapBackend().execute(scenario, folder, Recorded())
    log = (folder.logs / "emulation.log").read_text()
    assert "asleep.py" in log


def test_node_apps_that_cannot_start_end_the_run_with_their_own_words(tmp_path: Path) -> None:
    refused = ProtocolSpec(name="flooding", parameters={"unheard_of": 1})
    scenario = quiet().model_copy(update={"protocol": refused})
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=r"every node app ended .* sta1: .*unheard_of"):
        TapBackend().execute(scenario, folder, Recorded())


@pytest.mark.parametrize(
    ("number", "stage"),
    [
        (signal.SIGKILL, "starting 4 stations"),  # test_hangs.py has the other signals then, ...
        (signal.SIGKILL, "starting 4 node apps"),
        (signal.SIGKILL, "running"),
        (signal.SIGINT, "starting 4 node apps"),
        (signal.SIGTERM, "running"),  # ... and test_mesh.py Ctrl-C while a run goes on
    ],
)
def test_a_run_ended_at_any_stage_leaves_nothing(
    tmp_path: Path, number: signal.Signals, stage: str
) -> None:
    process = subprocess.Popen(
        command("--duration", "60", *QUIET, runs=tmp_path),
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        start_new_session=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if stage in line:
            break
    if stage == "running":
        time.sleep(1.0)  # so that there is something in the captures
    process.send_signal(number)
    output = process.stderr.read()
    code = process.wait(30)
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        assert process.pid not in running()
        assert await_condition(lambda: bool(sweep()) or not traces_left(), 5.0)
    else:
        assert code == 130, output
        assert "Traceback" not in output
        assert "interrupted" in output
    (folder,) = tmp_path.iterdir()
    for capture in folder.glob("captures/*.pcap"):
        packets(capture)


def test_a_full_disk_under_the_captures_is_reported(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], check=True)
    try:
        scenario = quiet(duration=4.0)
        folder = RunFolder.create(disk, scenario)
        filler = disk / "filler"

        def fill(seconds: float) -> None:
            if seconds > 0.5 and not filler.exists():
                try:
                    with filler.open("wb", buffering=0) as file:
                        while file.write(b"x" * 4096):
                            pass
                except OSError:
                    threading.Timer(2.0, filler.write_bytes, [b""]).start()

        TapBackend().execute(scenario, folder, Recorded(fill))
        fidelity = json.loads(folder.fidelity.read_text())
        values = {check["name"]: check["value"] for check in fidelity["checks"]}
        assert values["packets not written to a capture file"] > 0
        assert not fidelity["kept_real_time"]
        for node in scenario.nodes:
            packets(folder.radio_capture(node))
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_without_root_it_says_so(tmp_path: Path) -> None:
    os.seteuid(65534)
    try:
        line = command(*QUIET, runs=tmp_path)[len(TESTBED) :]
        result = CliRunner().invoke(app, line, env={"COLUMNS": "200"})
    finally:
        os.seteuid(0)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert "error: needs root: run it with sudo" in result.output


def test_without_tun_it_says_what_to_do(tmp_path: Path) -> None:
    hide = 'mount -t tmpfs none /dev/net && exec "$@"'
    result = subprocess.run(
        ["unshare", "-m", "sh", "-c", hide, "sh", *command(*QUIET, runs=tmp_path)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "/dev/net/tun is missing" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_helper_that_does_not_answer_ends_the_run_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TapBackend, "run_type", Unanswered)
    folder = RunFolder.create(tmp_path, quiet())
    with pytest.raises(BackendError, match=r"^medium: no answer within 5 s$"):
        TapBackend().execute(quiet(), folder, Recorded())
    assert facts(folder.path)["problems"] == ["the run failed: medium: no answer within 5 s"]

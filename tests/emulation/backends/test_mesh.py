"""Mesh access points on the tap backend: bridges, controller, radios, handover, and their ends."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulation.backends.base import BackendError, LiveRun
from emulation.backends.tap import TapBackend, TapRun
from emulation.mobility.trajectory import Waypoint
from emulation.network import switches
from emulation.network.interrupts import Interrupts
from emulation.network.processes import await_condition, running, sweep
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from nodeapp.installation import PROJECT
from testbed.app import app
from testbed.prompt.console import Console
from tests.emulation.backends.test_tap import Recorded, traces_left
from tests.emulation.mesh_lab import (
    cells,
    check_cells,
    check_counters,
    counted,
    mesh,
    moves,
    notified,
    publish,
    require_real_time,
    senders,
    subscribe,
    updates,
)
from tests.testbed.terminal import PROMPT, Terminal

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(switches.obstacles()), reason="; ".join(switches.obstacles())),
]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    sweep()
    yield
    assert await_condition(lambda: not traces_left(), 10.0), traces_left()


def executed(scenario: Scenario, root: Path) -> RunFolder:
    folder = RunFolder.create(root, scenario)
    observer = Recorded()
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    facts = json.loads(folder.record.read_text())
    assert (facts["ended"], facts["problems"]) == ("completed", [])
    return folder


def test_stations_of_different_cells_reach_each_other_and_all_is_counted_twice(
    tmp_path: Path,
) -> None:
    scenario = cells()
    folder = executed(scenario, tmp_path)
    check_cells(folder, scenario)
    # Each of ten events was sent by each of four brokers.
    sent = [frames for (_, path, _), (frames, _) in counted(folder).items() if "ALL" in path]
    assert sum(sent) == 40
    check_counters(folder, scenario)


def test_prediction_delivers_once_through_handovers_and_the_prompt_shows_who_serves(
    tmp_path: Path,
) -> None:
    """Real association, handover, sockets and bridges; the client passes two borders of cells.

    Events, and so last hops that are tried again, are published 0.26 s before a scan or earlier, so
    that no bridge counts after a handover what it dropped before it.
    """
    tracks = {
        "sta1": (Waypoint(0, 130, 125),),
        "sta2": (Waypoint(4, 100, 125), Waypoint(9, 400, 125), Waypoint(13, 400, 365)),
    }
    times = (4.12 + 0.5 * scan + after for scan in range(18) for after in (0.0, 0.12))
    workload = (subscribe(6), *(publish(5, n, time) for n, time in enumerate(times, 1)))
    scenario = mesh(16.0, tracks, workload, "mobility-prediction", scan=0.5, range=400)
    folder = RunFolder.create(tmp_path, scenario)
    script = tmp_path / "commands"
    script.write_text(
        "served\nserved br4\nserved nobody\nfault disturb sta1 sta2 lose 1\n", encoding="utf-8"
    )
    said = io.StringIO()

    def prompt(run: LiveRun) -> None:
        # Four seconds before the first handover, at which two brokers may list the client.
        assert await_condition(lambda: run.now() > 5.0, 30.0, 0.1)
        with Path(os.devnull).open(encoding="utf-8") as nothing:
            Console(run, stdin=nothing, stdout=said, script=str(script))
        assert await_condition(lambda: run.now() > 15.5, 30.0, 0.1)

    observer = Recorded()
    TapBackend().execute(scenario, folder, observer, interact=prompt)
    assert observer.problems == []
    require_real_time(folder)
    check_handovers(folder, scenario)
    assert notified(folder, scenario) == {("sta2", 5, n): 1 for n in range(1, 37)}
    check_counters(folder, scenario)
    # It reported at broker 1 when it set out.
    everybody, nobody, usage, fault = re.split(r"(?m)^(?=no broker|usage|fault)", said.getvalue())
    _, row = (line.split() for line in everybody.splitlines())
    assert row[:3] == ["br1", "sta2", "serving"]
    assert "400,125" in row
    assert row[-2:] == ["br1", "br2"]  # the predicted path
    assert nobody == "no broker here serves a client\n"
    assert usage == "usage: served [BROKER]; brokers: br1, br2, br3, br4\n"
    assert fault == "fault: a fault of kind disturb names sta1\n", "as in a scenario"


def check_handovers(folder: RunFolder, scenario: Scenario) -> None:
    """Check that both handovers of sta2 are in the flows and in the captures."""
    station = scenario.nodes[5]
    assert [move for move in moves(folder) if move[0] == station.mac] == [
        (station.mac, "ap1", None),
        (station.mac, "ap2", "ap1"),
        (station.mac, "ap4", "ap2"),
    ]
    # The layer 2 update is in the capture of the new access point's port.
    shown = updates(folder, scenario, station.mac)
    assert {name: len(times) for name, times in shown.items()} == {
        "ap1": 1, "ap2": 1, "ap3": 0, "ap4": 1,
    }  # fmt: skip
    epoch = json.loads(folder.record.read_text())["epoch_ns"] / 1e9
    (first,), (second,) = shown["ap2"], shown["ap4"]
    assert 6.0 < first - epoch < 8.5  # halfway at 6.5 s, then 5 dB of hysteresis, seen at a scan
    # The station hears the one broker before, the next one after.
    borders = (0.0, first, second, float("inf"))
    for number, broker in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.4")):
        heard = senders(folder, station, borders[number] + 0.1, borders[number + 1] - 0.1)
        assert heard - {station.address} == {broker}


def test_unicasts_find_the_station_where_it_is(tmp_path: Path) -> None:
    stands = {"sta1": (Waypoint(0, 130, 125),), "sta2": (Waypoint(0, 370, 370),)}
    folder = tmp_path / "pings"
    scenario = mesh(30.0, stands, ())

    def ping(run: Any) -> None:
        hosts = run.net
        for name, other, answered in (
            ("sta1", "br1", True),  # over its access point
            ("br1", "br4", True),  # over the mesh, diagonally
            ("sta1", "sta2", False),  # the broker does not forward
            ("sta1", "br2", False),  # nor does the bridge
        ):
            address = hosts[other].spec.address
            said = hosts[name].cmd(f"ping -c 2 -i 0.2 -W 1 {address}")
            assert (" 0% packet loss" in said) == answered, (name, other, said)
        run.interacted = True

    run_folder = RunFolder.create(folder, scenario)
    TapBackend().execute(scenario, run_folder, Recorded(), interact=ping)
    by_path = counted(run_folder)
    assert by_path["ap1", "BROKER_TO_STATION", "EVENTS"][0] == 2
    assert by_path["ap1", "BROKER_TO_MESH", "EVENTS"][0] == 2
    assert by_path["ap1", "STATION_TO_BROKER", "EVENTS"][0] == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_switch_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = "run mesh_grid flooding --no-analyze --duration 60 --set side=2 --set nodes=1"
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", *words.split(), "--set", "topics=0",
         "--runs", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("... running"):
            break
    process.send_signal(number)
    output = process.stderr.read()
    assert process.wait(30) == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in output
    assert process.pid not in running()
    (folder,) = tmp_path.iterdir()
    if number == signal.SIGINT:
        assert json.loads((folder / "flows.json").read_text())["complete"]
    else:
        assert await_condition(lambda: bool(sweep()) or not traces_left(), 5.0)


@pytest.mark.parametrize(
    ("victim", "reason"),
    [("controller", "the controller was killed"), ("switch", "the switch was")],
)
def test_a_switch_or_controller_that_dies_ends_the_run_with_a_reason(
    tmp_path: Path, victim: str, reason: str
) -> None:
    scenario = mesh(30.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    folder = RunFolder.create(tmp_path, scenario)

    def kill(seconds: float) -> None:
        if seconds > 0.2 and run.helpers[victim].poll() is None:
            run.helpers[victim].kill()

    with Interrupts() as interrupts:
        run = TapRun(TapBackend(), scenario, folder, Recorded(kill), interrupts)
        try:
            run.start()
            with pytest.raises(BackendError, match=reason):
                run.watch_until_end()
        finally:
            run.stop()


def test_without_open_vswitch_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "run mesh_grid flooding --no-analyze --set topics=0 --runs"
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("mnexec", "setpriv"):
        (empty / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(empty))
    line = [*words.split(), str(tmp_path / "runs")]
    result = CliRunner().invoke(app, line, env={"COLUMNS": "200"})
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 1
    assert "apt-get install openvswitch-switch" in result.output


def test_without_ryu_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(switches, "RYU_PYTHON", tmp_path / "nothing")
    monkeypatch.setattr(switches, "SYSTEM_PACKAGES", tmp_path / "nothing")
    scenario = mesh(1.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=r"the Ryu controller: run \./run_testbed\.sh setup"):
        TapBackend().execute(scenario, folder, Recorded())


def test_a_controller_that_does_not_start_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python3.11"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho \"No module named 'eventlet'\" >&2; exit 1\n")
    python.chmod(0o755)
    (tmp_path / "lib/python3.11/site-packages/ryu").mkdir(parents=True)
    monkeypatch.setattr(switches, "RYU_PYTHON", python)
    folder = RunFolder.create(tmp_path, cells())
    with pytest.raises(BackendError, match="controller did not start: No module named 'eventlet'"):
        TapBackend().execute(cells(), folder, Recorded())


def test_the_prompt_knows_access_points(tmp_path: Path) -> None:
    settings = "--set side=2 --set nodes=2 --set topics=0 --set speed=0 --set scan=0.1"
    words = f"cli mesh_grid flooding --no-analyze {settings} --runs {tmp_path}"
    terminal = Terminal([sys.executable, "-m", "testbed", *words.split()])
    try:
        terminal.until(PROMPT)
        assert "ap1" in terminal.ask("where")
        terminal.ask("move sta1 130 130")
        assert "error" not in terminal.ask("move ap1 125 125")

        def where() -> str:
            return terminal.ask("aps").split("sta1")[1].split()[0]

        assert await_condition(lambda: where() == "ap1", 10.0, 0.2)
        terminal.ask("fail ap1")
        assert await_condition(lambda: where() in ("ap2", "ap3"), 10.0, 0.2)
        terminal.ask("heal ap1")
        assert await_condition(lambda: where() == "ap1", 10.0, 0.2)
        terminal.ask("fail sta1 ap1")
        assert await_condition(lambda: where() in ("ap2", "ap3"), 10.0, 0.2)
        links = terminal.ask("links ap1")
        assert "access" in links
        assert "mesh" in links
        assert "actions=" in terminal.ask("ap1 ovs-ofctl -O OpenFlow13 dump-flows ap1")
        flows = terminal.ask("dpctl dump-flows")
        for bridge in flows.split("*** ap")[1:]:
            assert "actions=" in bridge, flows
        assert flows.count("*** ap") == 4
        answer = terminal.ask("pingall")
        (row,) = (line for line in answer.splitlines() if line.startswith("sta1 -> "))
        assert "X" in row.split()
        assert "sta2" not in row.split(), "through an access point there is no way"
        assert "Frames of a station go to its access point's broker and no further" in answer
        assert "br1" in terminal.ask("neighbours ap1")  # it runs no node app: says which do
        terminal.type("exit\n")
        assert terminal.ended() == 0
    finally:
        terminal.close()

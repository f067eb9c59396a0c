"""A run on its page while it goes on: what the page is told, and what it shows in Chromium."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from capture.scan import FILE_HEADER
from emulation.backends.tap import TapBackend
from emulation.backends.virtual import run_virtual
from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from emulation.workloads.base import Operation
from nodeapp.wire import Kind
from testbed.app import app
from testbed.live import Live, LiveState, _Growing
from tests import browser as browsers
from tests.emulation.backends.test_tap import Recorded
from topologies.catalog import make_scenario


def scenario(duration: float) -> Scenario:
    """Four stations next to each other, two subscribers, an event each second from 2 s on."""
    settings = {"nodes": 4, "topics": 0, "speed": 0, "side": 100, "hello_interval": 0.3}
    made = make_scenario(
        "roaming_field", "broker-gpsr", seed=1, duration=duration, settings=settings
    )
    wanted = (("topic", "=", "a"),)
    subscribe = [
        Operation(time=0.5, node=node, action="subscribe", subscription=1, filter=wanted)
        for node in (2, 3)
    ]
    publish = [
        Operation(time=time, node=1, action="publish", sequence=time - 1, event={"topic": "a"})
        for time in range(2, int(duration) - 1)
    ]
    fault = Fault(kind="radio", start=duration - 1, nodes=("sta4",), text="radio sta4 at the end")
    return made.model_copy(update={"workload": (*subscribe, *publish), "faults": (fault,)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_virtual(scenario(10.0), tmp_path_factory.mktemp("runs"))


def test_the_captures_tell_events_deliveries_and_the_way_of_each(folder: Path) -> None:
    live = LiveState(folder)
    state = live.state(0)
    assert state["ended"] == "completed"
    assert state["time"] == 10.0
    assert state["published"] == 7
    assert state["delivered"] == 14
    assert [event["sequence"] for event in state["events"]] == list(range(1, 8))
    for event in state["events"]:
        assert sorted(node for node, _ in event["received"]) == [1, 2]
        assert all(0 < delay < 1 for _, delay in event["received"])
    assert {kind for _, _, _, kind, *_ in state["hops"]} == {Kind.EVENT, Kind.SUBSCRIPTION}
    assert (state["down"], state["faults"]) == ([3], ["radio sta4 at the end"])
    heard = {(a, b) for a, b, _ in state["links"]}
    assert {(0, 1), (1, 0), (1, 2), (3, 0)} <= heard
    again = live.state(state["next"])
    assert (again["hops"], again["delivered"]) == ([], 14), "nothing counts twice"


def test_a_capture_that_grows_is_read_once_and_never_in_halves(
    folder: Path, tmp_path: Path
) -> None:
    whole = (folder / "captures" / "sta1-wlan0.pcap").read_bytes()
    path = tmp_path / "growing.pcap"
    growing = _Growing(path)
    assert growing.frames() is None
    seen: list[int] = []
    for size in (0, 10, FILE_HEADER, FILE_HEADER + 7, len(whole) // 2, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        found = growing.frames()
        seen += [] if found is None else found["time_ns"].tolist()
    assert growing.frames() is None
    path = folder / "captures" / "sta1-wlan0.pcap"
    every = _Growing(path).frames()
    assert every is not None
    assert seen == every["time_ns"].tolist()


def test_a_delivery_that_is_written_before_its_event_counts(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    publisher = read_run(copy).folder.loopback_capture(scenario(10.0).nodes[0])
    whole = publisher.read_bytes()
    publisher.write_bytes(whole[:FILE_HEADER])
    live = LiveState(copy)
    assert (live.state(0)["published"], live.state(0)["delivered"]) == (0, 0)
    publisher.write_bytes(whole)
    for _ in range(2):
        state = live.state(0)
        assert (state["published"], state["delivered"]) == (7, 14)


def test_a_browser_that_goes_away_is_no_error(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Live() as live:
        said: list[str] = []
        live.start(folder, said.append)
        live.await_address(30.0)
        port = int(said[0].rpartition(":")[2].rstrip("/"))
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as client:
                reset = struct.pack("ii", 1, 0)  # to close is to reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                client.send(b"GET /state HTTP/1.0\r\nHost: localhost:1\r\n\r\n")
        with urllib.request.urlopen(f"{said[0]}state", timeout=10) as answer:
            assert json.load(answer)["published"] == 7
    assert capfd.readouterr().err == ""


def test_it_answers_on_this_machine_alone_and_to_its_own_name(folder: Path) -> None:
    with Live() as live:
        said: list[str] = []
        live.start(folder, said.append)
        live.start(folder, said.append)
        assert said == [], "it is not waited for"
        live.await_address(30.0)
        (address,) = said
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}state?hops=x", timeout=10) as answer:
            assert json.load(answer)["published"] == 7
        for path, host, code in (("", "evil.example:80", 403), ("../etc/passwd", "", 404)):
            asked = urllib.request.Request(address + path, headers={"Host": host} if host else {})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=10)
            assert refused.value.code == code
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)


def test_a_virtual_run_has_its_replay_instead(tmp_path: Path) -> None:
    words = "run roaming_field flooding --backend virtual --live --runs"
    result = CliRunner().invoke(app, [*words.split(), str(tmp_path)])
    assert result.exit_code == 2
    assert "--live is for runs in real time" in result.output


@pytest.mark.root
def test_a_browser_shows_the_run_while_it_goes_on(tmp_path: Path) -> None:
    run = scenario(20.0)
    folder = RunFolder.create(tmp_path, run)
    said: list[str] = []
    visited: list[float] = []
    found: dict[str, Any] = {}
    with browsers.browser() as browser, Live() as live:

        def look(seconds: float) -> None:
            if found:
                raise KeyboardInterrupt  # all has been seen
            live.start(folder.path, said.append)
            if said:
                browser.visit(said.pop())
                visited.append(seconds)
            if not visited or "event 1 of sta1: sta" not in browser.text("#events"):
                return
            for part in ("clock", "counts", "events"):
                found[part] = browser.text(f"#{part}")
            found["drawn"] = browser.run(
                "const map = document.getElementById('map');"
                "const data = map.getContext('2d').getImageData(0, 0, map.width, map.height);"
                "return data.data.some((value) => value > 0)"
            )

        with pytest.raises(KeyboardInterrupt):
            TapBackend().execute(run, folder, Recorded(look))
        assert browser.errors() == []
    assert found["clock"].endswith(" of 20 s")
    assert "events published" in found["counts"]
    assert "event 1 of sta1: sta" in found["events"]
    assert " ms" in found["events"]
    assert found["drawn"]

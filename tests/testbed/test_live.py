"""A run on its page while it goes on: what the page is told, and what it shows in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from typer.testing import CliRunner

from capture.scan import FILE_HEADER
from emulation.backends.tap import TapBackend
from emulation.backends.virtual import run_virtual
from emulation.mn import record
from emulation.mn.record import NETWORK, ScriptRecord
from emulation.mn.recording import SAMPLES
from emulation.network.processes import await_condition
from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from emulation.workloads.base import Operation
from nodeapp.installation import PROJECT
from testbed.app import app
from testbed.live import captures as live_captures
from testbed.live.captures import Growing
from testbed.live.feed import Changes, Cursor
from testbed.live.page import Live, Server
from testbed.live.run import FollowedRun
from testbed.live.script import FollowedScript
from tests import browser as browsers
from tests.emulation.backends.test_tap import Recorded
from topologies.catalog import make_scenario

SCRIPT = Path(__file__).parent / "mn_scripts" / "roaming.py"
MARKS = "(document.getElementById('replay').replay || {marks: []}).marks"


def following(browser: browsers.Browser) -> str:
    """Return whether the page says that it shows what happens now."""
    return str(
        browser.run(
            "return document.querySelector('[data-part=live]').getAttribute('aria-pressed')"
        )
    )


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
        for time in range(2, min(int(duration), 20) - 1)
    ]
    fault = Fault(kind="radio", start=duration - 1, nodes=("sta4",), text="radio sta4 at the end")
    return made.model_copy(update={"workload": (*subscribe, *publish), "faults": (fault,)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_virtual(scenario(10.0), tmp_path_factory.mktemp("runs"))


def test_the_captures_tell_events_deliveries_and_the_way_of_each(folder: Path) -> None:
    live = FollowedRun(folder)
    state = live.state(Cursor())
    assert state["ended"] == "completed"
    assert state["time"] == 10.0
    assert (state["published"], state["expected"], state["delivered"]) == (7, 14, 14)
    events = {entry[1]: entry for kind, *entry in state["log"] if kind == "event"}
    assert sorted(events) == list(range(1, 8))
    for publisher, sequence, topic, began, clients in events.values():
        assert (publisher, topic, [node for node, _ in clients]) == (0, "a", [1, 2])
        got = [e for kind, *e in state["log"] if kind == "notify" and e[1] == sequence]
        assert sorted(node for _, _, node, *_ in got) == [1, 2]
        assert all(0 < at - began < 1 and due for *_, at, due in got)
        ways = [hop for hop in state["hops"] if hop[1] == sequence]
        assert {to for *_, receivers in ways for to in receivers} >= {1, 2}
        assert all(began <= sent < arrived for _, _, sent, arrived, *_ in ways)
    (fault,) = state["marks"]
    assert (fault["nodes"], fault["text"], fault["kind"]) == ([3], "radio sta4 at the end", "nodes")
    heard = {tuple(entry[:2]) for kind, *entry in state["log"] if kind == "link"}
    assert heard == {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)}
    sent = [frames for node, _, frames, _ in state["loads"] if node == 0]
    assert sum(sent) > 20, "a beacon each 0.3 s, and events"
    assert len(state["tracks"]) == 4
    again = live.state(Cursor(*state["next"]))
    assert (again["hops"], again["log"], again["loads"], again["tracks"]) == ([], [], [], None)
    assert again["delivered"] == 14, "nothing counts twice"


def test_access_points_traffic_goes_hop_by_hop_and_handovers_are_told(tmp_path: Path) -> None:
    settings = {"side": 2, "nodes": 4, "speed": 30, "pause": 0}
    run = make_scenario("mesh_grid", "flooding", seed=1, duration=25.0, settings=settings)
    live = FollowedRun(run_virtual(run, tmp_path))
    names = [node["name"] for node in live.scene()["nodes"]]
    assert names == ["ap1", "ap2", "ap3", "ap4", "sta1", "sta2", "sta3", "sta4"]
    state = live.state(Cursor())
    links = {tuple(entry[:2]) for kind, *entry in state["log"] if kind == "link"}
    assert links, "stations and their access points"
    assert all(a < 4 <= b for a, b in links)
    first = [hop for hop in state["hops"] if hop[:2] == state["hops"][0][:2]]
    assert (first[0][4], first[0][6]) == (4, [0]), "sta1 to ap1"
    assert (first[1][4], set(first[1][6])) == (0, {1, 2, 3, 4, 7}), "on to its neighbours of both"
    told = [entry[0]["text"] for kind, *entry in state["log"] if kind == "handover"]
    assert told[0] == "sta3 hands over from ap3 to ap1"
    served: dict[str, str] = {}
    for text in told:
        station, old, new = text.replace(" hands over from ", " ").replace(" to ", " ").split()
        assert served.get(station, old) == old
        served[station] = new
    loads = {node for node, *_ in state["loads"]}
    assert loads >= {0, 1, 2, 3}, "of each access point"
    roles = [entry for kind, *entry in state["log"] if kind == "role"]
    assert len(roles) == len({tuple(entry) for entry in roles}), "told when they change alone"


def test_a_capture_that_grows_is_read_once_and_never_in_halves(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = (folder / "captures" / "sta1-wlan0.pcap").read_bytes()
    path = tmp_path / "growing.pcap"
    growing = Growing(path)
    assert list(growing.frames()) == []
    seen: list[int] = []
    for size in (0, 10, FILE_HEADER, FILE_HEADER + 7, len(whole) // 2, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        for found in growing.frames():
            seen += found["time_ns"].tolist()
    assert list(growing.frames()) == []
    path = folder / "captures" / "sta1-wlan0.pcap"
    (every,) = Growing(path).frames()
    assert seen == every["time_ns"].tolist()
    monkeypatch.setattr(live_captures, "CHUNK", 1000)
    chunks = [found["time_ns"].tolist() for found in Growing(path).frames()]
    assert len(chunks) >= len(whole) // 1000 > 3, "no read is larger"
    assert [time for chunk in chunks for time in chunk] == seen


def test_a_delivery_that_is_written_before_its_event_counts(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    publisher = read_run(copy).folder.loopback_capture(scenario(10.0).nodes[0])
    whole = publisher.read_bytes()
    publisher.write_bytes(whole[:FILE_HEADER])
    live = FollowedRun(copy)
    state = live.state(Cursor())
    assert (state["published"], state["delivered"]) == (0, 0)
    publisher.write_bytes(whole)
    for _ in range(2):
        state = live.state(Cursor())
        assert (state["published"], state["delivered"]) == (7, 14)


def test_who_comes_late_in_a_long_run_learns_how_things_stand() -> None:
    log = Changes(4)
    log.add("move", 1, 0.0, 5.0, 6.0)
    log.add("role", 1, 2)
    log.add("link", 1, 2, 0.5)
    log.add("link", 1, 3, 0.6)
    log.add("event", 1, 1, "a", 1.0, [])
    log.add("gone", 1, 2, 2.0)
    log.add("move", 1, 3.0, 7.0, 8.0)
    assert log.since(5) == [["gone", 1, 2, 2.0], ["move", 1, 3.0, 7.0, 8.0]]
    assert log.since(log.count) == []
    late = [["missed"], ["move", 1, 0.0, 5.0, 6.0], ["role", 1, 2], ["link", 1, 2, 0.5]]
    kept = [["link", 1, 3, 0.6], ["event", 1, 1, "a", 1.0, []]]
    assert log.since(0) == [*late, *kept, *log.since(5)]
    for number in range(2, 6):
        log.add("event", 1, number, "a", 4.0, [])
    late = [["missed"], ["move", 1, 3.0, 7.0, 8.0], ["role", 1, 2], ["link", 1, 3, 0.6]]
    assert log.since(6)[:5] == [*late, ["older", 1, 1, 0, 0]]
    assert [entry[2] for entry in log.since(6)[5:]] == [2, 3, 4, 5]


def test_two_radios_at_one_access_point_are_one_link_until_both_are_gone(tmp_path: Path) -> None:
    def radio(interface: str, node: str, point: str | None) -> dict[str, Any]:
        return {
            "interface": interface, "node": node, "mode": "managed", "channel": 1, "range": 30.0,
            "connected_to": point,
        }  # fmt: skip

    nodes = [("sta1", "Station"), ("ap1", "OVSAP"), ("ap2", "OVSAP")]
    radios = [("sta1-wlan0", "sta1"), ("sta1-wlan1", "sta1"), ("ap1-w", "ap1"), ("ap2-w", "ap2")]
    network = {
        "epoch_ns": 0, "plot": {},
        "nodes": [{"name": name, "kind": kind, "position": [1, 2, 0]} for name, kind in nodes],
        "radios": [
            {"interface": name, "node": node, "mode": "managed" if "wlan" in name else "master"}
            for name, node in radios
        ],
    }  # fmt: skip
    (tmp_path / NETWORK).write_text(json.dumps(network))
    with (tmp_path / SAMPLES).open("w") as file:
        both = [("ap1-w", "ap1-w"), ("ap1-w", None), ("ap1-w", None), (None, "ap2-w")]
        for second, (one, other) in enumerate(both):
            found = [radio("sta1-wlan0", "sta1", one), radio("sta1-wlan1", "sta1", other)]
            sample = {"time": second, "positions": {}, "radios": found}
            file.write(json.dumps(sample) + "\n")
    live = FollowedScript(tmp_path)
    assert live.look(), "it has no outcome"
    assert live.scene()["area"] == [1, 2, 1, 2]
    (tmp_path / NETWORK).write_text(json.dumps(network | {"plot": {"max_x": 90}}))
    assert live.scene()["area"] == [0, 0, 90, 2], "the script calls plotGraph after build"
    record.write(tmp_path, ScriptRecord(script="roaming.py"))
    assert live.look(), "it has no end"
    record.write(tmp_path, ScriptRecord(script="roaming.py", ended="interrupted"))
    assert not live.look()
    state = live.state(Cursor())
    assert state["ended"] == "interrupted"
    links = [entry for entry in state["log"] if entry[0] in ("link", "gone")]
    assert links == [["link", 0, 1, 0.0], ["gone", 0, 1, 3.0], ["link", 0, 2, 3.0]]
    assert [entry for entry in state["log"] if entry[0] == "range"] == [["range", 0, 30.0]]
    (handover,) = [entry[1] for entry in state["log"] if entry[0] == "handover"]
    assert handover["text"] == "sta1 hands over from ap1 to ap2"


def test_a_page_that_is_open_learns_how_the_run_ended(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(folder, copy)
    record = RunFolder(copy).record
    completed = record.read_text()
    going = json.loads(completed) | {"ended": "running", "epoch_ns": time.time_ns()}
    record.write_text(json.dumps(going))
    ends: list[str | None] = []

    def page(address: str) -> None:
        while not (ends and ends[-1]):
            with urllib.request.urlopen(f"{address}state", timeout=120) as answer:
                ends.append(json.load(answer)["ended"])

    with Live(last=120.0) as live:
        pages: list[Thread] = []
        live.start(copy, lambda address: pages.append(Thread(target=page, args=(address,))))
        live.await_address(120.0)
        pages[0].start()
        assert await_condition(lambda: bool(ends) and live.has_page, 120.0)
        record.write_text(completed)
    pages[0].join()
    assert (ends[0], ends[-1]) == (None, "completed")


def test_a_folder_without_a_run_is_told_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scenario.json").write_text("{}")
    said: list[str] = []
    with Live() as live:
        live.start(tmp_path, said.append)
        live.await_address(120.0)
    assert said == []
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("error: the page of --live: ")


def test_it_answers_on_this_machine_alone_to_its_own_name_whoever_goes_away(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Live() as live:
        said: list[str] = []
        live.start(folder, said.append)
        live.start(folder, said.append)
        assert said == [], "it is not waited for"
        live.await_address(120.0)
        (address,) = said
        assert address.startswith("http://127.0.0.1:")
        port = int(address.rpartition(":")[2].rstrip("/"))
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", port)) as client:
                reset = struct.pack("ii", 1, 0)  # to close is to reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                client.send(b"GET /state HTTP/1.0\r\nHost: localhost:1\r\n\r\n")
        with urllib.request.urlopen(f"{address}state?since=x", timeout=120) as answer:
            assert json.load(answer)["published"] == 7
        for path, host, code in (("", "evil.example:80", 403), ("../etc/passwd", "", 404)):
            asked = urllib.request.Request(address + path, headers={"Host": host} if host else {})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(asked, timeout=120)
            assert refused.value.code == code
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)
    assert capfd.readouterr().err == "", "that a browser goes away is no error"


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve a run's page in this process; yield its address."""
    with Server(FollowedRun(folder), lambda text: None) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()
        thread.join()


def half(address: tuple[str, int]) -> socket.socket:
    """Send half a request."""
    client = socket.create_connection(address, timeout=120)
    client.send(b"GET /state HTTP/1.0\r\nHost:")
    return client


def test_a_connection_that_says_nothing_more_is_closed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.live.page.SILENT", 0.2)
    with served(folder) as address, half(address) as client:
        assert client.recv(1) == b""


def test_connections_that_stay_open_take_few_threads_and_keep_nobody_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.live.page.THREADS", 4)
    monkeypatch.setattr("testbed.live.page.SILENT", 0.5)
    over = Event()

    def drip(clients: Sequence[socket.socket]) -> None:
        while not over.wait(0.05):
            for client in clients:
                with suppress(OSError):  # closed
                    client.send(b" ")

    with ExitStack() as stack:
        host, port = stack.enter_context(served(folder))
        clients = [stack.enter_context(half((host, port))) for _ in range(8)]
        dripping = Thread(target=drip, args=[clients], daemon=True)
        dripping.start()
        with urllib.request.urlopen(f"http://{host}:{port}/state", timeout=120) as answer:
            assert json.load(answer)["published"] == 7
        serving = [each for each in enumerate_threads() if "process_request" in each.name]
        over.set()
        dripping.join()
        assert 0 < len(serving) <= 4


def test_a_virtual_run_has_its_replay_instead(tmp_path: Path) -> None:
    words = "run roaming_field flooding --backend virtual --live --runs"
    result = CliRunner().invoke(app, [*words.split(), str(tmp_path)])
    assert result.exit_code == 2
    assert "--live is for runs in real time" in result.output


@pytest.mark.root
def test_a_browser_shows_the_run_while_it_goes_on(tmp_path: Path) -> None:
    run = scenario(150.0)  # it ends when all has been seen
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
                "const map = document.querySelector('[data-part=map]');"
                "const data = map.getContext('2d').getImageData(0, 0, map.width, map.height);"
                "return data.data.some((value) => value > 0)"
            )
            found["following"] = following(browser)
            found["slider"] = browser.name("[data-part=time]")
            browser.type("[data-part=map]", "\ue011n")  # home, and the first event
            found["way"] = browser.text("[data-part=details]")
            found["then"] = following(browser)

        with pytest.raises(KeyboardInterrupt):
            TapBackend().execute(run, folder, Recorded(look))
        assert browser.errors() == []
    assert found["clock"].endswith(" of 150 s")
    assert "events published" in found["counts"]
    assert "event 1 of sta1: sta" in found["events"]
    assert " ms" in found["events"]
    assert found["drawn"]
    assert (found["following"], found["then"]) == ("true", "false"), "a time of one's choice stays"
    assert found["slider"] == "Time into the run"
    assert "Event 1 of sta1, topic a" in found["way"]
    assert re.search(r"sta[23] after [\d.]+ ms: sta1 → (sta4 → )?sta[23]", found["way"])


@pytest.mark.root
def test_a_browser_shows_a_script_for_mininet_wifi(tmp_path: Path) -> None:
    words = ["mn", str(SCRIPT), "--live", "--for", "90", "--no-analyze", "--runs", str(tmp_path)]
    with browsers.browser() as browser:
        command = subprocess.Popen(
            [sys.executable, "-m", "testbed", *words],
            cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert command.stderr is not None
        try:
            address = next(line for line in command.stderr if line.startswith("live: ")).split()[1]
            browser.visit(address)
            assert await_condition(lambda: bool(browser.run(f"return {MARKS}.length")), 120.0)
            browser.run(
                "const node = document.querySelector('[data-part=node]');"
                "node.value = 0; node.dispatchEvent(new Event('change'))"
            )
            details = "[data-part=details]"  # a second or two behind the marks
            assert await_condition(lambda: "to ap2-wlan1" in browser.text(details), 120.0)
            clock, counts = browser.text("#clock"), browser.text("#counts")
            told = browser.text(details)
            marks = browser.run(f"return {MARKS}")
            assert browser.errors() == []
        finally:
            command.send_signal(signal.SIGINT)
            command.communicate(timeout=120)
    assert (marks[0]["text"], marks[0]["kind"]) == ("sta1 hands over from ap1 to ap2", "handover")
    assert re.fullmatch(r"\d+ s", clock)
    assert counts == "2 of 2 radios have an access point"
    assert re.search(
        r"sta1-wlan0: managed, channel 6, connected to ap2-wlan1, signal -\d\d dBm", told
    )
    assert "linked with ap2" in told

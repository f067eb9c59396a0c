"""Mesh access points on the tap backend: bridges, controller, radios, handover, and their ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import LLC, Ether
from scapy.utils import PcapReader

from capture.layers import PubSub
from emulation import switches
from emulation.backends import BackendError
from emulation.backends.tap import TapBackend, TapRun
from emulation.catalog import make_scenario
from emulation.interrupts import Interrupts
from emulation.processes import PROJECT, await_condition, running, sweep
from emulation.runs import RunFolder
from emulation.scenario import Operation, Scenario, Waypoint
from nodeapp.wire import Kind, TrafficClass
from tests.emulation.backends.test_tap import Recorded, traces_left
from tests.emulation.test_console import PROMPT, Terminal

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(switches.obstacles()), reason="; ".join(switches.obstacles())),
]

NEWS = (("topic", "=", "news"),)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    sweep()
    yield
    assert await_condition(lambda: not traces_left(), 10.0), traces_left()


def mesh(
    duration: float,
    tracks: Mapping[str, tuple[Waypoint, ...]],
    workload: tuple[Operation, ...],
    **settings: Any,
) -> Scenario:
    """A mesh of 2 by 2 whose stations have these trajectories; brokers are nodes 1 to 4."""
    values = {"side": 2, "nodes": len(tracks), "topics": 0, "speed": 0} | settings
    drawn = make_scenario("mesh_grid", "flooding", seed=1, duration=duration, settings=values)
    nodes = tuple(
        node.model_copy(update={"waypoints": tracks.get(node.name, node.waypoints)})
        for node in drawn.nodes
    )
    return Scenario.model_validate(
        drawn.model_dump() | {"nodes": nodes, "workload": [o.model_dump() for o in workload]}
    )


def executed(scenario: Scenario, root: Path) -> RunFolder:
    folder = RunFolder.create(root, scenario)
    observer = Recorded()
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    facts = json.loads(folder.facts.read_text())
    assert (facts["ended"], facts["problems"]) == ("completed", [])
    return folder


def packets(capture: Path) -> list[Any]:
    with PcapReader(str(capture)) as reader:
        return [Ether(bytes(packet)) for packet in reader]


def times(capture: Path) -> list[tuple[float, Any]]:
    with PcapReader(str(capture)) as reader:
        return [(float(packet.time), Ether(bytes(packet))) for packet in reader]


def notified(folder: RunFolder, scenario: Scenario) -> Counter[tuple[str, int, int]]:
    """Return how often each (node, publisher, sequence) was handed to a client."""
    found: Counter[tuple[str, int, int]] = Counter()
    for node in scenario.nodes:
        for packet in packets(folder.loopback_capture(node)):
            if PubSub in packet and packet[PubSub].kind == Kind.NOTIFY:
                found[node.name, packet[PubSub].publisher, packet[PubSub].sequence] += 1
    return found


def subscribe(node: int, time: float = 0.5) -> Operation:
    return Operation(time=time, node=node, action="subscribe", subscription=1, filter=NEWS)


def publish(node: int, sequence: int, time: float) -> Operation:
    event = {"topic": "news"}
    return Operation(
        time=time, node=node, action="publish", sequence=sequence, event=event, size=200
    )


def counted(folder: RunFolder) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return frames and bytes by access point, path and class."""
    flows = json.loads(folder.flows.read_text())
    assert flows["complete"]
    return {
        (point["name"], each["path"], each["class"]): (each["frames"], each["bytes"])
        for point in flows["access_points"]
        for each in point["counters"]
    }


def moves(folder: RunFolder) -> list[tuple[str, str, str | None]]:
    flows = json.loads(folder.flows.read_text())
    return [(each["station"], each["access_point"], each["left"]) for each in flows["moves"]]


def test_stations_of_different_cells_reach_each_other_and_all_is_counted_twice(
    tmp_path: Path,
) -> None:
    stands = {
        "sta1": (Waypoint(0, 130, 130),),
        "sta2": (Waypoint(0, 370, 370),),
        "sta3": (Waypoint(0, 120, 120),),
    }
    workload = (
        *(subscribe(node) for node in (6, 7)),
        *(publish(5, n, 1.0 + 0.2 * n) for n in range(1, 11)),
    )
    scenario = mesh(5.0, stands, workload)
    folder = executed(scenario, tmp_path)
    expected = {(name, 5, n): 1 for name in ("sta2", "sta3") for n in range(1, 11)}
    assert dict(notified(folder, scenario)) == expected

    # Every frame of a station goes to its broker, and nowhere else: sta3 hears sta1 only twice
    # removed, at two hops.
    (third,) = [node for node in scenario.nodes if node.name == "sta3"]
    heard = [p for p in packets(folder.radio_capture(third)) if PubSub in p]
    assert {p[IP].src for p in heard} == {"10.0.0.1", "10.0.0.7"}
    assert min(p[PubSub].hops for p in heard if p[IP].src == "10.0.0.1") == 2

    # Counters of flows and captures of the ports, frame by frame and byte by byte.
    brokers = {node.id: node for node in scenario.nodes if node.wired}
    by_path = counted(folder)
    assert sum(frames for (_, path, _), (frames, _) in by_path.items() if "ALL" in path) == 40
    for point in scenario.access_points:
        broker = brokers[point.broker]
        seen: Counter[tuple[str, str, str]] = Counter()
        octets: Counter[tuple[str, str, str]] = Counter()
        files = {kind: folder.port_capture(point.port(kind)) for kind in ("wlan0", "mesh0")}
        for kind, file in (files | {"eth0": folder.radio_capture(broker)}).items():
            for packet in packets(file):
                if IP in packet:
                    own = packet[IP].src == broker.address
                    direction = "in" if own == (kind == "eth0") else "out"
                    passage = (kind, direction, TrafficClass(packet[IP].tos >> 2).name)
                    seen[passage] += 1
                    octets[passage] += len(packet)
        for each in TrafficClass:
            paths = {
                path: by_path[point.name, path, each.name]
                for path in ("STATION_TO_BROKER", "MESH_TO_BROKER", "BROKER_TO_ALL")
            }
            station, from_mesh, everywhere = paths.values()
            for key, wanted in {
                ("wlan0", "in"): station,
                ("mesh0", "in"): from_mesh,
                ("eth0", "in"): everywhere,
                ("wlan0", "out"): everywhere,
                ("mesh0", "out"): everywhere,
                ("eth0", "out"): (station[0] + from_mesh[0], station[1] + from_mesh[1]),
            }.items():
                port, direction = key
                place = (port, direction, each.name)
                assert (seen[place], octets[place]) == wanted, (point.name, place)


def test_a_handover_moves_the_flow_and_shows_in_the_captures(tmp_path: Path) -> None:
    tracks = {
        "sta1": (Waypoint(0, 130, 125),),
        # From the cell of ap1 into that of ap2, and events all along the way.
        "sta2": (Waypoint(2, 100, 125), Waypoint(7, 400, 125)),
    }
    workload = (subscribe(6), *(publish(5, n, 1.0 + 0.2 * n) for n in range(1, 41)))
    scenario = mesh(11.0, tracks, workload, scan=0.5)
    folder = executed(scenario, tmp_path)
    station = scenario.nodes[5].mac
    assert [move for move in moves(folder) if move[0] == station] == [
        (station, "ap1", None),
        (station, "ap2", "ap1"),
    ]
    # The layer 2 update is in the capture of the new access point's port.
    points = {point.name: point for point in scenario.access_points}
    updates = {
        name: [
            time
            for time, packet in times(folder.port_capture(point.port("wlan0")))
            if packet.src == station and LLC in packet
        ]
        for name, point in points.items()
    }
    assert {name: len(found) for name, found in updates.items()} == {
        "ap1": 1, "ap2": 1, "ap3": 0, "ap4": 0,
    }  # fmt: skip
    epoch = json.loads(folder.facts.read_text())["epoch_ns"] / 1e9
    moved = updates["ap2"][0] - epoch
    assert 4.0 < moved < 6.5  # halfway at 4.5 s, then 5 dB of hysteresis, seen at a scan
    # The station hears the one broker before, the other after.
    sources = {
        "before": {p[IP].src for t, p in times(folder.radio_capture(scenario.nodes[5]))
                   if IP in p and t - epoch < moved - 0.1},
        "after": {p[IP].src for t, p in times(folder.radio_capture(scenario.nodes[5]))
                  if IP in p and t - epoch > moved + 0.1},
    }  # fmt: skip
    assert sources == {"before": {"10.0.0.1", "10.0.0.6"}, "after": {"10.0.0.2", "10.0.0.6"}}
    # Never twice, and lost at most what was on its way at the moment of the handover.
    received = notified(folder, scenario)
    assert set(received.values()) == {1}
    assert len(received) >= 39


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
        [sys.executable, "-m", "emulation.cli", *words.split(), "--set", "topics=0",
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
    assert running() == []
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
        run = TapRun(scenario, folder, Recorded(kill), interrupts)
        try:
            run.start()
            with pytest.raises(BackendError, match=reason):
                run.watch_until_end()
        finally:
            run.stop()


def test_without_open_vswitch_it_says_what_to_do(tmp_path: Path) -> None:
    words = "run mesh_grid flooding --no-analyze --set topics=0 --runs"
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("mnexec", "setpriv"):
        (empty / name).symlink_to(f"/usr/bin/{name}")
    result = subprocess.run(
        [sys.executable, "-m", "emulation.cli", *words.split(), str(tmp_path / "runs")],
        cwd=PROJECT,
        env=os.environ | {"PATH": str(empty)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "apt-get install openvswitch-switch" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_ryu_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(switches, "RYU_PYTHON", tmp_path / "nothing")
    scenario = mesh(1.0, {"sta1": (Waypoint(0, 130, 125),)}, ())
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=r"the Ryu controller: run \./run_testbed\.sh setup"):
        TapBackend().execute(scenario, folder, Recorded())


def test_the_prompt_knows_access_points(tmp_path: Path) -> None:
    settings = "--set side=2 --set nodes=1 --set topics=0 --set speed=0 --set scan=0.1"
    words = f"cli mesh_grid flooding --no-analyze {settings} --runs {tmp_path}"
    terminal = Terminal([sys.executable, "-m", "emulation.cli", *words.split()])
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
        assert "br1" in terminal.ask("neighbours ap1")  # it runs no node app: says which do
        terminal.type("exit\n")
        assert terminal.ended() == 0
    finally:
        terminal.close()

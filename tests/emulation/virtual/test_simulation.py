"""A scenario under the virtual clock: the same every time, workload, motion, defects."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from emulation.backends.base import BackendError
from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder, PcapRecorder
from emulation.virtual.simulation import Simulation
from emulation.workloads.base import Operation
from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import ClientKind
from nodeapp.pubsub.flooding import Flooding
from nodeapp.wire import BROADCAST, decode
from topologies.catalog import make_scenario

ROOT = Path(__file__).resolve().parents[3]
DIGESTS = {
    "flooding": "2286756d9ecd188b3c69e9077cb857f0ef18eab5c67e3e6df819455f76d9f8d8",
    "broker-gpsr": "de373462adc871ca56bfe5bda387c68bd72926a1982610ec71deeae0f9d30bc2",
}
"""SHA-256 over the captures of `roaming()`, which no machine and no Python may change.

A change of a protocol, of the wire format or of the radio model does, and then they are replaced.
"""


def roaming(protocol: str, **settings: object) -> Scenario:
    return make_scenario(
        "roaming_field",
        protocol,
        seed=5,
        duration=20,
        settings={"nodes": 15, "speed": 10, "interval": 1, **settings},
    )


def digest(scenario: Scenario, root: Path) -> str:
    folder = RunFolder.create(root, scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    sha = hashlib.sha256()
    for file in sorted(folder.captures.iterdir()):
        sha.update(file.name.encode())
        sha.update(file.read_bytes())
    return sha.hexdigest()


@pytest.mark.parametrize("protocol", sorted(DIGESTS))
def test_captures_are_the_same_on_every_machine(protocol: str, tmp_path: Path) -> None:
    assert digest(roaming(protocol), tmp_path) == DIGESTS[protocol]


@pytest.mark.slow
def test_hashes_compiled_modules_and_vector_units_do_not_matter(tmp_path: Path) -> None:
    environment = {
        "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2",
        "TESTBED_COMPILED": "0",
        "NPY_DISABLE_CPU_FEATURES": "AVX512_SKX AVX512F AVX2 FMA3",
    }
    script = (
        "import sys; from pathlib import Path;"
        "from tests.emulation.virtual.test_simulation import digest, roaming;"
        "print(digest(roaming('broker-gpsr', propagation='logNormalShadowing'), Path(sys.argv[1])))"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "there")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    here = digest(roaming("broker-gpsr", propagation="logNormalShadowing"), tmp_path / "here")
    assert result.stdout.split() == [here]


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    scenario = roaming("flooding")
    other = scenario.model_copy(update={"seed": 6})
    assert digest(scenario, tmp_path) != digest(other, tmp_path)


class Listener(NullRecorder):
    """Keeps what passed on the loopbacks."""

    def __init__(self) -> None:
        self.messages: list[tuple[float, int, int, bool]] = []

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        frame = decode(datagram)
        self.messages.append((time, station, frame.kind, to_client))


def test_the_workload_is_performed_at_its_times_and_leases_are_renewed() -> None:
    wanted = (("topic", "=", "news"),)
    workload = (
        Operation(time=1, node=1, action="subscribe", subscription=1, filter=wanted),
        Operation(time=1, node=2, action="subscribe", subscription=1, filter=wanted),
        Operation(time=50, node=2, action="unsubscribe", subscription=1),
        *(
            Operation(time=at, node=3, action="publish", sequence=n, event={"topic": "news"})
            for n, at in enumerate((2.0, 90.0), start=1)
        ),
    )
    scenario = roaming("flooding", speed=0).model_copy(
        update={"workload": workload, "duration": 100.0}
    )
    listener = Listener()
    simulation = Simulation(scenario, listener)
    simulation.run()
    asked = Counter((station, kind) for _, station, kind, to in listener.messages if not to)
    assert asked[0, ClientKind.SUBSCRIBE] == 5  # at 1, 21, 41, 61 and 81
    assert asked[1, ClientKind.SUBSCRIBE] == 3
    told = [
        (round(time), s) for time, s, kind, to in listener.messages if kind == ClientKind.NOTIFY
    ]
    assert told == [(2, told[0][1]), (2, told[1][1]), (90, 0)]
    assert {station for _, station in told[:2]} == {0, 1}
    assert simulation.problems == []


def test_a_refused_request_is_a_problem() -> None:
    refused = (Operation(time=1, node=1, action="publish", sequence=1, event={"speed": 3}),)
    scenario = roaming("broker-gpsr").model_copy(update={"workload": refused})
    simulation = Simulation(scenario, NullRecorder())
    simulation.run()
    (problem,) = simulation.problems
    assert problem.startswith("sta1: publish at 1.0 s was refused")
    assert "topic" in problem


def test_the_medium_follows_the_trace() -> None:
    scenario = roaming("flooding")
    simulation = Simulation(scenario, NullRecorder())
    for time in (0.0, 3.7, 19.9):
        simulation.run(time)
        positions = scenario.trace().positions(time)
        for index in range(15):
            x, y = simulation.medium.table.position(index)
            assert abs(x - positions[index, 0]) + abs(y - positions[index, 1]) < 0.02 * 250


def test_a_long_datagram_arrives_whole_or_not_at_all() -> None:
    scenario = roaming("flooding", nodes=2, topics=0, speed=0, side=50)
    simulation = Simulation(scenario, NullRecorder())
    got: list[bytes] = []
    simulation.nodes[1].service.datagram_received = (  # type: ignore[method-assign]
        lambda datagram, sender: got.append(datagram)
    )
    simulation.run(1.0)
    simulation.nodes[0].send(2, bytes(20_000))
    simulation.nodes[0].send(BROADCAST, bytes(3000))
    simulation.run(2.0)
    assert sorted(map(len, got)) == [3000, 20_000]
    assert simulation.medium.counters.queued[0] >= 14 + 3


def test_nobody_is_sent_to_who_is_not_there() -> None:
    simulation = Simulation(roaming("flooding", nodes=2, topics=0), NullRecorder())
    simulation.nodes[0].send(77, b"lost")
    assert simulation.nodes[0].counters["send failed: no such neighbour"] == 1
    assert simulation.medium.counters.queued[0] == 0


def _raise(*_: object) -> None:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize("raised_in", ["receive", "timer"])
def test_a_defect_is_logged_and_the_run_goes_on(raised_in: str, tmp_path: Path) -> None:
    scenario = roaming("flooding")
    folder = RunFolder.create(tmp_path, scenario)
    told: list[str] = []
    broken: list[Callable[[], None]] = []

    class Broken(PcapRecorder):
        """Breaks a node when its first packet is recorded, since the run is made inside."""

        def sent(self, time: float, station: int, to: int, datagram: bytes) -> list[bytes]:
            for action in broken:
                action()
            broken.clear()
            return list(super().sent(time, station, to, datagram))

    hosts: list[Host] = []
    before = Simulation.__init__

    def remember(self: Simulation, *args: object, **more: object) -> None:
        before(self, *args, **more)  # type: ignore[arg-type]
        hosts.extend(self.nodes)

    def break_it() -> None:
        host = hosts[3]
        if raised_in == "receive":
            host.service.receive = _raise  # type: ignore[attr-defined]
        else:
            host.call_later(1.0, _raise)

    broken.append(break_it)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulation, "__init__", remember)
        simulate(scenario, folder, Broken(scenario, folder), problem=told.append)
    counts = ("10 internal errors so far, at 1 node", "100 internal errors so far, at 1 node")
    assert tuple(told[1:]) == (counts if raised_in == "receive" else ())
    assert told[0].startswith("sta4: defect in the protocol: ZeroDivisionError: a defect (")
    assert "in _raise" in (folder.logs / "sta4.log").read_text()
    assert '"ended": "completed"' in folder.record.read_text()
    assert "a defect" in folder.record.read_text()


def test_a_defect_in_a_constructor_ends_the_run_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = roaming("flooding")
    folder = RunFolder.create(tmp_path, scenario)
    monkeypatch.setattr(Flooding, "__init__", lambda *_: _raise())
    with pytest.raises(BackendError, match="sta1: defect in the protocol: ZeroDivisionE"):
        simulate(scenario, folder, NullRecorder())
    assert "in _raise" in (folder.logs / "sta1.log").read_text()
    record = folder.record.read_text()
    assert '"ended": "failed"' in record
    assert "in _raise" in record


def test_a_defect_in_the_constructor_of_a_node_that_comes_back_ends_the_run_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = roaming("flooding", faults="crash sta1 at 1 for 1")
    folder = RunFolder.create(tmp_path, scenario)
    made, whole = len(scenario.nodes), Flooding.__init__

    def once(service: Flooding, *words: Any) -> None:
        nonlocal made
        made -= 1
        whole(service, *words) if made >= 0 else _raise()

    monkeypatch.setattr(Flooding, "__init__", once)
    with pytest.raises(BackendError, match=r"^sta1: defect in the protocol: ZeroDivisionError"):
        simulate(scenario, folder, NullRecorder())
    assert "the run failed: sta1: defect" in folder.record.read_text()


def test_without_a_place_to_report_a_defect_is_raised() -> None:
    simulation = Simulation(roaming("flooding"), NullRecorder())
    simulation.nodes[0].call_later(1.0, _raise)
    with pytest.raises(ZeroDivisionError):
        simulation.run()


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_leaves_the_collector_as_it_was(fails: bool) -> None:
    simulation = Simulation(roaming("flooding"), NullRecorder())
    before, seen = gc.get_threshold(), []

    def look() -> None:
        seen.append((gc.get_threshold(), gc.get_freeze_count()))
        if fails:
            _raise()

    simulation.clock.call_at(1.0, look)
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        simulation.run()
    [((youngest, *others), frozen)] = seen
    assert youngest > 700
    assert tuple(others) == before[1:]
    assert frozen > gc.get_freeze_count()
    assert gc.get_threshold() == before


def test_an_event_of_a_real_run_is_the_same_event() -> None:
    scenario = roaming("flooding")
    seen: list[Event] = []
    simulation = Simulation(scenario, NullRecorder())
    for host in simulation.nodes:
        host.clients.notify = lambda event, hops: seen.append(event)  # type: ignore[method-assign]
    simulation.run()
    published = {(o.node, o.sequence): o for o in scenario.workload if o.action == "publish"}
    assert seen
    for event in seen:
        operation = published[event.publisher, event.sequence]
        assert event.attributes.items() >= operation.event.items()

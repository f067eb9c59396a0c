"""Faults of a scenario on the tap backend: real processes are killed, real radios silenced."""

from __future__ import annotations

import select
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from scapy.layers.inet import IP

from capture.layers import PubSub
from emulation.backends.base import BackendError
from emulation.backends.hwsim import HwsimBackend
from emulation.backends.mininet_wifi import MininetWifiBackend
from emulation.backends.tap import TapBackend
from emulation.backends.virtual import VirtualBackend
from emulation.check.observed import observe
from emulation.mobility.contacts import Contact
from emulation.mobility.trajectory import Waypoint
from emulation.network.driver import client_socket
from emulation.network.processes import await_condition
from emulation.scenario.faults import Fault
from emulation.scenario.runfolder import RunFolder
from emulation.workloads.base import Operation
from nodeapp.kinds import ClientKind, CommonKind, Role
from nodeapp.pubsub.registry import kinds_of
from nodeapp.wire import Frame, decode, decode_body
from tests.emulation.backends.test_tap import (
    Recorded,
    _nothing_left,  # noqa: F401  # a fixture
    facts,
    packets,
    quiet,
)
from tests.emulation.mesh_lab import notified, recorded, require_real_time, sender_of
from tests.emulation.mesh_lab import times as timed
from topologies.catalog import make_scenario

pytestmark = pytest.mark.root

TOPIC = (("topic", "=", "a"),)
HEADERS = 14 + 20 + 8
"""Bytes before the payload of a datagram in a packet."""


def test_node_apps_come_back_radios_fall_silent_and_positions_and_clocks_are_wrong(
    tmp_path: Path,
) -> None:
    """The clock is that of a time namespace: nothing in a node app knows of it."""
    faults = (
        "crash sta2 at 1 for 1.5; radio sta3 at 0; jam 0,0 power -90 at 1 for 1; "
        "position sta1 off 300,-40 at 0.5 for 1.5; clock sta4 ahead 5000.25 at 0"
    )
    workload = (
        Operation(time=0.5, node=2, action="subscribe", subscription=1, filter=TOPIC),
        Operation(time=2.2, node=2, action="unsubscribe", subscription=1),  # nobody is there
    )
    scenario = quiet(duration=5.0, faults=faults).model_copy(update={"workload": workload})
    places: dict[float, list[float]] = {}
    offsets: set[tuple[str, ...]] = set()
    pids: dict[str, int] = {}

    def ask(seconds: float) -> None:
        if not pids:  # before one of all processes has ended
            pids.update({name: pid_of(name) for name in ("sta1", "sta4")})
        for time in (1.7, 3.5):
            if seconds > time and time not in places:
                places[time] = status_of(pids["sta1"])["position"]
        for name, pid in pids.items():
            words = Path(f"/proc/{pid}/timens_offsets").read_text().splitlines()[0]
            offsets.add((name, *words.split()))

    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded(ask)
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    assert facts(folder.path)["problems"] == []
    assert facts(folder.path)["ended"] == "completed"
    logs = {node.name: folder.log(node).read_text() for node in scenario.nodes}
    assert logs["sta2"].count("runs broker-gpsr") == 2
    assert logs["sta1"].count("runs broker-gpsr") == 1
    sent = {node.name: packets(folder.radio_capture(node)) for node in scenario.nodes}
    assert sent["sta3"] < 0.6 * sent["sta1"]  # it hears nobody
    (x, y) = scenario.nodes[0].waypoints[0][1:]
    assert places[1.7] == pytest.approx([x + 300, y - 40], abs=0.5)
    assert places[3.5] == pytest.approx([x, y], abs=0.5)
    assert offsets == {("sta1", "monotonic", "0", "0"), ("sta4", "monotonic", "5000", "250000000")}


def test_stations_that_share_a_key_meet_on_tap_as_under_the_virtual_clock(tmp_path: Path) -> None:
    contacts = (Contact(1, 2, 0.0, 6.0), Contact(2, 3, 2.0, 4.0))
    scenario = quiet(duration=6.0, auth="psk").model_copy(update={"contacts": contacts})
    answers: list[str] = []

    def ask(seconds: float) -> None:
        if seconds > 2.0 and not answers:
            answers.append(str(status_of(pid_of("sta1"))))

    for backend, observer in ((VirtualBackend(), Recorded()), (TapBackend(), Recorded(ask))):
        folder = RunFolder.create(tmp_path / backend.name, scenario)
        backend.execute(scenario, folder, observer)
        assert observer.problems == []
        if backend.name == "tap":
            require_real_time(folder)
        begin = facts(folder.path)["epoch_ns"] / 1e9
        ids = {node.address: node.id for node in scenario.nodes}
        frames = {
            node.id: [
                (ids[sender], at - begin)
                for at, packet in recorded(folder.radio_capture(node))
                if (sender := sender_of(packet)) is not None
            ]
            for node in scenario.nodes[:3]
        }
        heard = {
            node: [(sender, at) for sender, at in seen if sender != node]
            for node, seen in frames.items()
        }
        assert {sender for sender, _ in heard[1]} == {2}
        times = [at for sender, at in heard[3] if sender == 2]
        assert len(times) == len(heard[3]), "it meets nobody else"
        assert 1.95 < min(times) < max(times) < 4.1
        # All that the other one sent meanwhile, whose timers may be late, but for a border's.
        sent = [at for sender, at in frames[2] if sender == 2 and 2 <= at < 4]
        assert len(sent) > 20
        assert len(times) == pytest.approx(len(sent), abs=2)
    assert "refused" not in answers[0]
    assert "'neighbours': {'2'" in answers[0]
    for other in (HwsimBackend(), MininetWifiBackend()):
        with pytest.raises(BackendError, match="only the backends tap and virtual"):
            other.execute(scenario, RunFolder.create(tmp_path / other.name, scenario), Recorded())


def test_what_is_disturbed_and_forged_is_on_tap_as_under_the_virtual_clock(tmp_path: Path) -> None:
    faults = (
        "disturb sta1 sta2 lose 1 at 0; disturb sta1 sta3 duplicate 1 delay 0.02 at 0; "
        "stranger 00010203 as sta1 to sta2 at 1.5; stranger 00040506 as 99 at 2"
    )
    scenario = quiet(duration=5.0, faults=faults)
    forged = []
    for backend in (TapBackend(), VirtualBackend()):
        folder = RunFolder.create(tmp_path / backend.name, scenario)
        backend.execute(scenario, folder, Recorded())
        heard = {
            node.name: [packet for _, packet in recorded(folder.radio_capture(node))]
            for node in scenario.nodes
        }
        of_first = {
            name: sum(sender_of(packet) == scenario.nodes[0].address for packet in packets)
            for name, packets in heard.items()
        }
        assert of_first["sta2"] < 0.3 * of_first["sta4"], "but those before second 0"
        assert 1.5 < of_first["sta3"] / of_first["sta4"] < 2.1
        forged.append(
            {
                name: [
                    packet
                    for packet in packets
                    if sender_of(packet) is not None and packet[HEADERS] == 0
                ]
                for name, packets in heard.items()
            }
        )
    assert forged[0] == forged[1]
    assert [len(packets) for packets in forged[0].values()] == [1, 2, 1, 1]


@pytest.mark.parametrize("fault", ["disturb sta1 sta2 lose 1 at 1", "stranger 00 as sta1 at 1"])
def test_radios_of_the_kernel_refuse_what_only_the_own_medium_can(
    tmp_path: Path, fault: str
) -> None:
    for backend, message in (
        (HwsimBackend(), rf"has no fault of kind .*\({fault}\): leave it out"),
        (MininetWifiBackend(), rf"cannot make radio faults \({fault}\): leave them"),
    ):
        with pytest.raises(BackendError, match=message):
            backend.execute(quiet(faults=fault), RunFolder(tmp_path), Recorded())


def test_wmediumd_makes_no_faults_of_radios(tmp_path: Path) -> None:
    scenario = quiet(faults="radio sta3 at 1")
    with pytest.raises(
        BackendError, match=r"cannot make radio faults \(radio sta3 at 1\): leave them"
    ):
        MininetWifiBackend().execute(scenario, RunFolder(tmp_path), Recorded())


def test_a_rendezvous_outlives_a_crash_and_the_emptying_of_its_cell(tmp_path: Path) -> None:
    """Cells are 88 m wide; sta3 and sta4 are those of the topic's, and everybody hears everybody.

    sta3 crashes, and then sta4 leaves, so that the cell is empty and another is home.
    """
    topic = "news19"
    waypoints: dict[str, tuple[Waypoint, ...]] = {
        "sta1": (Waypoint(0, 40, 40),),
        "sta2": (Waypoint(0, 220, 40),),
        "sta3": (Waypoint(0, 120, 40),),
        "sta4": (Waypoint(0, 140, 50), Waypoint(8, 140, 50), Waypoint(8.5, 140, 130)),
        "sta5": (Waypoint(0, 130, 150),),
    }
    settings = {
        "nodes": 5, "side": 300, "topics": 0, "speed": 0, "hello_interval": 0.25,
        "replicas": 1, "nearest": 1, "faults": "crash sta3 at 4",
    }  # fmt: skip
    drawn = make_scenario(
        "roaming_field", "georendezvous", seed=1, duration=14.0, settings=settings
    )
    nodes = [node.model_copy(update={"waypoints": waypoints[node.name]}) for node in drawn.nodes]
    times = [2.0 + 0.25 * n for n in range(45)]
    wanted = (("topic", "=", topic),)
    workload = (
        Operation(time=0.7, node=1, action="advertise", event={"topic": topic}),
        Operation(time=0.7, node=2, action="subscribe", subscription=1, filter=wanted),
        *(
            Operation(time=time, node=1, action="publish", sequence=n, event={"topic": topic})
            for n, time in enumerate(times, start=1)
        ),
    )
    scenario = drawn.model_copy(update={"nodes": tuple(nodes), "workload": workload})
    folder = RunFolder.create(tmp_path, scenario)
    observer = Recorded()
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    require_real_time(folder)
    received = notified(folder, scenario)
    assert set(received.values()) == {1}
    # Those that meet the crash or the move on their way may be lost; a second or so later none is.
    calm = {n for n, time in enumerate(times, start=1) if not (3.9 < time < 6 or 7.9 < time < 10)}
    assert {n for _, _, n in received} >= calm

    epoch = facts(folder.path)["epoch_ns"] / 1e9
    events = [
        (node.name, time - epoch)
        for node in scenario.nodes[1:]
        for time, packet in timed(folder.radio_capture(node))
        if PubSub in packet
        and (packet[PubSub].kind, packet[IP].src) == (CommonKind.EVENT, node.address)
    ]

    def carriers(since: float, until: float) -> set[str]:
        """Return who sent events on then, but the publisher."""
        return {name for name, time in events if since < time < until}

    assert carriers(2.0, 3.9) == {"sta3", "sta4"}  # by turns
    assert carriers(6.0, 7.9) == {"sta4"}
    after = carriers(10.0, 14.0)
    assert after
    assert "sta3" not in after


def test_a_kernel_without_time_namespaces_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "emulation.backends.realtime.backend.TIME_NAMESPACE"
    monkeypatch.setattr(where, tmp_path / "none")
    scenario = quiet(faults="clock sta1 ahead 60 at 0")
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match=r"clock sta1 ahead 60 at 0: this kernel has no time"):
        TapBackend().execute(scenario, folder, Recorded())


def test_forged_events_with_numbers_far_ahead_silence_no_publisher(tmp_path: Path) -> None:
    topic = {"topic": "a"}
    made = make_scenario(
        *("roaming_field", "rendezvous-aodv"),
        seed=1,
        duration=9.0,
        settings={"nodes": 4, "topics": 0, "speed": 0, "side": 100},
    )
    workload = [
        Operation(time=0.5, node=2, action="subscribe", subscription=1, filter=TOPIC),
        *(
            Operation(time=3 + 0.5 * n, node=1, action="publish", sequence=n, event=topic)
            for n in range(1, 11)
        ),
    ]
    scenario = made.model_copy(update={"workload": tuple(workload)})
    samples = observe(scenario).samples
    event = decode(next(samples[kind] for kind in samples if kind in kinds_of(Role.EVENT)))
    forgeries = tuple(
        Fault(kind="stranger", start=start, sender="sta1", datagram=datagram.hex())
        for start, ahead in ((5.7, 2_000), (5.8, 2**30))
        for datagram in [event._replace(sequence=event.sequence + ahead).encode()]
    )
    folder = RunFolder.create(tmp_path, scenario)
    scenario = scenario.model_copy(update={"faults": forgeries})
    observer = Recorded()
    TapBackend().execute(scenario, folder, observer)
    assert observer.problems == []
    require_real_time(folder)
    told = notified(folder, scenario)
    assert {told["sta2", 1, number] for number in range(1, 11)} == {1}
    heard = [packet for _, packet in timed(folder.radio_capture(scenario.nodes[1]))]
    assert any(PubSub in packet and packet[PubSub].sequence > 2**30 for packet in heard)


def pid_of(name: str) -> int:
    """Return the node app of a node of this run."""
    (found,) = (
        int(child.pid)
        for child in psutil.Process().children(recursive=True)
        if "nodeapp" in child.cmdline() and f"{name}-wlan0" in child.cmdline()
    )
    return found


def status_of(pid: int) -> Any:
    """Return what a node app says of itself."""
    with client_socket(pid) as client:
        client.send(Frame(ClientKind.STATUS, 1, 0, hops=0).encode())
        assert await_condition(lambda: readable(client), 5.0)
        return decode_body(decode(client.recv(65_535)).body)


def readable(client: socket.socket) -> bool:
    return bool(select.select([client], (), (), 0)[0])

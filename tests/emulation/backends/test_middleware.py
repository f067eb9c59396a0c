"""Systems of other people on tap: several hops, and what a user can do wrong."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from scapy.layers.inet import TCP
from scapy.utils import RawPcapReader, rdpcap

from emulation.backends.base import BackendError
from emulation.backends.realtime import routing
from emulation.backends.realtime.node_apps import node_arguments
from emulation.backends.tap import TapBackend, TapRun
from emulation.backends.virtual import VirtualBackend
from emulation.errors import ScenarioError
from emulation.mobility.trajectory import Waypoint
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.middleware import marker
from nodeapp.pubsub.registry import MIDDLEWARE
from tests.emulation.backends.test_tap import Recorded, facts, perform
from topologies.catalog import make_scenario

EVENT = 512
"""Bytes of an event."""
CHAIN = 200.0
"""Metres between neighbours, with a range of 250: the ends are several hops apart."""


def scenario(name: str, **settings: Any) -> Scenario:
    """Three stations in a chain; the first publishes, the last subscribes."""
    made = make_scenario(
        "roaming_field",
        name,
        seed=1,
        duration=30.0,
        settings={
            "nodes": 3,
            "topics": 1,
            "speed": 0,
            "publishers": 1,
            "subscribers": 1,
            "interval": 0.5,
        }
        | settings,
    )
    nodes = [
        node.model_copy(update={"waypoints": (Waypoint(0.0, CHAIN * number, 0.0),)})
        for number, node in enumerate(made.nodes)
    ]
    publish = next(act for act in made.workload if act.action == "publish")
    subscribe = next(act for act in made.workload if act.action == "subscribe")
    workload = [subscribe.model_copy(update={"time": 0.2, "node": 3})]
    announced = (act for act in made.workload if act.action == "advertise")
    workload += [act.model_copy(update={"time": 0.5, "node": 1}) for act in announced][:1]
    workload += [
        publish.model_copy(update={"time": 1.5 + 0.2 * number, "node": 1, "sequence": number})
        for number in range(1, 6)
    ]
    changed = {"nodes": tuple(nodes), "workload": tuple(workload), "duration": 4.0}
    return made.model_copy(update=changed)


def sends(capture: Path) -> int:
    """Return how many frames in a capture have a marker."""
    return sum(marker.MAGIC in frame for frame, _ in RawPcapReader(str(capture)))


def needs(name: str, settings: dict[str, Any]) -> None:
    """Skip the test if a system or its routing is not installed."""
    lacking = routing.obstacle(scenario(name, **settings))
    if lacking:
        pytest.skip(lacking)


PACKAGES = {
    "mqtt": {"mosquitto", "paho-mqtt"},
    "mqtt-bridged": {"mosquitto", "paho-mqtt"},
    "zeromq": {"pyzmq"},
    "zenoh": {"eclipse-zenoh"},
    "nats": {"nats-server", "nats-py"},
    "gossipsub": {"libp2p"},
    "dds": {"cyclonedds"},
}
"""Whose versions a run records."""


def test_a_package_that_is_known_but_not_installed_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tmp_path / "dpkg-query"
    query.write_text("#!/bin/sh\necho 'mosquitto '; echo 'babeld 1.12'\n", encoding="utf-8")
    query.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    versions = routing.versions_of(scenario("mqtt", routing="babel"))
    assert versions["babeld"] == "1.12"
    assert "mosquitto" not in versions


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mqtt", {"routing": "babel", "babel_hello": 0.2, "qos": 2}),
        ("mqtt", {"routing": "batman", "batman_interval": 0.2, "qos": 1, "broker": 3}),
        ("zeromq", {}),
        ("mqtt-bridged", {"brokers": "1,3"}),
        ("zenoh", {}),
        ("zenoh", {"role": "peer", "routing": "static"}),
        ("nats", {}),
        ("gossipsub", {}),
        ("dds", {"advertise": True}),
        ("dds", {"advertise": True, "reliability": "best_effort"}),
    ],
)
def test_events_go_over_two_hops(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    needs(name, settings)
    folder = RunFolder.create(tmp_path, scenario(name, **settings))
    observer = Recorded()
    TapBackend().execute(scenario(name, **settings), folder, observer)
    assert observer.problems == []
    assert sends(folder.captures / "sta1-wlan0.pcap") >= 5
    assert sends(folder.captures / "sta3-wlan0.pcap") >= 5  # it received them
    assert sends(folder.captures / "sta2-wlan0.pcap") >= 10  # it received and forwarded them
    notified = [frame for frame, _ in RawPcapReader(str(folder.captures / "sta3-lo.pcap"))]
    assert len(notified) > 5
    record = read_run(folder.path).record
    assert record is not None
    # How connections are closed when the run has ended is not the scenario's.
    end = 1e-9 * record.epoch_ns + scenario(name, **settings).duration
    late = [p for p in rdpcap(str(folder.captures / "sta1-wlan0.pcap")) if float(p.time) > end]
    assert not [packet for packet in late if TCP in packet and packet[TCP].flags.F]
    beneath = {routing.DAEMONS[kind] for kind in routing.DAEMONS if kind == settings.get("routing")}
    assert PACKAGES[name] | beneath <= {*record.versions}


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [("zenoh", {"role": "peer"}), ("dds", {"discovery": "multicast", "advertise": True})],
)
def test_without_routing_events_reach_neighbours_alone(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Peers of Zenoh relay nothing, and what DDS says to all is heard by those who are near."""
    settings |= {"routing": "none"}
    needs(name, settings)
    scene = scenario(name, **settings)
    nearer = scene.workload[0].model_copy(update={"node": 2})
    scene = scene.model_copy(update={"workload": (nearer, *scene.workload)})
    folder = RunFolder.create(tmp_path, scene)
    TapBackend().execute(scene, folder, Recorded())
    assert sends(folder.captures / "sta2-wlan0.pcap") >= 5
    assert sends(folder.captures / "sta3-wlan0.pcap") == 0


def roaming() -> Scenario:
    """Two stations behind access points; who subscribes walks from the first to the fourth.

    The walker's broker is at the first access point, the publisher's at the fourth.
    """
    few: dict[str, Any] = {"side": 2, "nodes": 2, "topics": 1, "publishers": 1, "subscribers": 1}
    few |= {"speed": 0, "brokers": "1,4"}
    made = make_scenario("mesh_grid", "mqtt-bridged", seed=1, duration=30.0, settings=few)
    publisher, walker = made.stations
    ends = [made.access_points[index].position for index in (0, 3)]
    walk = [Waypoint(2.0, *ends[0]), Waypoint(6.0, *ends[1])]
    moved = {
        publisher.name: (Waypoint(0.0, *made.access_points[1].position),),
        walker.name: (Waypoint(0.0, *ends[0]), *walk),
    }
    nodes = [
        node.model_copy(update={"waypoints": moved.get(node.name, node.waypoints)})
        for node in made.nodes
    ]
    subscribe = next(act for act in made.workload if act.action == "subscribe")
    publish = next(act for act in made.workload if act.action == "publish")
    workload = [subscribe.model_copy(update={"time": 0.2, "node": walker.id})]
    workload += [
        publish.model_copy(
            update={"time": 1.0 + 0.25 * number, "node": publisher.id, "sequence": number}
        )
        for number in range(1, 29)
    ]
    return made.model_copy(
        update={"nodes": tuple(nodes), "workload": tuple(workload), "duration": 10.0}
    )


@pytest.mark.root
@pytest.mark.slow
def test_a_connection_outlives_handovers_between_access_points(tmp_path: Path) -> None:
    needs("mqtt", {})
    scene = roaming()
    folder = RunFolder.create(tmp_path, scene)
    observer = Recorded()
    TapBackend().execute(scene, folder, observer)
    assert observer.problems == []
    walker = scene.stations[1]
    radio, local = (folder.captures / f"{walker.name}-{port}.pcap" for port in ("wlan0", "lo"))
    flows = read_run(folder.path).flows
    assert flows is not None
    assert [move.access_point for move in flows.moves if move.station == walker.mac] == [
        "ap1",
        "ap4",
    ]
    packets = [packet for packet in rdpcap(str(radio)) if TCP in packet]
    began = [packet.time for packet in packets if packet[TCP].flags == "S"]
    events = [packet.time for packet in packets if marker.MAGIC in bytes(packet)]
    assert max(began) < events[0], "it never connected again"
    notified = [frame for frame, _ in RawPcapReader(str(local)) if len(frame) > EVENT]
    assert len(notified) == 28


@pytest.mark.root
@pytest.mark.slow
def test_who_is_not_connected_at_the_start_is_named_and_a_broker_that_dies_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mqtt", {})
    monkeypatch.setattr("emulation.backends.realtime.node_apps.CONNECTING", 1.0)
    scene = scenario("mqtt", broker=2)
    *near, last = scene.nodes
    away = last.model_copy(update={"waypoints": (Waypoint(0.0, 9 * CHAIN, 0.0),)})
    scene = scene.model_copy(update={"nodes": (*near, away)})

    def kill_it(run: TapRun, seconds: float) -> None:
        with suppress(psutil.NoSuchProcess):  # once it has ended
            for child in psutil.Process(run.nodes["sta2"].pid).children():
                child.kill()

    folder = RunFolder.create(tmp_path, scene)
    with pytest.raises(BackendError, match=r"^sta2: mosquitto was killed by signal 9"):
        perform(scene, folder, kill_it)
    problem, *_ = facts(folder.path)["problems"]
    assert problem.startswith("not connected at the start: ")
    assert problem.endswith("sta3")


@pytest.mark.root
@pytest.mark.slow
def test_a_crash_kills_what_the_node_app_has_started_and_its_use_is_counted(tmp_path: Path) -> None:
    needs("mqtt", {})
    scene = scenario("mqtt", faults="crash sta1 at 1 for 0.5")
    folder = RunFolder.create(tmp_path, scene)
    observer = Recorded()
    TapBackend().execute(scene, folder, observer)
    assert observer.problems == []
    record = read_run(folder.path)
    assert record.usage is not None
    used = [each for each in record.usage.processes if each.program == "mosquitto"]
    assert [each.node for each in used] == ["sta1", "sta1"], "the second could use the port"
    assert [each.memory > 0 for each in used] == [False, True]


@pytest.mark.root
@pytest.mark.parametrize(("kind", "daemon"), [("babel", "babeld"), ("batman", "batmand")])
def test_a_routing_daemon_that_ends_is_named_with_its_last_words(
    kind: str, daemon: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mqtt", {})
    scene = scenario("mqtt", routing=kind)
    stub = tmp_path / "bin" / daemon
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "Error - no luck"\nexit 1\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
    with pytest.raises(BackendError, match=rf"^the {daemon} of sta\d .* 1: Error - no luck$"):
        TapBackend().execute(scene, RunFolder.create(tmp_path, scene), Recorded())


@pytest.mark.root
@pytest.mark.slow
def test_a_run_begins_without_the_routes_that_are_not_found_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mqtt", {})
    stub = tmp_path / "bin" / "babeld"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\nexec sleep 60\n")
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
    monkeypatch.setattr("emulation.backends.realtime.node_apps.CONNECTING", 0.1)
    monkeypatch.setattr(routing, "CONVERGENCE", 0.3)
    observer, scene = Recorded(), scenario("mqtt", routing="babel")
    TapBackend().execute(scene, RunFolder.create(tmp_path, scene), observer)
    late = "babel has not found all routes within 0.3 s: those of sta1, sta2, sta3 are incomplete"
    assert late in observer.problems


def test_the_virtual_backend_refuses_in_one_line(tmp_path: Path) -> None:
    scene = scenario("mqtt")
    with pytest.raises(BackendError, match=r"^mqtt is a program .* use --backend tap or machine$"):
        VirtualBackend().execute(scene, RunFolder.create(tmp_path, scene), Recorded())


def test_the_virtual_backend_serves_no_clients_of_mqtt(tmp_path: Path) -> None:
    scene = scenario("flooding", mqtt="true")
    with pytest.raises(BackendError, match=r"^clients of MQTT are .* use --backend tap$"):
        VirtualBackend().execute(scene, RunFolder.create(tmp_path, scene), Recorded())
    with pytest.raises(ScenarioError, match="mqtt"):
        scenario("flooding", mqtt="perhaps")


@pytest.mark.root
def test_the_broker_for_clients_of_mqtt_must_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scenario("flooding", mqtt=True)
    assert node_arguments(scene, scene.nodes[0], Path(), Path())[-1] == "--mqtt"
    monkeypatch.setitem(sys.modules, "mqtt5", None)
    with pytest.raises(BackendError, match=r"^mqtt needs the package .*setup --with mqtt-clients$"):
        TapBackend().execute(scene, RunFolder.create(tmp_path, scene), Recorded())


@pytest.mark.root
def test_what_is_not_installed_is_told_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = scenario("mqtt")
    monkeypatch.setattr(MIDDLEWARE["mqtt"].service, "programs", ("no-such-program",))
    with pytest.raises(BackendError, match=r"^mqtt needs no-such-program.*setup --with mqtt$"):
        TapBackend().execute(scene, RunFolder.create(tmp_path, scene), Recorded())


def test_frames_that_nobody_seals_are_not_said_to_be_sealed() -> None:
    with pytest.raises(ScenarioError, match=r"^mqtt has sockets of its own.*: leave out auth$"):
        scenario("mqtt", auth="psk")


def test_there_is_no_tls() -> None:
    with pytest.raises(ScenarioError, match=r"^mqtt runs without TLS, so that captures show"):
        scenario("mqtt", tls="true")
    with pytest.raises(ScenarioError, match=r"^no parameter 'tls'"):
        scenario("flooding", tls="true")


def test_a_workload_that_filters_by_content_is_refused_at_once() -> None:
    with pytest.raises(ScenarioError, match=r"^mqtt has topics and no content filters"):
        make_scenario(
            "roaming_field", "mqtt", seed=1, duration=30.0, settings={"workload": "stock"}
        )

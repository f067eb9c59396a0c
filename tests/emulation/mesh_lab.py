"""A small mesh, and what its run folder says, for tests on several backends."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import LLC, Ether
from scapy.utils import RawPcapReader

from capture.layers import PubSub
from emulation.mobility.routes import Leg, legs
from emulation.mobility.trajectory import Waypoint
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.workloads.base import Operation
from nodeapp.kinds import ClientKind, TrafficClass
from topologies.catalog import make_scenario

NEWS = (("topic", "=", "news"),)
PASSAGES = {
    ("wlan0", "in"): ("STATION_TO_BROKER",),
    ("mesh0", "in"): ("MESH_TO_BROKER",),
    ("eth0", "in"): ("BROKER_TO_ALL", "BROKER_TO_STATION", "BROKER_TO_MESH", "BROKER_TO_NOBODY"),
    ("wlan0", "out"): ("BROKER_TO_ALL", "BROKER_TO_STATION"),
    ("mesh0", "out"): ("BROKER_TO_ALL", "BROKER_TO_MESH"),
    ("eth0", "out"): ("STATION_TO_BROKER", "MESH_TO_BROKER"),
}
"""By port and direction, the paths of the frames that pass there."""


def mesh(
    duration: float,
    tracks: Mapping[str, tuple[Waypoint, ...]],
    workload: tuple[Operation, ...],
    protocol: str = "flooding",
    **settings: Any,
) -> Scenario:
    """A mesh of 2 by 2 whose stations have these trajectories; brokers are nodes 1 to 4.

    Navigators tell the stations of them if there is a protocol that asks.
    """
    values = {"side": 2, "nodes": len(tracks), "topics": 0, "speed": 0} | settings
    drawn = make_scenario("mesh_grid", protocol, seed=1, duration=duration, settings=values)
    nodes = tuple(
        node.model_copy(update={"waypoints": tracks.get(node.name, node.waypoints)})
        for node in drawn.nodes
    )
    told = [
        Operation(
            time=leg.time,
            node=node.id,
            action="navigate",
            event=dict(zip(Leg._fields[1:], leg[1:], strict=True)),
        )
        for node in nodes
        if node.name in tracks and protocol != "flooding"
        for leg in legs(node.waypoints)
    ]
    both = {"workload": workload, "navigation": sorted(told, key=lambda each: each.time)}
    dumped = {key: [each.model_dump() for each in operations] for key, operations in both.items()}
    return Scenario.model_validate(drawn.model_dump() | {"nodes": nodes} | dumped)


def packets(capture: Path) -> list[Any]:
    with RawPcapReader(str(capture)) as reader:
        return [Ether(data) for data, _ in reader]


def recorded(capture: Path) -> list[tuple[float, bytes]]:
    """Return the times and the bytes of the packets in a capture."""
    with RawPcapReader(str(capture)) as reader:
        unit = 1e-9 if reader.nano else 1e-6
        return [(told.sec + told.usec * unit, data) for data, told in reader]


def sender_of(packet: bytes) -> str | None:
    """Return the address of who sent a packet; None if it is not of IPv4."""
    return socket.inet_ntoa(packet[26:30]) if packet[12:14] == b"\x08\x00" else None


def times(capture: Path) -> list[tuple[float, Any]]:
    return [(time, Ether(data)) for time, data in recorded(capture)]


TELLING = ("frames delivered late, maximum", "client operations late, p99")
TOO_LATE = 100_000
"""Microseconds: events of these tests are published further from what could lose them."""


def require_real_time(folder: RunFolder) -> None:
    """Skip the test if frames or clients' operations were so late that nothing can be said."""
    checks = json.loads(folder.fidelity.read_text(encoding="utf-8"))["checks"]
    late = [each for each in checks if each["name"] in TELLING and each["value"] > TOO_LATE]
    if late:
        pytest.skip(f"this machine was too busy: {late[0]['name']}: {late[0]['value']}")


def notified(folder: RunFolder, scenario: Scenario) -> Counter[tuple[str, int, int]]:
    """Return how often each (node, publisher, sequence) was handed to a client."""
    found: Counter[tuple[str, int, int]] = Counter()
    for node in scenario.nodes:
        for packet in packets(folder.loopback_capture(node)):
            if PubSub in packet and packet[PubSub].kind == ClientKind.NOTIFY:
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


def check_counters(folder: RunFolder, scenario: Scenario) -> None:
    """Check the flow counters against the captures of all ports."""
    brokers = {node.id: node for node in scenario.nodes if node.wired}
    by_path = counted(folder)
    for point in scenario.access_points:
        broker = brokers[point.broker]
        seen: Counter[tuple[str, str, str]] = Counter()
        octets: Counter[tuple[str, str, str]] = Counter()
        files = {kind: folder.port_capture(point.port(kind)) for kind in ("wlan0", "mesh0")}
        for kind, file in (files | {"eth0": folder.radio_capture(broker)}).items():
            for _, packet in recorded(file):
                if (sender := sender_of(packet)) is not None:
                    own = sender == broker.address
                    direction = "in" if own == (kind == "eth0") else "out"
                    passage = (kind, direction, TrafficClass(packet[15] >> 2).name)
                    seen[passage] += 1
                    octets[passage] += len(packet)
        for each in TrafficClass:
            for (port, direction), paths in PASSAGES.items():
                found = [by_path[point.name, path, each.name] for path in paths]
                key = (port, direction, each.name)
                wanted = tuple(map(sum, zip(*found, strict=True)))
                assert (seen[key], octets[key]) == wanted, (point.name, key, seen, wanted)


def senders(
    folder: RunFolder, node: NodeSpec, since: float, until: float = float("inf")
) -> set[str]:
    """Return the addresses of those whose packets are in a node's capture of a time."""
    capture = recorded(folder.radio_capture(node))
    sources = (sender_of(packet) for time, packet in capture if since < time < until)
    return {source for source in sources if source is not None}


def updates(folder: RunFolder, scenario: Scenario, station: str) -> dict[str, list[float]]:
    """Return when each access point's radio port showed a station's layer 2 update."""
    return {
        point.name: [
            time
            for time, packet in times(folder.port_capture(point.port("wlan0")))
            if packet.src == station and LLC in packet
        ]
        for point in scenario.access_points
    }


def handover() -> Scenario:
    """Return a scenario in which a subscriber goes from the cell of ap1 into that of ap2."""
    tracks = {
        "sta1": (Waypoint(0, 130, 125),),
        # Events all along the way.
        "sta2": (Waypoint(2, 100, 125), Waypoint(7, 400, 125)),
    }
    workload = (subscribe(6), *(publish(5, n, 1.0 + 0.2 * n) for n in range(1, 41)))
    return mesh(11.0, tracks, workload, scan=0.5)


def check_handover(folder: RunFolder, scenario: Scenario) -> None:
    """Check that the handover is in flows, captures and deliveries."""
    station = scenario.nodes[5].mac
    assert [move for move in moves(folder) if move[0] == station] == [
        (station, "ap1", None),
        (station, "ap2", "ap1"),
    ]
    # The layer 2 update is in the capture of the new access point's port.
    shown = updates(folder, scenario, station)
    assert {name: len(found) for name, found in shown.items()} == {
        "ap1": 1, "ap2": 1, "ap3": 0, "ap4": 0,
    }  # fmt: skip
    epoch = json.loads(folder.record.read_text())["epoch_ns"] / 1e9
    moved = shown["ap2"][0] - epoch
    assert 4.0 < moved < 6.5  # halfway at 4.5 s, then 5 dB of hysteresis, seen at a scan
    # The station hears the one broker before, the other after.
    sources = {
        "before": senders(folder, scenario.nodes[5], 0.0, epoch + moved - 0.1),
        "after": senders(folder, scenario.nodes[5], epoch + moved + 0.1),
    }
    assert sources == {"before": {"10.0.0.1", "10.0.0.6"}, "after": {"10.0.0.2", "10.0.0.6"}}
    # Never twice, and lost at most what was on its way at the moment of the handover.
    received = notified(folder, scenario)
    assert set(received.values()) == {1}
    assert len(received) >= 39


def cells() -> Scenario:
    """Return a scenario in which sta1 publishes ten events to stations near by and far off."""
    stands = {
        "sta1": (Waypoint(0, 130, 130),),
        "sta2": (Waypoint(0, 370, 370),),
        "sta3": (Waypoint(0, 120, 120),),
    }
    workload = (
        *(subscribe(node) for node in (6, 7)),
        *(publish(5, n, 1.0 + 0.2 * n) for n in range(1, 11)),
    )
    return mesh(5.0, stands, workload)


def check_cells(folder: RunFolder, scenario: Scenario) -> None:
    """Check that every event arrived once, and that stations heard their brokers alone."""
    expected = {(name, 5, n): 1 for name in ("sta2", "sta3") for n in range(1, 11)}
    assert dict(notified(folder, scenario)) == expected

    # Every frame of a station goes to its broker, and nowhere else: sta3 hears sta1 only twice
    # removed, at two hops.
    (third,) = [node for node in scenario.nodes if node.name == "sta3"]
    heard = [p for p in packets(folder.radio_capture(third)) if PubSub in p]
    assert {p[IP].src for p in heard} == {"10.0.0.1", "10.0.0.7"}
    assert min(p[PubSub].hops for p in heard if p[IP].src == "10.0.0.1") == 2

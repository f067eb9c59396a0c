"""The medium process with real TAP devices in namespaces of our own, and its refusals."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulation.media.config import TapConfig, TapError, load
from emulation.media.control import ControlError, request
from emulation.media.tap import is_routing
from emulation.radio.spec import RadioSpec
from emulation.virtual.packets import radio_frames
from nodeapp.kinds import CommonKind
from nodeapp.routing.aodv_wire import AodvKind
from nodeapp.wire import Frame
from tests.emulation.media.tap_stations import (
    Station,
    await_true,
    medium,
    namespaces,
    start,
    write_config,
)

RADIO = RadioSpec(range=250, retry_limit=2)
HERE = ((0.0, 0.0, 0.0),)
NEAR = ((0.0, 100.0, 0.0),)
FAR = ((0.0, 9000.0, 0.0),)


@pytest.fixture(scope="module")
def stations() -> Iterator[list[Station]]:
    with namespaces(3) as made:
        yield made


def fault(kind: str, *names: str) -> dict[str, Any]:
    return {"op": "fault", "fault": {"kind": kind, "start": 0, "nodes": names}}


def _devices(station: Station) -> list[str]:
    listed = json.loads(station.run("ip", "-json", "link").stdout)
    return [device["ifname"] for device in listed if device["ifname"] != "lo"]


def _fails(config: Path) -> str:
    code, message = start(config).ended(20.0)
    assert code == 1
    assert message.count("\n") == 1, message
    return message


@pytest.mark.root
def test_stations_in_range_reach_each_other_and_others_do_not(
    stations: list[Station], tmp_path: Path
) -> None:
    one, near, far = stations
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    with medium(config, stations) as control:
        assert one.reaches(near, count=5)
        assert not one.reaches(far, timeout=0.2)
        assert request(control, {"op": "ping"}) == {"stations": 3}
        assert [link["neighbour"] for link in request(control, {"op": "links"})["links"]] == [
            near.name,
            one.name,
        ]
        statistics = request(control, {"op": "stats"})
        assert statistics["names"] == [station.name for station in stations]
        assert statistics["counters"]["received"][:2] == [5, 5]
        assert statistics["counters"]["retry_drops"][0] == 1
        assert statistics["lateness"]["count"] == 10
        assert statistics["lateness"]["p50_us"] > 0
        assert statistics["write_drops"] == 0
        assert statistics["priority"] == "round-robin"
        assert statistics["tap_drops"] == dict.fromkeys(statistics["names"], 0)

        request(control, {"op": "move", "name": far.name, "x": -50, "y": 0})
        assert one.reaches(far)
        assert request(control, {"op": "position", "name": far.name}) == {
            "positions": {far.name: [-50, 0]}
        }
        request(control, {"op": "release", "name": far.name})
        assert not one.reaches(far, timeout=0.2)

        request(control, fault("link", near.name, one.name))
        assert not one.reaches(near, timeout=0.2)
        request(control, fault("link", one.name, near.name) | {"op": "end fault"})
        assert one.reaches(near)
        request(control, fault("radio", near.name))
        request(control, fault("radio", near.name))
        assert not one.reaches(near, timeout=0.2)
        request(control, fault("radio", near.name) | {"op": "end fault"})
        assert not one.reaches(near, timeout=0.2), "another fault holds it down"
        request(control, fault("radio", near.name) | {"op": "end fault"})
        assert one.reaches(near)
    assert [_devices(station) for station in stations] == [[], [], []]
    assert not control.exists()


@pytest.mark.root
def test_unicasts_follow_rts_and_cts_on_devices_too(
    stations: list[Station], tmp_path: Path
) -> None:
    one, near, _ = stations
    radio = RADIO.model_copy(update={"rts_threshold": 0, "queue_order": "routing-first"})
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], radio)
    with medium(config, stations) as control:
        assert one.reaches(near, count=5)
        counters = request(control, {"op": "stats"})["counters"]
        assert counters["rts"][0] == counters["cts"][1] >= 5
        assert counters["received"][:2] == [5, 5]


def test_frames_of_the_routing_protocol_are_known_by_their_ds_field() -> None:
    for kind, routing in (
        (CommonKind.HELLO, True),
        (AodvKind.ROUTE_ERROR, True),
        (CommonKind.EVENT, False),
    ):
        for length in (50, 3000):
            frames = radio_frames(1, 2, Frame(kind, 1, body=bytes(length)).encode(), 7)
            assert {is_routing(frame) for frame in frames} == {routing}
    assert not is_routing(bytes(12) + b"\x08\x06" + bytes(28)), "ARP"
    assert not is_routing(bytes(14)), "cut short"


@pytest.mark.root
def test_devices_are_as_configured_and_ipv6_is_quiet(
    stations: list[Station], tmp_path: Path
) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, NEAR], RADIO, mtu=1400)
    with medium(config, stations) as control:
        for station in stations:
            (device,) = json.loads(
                station.run("ip", "-json", "addr", "show", station.interface).stdout
            )
            assert (device["address"], device["mtu"]) == (station.mac, 1400)
            assert [address["family"] for address in device["addr_info"]] == ["inet"]
        assert sum(request(control, {"op": "stats"})["counters"]["queued"]) == 0


@pytest.mark.root
def test_stations_follow_their_trace_from_the_epoch_on(
    stations: list[Station], tmp_path: Path
) -> None:
    leaves = ((0.0, 100.0, 0.0), (1.0, 1100.0, 0.0))
    config = write_config(tmp_path, stations, [HERE, leaves, FAR], RADIO, tick=0.02)
    mover = stations[1].name

    def x(control: Path) -> float:
        position = request(control, {"op": "position", "name": mover})["positions"][mover]
        return float(position[0])

    with medium(config, stations) as control:
        assert stations[0].reaches(stations[1])
        assert x(control) == 100.0
        epoch = time.monotonic() + 0.5
        request(control, {"op": "start", "epoch": epoch})
        assert x(control) == 100.0
        await_true(lambda: x(control) > 300)
        before = time.monotonic()
        somewhere = x(control)
        assert 1000 * (before - epoch) <= somewhere - 100 <= 1000 * (time.monotonic() - epoch)
        # The medium's own ticks move it, not only the requests for its position.
        await_true(lambda: x(control) == 1100)
        assert not stations[0].reaches(stations[1], timeout=0.2)


@pytest.mark.root
def test_a_broadcast_reaches_all_in_range_and_the_rate_is_that_of_the_radio(
    stations: list[Station], tmp_path: Path
) -> None:
    config = write_config(
        tmp_path, stations, [HERE, NEAR, NEAR], RadioSpec(range=250, standard="b")
    )
    with medium(config, stations) as control:
        began = time.monotonic()
        # 40 x 1,042 bytes at 1 Mb/s: 346 ms on the air, however fast they are handed over.
        sender = (
            "import socket as s; o = s.socket(s.AF_INET, s.SOCK_DGRAM)\n"
            "o.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1)\n"
            "for _ in range(40): o.sendto(bytes(1000), ('10.255.255.255', 9))"
        )
        assert stations[0].run(sys.executable, "-c", sender).returncode == 0

        def received() -> list[int]:
            counters: list[int] = request(control, {"op": "stats"})["counters"]["received"]
            return counters

        await_true(lambda: received() == [0, 40, 40])
        assert time.monotonic() - began > 0.346


@pytest.mark.root
def test_requests_that_make_no_sense_are_refused(stations: list[Station], tmp_path: Path) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    with medium(config, stations) as control:
        for message, reason in (
            ({"op": "dance"}, "unknown request 'dance'"),
            ({"op": "move", "name": "sta1", "x": 1}, "move: y must be a number"),
            ({"op": "move", "name": "sta1", "x": 1, "y": "2"}, "y must be a number"),
            ({"op": "move", "name": "sta1", "x": 1, "y": float("nan")}, "y must be a number"),
            ({"op": "move", "name": "sta1", "x": True, "y": 1}, "x must be a number"),
            (fault("radio", "sta9"), "no such station: sta9"),
            ({"op": "position", "name": ["sta1"]}, "no such station"),
            (fault("link", "sta1", "sta9"), "no such station: sta9"),
            (fault("link", "sta1", "sta1"), "two different stations"),
            (fault("crash", "sta1"), "a fault of kind crash does not concern radios"),
            ({"op": "start"}, "epoch must be a number"),
        ):
            with pytest.raises(ControlError, match=reason):
                request(control, message)
        assert stations[0].reaches(stations[1])


def _is_open(control: Path) -> bool:
    """Return whether a process has the socket: its last thread may outlive what `ps` shows."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(control)) == 0


@pytest.mark.root
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, "stop", "parent"])
def test_no_device_is_left_however_it_ends(
    stations: list[Station], tmp_path: Path, how: signal.Signals | str
) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    control = tmp_path / "medium.control"
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            "import subprocess, sys\n"
            "p = subprocess.Popen([sys.executable, '-m', 'emulation.media.tap', sys.argv[1]])\n"
            "print(p.pid, flush=True)\n"
            "sys.exit(p.wait())",
            str(config),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    await_true(control.exists)
    assert [_devices(station) for station in stations] == [[s.interface] for s in stations]
    if how == "stop":
        request(control, {"op": "stop"})
    elif how == "parent":
        parent.kill()
    else:
        os.kill(pid, how)  # type: ignore[arg-type]
    code = parent.wait(timeout=10)
    parent.stdout.close()
    await_true(lambda: [_devices(station) for station in stations] == [[], [], []])
    await_true(lambda: not _is_open(control))  # it outlives the devices by a moment
    if how in ("stop", signal.SIGTERM, signal.SIGINT):
        assert code == 0
        assert not control.exists()
    # What a killed medium leaves behind is in nobody's way.
    with medium(config, stations):
        assert stations[0].reaches(stations[1])


@pytest.mark.root
def test_a_deleted_device_costs_that_station_alone(stations: list[Station], tmp_path: Path) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, NEAR], RADIO)
    with medium(config, stations) as control:
        first = stations[0]
        first.run("ip", "link", "delete", first.interface)
        assert stations[1].reaches(stations[2])
        assert request(control, {"op": "links", "name": first.name}) == {"links": []}
        before = request(control, {"op": "stats"})["cpu_seconds"]
        time.sleep(0.2)
        assert request(control, {"op": "stats"})["cpu_seconds"] - before < 0.1  # no spinning


@pytest.mark.root
def test_frames_for_a_device_that_is_down_are_no_fault_of_the_emulation(
    stations: list[Station], tmp_path: Path
) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, NEAR], RADIO)
    with medium(config, stations) as control:
        first = stations[0]
        first.run("ip", "link", "set", first.interface, "down")
        assert not stations[1].reaches(first, timeout=0.2)
        statistics = request(control, {"op": "stats"})
        assert statistics["down_drops"] >= 1
        assert statistics["write_drops"] == 0


@pytest.mark.root
def test_a_soft_limit_of_descriptors_is_raised(stations: list[Station], tmp_path: Path) -> None:
    config = write_config(tmp_path, stations, [HERE, NEAR, FAR], RADIO)
    words = ("prlimit", "--nofile=11:4096", sys.executable, "-m", "emulation.media.tap")
    with subprocess.Popen([*words, config], stderr=subprocess.PIPE, text=True) as process:
        control = tmp_path / "medium.control"
        await_true(lambda: control.exists() or process.poll() is not None)
        process.terminate()
        assert (process.wait(), process.stderr and process.stderr.read()) == (0, "")


@pytest.mark.root
def test_starts_that_cannot_work_end_in_one_line(stations: list[Station], tmp_path: Path) -> None:
    one, *_ = stations
    gone = subprocess.Popen(["true"])
    gone.wait()
    for station, reason in (
        (one._replace(pid=gone.pid), f"sta1-wlan0 of process {gone.pid}: there is no such process"),
        (one._replace(interface="sta1-wlan0-too-long"), "must have 1 to 15 bytes"),
        (one._replace(interface="lo"), "an interface of this name already exists there"),
        (one._replace(mac="01:00:00:00:00:01"), "cannot assign requested address"),
    ):
        config = write_config(tmp_path, [station], [HERE], RADIO)
        assert reason.lower() in _fails(config).lower()
    assert _devices(one) == []
    config = write_config(tmp_path, [one], [HERE], RADIO, parent=1)
    assert "the parent process 1 has ended" in _fails(config)


@pytest.mark.root
def test_two_mediums_do_not_share_a_control_socket_nor_a_device(
    stations: list[Station], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    config = write_config(tmp_path, stations[:1], [HERE], RADIO)
    with medium(config, stations[:1]) as control:
        second = write_config(other, stations[:1], [HERE], RADIO)
        assert "already exists there" in _fails(second)
        third = write_config(other, stations[1:2], [HERE], RADIO, control=str(control))
        assert "cannot serve the control socket" in _fails(third)
        assert request(control, {"op": "ping"}) == {"stations": 1}


@pytest.mark.root
def test_without_privileges_the_reason_is_given(stations: list[Station], tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    config = write_config(tmp_path, stations[:1], [HERE], RADIO)
    config.chmod(0o644)
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *(sys.executable, "-m", "emulation.media.tap", str(config)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "run as root" in done.stderr or "cannot read" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{}", "radio: is missing"),
        ('{"radio": {"standard": "z"}}', "radio.standard"),
    ],
)
def test_malformed_configurations_are_explained(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(TapError, match=reason):
        load(TapConfig, path)
    with pytest.raises(TapError, match="cannot read"):
        load(TapConfig, tmp_path / "none.json")

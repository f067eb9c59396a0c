"""A wireless network's medium process with real devices in namespaces of our own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from emulation.media.config import TapError, load
from emulation.media.control import ControlError, request
from emulation.media.wireless_config import WirelessConfig
from emulation.network.processes import await_condition
from tests.emulation.media.tap_stations import (
    Station,
    await_true,
    configure,
    medium,
    namespaces,
    start,
)

WIRELESS: Final = "emulation.media.wireless"
EXPONENT_4: Final = {"propagation": {"model": "log-distance", "exponent": 4}}


@pytest.fixture(scope="module")
def stations() -> Iterator[list[Station]]:
    with namespaces(3) as made:
        yield made


def _config(folder: Path, radios: list[dict[str, Any]], nodes: list[Station], **more: Any) -> Path:
    path = folder / "medium.json"
    config = {
        "seed": 1,
        "radio": EXPONENT_4,
        "control": str(folder / "medium.control"),
        "nodes": [{"name": each.name, "pid": each.pid} for each in nodes],
        "radios": [
            {"node": each.name, "interface": each.interface, "mac": each.mac} | given
            for each, given in zip(nodes, radios, strict=True)
        ],
    }
    path.write_text(json.dumps(config | more))
    return path


@contextmanager
def _network(folder: Path, stations: list[Station], radios: list[dict[str, Any]]) -> Iterator[Path]:
    config = _config(folder, radios, stations)
    with medium(config, stations, neighbours=False, module=WIRELESS) as control:
        yield control


@pytest.mark.root
def test_stations_reach_each_other_through_their_access_point(
    stations: list[Station], tmp_path: Path
) -> None:
    point, one, other = stations
    radios: list[dict[str, Any]] = [{"mode": "master", "ssid": "net", "channel": 6}, {}, {}]
    with _network(tmp_path, stations, radios) as control:
        assert one.reaches(other), "with ARP, through the access point"
        assert one.reaches(point)
        (facts,) = request(control, {"op": "radios", "interface": one.interface})["radios"]
        assert (facts["connected_to"], facts["channel"]) == (point.interface, 6)
        assert facts["signal_dbm"] > -40
        assert facts["traffic"]["tx_packets"] >= 3

        request(control, {"op": "move", "positions": {one.name: [60, 0, 1.5], other.name: [80, 0]}})
        with pytest.raises(ControlError, match=r"no such node: x; there are sta1, sta2, sta3"):
            request(control, {"op": "move", "name": "x", "x": 0, "y": 0})
        await_true(lambda: len(request(control, {"op": "events"})["events"]) == 3)
        assert not one.reaches(other, timeout=0.2), "out of reach"
        associations = {one.interface: point.interface, other.interface: None}
        assert request(control, {"op": "associations"}) == {"associations": associations}
        events = request(control, {"op": "events", "after": 2})
        assert [(each["interface"], each["new"]) for each in events["events"]] == [
            (other.interface, None)
        ]
        request(control, {"op": "set", "interface": other.interface, "range": 100})
        request(control, {"op": "set", "interface": point.interface, "range": 100, "channel": 11})
        assert one.reaches(other)
        with pytest.raises(ControlError, match=r"set: .*no channel 200"):
            request(control, {"op": "set", "interface": point.interface, "channel": 200})
        request(control, {"op": "fail", "name": one.name, "other": point.name})
        assert not one.reaches(other, timeout=0.2)
        request(control, {"op": "heal", "name": one.name, "other": point.name})
        assert one.reaches(other)
        for each in (one, other):
            await_true(lambda at=each: "tentative" not in at.run("ip", "-6", "addr").stdout)
        inside = one.run("ip", "-6", "-json", "addr", "show", "dev", one.interface).stdout
        (link,) = [each for each in json.loads(inside)[0]["addr_info"] if each["scope"] == "link"]
        assert (
            other.run("ping", "-6", "-c1", "-W2", f"{link['local']}%{other.interface}").returncode
            == 0
        )
        statistics = request(control, {"op": "stats"})
        assert statistics["names"] == [each.interface for each in stations]
        assert statistics["lost"]["sent while not associated"] > 0


@pytest.mark.root
def test_a_node_is_added_while_it_runs(stations: list[Station], tmp_path: Path) -> None:
    *there, late = stations
    radios: list[dict[str, Any]] = [{"mode": "master", "ssid": "net"}, {}]
    config = _config(tmp_path, radios, there, spare=1)
    node = {"name": late.name, "pid": late.pid, "position": [5, 0, 2]}
    radio = {"node": late.name, "interface": late.interface, "mac": late.mac}
    with medium(config, there, neighbours=False, module=WIRELESS) as control:
        for wrong, message in (
            ({"node": node, "radios": [radio | {"channel": 999}]}, "add: .*no channel 999"),
            ({"node": node | {"pid": 0}, "radios": [radio]}, "add: .*pid"),
            ({"node": node | {"name": there[0].name}, "radios": []}, "add: there is a sta1"),
            ({"node": node, "radios": [radio, radio | {"interface": "b"}]}, "no room for 2"),
        ):
            with pytest.raises(ControlError, match=message):
                request(control, {"op": "add", **wrong})
        request(control, {"op": "monitor", "interface": there[0].interface, "name": "mon1"})
        assert "mon1" in there[0].run("ip", "link").stdout, "what was refused changed nothing"
        request(control, {"op": "add", "node": node, "radios": [radio]})
        configure([late], neighbours=False)
        assert late.reaches(there[1]), "through the access point"
        assert there[1].reaches(late)
        (facts,) = request(control, {"op": "radios", "node": late.name})["radios"]
        assert facts["connected_to"] == there[0].interface
        positions = request(control, {"op": "position"})["positions"]
        assert positions[late.name] == [5, 0, 2]
        names = [station.interface for station in stations]
        assert request(control, {"op": "stats"})["names"] == names
        other = {"name": "x", "pid": late.pid}
        extra = radio | {"node": "x", "interface": "x-wlan0", "mac": "02:00:00:00:09:09"}
        with pytest.raises(ControlError, match="no room for 1 more radios while the network runs"):
            request(control, {"op": "add", "node": other, "radios": [extra]})
        assert "x-wlan0" not in late.run("ip", "link").stdout


@pytest.mark.root
def test_a_monitor_shows_what_a_radio_hears_with_its_level(
    stations: list[Station], tmp_path: Path
) -> None:
    point, one, other = stations
    radios: list[dict[str, Any]] = [{"mode": "master", "ssid": "net"}, {}, {}]
    with _network(tmp_path, stations, radios) as control:
        request(control, {"op": "move", "positions": {one.name: [20, 0], other.name: [5, 0]}})
        request(control, {"op": "monitor", "interface": other.interface, "name": "mon0"})
        flags = other.run("ip", "link", "show", "mon0").stdout
        assert {"NOARP", "UP"} <= set(flags.partition("<")[2].partition(">")[0].split(","))
        capture = subprocess.Popen(
            other.command("tcpdump", "-i", "mon0", "-n", "-e", "-l", "-c", "2", "icmp"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert capture.stderr is not None
        while "link-type" not in capture.stderr.readline():
            assert capture.poll() is None
        assert one.reaches(point)
        shown, _ = capture.communicate(timeout=30)
        monitors = request(control, {"op": "monitors"})["monitors"]
        assert [each["interface"] for each in monitors] == [other.interface]
        request(control, {"op": "unmonitor", "name": "mon0"})
        assert "mon0" not in other.run("ip", "link").stdout
    # From 15 m (the station) and from 5 m (the access point), at exponent 4.
    levels = {
        sender: next(
            int(line.split("dBm signal")[0].split()[-1])
            for line in shown.splitlines()
            if "ICMP echo " + sender in line
        )
        for sender in ("request", "reply")
    }
    assert levels == {"request": -63, "reply": -44}
    assert f"SA:{one.mac}" in shown


@contextmanager
def _silent(station: Station) -> Iterator[None]:
    """Keep a station from answering pings."""
    option = "net.ipv4.icmp_echo_ignore_all"
    assert station.run("sysctl", "-w", f"{option}=1").returncode == 0
    try:
        yield
    finally:
        station.run("sysctl", "-w", f"{option}=0")


@pytest.mark.root
def test_a_monitor_shows_each_frame_of_an_aggregate(
    stations: list[Station], tmp_path: Path
) -> None:
    point, one, other = stations

    def received() -> int:
        return int(point.run("nstat", "-asz", "IcmpInEchos").stdout.split()[-2])

    radios: list[dict[str, Any]] = [{"mode": "master", "ssid": "net"}, {}, {}]
    radios = [{"standard": "n", **each} for each in radios]
    with _network(tmp_path, stations, radios) as control:
        assert one.reaches(point), "addresses are known"
        before = received()
        request(control, {"op": "monitor", "interface": other.interface, "name": "mon0"})
        capture = subprocess.Popen(
            other.command("tcpdump", "-i", "mon0", "-n", "-e", "-l", "-c", "50", "icmp"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert capture.stderr is not None
        while "link-type" not in capture.stderr.readline():
            assert capture.poll() is None
        # Answers would meet requests in the air, which are then sent and shown again.
        with _silent(point):
            sent = one.run("ping", "-n", "-q", "-l50", "-c50", "-s1000", "-W0.1", point.address)
            assert "50 packets transmitted" in sent.stdout
        shown, _ = capture.communicate(timeout=30)
        assert await_condition(lambda: received() >= before + 50, 5.0), (before, received())
    requests = [line for line in shown.splitlines() if "echo request" in line]
    numbers = [line.split(" seq ")[1].split(",")[0] for line in requests]
    assert numbers == [str(number) for number in range(1, 51)]
    begun = {line.split("us tsft")[0].split()[-1] for line in requests}
    assert len(begun) < 25, "several begin at once"
    assert all("MCS 7" in line for line in requests)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"radios": [{"mode": "master", "channel": 99999}]}, "there is no channel 99999"),
        ({"radio": {"propagation": {"model": "unit-disk"}}}, "radios differ in power"),
        ({"radios": [{"node": "other"}]}, "there is no node other"),
        ({"x": 1}, "x: there is no such field"),
    ],
)
def test_a_wrong_configuration_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    station = Station("sta1", 1, "sta1-wlan0", "02:00:00:00:00:01", "10.0.0.1")
    radios = changes.pop("radios", [{}])
    with pytest.raises(TapError, match=message):
        load(WirelessConfig, _config(tmp_path, radios, [station], **changes))


@pytest.mark.root
def test_a_threshold_that_cannot_be_is_told_in_one_line(
    stations: list[Station], tmp_path: Path
) -> None:
    config = _config(tmp_path, [{}, {}, {}], stations, threshold_dbm=-140)
    code, message = start(config, WIRELESS).ended(20.0)
    assert (code, message.count("\n")) == (1, 1)
    assert "below the thermal noise: 802.11g needs" in message

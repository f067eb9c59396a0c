"""More scripts for Mininet-WiFi, each of what a kind of its users writes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from spark_analysis.script_reports import read
from tests.testbed.mn_runs import SCRIPTS, answers, mn, run_folder

pytestmark = pytest.mark.root


def test_passphrases_bounds_and_a_gateway(tmp_path: Path) -> None:
    said, errors = answers(
        tmp_path,
        "house.py",
        "sta1 ping -c 1 -W 2 h1",
        "sta2 ping -c 1 -W 1 h1",
        "sta1 iw dev sta1-wlan0 link",
        "sta2 iw dev sta2-wlan0 link",
        "sta3 iw dev sta3-wlan0 link",
        "sta4 iw dev sta4-wlan0 link",
        "sta1 cat /sys/class/net/sta1-wlan0/address",
        "sta1 ip route",
        "py sta1.wintfs[0].range",
        "py [(node.name, level) for node, level in sta1.wintfs[0].apsInRange.items()]",
        "py sorted(node.name for node in ap1.wintfs[0].stationsInRange)",
        "py net.iperf([sta1, h1], seconds=0.5)",
    )
    (trip,) = re.findall(r"time=([\d.]+) ms", said["sta1 ping -c 1 -W 2 h1"])
    assert float(trip) >= 40  # 20 ms each way
    assert "100% packet loss" in said["sta2 ping -c 1 -W 1 h1"]
    assert "signal: -61 dBm" in said["sta1 iw dev sta1-wlan0 link"]
    assert "SSID: house" in said["sta2 iw dev sta2-wlan0 link"]
    for other in ("sta3", "sta4"):  # another passphrase, another network
        assert said[f"{other} iw dev {other}-wlan0 link"].strip() == "Not connected."
    assert "00:00:00:00:00:02" in said["sta1 cat /sys/class/net/sta1-wlan0/address"]
    assert "default via 10." in said["sta1 ip route"]
    # 50 m need less than 1 dBm, the least there is: Mininet-WiFi says 115.74 m too.
    assert float(said["py sta1.wintfs[0].range"]) == pytest.approx(115.74, abs=0.01)
    heard = "py [(node.name, level) for node, level in sta1.wintfs[0].apsInRange.items()]"
    assert said[heard].strip() == "[('ap1', -61.0)]"
    hearing = said["py sorted(node.name for node in ap1.wintfs[0].stationsInRange)"]
    assert hearing.strip() == "['sta1', 'sta2', 'sta3', 'sta4']"
    rate = re.findall(r"([\d.]+) Mbits/sec", said["py net.iperf([sta1, h1], seconds=0.5)"])[0]
    assert 2.2 < float(rate) < 6
    slowest = "frames are sent at 6 Mb/s, the slowest rate of 802.11g"
    assert f"ap1-wlan1: a link slower than 6 Mb/s: {slowest}" in errors
    assert "addNAT: the script's network is isolated and has no way out" in errors
    assert "sta2-wlan0: no passphrase, so the access point's is used" in errors


def test_several_radios_media_and_bridges_without_wires(tmp_path: Path) -> None:
    late = "ssid='late', channel='6', mode='n', txpower=10, passwd='12345678', encrypt='wpa2'"
    said, _ = answers(
        tmp_path,
        "radios.py",
        "sta1 ping -c 1 -W 2 sta2",
        "sta1 ping -c 1 -W 2 192.168.7.2",
        "sta1 ping -c 1 -W 2 192.168.8.2",
        "sta1 iw dev sta1-mp2 mpath dump",
        "py sta2.setMediumId(2, intf='sta2-wlan1')",
        "sta1 ping -c 1 -W 1 192.168.7.2 # apart",
        "sta3 iw dev sta3-wlan0 set channel 9; echo done $?",
        "sta3 iw dev sta3-wlan0 info",
        f"py sta3.setMasterMode(intf='sta3-wlan0', {late})",
        "sh iw dev sta3-wlan0 info",
        "sta1 iw dev sta1-wlan0 scan",
    )
    for address in ("sta2", "192.168.7.2", "192.168.8.2"):
        assert " 0% packet loss" in said[f"sta1 ping -c 1 -W 2 {address}"], address
    path = said["sta1 iw dev sta1-mp2 mpath dump"].splitlines()[1].split()
    assert path[0] == path[1]  # one hop
    assert path[2] == "sta1-mp2"
    assert "100% packet loss" in said["sta1 ping -c 1 -W 1 192.168.7.2 # apart"]
    assert "done 0" in said["sta3 iw dev sta3-wlan0 set channel 9; echo done $?"]
    assert "channel 9 (2452 MHz)" in said["sta3 iw dev sta3-wlan0 info"]
    info = said["sh iw dev sta3-wlan0 info"]  # it is in the script's own namespace
    for word in ("ssid late", "type AP", "channel 6 (2437 MHz)", "txpower 10.00 dBm"):
        assert word in info
    names = re.findall(r"SSID: (\w+)", said["sta1 iw dev sta1-wlan0 scan"])
    assert sorted(names) == ["one", "two"]  # the late one is on a medium of its own


def test_traces_are_replayed_beside_a_model(tmp_path: Path) -> None:
    said, errors = answers(
        tmp_path,
        "traces.py",
        "py __import__('time').sleep(max(0, 8 - net.mover.now()))",
        "py sta1.position",
        "sta2 iw dev sta2-wlan0 link",
        "sta3 ping -c 1 -W 2 sta1",
        "py sta3.setTC(bw=5, latency=50)",
        "sta3 ping -c 1 -W 2 sta1 # later",
        "py sta4.wintfs[0].rssi",
        "py sta4.get_distance_to(ap1)",
    )
    assert said["py sta1.position"].strip() == "(44.0, 50.0, 0.0)"
    assert "tx bitrate: 11.0 MBit/s" in said["sta2 iw dev sta2-wlan0 link"]
    (trip,) = re.findall(r"time=([\d.]+) ms", said["sta3 ping -c 1 -W 2 sta1"])
    assert float(trip) >= 60  # 30 ms each way
    (trip,) = re.findall(r"time=([\d.]+) ms", said["sta3 ping -c 1 -W 2 sta1 # later"])
    assert float(trip) >= 100
    assert said["py sta4.wintfs[0].rssi"].strip() == "-66.0"
    assert 50 < float(said["py sta4.get_distance_to(ap1)"].split()[0]) < 500  # it began at 5
    roams = read(run_folder(tmp_path)).positions.query("node == 'sta5'")[["time", "x", "y"]]
    steps = roams.diff().iloc[1:]
    speeds = np.hypot(steps["x"], steps["y"]) / steps["time"]
    assert 3 < speeds.max() < 1.2 * 8  # ticks are a tenth of the time between two samples
    assert "setMobilityModel(alpha): RandomWayPoint takes no such option" in errors


def test_a_topology_with_a_controller_of_its_own(tmp_path: Path) -> None:
    said, errors = answers(
        tmp_path,
        "campus.py",
        "sta1 iw dev sta1-wlan0 link",
        "sta2 ping -c 1 -W 2 sta1",
        "sta9 iw dev sta9-wlan0 link",
        "sh ovs-ofctl dump-flows ap2",
        "sh ovs-vsctl get-controller ap2",
        "py __import__('time').sleep(max(0, 2.5 - net.mover.now()))",
        "py car1.position",
    )
    assert "SSID: hall1" in said["sta1 iw dev sta1-wlan0 link"]  # by a PIN
    assert " 0% packet loss" in said["sta2 ping -c 1 -W 2 sta1"]
    assert said["sta9 iw dev sta9-wlan0 link"].strip() == "Not connected."
    assert said["sh ovs-vsctl get-controller ap2"].strip() == "tcp:127.0.0.1:6653"
    assert "actions=output" in said["sh ovs-ofctl dump-flows ap2"]  # the controller's
    for limit in (
        "mode='ax': 802.11ax runs with the rates of 802.11n",
        "mode='be': 802.11be runs with the rates of 802.11n",
        "addAccessPoint('ap1', cls=UserAP): it is an Open vSwitch bridge",
        "addAccessPoint(wps_state='2'): PINs are compared",
        "aodv.load_module(sta1-wlan0): Mininet-WiFi's aodv is a kernel module from 2010",
        "useExternalProgram(port=8813): sumo runs without TraCI",
    ):
        assert limit in errors
    if shutil.which("sumo"):
        assert float(said["py car1.position"].strip(" (\n").split(",")[0]) > 10
    else:
        assert "the cars stay where they are: sumo is missing" in errors


def test_an_animation_moves_nodes_and_unknown_options_are_told(tmp_path: Path) -> None:
    done = mn(tmp_path, SCRIPTS / "animated.py", "--no-captures", "--no-analyze", DISPLAY="")
    assert done.returncode == 0, done.stderr
    assert "moved to (40.0, 0.0, 0.0) 70 g moved" in done.stdout
    assert "stop_ Not" in done.stdout
    assert "start_ Connected" in done.stdout
    assert "range 120.0 2" in done.stdout  # 30 log10 120 + 40.1 - 101 = 1.5, rounded up
    for option in ("addStation(battery=70)", "plotGraph(seed=4)"):
        assert f"{option}: there is no such option" in done.stderr
    assert "addAccessPoint(equipmentModel='DI524'): device models are ignored" in done.stderr

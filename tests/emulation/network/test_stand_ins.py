"""The stand-ins for the wireless tools, run in the namespaces of nodes of a real medium process."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from capture.namespaces import network_namespace
from emulation.media.control import request
from emulation.network.stand_ins.hostapd_cli import hostapd_cli
from emulation.network.stand_ins.iw import iw
from emulation.network.stand_ins.iwconfig import iwconfig
from emulation.network.stand_ins.medium import MediumSocket
from emulation.network.stand_ins.programs import write
from emulation.network.stand_ins.wpa_cli import wpa_cli
from tests.emulation.media.tap_stations import Station, medium, namespaces

RADIOS: tuple[dict[str, str | int], ...] = (
    {"mode": "master", "ssid": "one", "channel": 6},
    {"mode": "master", "ssid": "two", "security": "wpa2", "passphrase": "12345678"},
    {"ssid": "one"},
    {"mode": "mesh", "ssid": "m", "channel": 1},
    {"mode": "mesh", "ssid": "m", "channel": 1},
    # Out of reach of all the others: 802.11n, whose rates have an index.
    {"mode": "master", "ssid": "three", "standard": "n"},
    {"ssid": "three", "standard": "n"},
)
POSITIONS = [(0, 0), (40, 0), (10, 0), (0, 20), (0, 30), (9000, 0), (9010, 0)]
RECORDED = Path(__file__).with_name("recorded_tools.txt")
"""What the real programs print, of radios of mac80211_hwsim."""
Tool = Callable[[Sequence[str], MediumSocket], str]
TOOLS: Final[dict[str, Tool]] = {
    "iw": iw,
    "iwconfig": iwconfig,
    "wpa_cli": wpa_cli,
    "hostapd_cli": hostapd_cli,
}


class _Lab(NamedTuple):
    stations: list[Station]
    control: Path
    tools: Path

    def fails(self, line: str, node: int = 2) -> str:
        """Return why a command fails."""
        result = self._run(line, node)
        assert result[0] != 0
        assert result[1] == ""
        return result[2]

    def says(self, line: str, node: int = 2) -> str:
        """Return the output of a command in a node's namespace."""
        result = self._run(line, node)
        assert result[0] == 0, result
        return result[1]

    def shows(self, line: str, node: int) -> str:
        """Return the same, without starting a program for it."""
        tool, *words = line.split()
        with network_namespace(self.stations[node].pid):
            return TOOLS[tool](words, MediumSocket(str(self.control)))

    def _run(self, line: str, node: int) -> tuple[int, str, str]:
        path = f"PATH={self.tools}:{os.environ['PATH']}"
        done = self.stations[node].run("env", path, *line.split())
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Lab]:
    folder = tmp_path_factory.mktemp("stand-ins")
    with namespaces(len(RADIOS)) as nodes:
        config = {
            "seed": 1,
            "radio": {"propagation": {"model": "log-distance", "exponent": 4}},
            "control": str(folder / "medium.control"),
            "nodes": [
                {"name": each.name, "pid": each.pid, "position": position}
                for each, position in zip(nodes, POSITIONS, strict=True)
            ],
            "radios": [
                {"node": each.name, "interface": each.interface, "mac": each.mac, **given}
                for each, given in zip(nodes, RADIOS, strict=True)
            ],
        }
        (folder / "medium.json").write_text(json.dumps(config))
        module = "emulation.media.wireless"
        with medium(folder / "medium.json", nodes, neighbours=False, module=module) as control:
            write(folder / "tools", control)
            yield _Lab(nodes, control, folder / "tools")


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


@pytest.mark.root
def test_iw_shows_the_link_the_neighbourhood_and_the_stations(lab: _Lab) -> None:
    one, _, station, *_ = lab.stations
    assert station.reaches(one)
    link = lab.says(f"iw dev {station.interface} link")
    assert link.startswith(f"Connected to {one.mac} (on {station.interface})\n\tSSID: one\n")
    # 14 + 10 dBm less 40.1 dB to 1 m, and 40 dB to 10 m.
    assert _number(r"signal: (-\d+) dBm", link) == -56
    assert _number(r"tx bitrate: ([\d.]+) MBit/s", link) == 54
    assert "\tfreq: 2437\n" in link
    info = lab.says(f"iw dev {station.interface} info")
    for line in (f"addr {station.mac}", "type managed", "channel 6 (2437 MHz), width: 20 MHz"):
        assert f"\t{line}" in info
    assert _number(r"txpower ([\d.]+) dBm", info) == 14
    scan = lab.says(f"iw dev {station.interface} scan")
    assert re.findall(r"SSID: (\w+)", scan) == ["one", "two"]
    assert re.findall(r"signal: (-[\d.]+) dBm", scan) == ["-56.18", "-75.18"]
    assert scan.index("-- associated") < scan.index("RSN:")
    dump = lab.says(f"iw dev {one.interface} station dump", node=0)
    assert dump.startswith(f"Station {station.mac} (on {one.interface})\n")
    assert _number(r"rx packets:\t(\d+)", dump) >= 2
    assert lab.says("iw dev", node=1).count("Interface") == 1
    mesh = lab.stations[3].interface
    paths = lab.says(f"iw dev {mesh} mpath dump", node=3)
    assert paths.startswith("DEST ADDR         NEXT HOP")
    # Of a station the kernel has no paths, and iw ends well all the same.
    assert lab.says(f"iw dev {station.interface} mpath dump") == f"{paths.splitlines()[0]}\n"
    # A device's name needs no `dev` before it.
    assert lab.says(f"iw {station.interface} info") == info


@pytest.mark.root
def test_the_tools_change_what_the_medium_does(lab: _Lab) -> None:
    one, two, station, *_ = lab.stations
    name = station.interface
    lab.says(f"iw dev {name} disconnect")
    assert lab.says(f"iw dev {name} link") == "Not connected.\n"
    assert not station.reaches(one, timeout=0.2)
    said = lab.fails(f"iw dev {name} connect two")
    assert "cannot join network 'two': the passphrase is not that of the network" in said
    lab.says(f"iw dev {name} connect two key 0:12345678")
    assert station.reaches(two)
    status = lab.says(f"wpa_cli -i {name} status")
    assert f"bssid={two.mac}\nfreq=2412\nssid=two\n" in status
    assert "wpa_state=COMPLETED\n" in status
    assert lab.says(f"wpa_cli -i {name} roam {one.mac}") == "OK\n"
    shown = lab.says(f"iwconfig {name}")
    assert 'ESSID:"one"' in shown
    assert f"Access Point: {one.mac.upper()}" in shown
    assert _number(r"Signal level=(-\d+) dBm", shown) == -56
    lab.says(f"iw dev {name} set txpower fixed -2000")
    (facts,) = request(lab.control, {"op": "radios", "interface": name})["radios"]
    assert facts["tx_power_dbm"] == -20
    assert facts["connected_to"] == one.interface
    lab.says(f"iwconfig {name} txpower 14 essid one")
    lab.says(f"iw dev {name} set bitrates legacy-2.4 6 12")
    assert "tx bitrate: 12.0 MBit/s" in lab.says(f"iw dev {name} link")
    assert "802.11g has none of these; it has 6, 9," in lab.fails(
        f"iw dev {name} set bitrates ht-mcs-2.4 1"
    )
    assert "ht-mcs-2.4 9: radios have one spatial stream; give indices from 0 to 7" in lab.fails(
        f"iw dev {name} set bitrates ht-mcs-2.4 9"
    )
    assert f"iw dev {name} set bitrates 6: the medium does not" in lab.fails(
        f"iw dev {name} set bitrates 6"
    )
    lab.says(f"iwconfig {name} rate 9M")
    assert "tx bitrate: 9.0 MBit/s" in lab.says(f"iw dev {name} link")
    lab.says(f"iw dev {name} set bitrates")
    assert "tx bitrate: 54.0 MBit/s" in lab.says(f"iw dev {name} link")
    lab.says(f"iw dev {name} interface add mon0 type monitor")
    assert "type monitor" in lab.says("iw dev")
    assert "radiotap" in station.run("ip", "link", "show", "mon0").stdout
    lab.says("iw dev mon0 del")
    assert "mon0" not in station.run("ip", "link").stdout
    lab.says(f"iw dev {name} ibss join adhoc-net 2462")
    assert "Joined IBSS" in lab.says(f"iw dev {name} link")
    assert "type IBSS" in lab.says(f"iw dev {name} info")
    lab.says(f"iw dev {name} ibss leave")
    lab.says(f"iw dev {name} connect one")
    assert station.reaches(one)


@pytest.mark.root
def test_an_access_point_gives_its_passphrase_by_pin_and_by_button(lab: _Lab) -> None:
    _, two, station, *_ = lab.stations
    name, point = station.interface, two.interface
    lab.says(f"iw dev {name} disconnect")
    request(lab.control, {"op": "set", "interface": name, "passphrase": "", "ssid": ""})
    (facts,) = request(lab.control, {"op": "radios", "interface": name})["radios"]
    assert facts["passphrase"] == ""
    request(lab.control, {"op": "set", "interface": point, "wps": True})
    assert lab.says(f"wpa_cli -i {name} wps_pin any 12345670") == "FAIL\n"
    assert lab.says(f"hostapd_cli -i {point} wps_pin any 12345670", node=1) == "12345670\n"
    assert lab.says(f"wpa_cli -i {name} wps_pin {two.mac} 12345670") == "12345670\n"
    assert station.reaches(two)
    assert lab.says("hostapd_cli list_sta", node=1).endswith(f"\n{station.mac}\n")
    assert f"{station.mac}\nflags=[AUTH]" in lab.says(f"hostapd_cli -i {point} all_sta", node=1)
    assert lab.says(f"hostapd_cli -i {point} deauthenticate {station.mac}", node=1) == "OK\n"
    assert "num_sta[0]=0" in lab.says(f"hostapd_cli -i {point} status", node=1)
    assert lab.says(f"wpa_cli -i {name} wps_pbc") == "FAIL\n"
    assert lab.says(f"hostapd_cli -i {point} wps_pbc", node=1) == "OK\n"
    assert lab.says(f"wpa_cli -i {name} wps_pbc") == "OK\n"
    assert "SSID: two" in lab.says(f"iw dev {name} link")
    request(lab.control, {"op": "set", "interface": point, "wps": False})
    lab.says(f"iw dev {name} connect one")


@pytest.mark.root
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (lambda name: f"iw dev {name} survey dump", "the medium does not support this command"),
        (lambda _: "iw dev wlan7 link", "No such device (-19)"),
        (lambda name: f"iw dev {name} set channel 77777", "there is no channel 77777"),
        (lambda name: f"iw dev {name} set freq fast", "a frequency must be a number, not 'fast'"),
        (lambda name: f"iw dev {name} del", "is not a monitor"),
        (lambda name: f"iwconfig {name} sens 3", "the medium does not support 'sens 3'"),
        (lambda name: f"wpa_cli -i {name} p2p_find", "it knows status, scan"),
        (lambda _: "iwconfig wlan7", "wlan7     No such device\n\n"),
        (lambda _: "iwconfig lo", "lo        no wireless extensions.\n\n"),
        (lambda _: "hostapd_cli -i wlan7 status", "Failed to connect to hostapd"),
    ],
)
def test_anything_else_fails_and_says_why(lab: _Lab, line: Callable[[str], str], why: str) -> None:
    assert why in lab.fails(line(lab.stations[2].interface))


def _form(line: str) -> str:
    """Return the form of a line: addresses, names and numbers, but not their decimals, are one."""
    line = re.sub(r"(SSID: |ssid |ssid=|ssid\[0\]=)\S+", r"\1NAME", line)
    line = re.sub(r"\t(one|two|three|four|cell)\b", r"\tNAME", line)
    line = re.sub(r'ESSID:"\w+"', "ESSID:NAME", line)
    line = re.sub(r"^\S+ {2,}IEEE", "INTERFACE IEEE", line)  # iwconfig pads names to 8 characters
    line = re.sub(r"^(\w+_cipher|key_mgmt)=.*", r"\1=VALUE", line)
    line = re.sub(r"(?<=flags=)(\[\w+\])+", "FLAGS", line)
    line = re.sub(r"\b([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b", "ADDRESS", line)
    line = re.sub(r"\b(sta\d-)?(wlan|mon)\d+\b", "INTERFACE", line)
    line = re.sub(r"0x[0-9a-f]+", "HEX", line)
    line = re.sub(r"\d", "9", re.sub(r"-?\d+(?=(\.\d+)?)", "9", line))
    return re.sub(r"(9\.9\*? ?){2,}", "RATES", line)


def _recorded() -> dict[str, list[list[str]]]:
    """Return the forms of the lines that each command of the real programs printed, by command."""
    found: dict[str, list[list[str]]] = {}
    for part in RECORDED.read_text(encoding="utf-8").removesuffix("\n").split("\n$ ")[1:]:
        command, *lines = f"{part}\n".splitlines()
        found.setdefault(_command(command), []).append([_form(line) for line in lines])
    return found


def _command(line: str) -> str:
    """Return a command without its interface."""
    return re.sub(r"(?<=^iwconfig) \S+| (-p \S+|-i \S+|dev \S+)", "", line)


@pytest.mark.root
def test_every_line_has_the_form_of_a_line_of_the_real_program(lab: _Lab) -> None:
    names = [each.interface for each in lab.stations]
    real = _recorded()
    # The list has a device as `info` has it; recorded was the list of access points' devices.
    real["iw dev"] += [[f"\t{line}" for line in record] for record in real["iw info"]]
    lab.stations[3].reaches(lab.stations[4])
    lab.stations[6].reaches(lab.stations[5])

    # hostapd sends it only if bss_load_update_period is set, which it was not.
    load = {"\tBSS Load:", "\t\t * station count: 9"}

    def compare(node: int, *commands: str) -> None:
        for line in commands:
            said = lab.shows(line.replace("X", names[node]), node).splitlines()
            said = [each for each in said if _form(each) not in load]
            forms = [_form(each) for each in said]
            records = real[_command(line)]
            for form, text in zip(forms, said, strict=True):
                assert any(form in record for record in records), f"{line}: {text!r}"
            if line.endswith("scan_results"):
                continue  # the order of its rows is that of levels, which were all alike
            for one, other in itertools.pairwise(forms):
                assert any(
                    one in record and other in record[record.index(one) :] for record in records
                ), f"{line}: {one!r} before {other!r}"

    devices = ("iw dev X info", "iw dev X link", "iw dev X station dump", "iwconfig X")
    shown = (*devices, "iw dev X mpath dump", "iw dev X mpp dump")
    for node in (0, 2, 3, 6):
        compare(node, *shown)
    for node in (2, 6):
        compare(node, "iw dev X scan", "wpa_cli -i X scan_results", "wpa_cli -i X signal_poll")
        compare(node, "wpa_cli -i X status", "wpa_cli -i X list_networks", "wpa_cli -i X ping")
    for node in (0, 5):
        compare(node, "hostapd_cli -i X status", "hostapd_cli -i X all_sta", "iw dev")
    lab.says(f"iw dev {names[2]} interface add mon0 type monitor")
    compare(2, "iw dev", "iw dev mon0 info", "iw dev mon0 link", "iwconfig mon0")
    listed = "".join(lab.says(f"iwconfig {each}") for each in (names[2], "mon0"))
    assert lab.says("iwconfig") == listed
    lab.says("iw dev mon0 del")
    lab.says(f"iw dev {names[2]} disconnect")
    compare(2, *shown, "wpa_cli -i X status")
    lab.says(f"iw dev {names[2]} connect one")
    for node in (3, 4):
        lab.says(f"iw dev {names[node]} ibss join cell 2462", node)
    compare(3, *shown)
    for node in (3, 4):
        lab.says(f"iw dev {names[node]} ocb join 5890 10MHz", node)
    compare(3, "iw dev X info", "iw dev X link", "iwconfig X")
    for node in (3, 4):
        lab.says(f"iw dev {names[node]} mesh join m freq 2412", node)

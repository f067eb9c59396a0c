"""Wireless tools at the prompt of a script: what a radio is, and a radio as a monitor."""

from __future__ import annotations

from typing import Final

import pytest

from tests.testbed.mn_runs import answers

pytestmark = pytest.mark.root

WAYS: Final = (
    ("iw dev sta1-wlan0 set type monitor", "iw dev sta1-wlan0 set type managed"),
    ("iwconfig sta1-wlan0 mode monitor", "iwconfig sta1-wlan0 mode managed"),
)
"""How a radio becomes a monitor and a station again."""
LISTED: Final = (
    *("sta1 iw list", "sta2 iw phy phy1 info", "sta1 iw phy phy1 info", "sta1 iw reg get"),
)


def monitoring(there: str, back: str, tool: str) -> dict[str, str]:
    """Return commands that make a radio a monitor and a station, by what each is for.

    A comment tells those of one tool from those of the other.
    """
    return {
        "there": f"sta1 {there}",
        "mode": f"sta1 iwconfig sta1-wlan0 # {tool}",
        "capture": f"sta1 timeout 20 tcpdump -i sta1-wlan0 -c 2 2>&1 # {tool}",
        "back": f"sta1 {back}",
        "join": f"sta1 iw dev sta1-wlan0 connect new-ssid; iw dev sta1-wlan0 link # {tool}",
        "ping": f"sta1 ping -c 1 -W 2 sta2 # {tool}",
    }


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What all of these commands print, in one run."""
    by_tool = [monitoring(*way, tool=way[0].split(maxsplit=1)[0]) for way in WAYS]
    return answers(
        tmp_path_factory.mktemp("plain"),
        "plain.py",
        *LISTED,
        "sta2 ping -i 0.2 -w 120 10.0.0.9 >/dev/null &",  # traffic to capture
        *(command for commands in by_tool for command in commands.values()),
    )[0]


def test_hardware_and_rules_are_listed(output: dict[str, str]) -> None:
    for name, command in (("phy0", "sta1 iw list"), ("phy1", "sta2 iw phy phy1 info")):
        text = output[command]
        assert text.startswith(f"Wiphy {name}\n")
        assert "\t\t * mesh point\n" in text
        assert "\t\t\t* 54.0 Mbps\n" in text
        assert "\t\t\t* 2437 MHz [6] (14.0 dBm)\n" in text
    assert output["sta1 iw phy phy1 info"].strip() == "command failed: No such device (-19)"
    assert output["sta1 iw reg get"].startswith("global\ncountry 00: ")


@pytest.mark.parametrize(("there", "back"), WAYS)
def test_a_radio_becomes_a_monitor_and_a_station_again(
    output: dict[str, str], there: str, back: str
) -> None:
    commands = monitoring(there, back, there.split(maxsplit=1)[0])
    assert "Mode:Monitor" in output[commands["mode"]]
    assert "IEEE802_11_RADIO" in output[commands["capture"]]
    assert "2 packets captured" in output[commands["capture"]]
    assert output[commands["join"]].startswith("Connected to ")
    assert " 0% packet loss" in output[commands["ping"]]

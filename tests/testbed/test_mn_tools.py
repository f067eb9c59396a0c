"""Wireless tools at the prompt of a script: what a radio is, and a radio as a monitor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.mn_runs import answers

pytestmark = pytest.mark.root


def test_hardware_and_rules_are_listed(tmp_path: Path) -> None:
    said, _ = answers(
        tmp_path, "plain.py", "sta1 iw list", "sta2 iw phy phy1 info", "sta1 iw phy phy1 info",
        "sta1 iw reg get",
    )  # fmt: skip
    for name, command in (("phy0", "sta1 iw list"), ("phy1", "sta2 iw phy phy1 info")):
        text = said[command]
        assert text.startswith(f"Wiphy {name}\n")
        assert "\t\t * mesh point\n" in text
        assert "\t\t\t* 54.0 Mbps\n" in text
        assert "\t\t\t* 2437 MHz [6] (14.0 dBm)\n" in text
    assert said["sta1 iw phy phy1 info"].strip() == "command failed: No such device (-19)"
    assert said["sta1 iw reg get"].startswith("global\ncountry 00: ")


@pytest.mark.parametrize(
    ("there", "back"),
    [
        ("iw dev sta1-wlan0 set type monitor", "iw dev sta1-wlan0 set type managed"),
        ("iwconfig sta1-wlan0 mode monitor", "iwconfig sta1-wlan0 mode managed"),
    ],
)
def test_a_radio_becomes_a_monitor_and_a_station_again(
    tmp_path: Path, there: str, back: str
) -> None:
    said, everything = answers(
        tmp_path,
        "plain.py",
        f"sta1 {there}",
        "sta1 iwconfig sta1-wlan0",
        "sta2 ping -i 0.2 -w 60 10.0.0.9 >/dev/null &",
        "sta1 timeout 20 tcpdump -i sta1-wlan0 -c 2 2>&1",
        f"sta1 {back}",
        "sta1 iw dev sta1-wlan0 connect new-ssid; iw dev sta1-wlan0 link",
        "sta1 ping -c 1 -W 2 sta2",
    )
    assert "Mode:Monitor" in said["sta1 iwconfig sta1-wlan0"]
    assert "IEEE802_11_RADIO" in everything
    assert "2 packets captured" in everything
    assert said["sta1 iw dev sta1-wlan0 connect new-ssid; iw dev sta1-wlan0 link"].startswith(
        "Connected to "
    )
    assert " 0% packet loss" in said["sta1 ping -c 1 -W 2 sta2"]

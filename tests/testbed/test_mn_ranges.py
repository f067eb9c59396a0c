"""Ranges, powers and levels of a script's radios: the same everywhere, and as in Mininet-WiFi.

And the flows of its run, against what the programs themselves say.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
import pytest

from spark_analysis.script_reports import read
from tests.testbed.mn_runs import answers, run_folder

pytestmark = pytest.mark.root

FIRST_METRE = 20 * math.log10(4 * math.pi * 2.412e9 / 299_792_458)
"""Loss of free space over a metre, decibels."""


def power(metres: float) -> int:
    """Return the power for a range with exponent 4, dBm.

    `GetPowerGivenRange.logDistance` of Mininet-WiFi (mn_wifi/propagationModels.py, eaa5accb).
    """
    return max(1, math.ceil(40 * math.log10(metres) + FIRST_METRE - 91 - 10))


def reach(dbm: int) -> float:
    """Return the range of a power, metres: `SetSignalRange.logDistance` of the same file."""
    return 10 ** ((91 - FIRST_METRE + dbm + 10) / 40)


PING, TCP, UDP = "sta1 ping -c 5 -i 0.2 -W 2 h1", "iperf sta1 h1 1", "iperfudp 1M h1 sta1 1"
COMMANDS: Final = (
    "py ap1.wintfs[0].txpower",
    "sh iw dev ap1-wlan1 info",
    "sta2 iw dev sta2-wlan0 link",
    "links sta2",
    PING,
    "sta1 ping -c 2 -i 0.2 -W 1 10.0.0.77",
    TCP,
    UDP,
    "py sta1.setRange(70)",
    "sta1 iw dev sta1-wlan0 info",
    "py sta1.get_txpower()",
    "py ap2.setRange(70)",
    "py (ap2.wintfs[0].txpower, ap2.wintfs[0].range)",
    "sta2 iw dev sta2-wlan0 link # softer",
)


class RangesRun(NamedTuple):
    """The run of `ranges.py`: its folder, and what each command prints."""

    folder: Path
    answers: dict[str, str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RangesRun:
    path = tmp_path_factory.mktemp("ranges")
    texts, _ = answers(path, "ranges.py", *COMMANDS, options=())
    return RangesRun(run_folder(path), texts)


def test_powers_and_levels_agree_everywhere(run: RangesRun) -> None:
    said = run.answers
    assert power(60) == int(said["py ap1.wintfs[0].txpower"]) == 11
    assert f"txpower {power(60)}.00 dBm" in said["sh iw dev ap1-wlan1 info"]
    radios = json.loads((run.folder / "network.json").read_text())["radios"]
    powers = {radio["interface"]: radio["tx_power_dbm"] for radio in radios}
    assert powers == {
        "sta1-wlan0": power(40), "sta2-wlan0": 3, "ap1-wlan1": power(60), "ap2-wlan1": 20,
    }  # fmt: skip
    level = 20 + 10 - FIRST_METRE - 40
    assert f"signal: {level:.0f} dBm" in said["sta2 iw dev sta2-wlan0 link"]
    head, row = said["links sta2"].strip("\n").splitlines()[-2:]
    heard = dict(zip(head.split(), re.split(r"  +", row.strip()), strict=True))
    assert (heard["name"], heard["neighbour"]) == ("sta2-wlan0", "ap2-wlan1")
    assert float(heard["received_dbm"]) == pytest.approx(level, abs=0.05)
    # It is out of its own range, but in that of its access point.
    assert " 0% packet loss" in said[PING]
    assert f"txpower {power(70)}.00 dBm" in said["sta1 iw dev sta1-wlan0 info"]
    assert float(said["py sta1.get_txpower()"]) == power(70)
    dbm, metres = map(
        float, said["py (ap2.wintfs[0].txpower, ap2.wintfs[0].range)"].strip()[1:-1].split(",")
    )
    assert dbm == power(70)
    assert metres == pytest.approx(reach(power(70)), abs=0.01)
    softer = level - 20 + power(70)
    assert f"signal: {softer:.0f} dBm" in said["sta2 iw dev sta2-wlan0 link # softer"]


def test_with_wmediumd_both_ends_have_to_hear_each_other(tmp_path: Path) -> None:
    said, _ = answers(tmp_path, "ranges.py", "sta1 iw dev sta1-wlan0 link", arguments=("wmediumd",))
    assert reach(power(40)) < 50 < reach(power(60))
    assert said["sta1 iw dev sta1-wlan0 link"].strip() == "Not connected."


def test_flows_are_what_ping_and_iperf_say(run: RangesRun) -> None:
    tables = read(run.folder)

    def flow(protocol: str, source: str, to: str) -> Any:
        named = {"protocol": protocol, "source": source, "to": to}
        rows = tables.flows[(tables.flows[list(named)] == pd.Series(named)).all(axis=1)]
        return rows.sort_values("bytes").iloc[-1]

    ping = flow("ping", "sta1", "h1")
    assert (ping["sent"], ping["delivered"]) == (5, 5)
    ((least, mean),) = re.findall(r"5 received.*\n.* = ([\d.]+)/([\d.]+)/", run.answers[PING])
    # ping also counts how long a packet waits for an address, and it for a processor.
    assert 0.5 * float(least) < ping["rtt_ms"] < 1.2 * float(mean) + 1
    tcp = flow("TCP", "sta1", "h1")
    (rate,) = re.findall(r"TCP bandwidth.*\n.*\['([\d.]+) Mbits", run.answers[TCP])
    assert tcp["throughput_bps"] / 1e6 == pytest.approx(float(rate), rel=0.2)
    udp = flow("UDP", "h1", "sta1")
    assert udp["throughput_bps"] == pytest.approx(1e6, rel=0.2)
    assert 0.9 * udp["sent"] <= udp["delivered"] <= udp["sent"]
    assert 0 < udp["delay_ms"] < 100
    assert "10.0.0.77" not in set(tables.flows["to"]), "nobody has resolved the address"
    links = tables.links.set_index(["interface", "to"])["frames"]
    assert links["ap1-wlan1", "sta1"] >= udp["sent"], "what an access point relays"
    assert links["sta1-wlan0", "h1"] >= tcp["sent"]
    html = (run.folder / "report.html").read_text()
    row = re.search(r">ping<.*?</tr>", html, re.DOTALL)
    assert row is not None
    assert ">sta1<" in row[0]
    assert ">h1<" in row[0]

"""The flows of a script's run, against what the programs themselves say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from spark_analysis.script_reports import read
from tests.testbed.mn_runs import SCRIPTS, mn, run_folder, typed

pytestmark = pytest.mark.root


def test_flows_are_what_ping_and_iperf_say(tmp_path: Path) -> None:
    commands = typed(
        tmp_path,
        "sta1 ping -c 5 -i 0.2 -W 2 h1",
        "sta1 ping -c 2 -i 0.2 -W 1 10.0.0.77",
        "iperf sta1 h1 1",
        "iperfudp 1M h1 sta1 1",
    )
    done = mn(tmp_path, SCRIPTS / "ranges.py", "--commands", str(commands))
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    folder = run_folder(tmp_path)
    tables = read(folder)

    def flow(protocol: str, source: str, to: str) -> Any:
        named = {"protocol": protocol, "source": source, "to": to}
        rows = tables.flows[(tables.flows[list(named)] == pd.Series(named)).all(axis=1)]
        return rows.sort_values("bytes").iloc[-1]

    ping = flow("ping", "sta1", "h1")
    assert (ping["sent"], ping["delivered"]) == (5, 5)
    ((least, mean),) = re.findall(r"5 received.*\n.* = ([\d.]+)/([\d.]+)/", said)
    # ping also counts how long a packet waits for an address, and it for a processor.
    assert 0.5 * float(least) < ping["rtt_ms"] < 1.2 * float(mean) + 1
    tcp = flow("TCP", "sta1", "h1")
    (rate,) = re.findall(r"TCP bandwidth.*\n.*\['([\d.]+) Mbits", said)
    assert tcp["throughput_bps"] / 1e6 == pytest.approx(float(rate), rel=0.2)
    udp = flow("UDP", "h1", "sta1")
    assert udp["throughput_bps"] == pytest.approx(1e6, rel=0.2)
    assert 0.9 * udp["sent"] <= udp["delivered"] <= udp["sent"]
    assert 0 < udp["delay_ms"] < 100
    assert "10.0.0.77" not in set(tables.flows["to"]), "nobody has resolved the address"
    links = tables.links.set_index(["interface", "to"])["frames"]
    assert links["ap1-wlan1", "sta1"] >= udp["sent"], "what an access point relays"
    assert links["sta1-wlan0", "h1"] >= tcp["sent"]
    html = (folder / "report.html").read_text()
    row = re.search(r">ping<.*?</tr>", html, re.DOTALL)
    assert row is not None
    assert ">sta1<" in row[0]
    assert ">h1<" in row[0]

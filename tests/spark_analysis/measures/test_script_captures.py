"""Flows, and what monitors hear, from captures of a script's run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from emulation.radio.mac import mac_number
from spark_analysis.measures.script.flows import flows
from spark_analysis.measures.script.traffic import heard
from tests.capture.packets import ethernet, file_header, pcap, record, udp_ipv4
from tests.capture.test_radiotap import from_monitor
from tests.spark_analysis.runs import EPOCH, NETWORK


def test_what_reached_a_node_without_a_readable_capture_is_not_known(tmp_path: Path) -> None:
    names = {NETWORK + number: f"sta{number}" for number in (1, 2, 3, 4)}
    network: dict[str, Any] = {
        "epoch_ns": EPOCH,
        "addresses": {str(address): name for address, name in names.items()},
        "interfaces": [
            {"interface": f"{name}-wlan0", "node": name}
            for name in names.values()
            if name != "sta4"
        ],
    }
    sent = [
        ethernet(udp_ipv4(bytes(20), NETWORK + 1, NETWORK + to, (5000, 6000 + to)))
        for to in (2, 3, 4)
    ]
    back = ethernet(udp_ipv4(bytes(20), NETWORK + 2, NETWORK + 1, (7000, 7001)))
    (tmp_path / "sta1-wlan0.pcap").write_bytes(pcap([*sent, back]))
    (tmp_path / "sta2-wlan0.pcap").write_bytes(pcap([back]))
    (tmp_path / "sta3-wlan0.pcap").write_text("damaged")
    found = {(row.source, row.to): row.delivered for row in flows(tmp_path, network).itertuples()}
    assert (found["sta1", "sta2"], found["sta2", "sta1"]) == (0, 1)
    assert all(pd.isna(found["sta1", to]) for to in ("sta3", "sta4"))


def test_monitors_count_data_alone(tmp_path: Path) -> None:
    address, other = (bytes((2, 0, 0, 0, 0, number)) for number in (1, 2))
    data, beacon = (
        bytes((kind, 0, 0, 0)) + other + address + other + bytes(9) for kind in (8, 128)
    )
    mac = address.hex(":")
    network = {
        "epoch_ns": EPOCH,
        "radios": [{"mac": mac, "node": "sta1"}],
    }
    assert mac_number(mac)
    packets = [from_monitor(data), from_monitor(beacon), from_monitor(data), b"\xff" * 9]
    (tmp_path / "mon0.pcap").write_bytes(
        file_header(linktype=127) + b"".join(record(each, EPOCH) for each in packets)
    )
    rows = heard(tmp_path, network)
    assert rows[["monitor", "transmitter", "frames"]].to_numpy().tolist() == [["mon0", "sta1", 2]]

"""The kernel's own 802.11, in the virtual machine: run there, judged here from the captures.

The machine's processor may be emulated: time is ample, stations are few.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from scapy.layers.dot11 import Dot11Beacon
from scapy.layers.inet import UDP
from scapy.utils import PcapReader

from capture.scan import AIR
from emulation.processes import PROJECT
from emulation.vm.build import Image
from nodeapp.wire import Kind, WireError, decode

NODES = 5
SETTINGS = ("topics=1", "publishers=1", "subscribers=3", "side=250")


@pytest.mark.vm
@pytest.mark.root
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_events_reach_all_subscribers_over_mac80211(image: Image, tmp_path: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "emulation.cli", "vm", "run", "roaming_field", "flooding"),
            *("--backend", "hwsim", "--nodes", str(NODES), "--duration", "24"),
            *("--runs", str(tmp_path), *words),
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    assert f"run folder: {folder}" in done.stderr
    assert len(list(folder.glob("captures/sta*.pcap"))) == 2 * NODES
    assert (folder / "report.html").is_file()

    delivery = pd.read_parquet(folder / "metrics/delivery.parquet")
    published = len(delivery.groupby(["publisher", "sequence"]))
    assert published >= 4
    assert len(delivery) == 3 * published
    assert delivery["expected"].all()
    assert set(delivery["notifications"]) == {1}

    overhead = pd.read_parquet(folder / "metrics/overhead.parquet")
    events = overhead[overhead["kind"] == int(Kind.EVENT)]
    # Every node floods an event once, and is heard by all the others: the field is small.
    assert events["sent_frames"].sum() == NODES * published
    heard = NODES * (NODES - 1) * published
    assert 0.9 * heard <= events["received_frames"].sum() <= heard

    air = on_the_air(folder / "captures" / AIR)
    assert air["event"] == NODES * published
    assert air["beacon"] > 0


def on_the_air(capture: Path) -> Counter[str]:
    """Return how many beacons and frames with an event a capture of 802.11 frames has."""
    found: Counter[str] = Counter()
    with PcapReader(str(capture)) as reader:
        for packet in reader:
            if packet.haslayer(Dot11Beacon):
                found["beacon"] += 1
            elif packet.haslayer(UDP):
                try:
                    found["event"] += decode(bytes(packet[UDP].payload)).kind == Kind.EVENT
                except WireError:
                    continue
    return found

"""The `hwsim` backend: what it says where it cannot run, and a run in the virtual machine.

The captures of that run are judged on this side.  The machine's processor may be emulated: time is
ample, stations are few.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from scapy.layers.dot11 import Dot11Beacon
from scapy.layers.inet import UDP
from scapy.utils import PcapReader

from capture.scan import AIR
from emulation.backends import BackendError
from emulation.backends.hwsim import HwsimBackend
from emulation.catalog import make_scenario
from emulation.radio.hwsim_wire import FAMILY
from emulation.radio.wifi import has_family
from emulation.runs import RunFolder
from emulation.vm import build as images
from emulation.vm import run as vm
from emulation.vm import tools
from emulation.vm.run import Options, run_in_vm
from emulation.vm.smoke import frames
from nodeapp.wire import Kind, WireError, decode

NODES = 5
SETTINGS = ("topics=1", "publishers=1", "subscribers=3", "side=250")


class Quiet:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def stage(self, text: str) -> None:
        self.said.append(text)

    def elapsed(self, seconds: float) -> None:
        pass

    def problem(self, text: str) -> None:
        self.said.append(text)

    def hide(self) -> None:
        """There is nothing to hide."""


def test_a_kernel_without_the_module_is_told_in_one_line_what_to_do() -> None:
    backend = HwsimBackend()
    if has_family(FAMILY) or not any("mac80211" in each for each in backend.obstacles()):
        pytest.skip("this kernel has mac80211_hwsim")
    (line,) = [each for each in backend.obstacles() if "mac80211" in each]
    assert "\n" not in line
    assert "modprobe mac80211_hwsim" in line
    assert "vm run" in line


def test_mesh_access_points_are_refused_in_one_line(tmp_path: Path) -> None:
    scenario = make_scenario("mesh_grid", "flooding", seed=1, duration=60, settings={})
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match="--backend tap") as refused:
        HwsimBackend().execute(scenario, folder, Quiet())
    assert "\n" not in str(refused.value)


@pytest.mark.root
@pytest.mark.timeout(300)
def test_events_reach_all_subscribers_over_the_kernels_own_802_11(tmp_path: Path) -> None:
    if os.geteuid() != 0 or tools.missing() or images.find_image() is None:
        pytest.skip("needs root and the image of the virtual machine: ./run_testbed.sh vm build")
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    command = vm.testbed(
        *("run", "roaming_field", "flooding", "--backend", "hwsim", "--nodes", str(NODES)),
        *("--duration", "24", "--no-analyze", "--runs", str(tmp_path), *words),
    )
    seen: list[bytes] = []
    code = run_in_vm(
        command,
        observer=Quiet(),
        share_rw=tmp_path,
        options=Options(time_limit=240),
        output=seen.append,
        errors=seen.append,
    )
    assert code == 0, b"".join(seen).decode()
    (folder,) = tmp_path.iterdir()
    clients: Counter[int] = Counter()
    radio: Counter[int] = Counter()
    for capture in folder.glob("captures/sta*.pcap"):
        (clients if capture.stem.endswith("-lo") else radio).update(frames(capture))
    published = clients[Kind.PUBLISH]
    assert published >= 4
    assert clients[Kind.NOTIFY] == 3 * published
    # Every node floods an event once, and is heard by all the others: the field is small.
    sent_and_heard = NODES * NODES * published
    assert 0.9 * sent_and_heard <= radio[Kind.EVENT] <= sent_and_heard
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

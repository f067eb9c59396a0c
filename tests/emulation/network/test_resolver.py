"""Neighbour entries on demand: what the kernel asks, what it gets, and a run that lives on it."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path
from threading import Thread, get_native_id

import pytest

from capture.decode import decode_records
from capture.namespaces import new_network_namespace
from capture.scan import read_header, record_offsets
from emulation.backends.realtime.signs import Replaced
from emulation.backends.tap import TapBackend
from emulation.media.rtnetlink import neighbour
from emulation.network import net, resolver
from emulation.network.processes import await_condition
from emulation.network.resolver import Resolver, asked_for
from emulation.scenario.runfolder import RunFolder
from emulation.workloads.base import Operation
from nodeapp.kinds import ClientKind
from tests.emulation.backends.test_tap import Recorded
from topologies.catalog import make_scenario

ASKED = bytes.fromhex(
    "40000000" "1e00" "0000" "00000000" "00000000"  # length, RTM_GETNEIGH
    "02000000" "03000000" "0100" "00" "01"  # IPv4, interface 3, incomplete
    "0800" "0100" "0a000009"  # NDA_DST 10.0.0.9
    "0800" "0400" "00000000" "1400" "0300" "70170000000000000000000001000000"
)  # fmt: skip
"""What Linux 6.18 sent."""
TARGET = "02:00:00:00:00:09"


def test_what_the_kernel_asks_is_understood_and_nothing_else() -> None:
    assert asked_for(ASKED) == [(3, "10.0.0.9")]
    assert asked_for(ASKED + ASKED) == [(3, "10.0.0.9")] * 2
    assert asked_for(neighbour(3, "10.0.0.9", TARGET)) == [], "an entry is no request"
    for end in range(len(ASKED)):
        asked_for(ASKED[:end])  # cut anywhere, it does no harm
    assert asked_for(bytes(4) + ASKED[4:16] * 3) == [], "of length 0"


@pytest.mark.root
def test_a_datagram_waits_for_its_entry_and_no_arp_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver, "ALIVE", 0.05)
    alive = Replaced(tmp_path / "ready")
    words = "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"  # which says hello by itself
    words += " && ip link add v0 type veth peer name p0 && ip addr add 10.0.0.1/8 dev v0"
    # In this order v0 sends at once; else it drops what it has until the kernel sees its carrier.
    words += " && ip link set p0 up && ip link set v0 up"
    with new_network_namespace():
        subprocess.run(words, shell=True, check=True)
        node = {"pid": os.getpid(), "interface": "v0", "address": "10.0.0.1", "mac": TARGET}
        other = node | {"address": "10.0.0.9"}
        answering = _resolver_here([node, other])
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
            wire.bind(("p0", 3))
            wire.settimeout(5.0)
            Thread(target=answering.serve, args=[tmp_path / "ready"], daemon=True).start()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for number in range(3):
                    sender.sendto(bytes([number]), ("10.0.0.9", 9))
            seen = [wire.recv(100) for _ in range(3)]
    assert all(await_condition(alive, 5.0) for _ in range(3)), "it gives signs of life"
    assert [frame[:6].hex(":") for frame in seen] == [TARGET] * 3
    # Those that wait go when the entry is there; one sent that very moment may overtake them.
    assert sorted(frame[42] for frame in seen) == [0, 1, 2], "none lost"


def _resolver_here(nodes: list[dict[str, object]]) -> Resolver:
    """Return a resolver for this thread's namespace, which is not that of the process."""
    thread = f"{os.getpid()}/task/{get_native_id()}"
    return Resolver([node | {"pid": thread} for node in nodes])


@pytest.mark.root
def test_a_run_makes_entries_as_it_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net, "ALL_KNOWN", 3)
    settings = {"nodes": 4, "topics": 0, "speed": 0, "side": 100, "hello_interval": 0.3}
    made = make_scenario("roaming_field", "broker-gpsr", seed=1, duration=6.0, settings=settings)
    wanted = (("topic", "=", "a"),)
    subscribe = Operation(time=1.0, node=2, action="subscribe", subscription=1, filter=wanted)
    publish = Operation(time=4.0, node=1, action="publish", sequence=1, event={"topic": "a"})
    scenario = made.model_copy(update={"workload": (subscribe, publish)})
    folder = RunFolder.create(tmp_path, scenario)
    TapBackend().execute(scenario, folder, Recorded(lambda seconds: None))
    data = folder.loopback_capture(scenario.nodes[1]).read_bytes()
    header = read_header(data)
    kinds = decode_records(data, header, record_offsets(data, header)[0])["kind"]
    assert ClientKind.NOTIFY in kinds.tolist()
    for node in scenario.nodes:
        data = folder.radio_capture(node).read_bytes()
        found = decode_records(data, read_header(data), record_offsets(data, read_header(data))[0])
        assert found["is_ip"].all(), "no ARP request"

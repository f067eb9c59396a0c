"""Peer links of 802.11s between radios of mac80211_hwsim; needs the module: see `tests.hwsim`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from emulation.media.control import request
from emulation.media.nl80211_wire import (
    encode_join_adhoc,
    encode_join_mesh,
    encode_new_interface,
)
from emulation.radio.spec import RadioSpec
from tests.emulation.media.tap_stations import (
    ASKED,
    HWSIM,
    await_true,
    medium,
    namespaces,
    start,
    write_config,
)
from tests.emulation.media.test_hwsim import peers
from tests.hwsim import HERE

MESH = RadioSpec(range=250, mode="mesh")
CHAIN = [((0.0, 200.0 * index, 0.0),) for index in range(3)]


def attributes(message: bytes) -> dict[int, bytes]:
    """Take a request apart as the kernel does, by its own reading of netlink(7)."""
    found, at = {}, 20
    while at < len(message):
        length = int.from_bytes(message[at : at + 2], "little")
        kind = int.from_bytes(message[at + 2 : at + 4], "little") & 0x3FFF
        found[kind] = message[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def test_a_mesh_forwards_nothing_and_has_the_rates_of_the_standard() -> None:
    sent = encode_join_mesh(30, 7, MESH, "testbed", 1000)
    assert sent[16] == 68  # NL80211_CMD_JOIN_MESH
    found = attributes(sent)
    assert found[24] == b"testbed"
    assert found[38] == (2412).to_bytes(4, "little")
    assert found[12] == (1000).to_bytes(4, "little")
    assert found[36] == bytes((12, 24, 48))  # 6, 12 and 24 Mb/s, mandatory
    assert 39 not in found  # no HT
    config = attributes(bytes(20) + found[35])
    assert config[19] == b"\0"
    assert config[28] == (10).to_bytes(4, "little")
    assert 39 in attributes(
        encode_join_mesh(30, 7, RadioSpec(standard="n", mode="mesh"), "testbed", 1000)
    )


def test_both_modes_join_on_the_same_channel_at_the_same_rates() -> None:
    mesh = attributes(encode_join_mesh(30, 7, MESH, "testbed", 1000))
    adhoc = attributes(encode_join_adhoc(30, 7, MESH, "testbed", bytes(6), 1000))
    shared = set(mesh) & set(adhoc)
    assert {3, 12, 36, 38, 107} == shared
    assert all(mesh[kind] == adhoc[kind] for kind in shared)
    types = [
        attributes(encode_new_interface(30, 1, "wlan0", mode))[5] for mode in ("adhoc", "mesh")
    ]
    assert types == [(1).to_bytes(4, "little"), (7).to_bytes(4, "little")]


@HERE
@pytest.mark.root
def test_neighbours_open_peer_links_and_nobody_forwards(tmp_path: Path) -> None:
    subprocess.run(["modprobe", "mac80211_hwsim", "radios=0"], check=True, timeout=60)
    with namespaces(3) as stations:
        one, two, three = stations
        config = write_config(tmp_path, stations, CHAIN, MESH)
        with medium(config, stations, module=HWSIM) as control:

            def links() -> list[set[str]]:
                return [
                    {mac for mac, each in peers(one).items() if each["mesh plink"] == "ESTAB"}
                    for one in stations
                ]

            await_true(lambda: links() == [{two.mac}, {one.mac, three.mac}, {two.mac}], 60, ASKED)
            assert one.reaches(two, count=5, timeout=5)
            assert not one.reaches(three, count=2, timeout=2)
            assert two.reaches(three, count=5, timeout=5)
            assert request(control, {"op": "stats"})["refused"] == 0

            request(control, {"op": "move", "name": three.name, "x": 9000, "y": 0})
            assert not two.reaches(three, count=2, timeout=2)
            request(control, {"op": "move", "name": three.name, "x": 100, "y": 100})
            await_true(lambda: [len(each) for each in links()] == [2, 2, 2], 60, ASKED)


@HERE
@pytest.mark.root
def test_a_channel_that_the_module_does_not_have_is_said_in_a_line(tmp_path: Path) -> None:
    subprocess.run(["modprobe", "mac80211_hwsim", "radios=0"], check=True, timeout=60)
    with namespaces(1) as stations:
        radio = RadioSpec(mode="mesh", frequency_mhz=914)
        config = write_config(tmp_path, stations, CHAIN[:1], radio)
        code, said = start(config, HWSIM).ended(100.0)
        assert code == 1
        (line,) = said.splitlines()
        assert "cannot join the mesh on 914 MHz" in line

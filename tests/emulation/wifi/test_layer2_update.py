"""The layer 2 update frame, against scapy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import LLC, Dot3

from emulation.wifi.layer2_update import layer2_update, updated_station

STATION = bytes.fromhex("020000000007")


def test_it_is_an_xid_response_from_the_station() -> None:
    packet = Dot3(layer2_update(STATION))
    assert (packet.src, packet.dst) == ("02:00:00:00:00:07", "ff:ff:ff:ff:ff:ff")
    assert packet.len == 6
    assert (packet[LLC].dsap, packet[LLC].ssap, packet[LLC].ctrl) == (0, 1, 0xAF)
    assert bytes(packet[LLC].payload) == b"\x81\x01\x02"


@pytest.mark.parametrize("padding", [0, 40])
def test_it_is_recognised_with_and_without_padding(padding: int) -> None:
    assert updated_station(layer2_update(STATION) + bytes(padding)) == STATION


def test_mac80211s_own_has_another_window() -> None:
    assert updated_station(layer2_update(STATION)[:-1] + b"\0") == STATION


@given(st.binary(max_size=30))
def test_nothing_else_is(frame: bytes) -> None:
    assert updated_station(frame) is None
    assert updated_station(layer2_update(STATION)[: len(frame) % 20]) is None


def test_a_group_address_is_no_station() -> None:
    assert updated_station(layer2_update(b"\x01" + STATION[1:])) is None

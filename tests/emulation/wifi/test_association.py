"""Which access point a station belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.l2 import LLC, Dot3

from emulation.wifi.association import Associations, Change
from emulation.wifi.layer2_update import layer2_update, updated_station

LEVELS = st.dictionaries(st.integers(0, 4), st.floats(-95, -20), max_size=5)


def test_a_station_takes_the_strongest_first() -> None:
    associations = Associations(hysteresis_db=5)
    assert associations.scan(7.0, [{0: -70, 1: -60}, {}]) == [Change(7.0, 0, None, 1)]
    assert (associations.of(0), associations.of(1)) == (1, None)


def test_it_changes_only_for_one_that_is_stronger_by_more_than_the_hysteresis() -> None:
    associations = Associations(hysteresis_db=5)
    associations.scan(7.0, [{0: -60}])
    assert associations.scan(7.0, [{0: -60, 1: -58}]) == []
    assert associations.scan(7.0, [{0: -60, 1: -55}]) == []
    assert associations.scan(7.0, [{0: -60, 1: -54.9}]) == [Change(7.0, 0, 0, 1)]
    assert associations.scan(7.0, [{0: -56, 1: -60}]) == []  # not back at once


def test_a_lost_access_point_is_left_at_once() -> None:
    associations = Associations(hysteresis_db=5)
    associations.scan(7.0, [{0: -60, 1: -80}])
    assert associations.scan(7.0, [{1: -80}]) == [Change(7.0, 0, 0, 1)]
    assert associations.scan(7.0, [{}]) == [Change(7.0, 0, 1, None)]


def test_of_equals_the_first_is_taken() -> None:
    associations = Associations(hysteresis_db=0)
    assert associations.scan(7.0, [{3: -60, 2: -60}]) == [Change(7.0, 0, None, 2)]


@given(st.lists(LEVELS, max_size=12), st.floats(0, 20))
def test_nobody_is_ever_worse_off_than_by_the_hysteresis(
    scans: list[dict[int, float]], hysteresis: float
) -> None:
    associations = Associations(hysteresis)
    for levels in scans:
        before = associations.of(0)
        changes = associations.scan(7.0, [levels])
        now = associations.of(0)
        assert changes == ([] if before == now else [Change(7.0, 0, before, now)])
        assert (now is None) == (not levels)
        if now is not None:
            assert max(levels.values()) <= levels[now] + hysteresis
            if before in levels and before != now:
                assert levels[now] > levels[before] + hysteresis


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

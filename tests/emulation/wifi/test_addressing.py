"""Whom frames are for, ad hoc, in infrastructure mode and on the mesh."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.radio.mac import octets
from emulation.radio.medium import BROADCAST, NOBODY, Medium
from emulation.radio.spec import RadioSpec
from emulation.wifi.addressing import (
    AdHocAddressing,
    InfrastructureAddressing,
    MeshAddressing,
    access_levels,
)
from emulation.wifi.association import Associations

MACS = [octets(f"02:00:00:00:00:{number:02x}") for number in range(1, 4)]
ALL = b"\xff" * 6
MULTICAST = octets("01:00:5e:00:00:01")
STRANGER = octets("02:00:00:00:00:99")


@pytest.fixture
def cells() -> InfrastructureAddressing:
    """Stations 0 and 1 belong to point 0 (radio 3), station 2 to none; radio 4 is point 1."""
    associations = Associations(5.0)
    associations.scan(0.0, [{3: 40}, {3: 40}, {}])
    return InfrastructureAddressing(MACS, associations)


def test_ad_hoc_all_hear_all() -> None:
    channel = AdHocAddressing(MACS)
    assert channel.destination(0, ALL) == channel.destination(0, MULTICAST) == BROADCAST
    assert channel.destination(0, MACS[2]) == 2
    assert channel.destination(0, STRANGER) == NOBODY
    assert channel.accepted(0, ALL, [1, 2]) == [1, 2]


@pytest.mark.parametrize("address", [ALL, MULTICAST, MACS[1], MACS[2], STRANGER])
def test_a_station_sends_everything_to_its_access_point(
    cells: InfrastructureAddressing, address: bytes
) -> None:
    assert cells.destination(0, address) == 3
    assert cells.accepted(0, address, [3]) == [3]


def test_a_station_without_access_point_sends_nothing(cells: InfrastructureAddressing) -> None:
    assert cells.destination(2, ALL) is None
    assert cells.lost == {"sent while not associated": 1}


def test_an_access_point_reaches_its_stations_only(cells: InfrastructureAddressing) -> None:
    assert cells.destination(3, MACS[1]) == 1
    assert cells.destination(3, MACS[2]) is None
    assert cells.destination(4, MACS[1]) is None
    assert cells.destination(3, STRANGER) is None
    assert cells.lost == {"to stations not associated here": 3}


def test_stations_hear_broadcasts_of_their_access_point_only(
    cells: InfrastructureAddressing,
) -> None:
    assert cells.destination(3, ALL) == BROADCAST
    assert cells.accepted(3, ALL, [0, 1, 2, 4]) == [0, 1]
    assert cells.accepted(4, ALL, [0, 1, 2, 3]) == []
    assert cells.accepted(4, ALL, [2]) == []
    assert not cells.lost


def test_what_was_under_way_at_a_handover_is_lost_and_counted() -> None:
    associations = Associations(5.0)
    channel = InfrastructureAddressing(MACS[:1], associations)
    associations.scan(0.0, [{1: 40}])
    assert (channel.destination(1, MACS[0]), channel.destination(0, ALL)) == (0, 1)
    associations.scan(1.0, [{2: 40}])
    assert channel.accepted(1, MACS[0], [0]) == []
    assert channel.accepted(0, ALL, [1]) == []
    assert channel.lost == {"under way at a handover": 2}


def test_the_mesh_goes_one_hop_to_the_radio_in_front_of_a_host() -> None:
    channel = MeshAddressing(MACS)
    assert channel.destination(0, ALL) == BROADCAST
    assert channel.destination(0, MACS[1]) == 1
    assert channel.destination(0, STRANGER) is None
    assert channel.destination(0, MACS[0]) is None
    assert channel.lost == {"to no host of the mesh": 2}
    assert channel.accepted(0, ALL, [1, 2]) == [1, 2]


@given(
    st.lists(st.dictionaries(st.integers(3, 5), st.floats(0, 60)), min_size=3, max_size=3),
    st.integers(0, 5),
    st.sampled_from([ALL, MULTICAST, *MACS, STRANGER]),
)
def test_no_frame_ever_goes_between_stations_or_between_access_points(
    heard: list[dict[int, float]], source: int, address: bytes
) -> None:
    associations = Associations(5.0)
    associations.scan(0.0, heard)
    channel = InfrastructureAddressing(MACS, associations)
    to = channel.destination(source, address)
    others = [radio for radio in range(6) if radio != source]
    if to is None:
        return
    received = others if to == BROADCAST else [to]
    for receiver in channel.accepted(source, address, received):
        station, point = sorted((source, receiver))
        assert station < 3 <= point
        assert associations.of(station) == point


def test_levels_are_those_of_the_access_points_a_station_can_decode() -> None:
    medium = Medium(RadioSpec(range=250), 4, random.Random(1))
    medium.set_positions([(0, 0), (100, 0), (50, 0), (900, 0)])  # two stations, two points
    near, same = access_levels(medium, 2)
    assert set(near) == set(same) == {2}
    medium.fail(0)
    assert access_levels(medium, 2) == [{}, same]
    medium.fail(1, 2)
    assert access_levels(medium, 2) == [{}, {}]

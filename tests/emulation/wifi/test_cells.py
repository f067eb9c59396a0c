"""Stations, access points and the mesh between these: two channels that know of each other."""

from __future__ import annotations

import random

import pytest

from emulation.radio.mac import octets
from emulation.radio.spec import RadioSpec
from emulation.wifi.cells import Cells, faults_of

STATIONS = [octets(f"02:00:00:00:00:{number:02x}") for number in (1, 2)]
HOSTS = [octets(f"02:00:00:00:01:{number:02x}") for number in (1, 2)]
RADIO = RadioSpec(range=100, queue_order="routing-first")
TO_ALL = b"\xff" * 6


class _Fault:
    """An access point that is down."""

    kind = "access-point"
    nodes = ("ap1",)
    line = position = None
    power_dbm = duty = period = 0.0


@pytest.fixture
def cells() -> Cells:
    """Each station beside an access point, which are 300 m apart."""
    made = Cells(STATIONS, HOSTS, RADIO, RadioSpec(range=400), 5.0, random.Random)
    made.access.medium.set_positions([(0, 0), (300, 0), (10, 0), (290, 0)])
    made.mesh.medium.set_positions([(10, 0), (290, 0)])
    return made


def received(channel: object, now: float) -> list[tuple[bytes, list[int]]]:
    medium = channel.medium  # type: ignore[attr-defined]
    return [(each.frame, each.receivers) for each in medium.advance(now)]


def test_a_station_belongs_to_the_radio_of_an_access_point(cells: Cells) -> None:
    assert cells.access_point(0) is None
    changes = cells.scan(3.0)
    assert [(change.time, change.station, change.new) for change in changes] == [
        (3.0, 0, 2),
        (3.0, 1, 3),
    ]
    assert [cells.access_point(station) for station in (0, 1)] == [2, 3]
    assert cells.scan(4.0) == []


def test_frames_go_to_the_access_point_and_over_the_mesh(cells: Cells) -> None:
    cells.access.send(0.0, 0, STATIONS[1], 500, b"early", bool)
    assert cells.access.lost == {"sent while not associated": 1}
    cells.scan(0.0)
    cells.access.send(0.0, 0, STATIONS[1], 500, b"up", bool)
    assert received(cells.access, 0.1) == [(b"up", [2])]
    cells.mesh.send(0.1, 0, HOSTS[1], 500, b"across", bool)
    assert received(cells.mesh, 0.2) == [(b"across", [1])]
    cells.access.send(0.2, 3, STATIONS[1], 500, b"down", bool)
    assert received(cells.access, 0.3) == [(b"down", [1])]
    assert cells.access.accepted(3, STATIONS[1], [1]) == [1]
    assert cells.access.accepted(2, STATIONS[1], [1]) == []


@pytest.mark.parametrize(("channel", "last"), [("access", b"data"), ("mesh", b"routing")])
def test_what_is_of_routing_overtakes_the_rest_if_the_radio_says_so(
    cells: Cells, channel: str, last: bytes
) -> None:
    on = getattr(cells, channel)
    cells.scan(0.0)
    for frame in (b"first", b"data", b"routing"):
        on.send(0.0, len(on.medium.counters.sent) - 1, TO_ALL, 500, frame, b"routing".__eq__)
    assert [frame for frame, _ in received(on, 1.0)][-1] == last


def test_an_access_point_that_fails_is_off_on_both_channels(cells: Cells) -> None:
    names = ["sta1", "sta2", "ap1", "ap2"]
    faults = faults_of([cells.access.medium, cells.mesh.medium], names, 2)
    cells.scan(0.0)
    faults.begin(_Fault(), 0.0)
    assert [change.new for change in cells.scan(1.0)] == [None]
    cells.mesh.send(1.0, 1, TO_ALL, 500, b"unheard", bool)
    assert received(cells.mesh, 2.0) == []

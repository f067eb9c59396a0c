"""Who is associated with whom, from frames built with scapy."""

from __future__ import annotations

from typing import Any

import pytest
from scapy.layers.dot11 import (
    Dot11,
    Dot11AssoResp,
    Dot11Beacon,
    Dot11Deauth,
    Dot11Disas,
    Dot11ReassoResp,
)

from emulation.media.ieee80211 import AssociationObserver
from emulation.radio.mac import octets

STATIONS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
POINTS = ("02:01:00:00:00:01", "02:01:00:00:00:02")


def frame(to: str, by: str, body: Any) -> bytes:
    return bytes(Dot11(addr1=to, addr2=by, addr3=by) / body)


@pytest.fixture
def observer() -> AssociationObserver:
    return AssociationObserver([octets(mac) for mac in STATIONS], [octets(mac) for mac in POINTS])


def test_an_accepted_station_belongs_to_the_access_point(observer: AssociationObserver) -> None:
    assert observer.of(1) is None
    observer.see(frame(STATIONS[1], POINTS[0], Dot11AssoResp(status=0)))
    assert (observer.of(0), observer.of(1)) == (None, 0)
    assert observer.handovers == 0


def test_a_refused_station_does_not(observer: AssociationObserver) -> None:
    observer.see(frame(STATIONS[1], POINTS[0], Dot11AssoResp(status=17)))
    assert observer.of(1) is None


def test_a_station_that_reassociates_is_handed_over(observer: AssociationObserver) -> None:
    observer.see(frame(STATIONS[0], POINTS[0], Dot11AssoResp(status=0)))
    observer.see(frame(STATIONS[0], POINTS[1], Dot11ReassoResp(status=0)))
    assert (observer.of(0), observer.handovers) == (1, 1)
    observer.see(frame(STATIONS[0], POINTS[1], Dot11ReassoResp(status=0)))
    assert observer.handovers == 1


@pytest.mark.parametrize("end", [Dot11Deauth(reason=3), Dot11Disas(reason=4)])
@pytest.mark.parametrize("by_station", [True, False])
def test_either_side_ends_it(observer: AssociationObserver, end: Any, by_station: bool) -> None:
    observer.see(frame(STATIONS[0], POINTS[0], Dot11AssoResp(status=0)))
    for point, left in ((POINTS[1], 0), (POINTS[0], None)):  # of another: nothing
        to, by = (point, STATIONS[0]) if by_station else (STATIONS[0], point)
        observer.see(frame(to, by, end))
        assert observer.of(0) == left
    observer.see(frame(STATIONS[0], POINTS[1], Dot11AssoResp(status=0)))
    assert (observer.of(0), observer.handovers) == (1, 1)  # from where it was last


def test_strangers_and_other_frames_change_nothing(observer: AssociationObserver) -> None:
    observer.see(frame("02:00:00:00:00:09", POINTS[0], Dot11AssoResp(status=0)))
    observer.see(frame(STATIONS[0], "02:01:00:00:00:09", Dot11AssoResp(status=0)))
    observer.see(frame("ff:ff:ff:ff:ff:ff", POINTS[0], Dot11Beacon()))
    observer.see(frame(STATIONS[0], POINTS[0], Dot11AssoResp(status=0))[:24])
    observer.see(b"\xd4\x00\x00\x00" + octets(STATIONS[0]))
    observer.see(b"\x08\x01" + bytes(40))
    assert (observer.of(0), observer.of(1), observer.handovers) == (None, None, 0)

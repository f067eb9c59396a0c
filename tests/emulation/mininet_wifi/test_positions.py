"""Stations of Mininet-WiFi follow the scenario's trajectories, and requests move them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from emulation.media.control import ControlError, request
from emulation.mininet_wifi.positions import Positions, PositionThread
from emulation.mobility.trajectory import Waypoint
from emulation.network.processes import await_condition
from emulation.scenario.scenario import NodeSpec

SPECS = (
    NodeSpec(id=1, name="sta1", waypoints=(Waypoint(0, 0, 0), Waypoint(10, 100, 0))),
    NodeSpec(id=2, name="sta2", waypoints=(Waypoint(0, 50, 50),)),
)
Told = list[tuple[str, float, float]]


def made() -> tuple[Positions, Told]:
    told: Told = []
    return Positions(SPECS, lambda name, x, y: told.append((name, x, y))), told


def test_all_are_placed_once_and_then_only_who_moves() -> None:
    positions, told = made()
    positions.update(now=5.0)
    assert told == [("sta1", 0, 0), ("sta2", 50, 50)]
    positions.answer({"op": "start", "epoch": 10.0}, now=9.5)
    positions.update(now=15.0)
    assert told[2:] == [("sta1", 50, 0)]
    assert 15.0 < positions.due <= 15.2 + 1e-9
    positions.update(now=30.0)
    assert told[3:] == [("sta1", 100, 0)]
    assert positions.due == float("inf")


def test_a_station_stays_where_it_was_put_until_released() -> None:
    positions, told = made()
    positions.answer({"op": "start", "epoch": 10.0}, now=10.0)
    positions.answer({"op": "move", "name": "sta1", "x": 7, "y": 8.5}, now=11.0)
    assert told[-1] == ("sta1", 7, 8.5)
    positions.update(now=12.0)
    assert positions.answer({"op": "position", "name": "sta1"}, now=12.0) == {
        "positions": {"sta1": [7, 8.5]}
    }
    positions.answer({"op": "release", "name": "sta1"}, now=15.0)
    assert told[-1] == ("sta1", 50, 0)


def test_associations_are_those_of_the_network() -> None:
    found = {"sta1": "ap1", "sta2": None}
    positions = Positions(SPECS, lambda name, x, y: None, lambda: found)
    assert positions.answer({"op": "associations"}, now=0.0) == {"associations": found}
    one = positions.answer({"op": "associations", "name": "sta2"}, now=0.0)
    assert one == {"associations": {"sta2": None}}
    assert positions.answer({"op": "settle"}, now=0.0) == {}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"op": "move", "name": "sta9", "x": 1, "y": 1}, "no such station: sta9"),
        ({"op": "move", "name": "sta1", "x": "1", "y": 1}, "x must be a number"),
        ({"op": "position", "name": "sta9"}, "there are sta1, sta2"),
        ({"op": "associations", "name": "sta9"}, "no such station: sta9"),
        ({"op": "fail", "name": "sta1"}, "wmediumd does not offer that"),
        ({"op": "links"}, "--backend hwsim does"),
    ],
)
def test_bad_requests_are_refused(asked: dict[str, object], said: str) -> None:
    positions, _ = made()
    with pytest.raises(ControlError, match=said):
        positions.answer(asked, now=0.0)


def test_the_thread_serves_requests_and_moves_stations(tmp_path: Path) -> None:
    positions, told = made()
    thread = PositionThread(positions, tmp_path / "control")
    try:
        assert request(tmp_path / "control", {"op": "ping"}) == {"stations": 2}
        request(tmp_path / "control", {"op": "start", "epoch": time.monotonic() - 5})
        assert await_condition(lambda: told[-1][0] == "sta1" and told[-1][1] > 50, 5.0)
    finally:
        thread.close()
    assert thread.error is None
    assert not (tmp_path / "control").exists()


def test_the_thread_says_why_it_ended(tmp_path: Path) -> None:
    def gone(name: str, x: float, y: float) -> None:
        raise BrokenPipeError("wmediumd is gone")

    thread = PositionThread(Positions(SPECS, gone), tmp_path / "control")
    assert await_condition(lambda: thread.error is not None, 5.0)
    thread.close()
    assert thread.error == "BrokenPipeError: wmediumd is gone"

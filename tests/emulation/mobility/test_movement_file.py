"""Movement files of other programs.

Those in `recorded` are of SUMO 1.28, GPSBabel 1.8 and BonnMotion 3.
"""

from __future__ import annotations

import math
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import gpxpy.geo
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import ScenarioError
from emulation.mobility.movement_file import trajectories
from emulation.mobility.trajectory import Trace, Waypoint
from topologies.catalog import make_scenario

RECORDED = Path(__file__).parent / "recorded"
SUMO, GPX = RECORDED / "sumo.fcd.xml", RECORDED / "gpsbabel.gpx"
BONNMOTION = RECORDED / "bonnmotion.movements"
"""Of `bm RandomWaypoint -n 3 -d 60 -x 200 -y 200 -i 0 -R 7 -h 5 -l 1 -p 10`."""


def test_vehicles_of_sumo_are_nodes_from_when_they_depart() -> None:
    tracks = trajectories(SUMO)
    assert [track[0].time for track in tracks] == [0.0, 4.0, 9.0]
    assert tracks[0][:2] == (Waypoint(0.0, 8.3, -1.6), Waypoint(1.0, 22.14, -1.6))
    assert tracks[1][-1] == (44.0, -1.6, 10.76)
    fastest = max(
        math.dist(one[1:], other[1:]) for track in tracks for one, other in pairwise(track)
    )
    assert 10 < fastest < 15  # m/s, of cars at 50 km/h


def test_tracks_of_gps_receivers_are_metres_apart_as_on_the_earth() -> None:
    one, other = trajectories(GPX)
    assert [point.time for point in one] == [5.0 * step for step in range(8)]
    assert other[0].time == 3.0
    for step in (0, 3, 7):
        apart = math.dist(one[step][1:], other[step][1:])
        places = [
            (47.3769 + 0.00009 * step, 8.5417),
            (47.3775 - 0.00009 * step, 8.5405 + 0.00013 * step),
        ]
        (lat1, lon1), (lat2, lon2) = places
        assert apart == pytest.approx(
            gpxpy.geo.haversine_distance(lat1, lon1, lat2, lon2), rel=2e-3, abs=0.05
        )
    assert one[7].y > one[0].y  # north is up
    assert other[7].x > other[0].x  # and east on the right


def test_a_time_of_no_zone_is_of_greenwich(tmp_path: Path) -> None:
    file = tmp_path / "a.gpx"
    times = ("2026-05-01T10:00:00", "2026-05-01T12:00:07+02:00")
    points = [f'<trkpt lat="1" lon="2"><time>{time}</time></trkpt>' for time in times]
    file.write_text(TRK.format("".join(points)))
    assert [point.time for point in trajectories(file)[0]] == [0.0, 7.0]


def test_bonnmotion_has_a_line_a_node(tmp_path: Path) -> None:
    file = tmp_path / "a.movements"
    file.write_text("0.0 1.5 2 10 11.5 2 10 3 3\n\n0 7 8\n")
    assert trajectories(file) == [((0, 1.5, 2), (10, 11.5, 2), (10, 3, 3)), ((0, 7, 8),)]
    file.write_text("#3D\n0 1 2 99 10 11 12 99\n")
    assert trajectories(file) == [((0, 1, 2), (10, 11, 12))]


def test_nodes_of_bonnmotion_are_where_its_own_converter_to_ns_2_has_them() -> None:
    own = Trace(trajectories(BONNMOTION))
    converted = Trace(trajectories(BONNMOTION.with_suffix(".ns_movements")))  # by `bm NSFile`
    assert len(own) == len(converted) == 3
    for time in range(61):
        # That converter moves everything by a margin of 10 m.
        assert converted.positions(time) == pytest.approx(own.positions(time) + 10, abs=1e-6)


@pytest.mark.parametrize(("file", "count"), [(SUMO, 3), (GPX, 2), (BONNMOTION, 3)])
def test_the_first_nodes_of_a_file_can_be_taken(file: Path, count: int) -> None:
    assert trajectories(file, 1) == trajectories(file)[:1]
    with pytest.raises(ScenarioError, match=f"has {count} nodes: lower nodes from 9"):
        trajectories(file, 9)


@pytest.mark.parametrize("file", [SUMO, GPX, BONNMOTION])
def test_the_topology_takes_it(file: Path) -> None:
    scenario = make_scenario(
        "movement_trace",
        "flooding",
        seed=1,
        duration=60.0,
        settings={"file": str(file), "subscribers": 1},
    )
    tracks = trajectories(file)
    assert [node.waypoints for node in scenario.nodes] == tracks
    x0, y0, x1, y1 = scenario.area
    assert all(x0 <= p.x <= x1 and y0 <= p.y <= y1 for track in tracks for p in track)


def test_a_vehicle_and_a_person_of_one_name_are_two(tmp_path: Path) -> None:
    file = tmp_path / "fcd.xml"
    both = '<timestep time="0"><vehicle id="0" x="1" y="2"/><person id="0" x="9" y="8"/></timestep>'
    file.write_text(FCD.format(both))
    assert [[point.x for point in track] for track in trajectories(file)] == [[1.0], [9.0]]


FCD = "<fcd-export>{}</fcd-export>"
STEP = '<timestep time="{}"><vehicle id="a" x="1" y="2"/></timestep>'
TRK = "<gpx><trk><trkseg>{}</trkseg></trk></gpx>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<fcd-export>", "is not XML: no element found"),
        ("<routes/>", "begins with <routes>: neither fcd-export nor gpx"),
        (FCD.format(""), "moves no node"),
        (FCD.format('<vehicle id="a" x="1" y="2"/>'), "a vehicle is in no timestep"),
        (
            FCD.format('<timestep time="1"><vehicle id="a" x="1"/></timestep>'),
            "lacks a number: 'y'",
        ),
        (FCD.format(STEP.format("x")), "<timestep> lacks a number: could not convert"),
        (FCD.format(STEP.format("nan")), "nan is out of range"),
        (FCD.format(STEP.format("2") + STEP.format("1")), "a goes back in time"),
        (
            FCD.format(
                '<timestep time="1"><vehicle id="a" x="8.1" y="50.1"/>'
                '<vehicle id="b" x="8.2" y="50.3"/></timestep>'
            ),
            "if these are degrees, have sumo write metres",
        ),
        (TRK.format('<trkpt lat="1" lon="2"/>'), "track 1 has points without a time"),
        (TRK.format('<trkpt lat="1"/>'), "is not a GPX file"),
        ("<gpx/>", "moves no node"),
        ("0 1 2 3\n", "node 1: 4 numbers are not a multiple of 3"),
        ("0 1 2\n0 x 2\n", "node 2: could not convert"),
        ("0 1 2 inf 1 2\n", "inf is out of range"),
        ("5 1 2 4 1 2\n", "node 1 goes back in time"),
        ("-1 1 2\n", "node 1 goes back in time"),
        ("", "moves no node"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "m"
    file.write_text(text)
    with pytest.raises(ScenarioError) as refusal:
        trajectories(file)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(st.binary(max_size=200))
def test_no_file_is_a_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any-movement"
    for begin in (b"", b"<gpx>", b"<fcd-export>", b"0 1 "):
        file.write_bytes(begin + content)
        with suppress(ScenarioError):
            trajectories(file)


def test_without_gpxpy_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpxpy", None)
    with pytest.raises(ScenarioError, match="needs the package gpxpy"):
        trajectories(GPX)

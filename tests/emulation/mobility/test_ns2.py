from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import ScenarioError
from emulation.mobility import movement_file, ns2
from emulation.mobility.trajectory import Trace, Waypoint

SETDEST = """\
#
# nodes: 2, pause: 5.00, max speed: 10.00, max x: 500.00, max y: 400.00
#
set god_ [God instance]
$node_(0) set X_ 100.000000000000
$node_(0) set Y_ 200.000000000000
$node_(0) set Z_ 0.000000000000
$node_(1) set X_ 10.0
$node_(1) set Y_ 20.0
$god_ set-dist 0 1 16777215
$ns_ at 5.000000000000 "$node_(0) setdest 130.000000000000 240.000000000000 10.000000000000"
$ns_ at 7.250000000000 "$god_ set-dist 0 1 1"
$ns_ at 10.000000000000 "$node_(0) setdest 130.000000000000 240.000000000000 0.000000000000"
$ns_ at 15.000000000000 "$node_(0) setdest 130.000000000000 140.000000000000 4.000000000000"
#
# Destination Unreachables: 1
#
"""


def tcl(*moves: str, start: str = "$node_(0) set X_ 0.0\n$node_(0) set Y_ 0.0\n") -> str:
    return start + "\n".join(moves)


def test_a_file_of_setdest() -> None:
    first, second = ns2.parse(SETDEST)
    assert first == (
        Waypoint(0.0, 100.0, 200.0), Waypoint(5.0, 100.0, 200.0), Waypoint(10.0, 130.0, 240.0),
        Waypoint(15.0, 130.0, 240.0), Waypoint(40.0, 130.0, 140.0),
    )  # fmt: skip
    assert second == (Waypoint(0.0, 10.0, 20.0),)


def test_a_new_destination_replaces_one_that_is_not_reached() -> None:
    (track,) = ns2.parse(
        tcl(
            '$ns_ at 1.0 "$node_(0) setdest 100.0 0.0 10.0"',
            '$ns_ at 4.0 "$node_(0) setdest 30.0 50.0 5.0"',
            '$ns_ at 9.0 "$node_(0) setdest 0.0 0.0 0.0"',
            '$ns_ at 12.0 "$node_(0) setdest 30.0 5.0 2.0"',
        )
    )
    assert track == (
        Waypoint(0.0, 0.0, 0.0), Waypoint(1.0, 0.0, 0.0), Waypoint(4.0, 30.0, 0.0),
        Waypoint(9.0, 30.0, 25.0), Waypoint(12.0, 30.0, 25.0), Waypoint(22.0, 30.0, 5.0),
    )  # fmt: skip


def test_commands_count_by_time_not_by_line() -> None:
    lines = [
        '$ns_ at 8.0 "$node_(0) setdest 0.0 0.0 1.0"',
        '$ns_ at 2.0 "$node_(0) setdest 3.0 0.0 1.0"',
    ]
    start = "$node_(0) set X_ 0.0\n$node_(0) set Y_ 0.0"
    assert ns2.parse("\n".join([start, *lines])) == ns2.parse("\n".join([*lines, start]))
    (track,) = ns2.parse(tcl(*lines))
    assert [point.time for point in track] == [0.0, 2.0, 5.0, 8.0, 11.0]


def test_set_at_a_time_is_a_jump() -> None:
    (track,) = ns2.parse(
        tcl(
            '$ns_ at 0.0 "$node_(0) setdest 100.0 0.0 10.0"',
            '$ns_ at 2.0 "$node_(0) set X_ 500.0"',
            '$ns_ at 2.0 "$node_(0) set Y_ 400.0"',
            '$ns_ at 2.0 "$node_(0) set Z_ 9.0"',
            '$ns_ at 6.0 "$node_(0) setdest 500.0 410.0 10.0"',
        )
    )
    trace = Trace([track])
    assert trace.position(0, 1.0) == (10.0, 0.0)
    assert trace.position(0, 2.0) == trace.position(0, 6.0) == (500.0, 400.0)
    assert trace.position(0, 7.0) == (500.0, 410.0)
    assert len(track) == 5


@pytest.mark.parametrize(
    "line",
    [
        '$ns at 10 "$node_(0) setdest 250 25e1 3"',
        '  $ns_  at  10.0  " $node_( 0 )  setdest 250. 250.0 +3 "  ',
        '$ns_ at 10.0 "$node_(0) setdest 250.0 250.0 3.0";',
        '$ns_ at 10.0 "$node_(0) setdest 250.0 250.0 3.0" ; # go',
    ],
)
def test_what_generators_write_differently(line: str) -> None:
    assert ns2.parse(tcl(line)) == ns2.parse(tcl('$ns_ at 10.0 "$node_(0) setdest 250 250 3"'))


def test_windows_line_ends_and_empty_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "m.tcl"
    path.write_bytes(SETDEST.replace("\n", "\r\n\r\n").encode())
    assert movement_file.trajectories(path) == ns2.parse(SETDEST)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("$node_(0) set X_ far", r"line 3: '\$node_\(0\) set X_ far' is neither"),
        ('$ns_ at 1.0 "$node_(0) setdest 1.0 2.0"', "line 3: .* is neither"),
        ('$ns_ at 1.0 "$node_(0) setdest 1.0 2.0 3.0', "line 3"),
        ('$ns_ at 1.0 "$node_(0) setdest nan 2.0 3.0"', "line 3"),
        ('$ns_ at 1.0 "$node_(0) setdest 1e999 2.0 3.0"', "line 3: a number is too large"),
        ('$ns_ at 1.0 "$node_(0) setdest -1e308 2.0 3.0"', "line 3: a number is too large"),
        ('$ns_ at 1e13 "$node_(0) setdest 1.0 2.0 3.0"', "line 3: a number is too large"),
        ("set god [God instance]", "line 3"),
        ('$ns_ at -1.0 "$node_(0) setdest 1.0 2.0 3.0"', "line 3: time and speed must not"),
        ('$ns_ at 1.0 "$node_(0) setdest 1.0 2.0 -3.0"', "line 3: time and speed must not"),
        ('$ns_ at 1.0 "$node_(0) off"', "line 3"),
        ("$node_(1) set X_ 1.0", r"\$node_\(1\) has no start: 'set X_' and 'set Y_'"),
        ("$node_(2) set X_ 1.0\n$node_(2) set Y_ 1.0", r"no \$node_\(1\), 2 nodes in all"),
        ("x" * 500, r"line 3: 'x{56}\.\.\. "),
    ],
)
def test_a_bad_file_is_refused_in_one_line(line: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told) as error:
        ns2.parse(tcl(line))
    assert "\n" not in str(error.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        movement_file.trajectories(tmp_path / "absent.tcl")
    with pytest.raises(ScenarioError, match="cannot read /dev/zero: it is a pipe or a device"):
        movement_file.trajectories(Path("/dev/zero"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not a text file"):
        movement_file.trajectories(tmp_path / "binary")
    (tmp_path / "empty").write_text("# nothing\n")
    with pytest.raises(ScenarioError, match="moves no node"):
        movement_file.trajectories(tmp_path / "empty")
    (tmp_path / "two").write_text(SETDEST)
    assert len(movement_file.trajectories(tmp_path / "two", nodes=1)) == 1
    with pytest.raises(ScenarioError, match=r"no \$node_\(2\).*lower nodes"):
        movement_file.trajectories(tmp_path / "two", nodes=3)


coordinate = st.one_of(st.floats(-1e4, 1e4), st.integers(0, 5).map(float))


@st.composite
def tracks(draw: st.DrawFn) -> tuple[Waypoint, ...]:
    """A trajectory with pauses, jumps, and perhaps a late first waypoint."""
    points = [Waypoint(draw(st.sampled_from([0.0, 3.0])), draw(coordinate), draw(coordinate))]
    for _ in range(draw(st.integers(0, 6))):
        time, x, y = points[-1]
        match draw(st.sampled_from(["go", "go", "pause", "jump"])):
            case "pause":
                points.append(Waypoint(time + draw(st.floats(0.01, 50)), x, y))
            case "jump":
                points.append(Waypoint(time, draw(coordinate), draw(coordinate)))
            case _:
                later = time + draw(st.floats(0.01, 50))
                points.append(Waypoint(later, draw(coordinate), draw(coordinate)))
    return tuple(points)


@given(st.lists(tracks(), min_size=1, max_size=4), st.data())
def test_export_and_import_give_the_same_motion(
    originals: list[tuple[Waypoint, ...]], data: st.DataObject
) -> None:
    again = ns2.parse("\n".join(ns2.lines(originals, "two\nlines")))
    before, after = Trace(originals), Trace(again)
    jumps = {
        a.time for track in originals for a, b in itertools.pairwise(track)
        if a.time == b.time
    }  # fmt: skip
    times = [point.time for track in originals for point in track]
    times += data.draw(st.lists(st.floats(0, 400), min_size=3, max_size=3))
    for time in times:
        if any(0 < abs(time - jump) < 1e-6 for jump in jumps):
            continue
        assert np.allclose(before.positions(time), after.positions(time), rtol=0, atol=1e-5)


def test_waypoints_come_back_as_they_were() -> None:
    original = (
        Waypoint(0.0, 1 / 3, 2.0), Waypoint(10 / 3, 100.1, 7.0), Waypoint(7.7, 100.1, 7.0),
        Waypoint(9.1, 100.1, 7.0), Waypoint(20.5, 3.0, 1e-7), Waypoint(20.5, 50.0, 60.0),
        Waypoint(31.4, 50.5, 61.0), Waypoint(60.0, 50.5, 61.0),
    )  # fmt: skip
    assert ns2.parse("\n".join(ns2.lines([original]))) == [original]


def test_what_lies_before_time_zero_is_left_out() -> None:
    text = "\n".join(ns2.lines([(Waypoint(-10, 0, 0), Waypoint(10, 100, 40))]))
    assert ns2.parse(text) == [(Waypoint(0.0, 50.0, 20.0), Waypoint(10.0, 100.0, 40.0))]


def test_the_lines_are_in_order_of_time() -> None:
    moving = (Waypoint(0, 0, 0), Waypoint(5, 10, 0), Waypoint(9, 10, 10))
    assert list(ns2.lines([moving, (Waypoint(0, 7, 8), Waypoint(3, 7, 9))], "a test")) == [
        "#",
        "# a test",
        "# nodes: 2",
        "#",
        "$node_(0) set X_ 0.0",
        "$node_(0) set Y_ 0.0",
        "$node_(0) set Z_ 0.0",
        "$node_(1) set X_ 7.0",
        "$node_(1) set Y_ 8.0",
        "$node_(1) set Z_ 0.0",
        '$ns_ at 0.0 "$node_(0) setdest 10.0 0.0 2.0"',
        '$ns_ at 0.0 "$node_(1) setdest 7.0 9.0 0.3333333333333333"',
        '$ns_ at 5.0 "$node_(0) setdest 10.0 10.0 2.5"',
    ]

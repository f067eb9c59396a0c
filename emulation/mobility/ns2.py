"""ns-2 movement files: the format of ns-2's `setdest`, which many generators imitate.

    $node_(0) set X_ 150.0                          initial position, also Y_ and Z_
    $ns_ at 10.0 "$node_(0) setdest 300.0 40.0 5.0" from then on it moves there at 5 m/s and stops
    $ns_ at 50.0 "$node_(0) set X_ 20.0"            it jumps (not from setdest; ns-3 reads it too)

As in ns-2 (`MobileNode::set_destination`) a new destination replaces one that has not been
reached, from wherever the node then is, and speed 0 stops it.  Z_ is ignored, and so are comments,
empty lines, and setdest's "god" object with its distances.  `$ns` is accepted for `$ns_`.
Anything else is refused: a skipped line would send a node astray.

Nodes are numbered from 0 in the file; the station with id 1 is node 0.  Numbers are written with
all their digits, so a trajectory is read back with the same waypoints; only the time at which a
node reaches the last one is computed from a speed and exact up to rounding.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from emulation.errors import ScenarioError, short
from emulation.mobility.trajectory import Position2D, Waypoint, from_zero

SAME_TIME: Final = 1e-6
"""Seconds within which arrival and the next command are simultaneous."""
LARGEST: Final = 1e12
"""Metres and seconds above which a number is a mistake; below, sums do not overflow."""

_NODE = r"\$node_\(\s*(?P<node>\d{1,7})\s*\)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SET = rf"{_NODE}\s+set\s+(?P<axis>[XYZ])_\s+(?P<value>{_NUMBER})"
_SETDEST = rf"{_NODE}\s+setdest\s+(?P<x>{_NUMBER})\s+(?P<y>{_NUMBER})\s+(?P<speed>{_NUMBER})"
_AT = rf"\$ns_?\s+at\s+(?P<time>{_NUMBER})\s+"
_END = r"\s*(?:;\s*(?:#.*)?)?"
_LINES: Final = tuple(
    re.compile(pattern + _END)
    for pattern in (_SET, rf'{_AT}"\s*{_SET}\s*"', rf'{_AT}"\s*{_SETDEST}\s*"')
)
_IGNORED: Final = re.compile(rf'#.*|set\s+god_\s.*|\$god_\s.*|{_AT}"\s*\$god_\s.*|')


class _Command(NamedTuple):
    """A command to a node at a time: a destination, or a coordinate (`axis` 0 or 1)."""

    time: float
    destination: Position2D = (0.0, 0.0)
    speed: float = 0.0
    axis: int | None = None
    value: float = 0.0


@dataclass(slots=True)
class _Node:
    start: list[float | None] = field(default_factory=lambda: [None, None])
    commands: list[_Command] = field(default_factory=list)


def parse(text: str, nodes: int = 0, name: str = "trace") -> list[tuple[Waypoint, ...]]:
    """Return the waypoints of the first `nodes` nodes in a file that is called `name`; 0: of all.

    Raises `ScenarioError` if a line is not one of the above, or a node is missing.
    """
    by_number = _read(text, name)
    if not by_number:
        raise ScenarioError(f"{name} moves no node: it has no line like '$node_(0) set X_ 1.0'")
    wanted = nodes or max(by_number) + 1
    tracks = []
    for number in range(wanted):
        node = by_number.get(number)
        if node is None:
            raise ScenarioError(
                f"{name} has no $node_({number}), {len(by_number)} nodes in all: they must be "
                "numbered from 0 without a gap; lower nodes if there are fewer"
            )
        x, y = node.start
        if x is None or y is None:
            raise ScenarioError(
                f"{name}: $node_({number}) has no start: 'set X_' and 'set Y_' are needed"
            )
        tracks.append(_track((x, y), sorted(node.commands, key=lambda command: command.time)))
    return tracks


def _read(text: str, name: str) -> dict[int, _Node]:
    by_number: dict[int, _Node] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        match = next(filter(None, (pattern.fullmatch(line) for pattern in _LINES)), None)
        if match is None:
            if _IGNORED.fullmatch(line):
                continue
            raise ScenarioError(
                f"{name}, line {number}: {short(line)} is neither '$node_(N) set X_ ...' nor "
                "'$ns_ at TIME \"$node_(N) setdest X Y SPEED\"'"
            )
        try:
            values = _values(match)
        except OverflowError:
            raise ScenarioError(f"{name}, line {number}: a number is too large") from None
        if values.get("time", 0.0) < 0 or values.get("speed", 0.0) < 0:
            raise ScenarioError(f"{name}, line {number}: time and speed must not be below 0")
        node = by_number.setdefault(int(match["node"]), _Node())
        _add(node, match.groupdict().get("axis"), values)
    return by_number


def _values(match: re.Match[str]) -> dict[str, float]:
    """Return the numbers of a line by name.  Raises OverflowError for one beyond `LARGEST`."""
    values = {
        name: float(text)
        for name, text in match.groupdict().items()
        if name in {"time", "value", "x", "y", "speed"}
    }
    limits = {"speed": sys.float_info.max}  # a short leg may need any speed
    if any(abs(value) > limits.get(name, LARGEST) for name, value in values.items()):
        raise OverflowError
    return values


def _add(node: _Node, axis: str | None, values: dict[str, float]) -> None:
    if axis is None:
        destination = values["x"], values["y"]
        node.commands.append(_Command(values["time"], destination, values["speed"]))
    elif axis != "Z":
        index = "XY".index(axis)
        if "time" not in values:
            node.start[index] = values["value"]
        else:
            node.commands.append(_Command(values["time"], axis=index, value=values["value"]))


def _track(start: Position2D, commands: Sequence[_Command]) -> tuple[Waypoint, ...]:
    """Return the waypoints of a node that follows `commands`, in order of time: one for each."""
    points = [Waypoint(0.0, *start)]
    arrival = Waypoint(0.0, *start)
    jumped = -1.0
    for command in commands:
        _go_on(points, arrival, command.time)
        time, x, y = points[-1]
        if command.axis is not None:
            position = (command.value, y) if command.axis == 0 else (x, command.value)
            if jumped == time:  # the jump's other coordinate
                points.pop()
            points.append(Waypoint(time, *position))
            jumped, arrival = time, points[-1]
            continue
        distance = math.dist((x, y), command.destination)
        arrival = points[-1]
        if command.speed > 0 and distance > 0:
            arrival = Waypoint(time + distance / command.speed, *command.destination)
    if arrival.time > points[-1].time and math.isfinite(arrival.time):
        points.append(arrival)
    return tuple(points)


def _go_on(points: list[Waypoint], arrival: Waypoint, time: float) -> None:
    """Add the position at `time` of a node that is moving to `arrival` or has arrived."""
    left, x, y = points[-1]
    if time <= left:
        return
    if time < arrival.time - SAME_TIME:
        share = (time - left) / (arrival.time - left)
        x, y = x + share * (arrival.x - x), y + share * (arrival.y - y)
    else:
        if left < arrival.time < time - SAME_TIME:
            points.append(arrival)
        x, y = arrival.x, arrival.y
    points.append(Waypoint(time, x, y))


def lines(tracks: Sequence[Sequence[Waypoint]], comment: str = "") -> Iterator[str]:
    """Return the lines of a movement file, without line ends; node 0 has the first track.

    ns-2 itself requires coordinates of at least 0.
    """
    yield "#"
    for text in (comment or "movement").splitlines():
        yield f"# {text}"
    yield f"# nodes: {len(tracks)}"
    yield "#"
    moves: list[tuple[float, str]] = []
    for number, track in enumerate(tracks):
        points = from_zero([Waypoint(*map(float, point)) for point in track])
        for axis, value in (("X", points[0].x), ("Y", points[0].y), ("Z", 0.0)):
            yield f"$node_({number}) set {axis}_ {value!r}"
        moves += _moves(number, points)
    moves.sort(key=lambda move: move[0])
    yield from (text for _, text in moves)


def _moves(number: int, points: Sequence[Waypoint]) -> Iterator[tuple[float, str]]:
    """Return the commands that send a node along waypoints, each with its time."""
    node = f"$node_({number})"
    stood = False
    for here, there in itertools.pairwise(points):
        at = f'$ns_ at {here.time!r} "{node}'
        distance = math.dist(here[1:], there[1:])
        span = there.time - here.time
        stood = distance == 0
        if stood:
            yield here.time, f'{at} setdest {here.x!r} {here.y!r} 0.0"'
        elif span > 0 and math.isfinite(distance / span):
            yield here.time, f'{at} setdest {there.x!r} {there.y!r} {distance / span!r}"'
        else:
            yield here.time, f'{at} set X_ {there.x!r}"'
            yield here.time, f'{at} set Y_ {there.y!r}"'
    if stood:  # or the file would not say how long the node stood
        time, x, y = points[-1]
        yield time, f'$ns_ at {time!r} "{node} setdest {x!r} {y!r} 0.0"'

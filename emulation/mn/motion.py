"""Motion of a script's nodes: the position of each over time, as Mininet-WiFi's calls define it.

`startMobility`, `mobility` and `stopMobility` move a node along a straight line, or over several
points, between two instants; `setMobilityModel` lets a model move all other nodes.
A plan is a function of time alone, so the same script moves the same way every time.

Departure from Mininet-WiFi: positions are exact, not sums of steps rounded to centimetres; random
models draw from their own generators, so individual paths differ from Mininet-WiFi's.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from emulation.mn.nodes import coordinates
from emulation.mn.session import ScriptError
from emulation.mobility.base import SLOWEST, Area
from emulation.mobility.crp import BESIDE
from emulation.mobility.trajectory import Trace, Waypoint

Point = tuple[float, float, float]
Plan = Callable[[float], Point]
"""Where a node is at a time, seconds since its motion began."""
HORIZON: Final = 3_600.0
"""Length of random paths, seconds; at the end, nodes retrace them."""


class Stage(NamedTuple):
    """One end of a node's path."""

    time: float
    position: Point | None


class TimedMotion:
    """Motion by `startMobility`... `stopMobility`, repeated, there and back if `reverse`."""

    def __init__(self) -> None:
        self.begin = 0.0
        self.end: float | None = None
        self.repetitions = 1
        self.reverse = False
        self._ends: dict[Any, dict[str, Stage]] = {}

    @property
    def wanted(self) -> bool:
        """Whether the script asked for timed motion."""
        return bool(self._ends)

    def stage(self, node: Any, stage: str, time: float, position: Any = None) -> None:
        """Set a node's position at the start or the stop of its path.  Raises `ScriptError`."""
        if stage not in ("start", "stop"):
            raise ScriptError(f"mobility({node.name}, {stage!r}): give 'start' or 'stop'")
        point = None if position is None else coordinates(position)
        self._ends.setdefault(node, {})[stage] = Stage(float(time), point)

    def plans(self) -> dict[Any, Plan]:
        """Return the plan of each node.  Raises `ScriptError`."""
        last = max((ends["stop"].time for ends in self._ends.values() if "stop" in ends), default=0)
        length = max(self.end if self.end is not None else last, last)
        return {node: self._plan(node, ends, length) for node, ends in self._ends.items()}

    def _plan(self, node: Any, ends: dict[str, Stage], length: float) -> Plan:
        if set(ends) != {"start", "stop"}:
            missing = "stop" if "start" in ends else "start"
            raise ScriptError(f"mobility({node.name}): {missing!r} is missing")
        start, stop = ends["start"], ends["stop"]
        points = [coordinates(point) for point in getattr(node, "coord", ())]
        if not points:
            if start.position is None or stop.position is None:
                raise ScriptError(f"mobility({node.name}): give position='x,y,z', or node.coord")
            points = [start.position, stop.position]
        way = along(points, start.time, stop.time)
        back = along(points[::-1], start.time, stop.time)
        repetitions, reverse = max(1, self.repetitions), self.reverse

        def at(seconds: float) -> Point:
            turn = min(int(seconds // length) if length > 0 else 0, repetitions - 1)
            return (back if reverse and turn % 2 else way)(seconds - turn * length)

        return at


def along(points: Sequence[Point], begin: float, end: float) -> Plan:
    """Return the plan of a path through points at constant speed between two instants, seconds."""
    lengths = [math.dist(one, other) for one, other in pairwise(points)]
    whole = sum(lengths)
    if whole == 0 or end <= begin:
        last = points[-1]
        return lambda seconds: last if seconds >= end else points[0]
    marks = [0.0]
    for length in lengths:
        marks.append(marks[-1] + length)

    def at(seconds: float) -> Point:
        gone = whole * min(1.0, max(0.0, (seconds - begin) / (end - begin)))
        index = min(bisect_right(marks, gone), len(points) - 1)
        before, after = points[index - 1], points[index]
        part = (gone - marks[index - 1]) / lengths[index - 1] if lengths[index - 1] else 0.0
        x, y, z = (a + part * (b - a) for a, b in zip(before, after, strict=True))
        return x, y, z

    return at


def following(waypoints: Sequence[Waypoint]) -> Plan:
    """Return the plan of a trajectory, which is retraced when it ends."""
    trace, last = Trace([waypoints]), waypoints[-1].time

    def at(seconds: float) -> Point:
        turn, rest = divmod(seconds, last) if last > 0 else (0.0, 0.0)
        return (*trace.position(0, last - rest if turn % 2 else rest), 0.0)

    return at


class Bounds(NamedTuple):
    """Where a node goes and how fast: metres, metres a second, above 0."""

    area: Area
    min_v: float
    max_v: float


CRP_SPEED: Final = 2.0
"""Speed of the centre of a CRP group, metres a second."""


def bounds_of(node: Any, defaults: dict[str, float]) -> Bounds:
    """Return a node's own bounds, or the network's.  Raises `ScriptError`."""
    value = {name: float(node.params.get(name, defaults[name])) for name in defaults}
    return _bounds(value, node.name)


def area_of(defaults: dict[str, float]) -> Bounds:
    """Return the network's bounds.  Raises `ScriptError`."""
    return _bounds(defaults, "setMobilityModel")


def _bounds(value: dict[str, float], whose: str) -> Bounds:
    area = (value["min_x"], value["min_y"], value["max_x"], value["max_y"])
    if not (area[0] < area[2] and area[1] < area[3]):
        raise ScriptError(f"{whose}: min_x, min_y must be below max_x, max_y: {area}")
    if not 0 <= value["min_v"] <= value["max_v"]:
        raise ScriptError(f"{whose}: min_v must be at least 0 and at most max_v")
    return Bounds(area, max(value["min_v"], SLOWEST), max(value["max_v"], SLOWEST))


def in_group(points: Any, rng: random.Random) -> Plan:
    """Return the plan of a member of a CRP group whose centre moves over `points` and back.

    This is `emulation.mobility.crp` with heights and without borders.  Raises `ScriptError` if
    there are fewer than two points.
    """
    corners = [coordinates(point) for point in points or ()]
    if len(corners) < 2:
        raise ScriptError("setMobilityModel(model='CRP'): give pointlist=[(x, y, z), (x, y, z)...]")
    length = sum(math.dist(one, other) for one, other in pairwise(corners))
    lasts = max(length / CRP_SPEED, 1.0)
    there = along(corners, 0.0, lasts)
    beside = following(BESIDE.trajectory(BESIDE.position(rng), HORIZON, rng))

    def at(seconds: float) -> Point:
        turn, rest = divmod(seconds, lasts)
        x, y, z = there(lasts - rest if turn % 2 else rest)
        dx, dy, _ = beside(seconds)
        return x + dx, y + dy, z

    return at

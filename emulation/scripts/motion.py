"""Motion of a script's nodes: where each is at a time, as Mininet-WiFi's calls say.

`startMobility`, `mobility` and `stopMobility` give a node a straight way from one instant to
another, or a way over several points; `setMobilityModel` lets a model move all others.
A plan is a function of time alone, so the same script moves the same way every time.

Departure from Mininet-WiFi: positions are exact, not sums of steps rounded to centimetres; random
models draw from their own generators, so single ways differ from those that it draws.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from emulation.mobility.random_waypoint import RandomWaypoint
from emulation.mobility.trajectory import Waypoint
from emulation.scripts.nodes import coordinates
from emulation.scripts.session import ScriptError

Point = tuple[float, float, float]
Plan = Callable[[float], Point]
"""Where a node is at a time, seconds since its motion began."""
HORIZON: Final = 3_600.0
"""Seconds for which random ways are made; then they go back the way they came."""
SLOWEST: Final = 1e-3
"""Metres a second: a bound of 0 is this."""


class Stage(NamedTuple):
    """An end of a node's way."""

    time: float
    position: Point | None


class TimedMotion:
    """`startMobility`... `stopMobility`: repetitions, there and back if `reverse`."""

    def __init__(self) -> None:
        self.begin = 0.0
        self.end: float | None = None
        self.repetitions = 1
        self.reverse = False
        self._ends: dict[Any, dict[str, Stage]] = {}

    @property
    def wanted(self) -> bool:
        """Whether the script has asked for it."""
        return bool(self._ends)

    def stage(self, node: Any, stage: str, time: float, position: Any = None) -> None:
        """Set the position of a node at the start or the stop of its way.  Raises `ScriptError`."""
        if stage not in ("start", "stop"):
            raise ScriptError(f"mobility({node.name}, {stage!r}): 'start' or 'stop'")
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
            raise ScriptError(f"mobility({node.name}): there is no {missing!r}")
        start, stop = ends["start"], ends["stop"]
        points = [coordinates(each) for each in getattr(node, "coord", ())]
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
    """Return the plan of a way over points at one speed between two instants, seconds."""
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
    """Return the plan of a trajectory, there and back if time goes on."""
    times = [each.time for each in waypoints]
    last = times[-1]

    def at(seconds: float) -> Point:
        turn, rest = divmod(seconds, last) if last > 0 else (0.0, 0.0)
        now = last - rest if turn % 2 else rest
        index = min(max(bisect_right(times, now), 1), len(waypoints) - 1)
        before, after = waypoints[index - 1], waypoints[index]
        span = after.time - before.time
        part = (now - before.time) / span if span > 0 else 1.0
        return before.x + part * (after.x - before.x), before.y + part * (after.y - before.y), 0.0

    return at


class Bounds(NamedTuple):
    """Where a node goes and how fast: metres, metres a second."""

    area: tuple[float, float, float, float]
    min_v: float
    max_v: float


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


def random_way_point(
    bounds: Bounds, start: Point | None, rng: random.Random, rest: tuple[float, float] = (0.0, 0.0)
) -> Plan:
    """Return a plan of random waypoint motion, from a position or from anywhere.

    `rest` bounds the seconds between two ways.
    """
    model = RandomWaypoint(bounds.area, bounds.min_v, bounds.max_v)
    first = model.position(rng) if start is None else start[:2]
    way, rested = list(model.trajectory(first, HORIZON, rng)), 0.0
    if rest[1] > 0:
        turns, way = way[1:], way[:1]
        for turn in turns:
            way.append(Waypoint(turn.time + rested, turn.x, turn.y))
            rested += rng.uniform(*rest)
            way.append(Waypoint(turn.time + rested, turn.x, turn.y))
    return following(way)


def random_direction(bounds: Bounds, start: Point | None, rng: random.Random) -> Plan:
    """Return a plan of random direction motion: straight to the border, then another direction.

    Royer, Melliar-Smith and Moser (docs/papers.md#random-direction).
    """
    x0, y0, x1, y1 = bounds.area
    x, y = (rng.uniform(x0, x1), rng.uniform(y0, y1)) if start is None else start[:2]
    x, y = min(max(x, x0), x1), min(max(y, y0), y1)
    time, points = 0.0, [Waypoint(0.0, x, y)]
    while time < HORIZON:
        angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(bounds.min_v, bounds.max_v)
        dx, dy = math.cos(angle), math.sin(angle)
        reach = min(_until(x, dx, x0, x1), _until(y, dy, y0, y1))
        if reach < 1e-6:
            continue  # out of the area
        x, y, time = x + reach * dx, y + reach * dy, time + reach / speed
        points.append(Waypoint(time, min(max(x, x0), x1), min(max(y, y0), y1)))
    return following(points)


def _until(coordinate: float, direction: float, low: float, high: float) -> float:
    """Return how far it is to a border along a direction."""
    if abs(direction) < 1e-12:
        return math.inf
    return max(0.0, ((high if direction > 0 else low) - coordinate) / direction)


def random_walk(bounds: Bounds, start: Point | None, rng: random.Random) -> Plan:
    """Return a plan of a random walk: every second another direction, off the borders."""
    x0, y0, x1, y1 = bounds.area
    x, y = (rng.uniform(x0, x1), rng.uniform(y0, y1)) if start is None else start[:2]
    points = [Waypoint(0.0, x, y)]
    for second in range(1, int(HORIZON) + 1):
        angle, speed = rng.uniform(0, 2 * math.pi), rng.uniform(bounds.min_v, bounds.max_v)
        x = _reflected(x + speed * math.cos(angle), x0, x1)
        y = _reflected(y + speed * math.sin(angle), y0, y1)
        points.append(Waypoint(float(second), x, y))
    return following(points)


def _reflected(coordinate: float, low: float, high: float) -> float:
    """Return a coordinate inside the borders, off which it has bounced."""
    span = high - low
    rest = (coordinate - low) % (2 * span)
    return low + (rest if rest <= span else 2 * span - rest)


def gauss_markov(
    bounds: Bounds,
    start: Point | None,
    rng: random.Random,
    alpha: float = 0.99,
    mean: float | None = None,
    deviation: float = 1.0,
) -> Plan:
    """Return a plan of Gauss-Markov motion: memory a second, and the mean of speeds, m/s.

    `deviation` is that of speeds, m/s, and as a number also that of directions, radians; the mean
    direction is the first one, or towards the middle after a border.  Liang and Haas
    (docs/papers.md#gauss-markov).  Raises `ScriptError` if the mean is no speed within bounds.
    """
    if mean is not None and not bounds.min_v <= max(mean, SLOWEST) <= bounds.max_v:
        raise ScriptError(
            f"setMobilityModel(velocity_mean={mean:g}): speeds are from min_v={bounds.min_v:g} to "
            f"max_v={bounds.max_v:g} m/s: give a mean among them, or other bounds"
        )
    x0, y0, x1, y1 = bounds.area
    x, y = (rng.uniform(x0, x1), rng.uniform(y0, y1)) if start is None else start[:2]
    mean = (bounds.min_v + bounds.max_v) / 2 if mean is None else mean
    speed, angle = mean, rng.uniform(0, 2 * math.pi)
    mean_angle = angle
    points = [Waypoint(0.0, x, y)]
    rest = math.sqrt(1 - alpha * alpha) * deviation
    for second in range(1, int(HORIZON) + 1):
        speed = alpha * speed + (1 - alpha) * mean + rest * rng.gauss(0, 1)
        speed = min(max(speed, bounds.min_v), bounds.max_v)
        angle = alpha * angle + (1 - alpha) * mean_angle + rest * rng.gauss(0, 1)
        nx, ny = x + speed * math.cos(angle), y + speed * math.sin(angle)
        if not (x0 <= nx <= x1 and y0 <= ny <= y1):
            angle = mean_angle = math.atan2((y0 + y1) / 2 - y, (x0 + x1) / 2 - x)
            nx, ny = x + speed * math.cos(angle), y + speed * math.sin(angle)
        x, y = min(max(nx, x0), x1), min(max(ny, y0), y1)
        points.append(Waypoint(float(second), x, y))
    return following(points)


CRP: Final = "CRP"
"""The model of a group that follows given points."""
GROUP_SPEED: Final = 2.0
"""Metres a second of a group's centre."""
GROUP_RADIUS: Final = 10.0
"""Metres about the centre in which its members walk."""


def in_group(points: Any, rng: random.Random) -> Plan:
    """Return the plan of a member of a group whose centre goes over `points`, there and back.

    Members walk about the centre at random, as in the reference point group model
    (docs/papers.md#reference-point-group).  Raises `ScriptError` if there are no two points.
    """
    corners = [coordinates(each) for each in points or ()]
    if len(corners) < 2:
        raise ScriptError("setMobilityModel(model='CRP'): give pointlist=[(x, y, z), (x, y, z)...]")
    length = sum(math.dist(one, other) for one, other in pairwise(corners))
    lasts = max(length / GROUP_SPEED, 1.0)
    there = along(corners, 0.0, lasts)
    about = Bounds((-GROUP_RADIUS, -GROUP_RADIUS, GROUP_RADIUS, GROUP_RADIUS), 0.1, 1.0)
    beside = random_walk(about, None, rng)

    def at(seconds: float) -> Point:
        turn, rest = divmod(seconds, lasts)
        x, y, z = there(lasts - rest if turn % 2 else rest)
        dx, dy, _ = beside(seconds)
        return x + dx, y + dy, z

    return at


OWN_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("RandomWayPoint", "RandomWaypoint"), ("min_wt", "max_wt")),
        "GaussMarkov": ("alpha", "velocity_mean", "variance"),
    }
)
"""Numbers that a model takes beside the bounds."""


def model_of(name: str, options: Mapping[str, Any], node: Any) -> Model:
    """Return a model with a script's options for it.  Raises `ScriptError`."""
    try:
        given = {
            key: float(options[key])
            for key in OWN_OPTIONS.get(name, ())
            if options.get(key) is not None
        }
        constant = float(node.params.get("constantVelocity") or 0)
    except (TypeError, ValueError):
        raise ScriptError(f"setMobilityModel(model={name!r}): an option is no number") from None
    if min([0.0, constant, *given.values()]) < 0 or given.get("alpha", 0.0) > 1:
        raise ScriptError(
            f"setMobilityModel(model={name!r}): no option may be negative, nor alpha above 1"
        )
    if name == "GaussMarkov":
        alpha, deviation = given.get("alpha", 0.99), given.get("variance", 1.0)
        mean = given.get("velocity_mean")
        return partial(gauss_markov, alpha=alpha, mean=mean, deviation=deviation)
    if "min_wt" in given or "max_wt" in given:
        least = given.get("min_wt", 0.0)
        return partial(random_way_point, rest=(least, max(least, given.get("max_wt", least))))
    if name == "RandomWalk" and constant:
        return lambda bounds, start, rng: random_walk(
            bounds._replace(min_v=constant, max_v=constant), start, rng
        )
    return RANDOM_MODELS[name]


Model = Callable[[Bounds, Point | None, random.Random], Plan]

RANDOM_MODELS: Final[Mapping[str, Model]] = MappingProxyType(
    {
        "RandomDirection": random_direction,
        "RandomWayPoint": random_way_point,
        "RandomWaypoint": random_way_point,
        "RandomWalk": random_walk,
        "GaussMarkov": gauss_markov,
    }
)
"""Those by which each node goes its own way, by the name in `setMobilityModel`."""

"""Motion in groups (ReferencePoint, TimeVariantCommunity), and by flights (TruncatedLevyWalk).

Theory of operation.  The centre of a group goes straight for a while at one speed, then elsewhere,
and turns back at borders.  A member takes the centre's step, a random one of its own (1 m/s), and
one towards the centre that is `aggregation` metres a second long (reference point group mobility,
docs/papers.md#reference-point-group).  In time-variant communities the aggregation has stages that
come round; in a stage of 0 the centre stands still and members walk at random
(docs/papers.md#time-variant-community, with Mininet-WiFi's centres in the place of fixed areas).

A truncated Levy walk has flights and pauses whose lengths are power laws between bounds
(docs/papers.md#levy-walk).

Departures from Mininet-WiFi: a step is a second; centres turn back at the borders in both models.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from emulation.mobility.trajectory import Waypoint
from emulation.scripts.motion import HORIZON, Bounds, Plan, following
from emulation.scripts.session import ScriptError

REFERENCE_POINT: Final = "ReferencePoint"
COMMUNITY: Final = "TimeVariantCommunity"
LEVY_WALK: Final = "TruncatedLevyWalk"
STEPS: Final = int(HORIZON)
OWN_STEP: Final = 1.0
"""Metres a second of a member's random walk."""
FLIGHT: Final = (-2.6, 1.0, 50.0)
"""Exponent and bounds, metres, of flights; Mininet-WiFi's, and ..."""
PAUSE: Final = (-1.8, 1.0, 100.0)
"""... of pauses, seconds."""

Position = tuple[float, float]
Stage = tuple[float, float]
"""Seconds, and the aggregation for so long."""


class Groups:
    """The groups of a script's mobile nodes, in an area; `seed` is the script's.

    Raises `ScriptError` if an option cannot be.
    """

    def __init__(self, model: str, options: Mapping[str, Any], area: Bounds, seed: Any) -> None:
        self._seed, self._area = seed, area
        self._speeds = _pair(options.get("velocity", (0.1, 1.0)))
        self._stages = _stages(model, options)
        self._count = _count(options.get("n_groups", 1))
        self._centres: dict[int, list[Position]] = {}

    def member(self, number: int, name: str) -> Plan:
        """Return the plan of the mobile node of a number; groups take turns."""
        group = number % self._count
        if group not in self._centres:
            rng = random.Random(f"{self._seed}/group {group}")
            self._centres[group] = _centre(self._area, self._speeds, self._stages, rng)
        rng = random.Random(f"{self._seed}/{name}")
        return _member(self._area, self._centres[group], self._stages, rng)


def levy_walk(bounds: Bounds, rng: random.Random) -> Plan:
    """Return a plan of flights and pauses; speeds follow from flights, sqrt(metres) / 10 m/s.

    No flight is longer than the shorter side of the area.  Raises `ScriptError` if even the
    shortest does not fit in from everywhere.
    """
    x0, y0, x1, y1 = bounds.area
    exponent, shortest, longest = FLIGHT
    side = min(x1 - x0, y1 - y0)
    if side < 2 * shortest:
        raise ScriptError(
            f"setMobilityModel(model={LEVY_WALK!r}): the area, {x1 - x0:g} m by {y1 - y0:g} m, is "
            f"too small for flights of {shortest:g} m: give it {2 * shortest:g} m each way at "
            "least (min_x, max_x, min_y, max_y)"
        )
    longest = min(longest, side)
    x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
    points, time = [Waypoint(0.0, x, y)], 0.0
    while time < HORIZON:
        flight, angle = _power_law(exponent, shortest, longest, rng), rng.uniform(0, 2 * math.pi)
        to_x, to_y = x + flight * math.cos(angle), y + flight * math.sin(angle)
        if not (x0 <= to_x <= x1 and y0 <= to_y <= y1):
            continue  # another direction
        x, y, time = to_x, to_y, time + flight / (math.sqrt(flight) / 10)
        points.append(Waypoint(time, x, y))
        time += _power_law(*PAUSE, rng)
        points.append(Waypoint(time, x, y))
    return following(points)


def _power_law(exponent: float, least: float, most: float, rng: random.Random) -> float:
    """Return a number whose density is a power between bounds."""
    low, high = least ** (exponent + 1), most ** (exponent + 1)
    return float((low + (high - low) * rng.random()) ** (1 / (exponent + 1)))


def _aggregation(stages: Sequence[Stage], second: float) -> float:
    """Return the aggregation at a time."""
    rest = second % sum(length for length, _ in stages)
    for length, aggregation in stages:
        if rest < length:
            return aggregation
        rest -= length
    return stages[-1][1]


def _centre(
    area: Bounds, speeds: tuple[float, float], stages: Sequence[Stage], rng: random.Random
) -> list[Position]:
    """Return where a group's centre is, second by second."""
    x0, y0, x1, y1 = area.area
    x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
    left = dx = dy = 0.0
    positions = [(x, y)]
    for second in range(STEPS):
        if _aggregation(stages, second) > 0:
            if left <= 0:
                left, speed = rng.uniform(0, max(x1 - x0, y1 - y0)), rng.uniform(*speeds)
                angle = rng.uniform(0, 2 * math.pi)
                dx, dy = speed * math.cos(angle), speed * math.sin(angle)
            if not x0 <= x + dx <= x1:
                dx = -dx
            if not y0 <= y + dy <= y1:
                dy = -dy
            x, y, left = x + dx, y + dy, left - math.hypot(dx, dy)
        positions.append((min(max(x, x0), x1), min(max(y, y0), y1)))
    return positions


def _member(
    area: Bounds, centre: Sequence[Position], stages: Sequence[Stage], rng: random.Random
) -> Plan:
    """Return the plan of a member of the group with this centre."""
    x0, y0, x1, y1 = area.area
    x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
    points = [Waypoint(0.0, x, y)]
    for second in range(STEPS):
        angle = rng.uniform(0, 2 * math.pi)
        x, y = x + OWN_STEP * math.cos(angle), y + OWN_STEP * math.sin(angle)
        aggregation = _aggregation(stages, second)
        if aggregation > 0:
            (was_x, was_y), (is_x, is_y) = centre[second : second + 2]
            away = max(math.dist((x, y), (is_x, is_y)), 1e-9)
            pull = min(aggregation, away) / away
            x += is_x - was_x + pull * (is_x - x)
            y += is_y - was_y + pull * (is_y - y)
        x, y = min(max(x, x0), x1), min(max(y, y0), y1)
        points.append(Waypoint(second + 1.0, x, y))
    return following(points)


def _pair(given: Any) -> tuple[float, float]:
    try:
        least, most = (float(each) for each in given)
    except (TypeError, ValueError):
        least, most = 1.0, 0.0
    if not 0 < least <= most:
        raise ScriptError(f"setMobilityModel(velocity={given!r}): give (least, most) in m/s")
    return least, most


def _count(given: Any) -> int:
    if not isinstance(given, int) or given < 1:
        raise ScriptError(f"setMobilityModel(n_groups={given!r}): give the number of groups")
    return given


def _stages(model: str, options: Mapping[str, Any]) -> list[Stage]:
    """Return the stages of aggregation: a single one, or those of communities."""
    try:
        if model == REFERENCE_POINT:
            stages = [(HORIZON, float(options.get("aggregation", 0.5)))]
        else:
            epochs = options.get("epoch", (100, 100))
            pulls = options.get("aggregation_epoch", (0.5, 0.0))
            stages = [(float(a), float(b)) for a, b in zip(epochs, pulls, strict=True)]
    except (TypeError, ValueError):
        stages = []
    if not stages or not all(length > 0 and 0 <= pull <= 1 for length, pull in stages):
        wanted = "aggregation from 0 to 1"
        if model == COMMUNITY:
            wanted = "epoch=[seconds...] and as many aggregation_epoch=[0 to 1...]"
        raise ScriptError(f"setMobilityModel(model={model!r}): give {wanted}")
    return stages

"""Routes: a navigator's knowledge of a trajectory in advance, and deviations from it.

A trajectory of pauses and straight legs is a series of mobility processes as in random waypoint:
stay, then move to the next destination at some speed.  At each arrival the navigator knows the next
leg: destination, speed, the pause there, and the rest of the pause here.

`deviating` returns trajectories that prove it wrong: with some probability a leg is left early, for
an unannounced destination, and speeds differ from the announced ones.  The paper of
docs/papers.md#mesh-prediction leaves this as future work (its section VII).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from emulation.mobility.trajectory import Position2D, Waypoint

SAME: Final = 1e-6
"""Metres within which two waypoints count as one position."""
EARLY: Final = (0.1, 0.9)
"""Range of the share of a leg after which it is left early."""


class Leg(NamedTuple):
    """Announced at `time`: `remaining` s here, then to (x, y), and `pause` s there."""

    time: float
    x: float
    y: float
    speed: float
    pause: float
    remaining: float


def legs(waypoints: Sequence[Waypoint]) -> list[Leg]:
    """Return the navigator's announcements on a trajectory, in order of time.

    The last one is that the node stays where it is; a node that never moves has none.
    """
    journey: list[Leg] = []
    index = 0
    while True:
        time, x, y = waypoints[index]
        leaves = _leaves(waypoints, index)
        if leaves + 1 >= len(waypoints):
            if journey:  # it has arrived for good
                journey.append(Leg(time, x, y, 0.0, 0.0, 0.0))
            return journey
        end = waypoints[leaves + 1]
        needs = end.time - waypoints[leaves].time
        distance = math.hypot(end.x - x, end.y - y)
        speed = distance / needs if needs > 0 else 0.0
        pause = waypoints[_leaves(waypoints, leaves + 1)].time - end.time
        journey.append(Leg(time, end.x, end.y, speed, pause, waypoints[leaves].time - time))
        index = leaves + 1


def _leaves(waypoints: Sequence[Waypoint], index: int) -> int:
    """Return the index of the last waypoint at the same position as the one at `index`."""
    _, x, y = waypoints[index]
    while index + 1 < len(waypoints):
        _, next_x, next_y = waypoints[index + 1]
        if math.hypot(next_x - x, next_y - y) > SAME:
            break
        index += 1
    return index


def deviating(
    plan: Sequence[Waypoint],
    area: tuple[float, float, float, float],
    turn: float,
    speed_error: float,
    rng: random.Random,
) -> tuple[tuple[Waypoint, ...], list[Leg]]:
    """Return a trajectory that deviates from the plan, and the navigator's announcements on it.

    `turn` is the probability that a leg is left early, for a point of the area; speeds are off by
    a share uniform up to `speed_error`, either way.  On arrival the next leg of the plan follows.
    """
    x0, y0, x1, y1 = area
    planned = legs(plan)
    if not planned:
        return tuple(plan), []
    time, x, y = plan[0]
    points, announced = [Waypoint(time, x, y)], []
    for leg in planned:
        if not leg.speed:
            announced.append(Leg(time, x, y, 0.0, 0.0, 0.0))
            break
        announced.append(leg._replace(time=time))
        if leg.remaining > 0:
            time += leg.remaining
            points.append(Waypoint(time, x, y))
        speed = leg.speed * (1.0 + rng.uniform(-speed_error, speed_error))
        end: Position2D = (leg.x, leg.y)
        turns, share = rng.random() < turn, rng.uniform(*EARLY)
        elsewhere = rng.uniform(x0, x1), rng.uniform(y0, y1)
        if turns:
            corner = x + share * (end[0] - x), y + share * (end[1] - y)
            time += math.dist((x, y), corner) / speed
            (x, y), end = corner, elsewhere
            points.append(Waypoint(time, x, y))
        time += math.dist((x, y), end) / speed
        x, y = end
        points.append(Waypoint(time, x, y))
    return tuple(points), announced

"""Vehicles on lanes: the car-following rules shared by the freeway and Manhattan models.

Bai, Sadagopan and Helmy, "IMPORTANT: a framework to systematically analyze the impact of mobility
on performance of routing protocols for ad hoc networks", INFOCOM 2003 (extended in Ad Hoc Networks
1, 2003), sections on the freeway and the Manhattan model.  Time advances in steps of a second.  For
vehicle i, with vehicle j ahead of it on the same lane at distance D(t):

    V_i(t+1) = V_i(t) + r a,  r uniform in [-1, 1],  kept within [least, greatest speed]
    D(t) <= safety distance  =>  V_i(t) <= V_j(t)

Taken literally, the second rule lets a fast vehicle jump past a slow one in one step from beyond
the safety distance.  Here it is V_i <= V_j + max(0, D - safety distance) / step, which is the same
within the safety distance and keeps D from shrinking below it.  So nobody overtakes on a lane, and
speed rises by at most `a` a second; it falls faster only if this rule demands it.

A vehicle may leave its lane at a junction at any moment of a step.  The rule then applies at once
to it and the vehicles behind it on its new lane, for the rest of the step.  Vehicles on different
lanes ignore each other.  A lane's vehicles are all those between its ends, which on a street is
its whole length, across all junctions.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, Self

from emulation.mobility.base import Area, Generators, MobilityModel
from emulation.mobility.road_map import RoadMap
from emulation.mobility.trajectory import Position2D, Waypoint
from nodeapp.parameters import Param, Parameter, parameters_of

Acceleration = Annotated[
    float, Param("m/s² at most; 0: a tenth of the top speed per second", low=0, high=100)
]
SafetyDistance = Annotated[
    float, Param("m behind a vehicle within which none is faster", low=0, high=1000)
]
Lanes = Annotated[int, Param("lanes each way", low=1, high=8)]

LANE_WIDTH: Final = 4.0
"""Metres; 3.5 to 3.75 on most roads."""
STEP: Final = 1.0
"""Seconds between changes of speed, as in the framework."""
_AT_ONCE: Final = 1e-9
"""Seconds within which moments count as one; the rest of a step is at least this long."""
_HERE: Final = 1e-6
"""Metres within which a junction counts as the one the vehicle has just left."""


class Turn(NamedTuple):
    """One way on at a junction: leave at `offset` metres, and enter `lane` at `onto` metres."""

    weight: float
    offset: float
    lane: int
    onto: float


class Junction(NamedTuple):
    """Begins at `offset` metres of its lane; `straight` is the weight of going straight on."""

    offset: float
    straight: float
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """Straight, one way: `length` metres from (`x`, `y`) along the unit vector (`dx`, `dy`).

    Junctions are in order, and so are their turns.  The last junction has only turns, the last of
    them at the lane's end.
    """

    x: float
    y: float
    dx: float
    dy: float
    length: float
    junctions: tuple[Junction, ...]

    def position(self, offset: float) -> Position2D:
        """Return the position `offset` metres from the lane's start."""
        return self.x + self.dx * offset, self.y + self.dy * offset

    def nearest(self, position: Position2D) -> tuple[float, float]:
        """Return the distance of the lane from a position, and the offset of its nearest point."""
        x, y = position[0] - self.x, position[1] - self.y
        offset = min(self.length, max(0.0, x * self.dx + y * self.dy))
        return math.hypot(x - self.dx * offset, y - self.dy * offset), offset


@dataclass(frozen=True, slots=True)
class Rules:
    """How vehicles drive: speeds in metres a second, `acceleration` in metres a second squared.

    `safety_distance` is metres.  Raises ValueError for speeds that are not 0 <= least <= greatest.
    """

    min_speed: float
    max_speed: float
    acceleration: float
    safety_distance: float

    @classmethod
    def of(
        cls,
        min_v: float,
        max_v: float,
        acceleration: Acceleration = 0.0,
        safety_distance: SafetyDistance = 20.0,
    ) -> Rules:
        """Return the rules for the keywords of `setMobilityModel`.

        `acceleration` 0 stands for a tenth of the greatest speed in a second.
        """
        return cls(min_v, max_v, acceleration or max_v / 10, safety_distance)

    def __post_init__(self) -> None:
        if not 0 <= self.min_speed <= self.max_speed:
            raise ValueError("the minimum speed must be 0 to the maximum speed")
        if self.acceleration < 0 or self.safety_distance < 0:
            raise ValueError("acceleration and safety distance must not be below 0")


@dataclass(slots=True, eq=False)
class Vehicle:
    """A vehicle: at time `since`, seconds, it was `offset` metres along `lane`; `speed` since."""

    number: int
    lane: int
    offset: float
    speed: float
    exit: Turn
    since: float = 0.0
    track: list[Waypoint] = field(default_factory=list)

    def at(self, time: float) -> float:
        """Return the offset along the lane at a time after `since`."""
        return self.offset + self.speed * (time - self.since)


class Traffic:
    """Vehicles that start at the points of lanes nearest to `positions` and drive by the rules."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        rules: Rules,
        positions: Sequence[Position2D],
        rng: random.Random,
    ) -> None:
        self.lanes = tuple(lanes)
        self.rules = rules
        self.time = 0.0
        self.vehicles: list[Vehicle] = []
        self._rng = rng
        self._exits: list[tuple[float, int, int]] = []
        self._versions = [0] * len(positions)
        self._until = 0.0
        for number, position in enumerate(positions):
            _, lane, offset = min(
                (distance, index, offset)
                for index, lane in enumerate(self.lanes)
                for distance, offset in (lane.nearest(position),)
            )
            speed = rng.uniform(rules.min_speed, rules.max_speed)
            vehicle = Vehicle(number, lane, offset, speed, self._choose(lane, offset))
            vehicle.track.append(Waypoint(0.0, *self.lanes[lane].position(offset)))
            self.vehicles.append(vehicle)
        self.queues: list[list[Vehicle]] = [[] for _ in self.lanes]
        """The vehicles of every lane, the foremost first."""
        for vehicle in sorted(self.vehicles, key=lambda vehicle: -vehicle.offset):
            self.queues[vehicle.lane].append(vehicle)

    def trajectories(self, duration: float) -> list[tuple[Waypoint, ...]]:
        """Drive for `duration` seconds; return the trajectory of every vehicle since time 0."""
        for _ in range(math.ceil((duration - self.time) / STEP)):
            self.step()
        for vehicle in self.vehicles:
            self._record(vehicle, self.time)
        return [tuple(vehicle.track) for vehicle in self.vehicles]

    def step(self) -> None:
        """Let a second pass."""
        start = self.time
        self._until = start + STEP
        wishes = [self._wish(vehicle.speed) for vehicle in self.vehicles]
        for queue in self.queues:
            ahead: Vehicle | None = None
            for vehicle in queue:
                self._drive(vehicle, wishes[vehicle.number], ahead, start)
                ahead = vehicle
        while self._exits:
            time, number, version = heapq.heappop(self._exits)
            if version == self._versions[number]:
                self._turn(self.vehicles[number], time)
        self.time = self._until
        for vehicle in self.vehicles:
            vehicle.offset, vehicle.since = vehicle.at(self.time), self.time

    def _wish(self, speed: float) -> float:
        rules = self.rules
        speed += STEP * self._rng.uniform(-rules.acceleration, rules.acceleration)
        return min(rules.max_speed, max(rules.min_speed, speed))

    def _allowed(self, vehicle: Vehicle, ahead: Vehicle | None, time: float) -> float:
        """Return the speed that the vehicle ahead allows until the step ends."""
        if ahead is None:
            return math.inf
        spare = ahead.at(time) - vehicle.at(time) - self.rules.safety_distance
        return ahead.speed + max(0.0, spare) / max(self._until - time, _AT_ONCE)

    def _drive(self, vehicle: Vehicle, speed: float, ahead: Vehicle | None, time: float) -> None:
        """Let a vehicle drive on from `time` at a speed, or slower if the vehicle ahead demands."""
        speed = min(speed, self._allowed(vehicle, ahead, time))
        if speed != vehicle.speed:
            self._record(vehicle, time)
            vehicle.offset, vehicle.since, vehicle.speed = vehicle.at(time), time, speed
        self._plan(vehicle, time)

    def _plan(self, vehicle: Vehicle, time: float) -> None:
        """Note when the vehicle leaves its lane, if that is within this step."""
        self._versions[vehicle.number] += 1
        way = vehicle.exit.offset - vehicle.at(time)
        if vehicle.speed > 0 and way <= vehicle.speed * (self._until - time):
            moment = time + max(0.0, way) / vehicle.speed
            heapq.heappush(
                self._exits,
                (min(moment, self._until), vehicle.number, self._versions[vehicle.number]),
            )

    def _turn(self, vehicle: Vehicle, time: float) -> None:
        """Let a vehicle change to the lane it has chosen; those behind it there make way."""
        self.queues[vehicle.lane].remove(vehicle)
        turn = vehicle.exit
        left = self.lanes[vehicle.lane].position(turn.offset)
        if math.dist(left, self.lanes[turn.lane].position(turn.onto)) > _HERE:
            # A jump: it has both positions at that time.
            vehicle.offset, vehicle.since = turn.offset, time
            self._record(vehicle, time)
            vehicle.track.append(Waypoint(time, *left))
        vehicle.lane, vehicle.offset, vehicle.since = turn.lane, turn.onto, time
        self._record(vehicle, time)
        vehicle.exit = self._choose(turn.lane, turn.onto)
        queue = self.queues[turn.lane]
        index = bisect.bisect_right(queue, -turn.onto, key=lambda queued: -queued.at(time))
        queue.insert(index, vehicle)
        self._drive(vehicle, vehicle.speed, queue[index - 1] if index else None, time)
        for ahead, behind in itertools.pairwise(queue[index:]):
            if behind.speed <= self._allowed(behind, ahead, time):
                break  # nothing changes for it, nor for those behind it
            self._drive(behind, behind.speed, ahead, time)

    def _choose(self, lane: int, offset: float) -> Turn:
        """Draw at every junction ahead which way on to take; return the first turn."""
        for junction in self.lanes[lane].junctions:
            if junction.offset <= offset + _HERE:
                continue
            total = junction.straight + sum(turn.weight for turn in junction.turns)
            drawn = self._rng.uniform(0.0, total) - junction.straight
            if drawn <= 0 < junction.straight:
                continue
            for turn in junction.turns:
                drawn -= turn.weight
                if drawn <= 0:
                    return turn
        return self.lanes[lane].junctions[-1].turns[-1]

    def _record(self, vehicle: Vehicle, time: float) -> None:
        """Record a vehicle's position at a time when its velocity changes."""
        position = self.lanes[vehicle.lane].position(vehicle.at(time))
        before = vehicle.track[-1].time
        if time > before + _AT_ONCE:
            vehicle.track.append(Waypoint(time, *position))
        else:
            vehicle.track[-1] = Waypoint(before, *position)


@dataclass(frozen=True)
class LaneMobility(MobilityModel):
    """Base of the models whose vehicles are bound to lanes in a rectangle (x0, y0, x1, y1), metres.

    A subclass makes the road map and the lanes, and gives them to `_build`.
    """

    area: Area
    rules: Rules
    road_map: RoadMap = field(init=False)
    _lanes: tuple[Lane, ...] = field(init=False, repr=False)

    @classmethod
    def parameters(cls) -> list[Parameter]:
        return [*parameters_of(Rules.of), *parameters_of(cls)]

    @classmethod
    def in_area(cls, area: Area, min_v: float, max_v: float, **own: Any) -> Self:
        of_rules = {parameter.name for parameter in parameters_of(Rules.of)}
        rules = {name: value for name, value in own.items() if name in of_rules}
        of_map = {name: value for name, value in own.items() if name not in of_rules}
        return cls(area, Rules.of(min_v, max_v, **rules), **of_map)

    def _build(
        self, streets: Sequence[tuple[Position2D, Position2D]], lanes: Sequence[Lane]
    ) -> None:
        object.__setattr__(self, "road_map", RoadMap(tuple(streets)))
        object.__setattr__(self, "_lanes", tuple(lanes))

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return `count` positions, uniformly distributed along the lanes."""
        lengths = [lane.length for lane in self._lanes]
        chosen = rng.choices(self._lanes, lengths, k=count)
        return [lane.position(rng.uniform(0.0, lane.length)) for lane in chosen]

    def traffic(self, positions: Sequence[Position2D], rng: random.Random) -> Traffic:
        """Return vehicles that start on the lanes nearest to `positions`."""
        return Traffic(self._lanes, self.rules, positions, rng)

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the trajectory of every vehicle for `duration` seconds."""
        return self.traffic(positions, generators("traffic", 0)).trajectories(duration)

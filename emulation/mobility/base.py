"""The mobility model interface: a seeded generator becomes one trajectory of waypoints per node.

`Mobility` is a topology's view of whatever moves its nodes.  A `MobilityModel` can also be chosen
by name (`emulation.mobility.registry`), by topologies and by scripts for Mininet-WiFi.
"""

from __future__ import annotations

import abc
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, Self

from emulation.mobility.road_map import RoadMap
from emulation.mobility.trajectory import Position2D, Waypoint
from nodeapp.parameters import Parameter, parameters_of

Area = tuple[float, float, float, float]
"""(x0, y0, x1, y1), metres."""
Generators = Callable[[str, int], random.Random]
"""Returns the generator of a numbered `node` or `group`, or of all `traffic` (number 0)."""
SLOWEST: Final = 1e-3
"""Least speed of a moving node, metres a second."""


def coordinates(position: str | Sequence[Any]) -> tuple[float, float, float]:
    """Return the metres of "x,y,z", or of a sequence; z is 0 if it is missing.

    Raises ValueError.
    """
    parts = position.split(",") if isinstance(position, str) else list(position)
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (2, 3) or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{position!r} is not a position: give 'x,y' or 'x,y,z' in metres")
    x, y, *z = numbers
    return x, y, z[0] if z else 0.0


def box(points: Iterable[Sequence[float]]) -> Area:
    """Return the box around points, at least a metre wide and high: they may be collinear."""
    (x0, x1), (y0, y1) = map(_span, zip(*((at[0], at[1]) for at in points), strict=True))
    return x0, y0, x1, y1


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    return (low, high) if high - low >= 1.0 else (middle - 0.5, middle + 0.5)


def shared(rng: random.Random) -> Generators:
    return lambda kind, number: rng


class Mobility(Protocol):
    """Moves all nodes together: their motions may depend on each other.

    Nobody leaves its `area`.
    """

    @property
    def area(self) -> Area:
        """Where the nodes move."""
        ...

    @property
    def road_map(self) -> RoadMap | None:
        """The streets to which the nodes are bound; None if they are not."""
        ...

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return the initial positions of `count` nodes for which none are set."""
        ...

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of the nodes that begin at `positions`.

        They cover time 0 to at least `duration` seconds.
        """
        ...


class MobilityModel(abc.ABC):
    """A `Mobility` that can be chosen by name; all of its parameters are declared."""

    name: ClassVar[str]
    """Its name in Mininet-WiFi."""

    @classmethod
    @abc.abstractmethod
    def parameters(cls) -> list[Parameter]:
        """Return its parameters besides the area and the speeds."""

    @classmethod
    @abc.abstractmethod
    def in_area(cls, area: Area, min_v: float, max_v: float, **own: Any) -> Mobility:
        """Return the model for nodes at `min_v` to `max_v` m/s; `own` are its parameters.

        Raises ValueError if they do not fit.
        """


@dataclass(frozen=True)
class FieldModel(MobilityModel):
    """A model of nodes anywhere in a rectangle, at speeds in metres a second.

    Its parameters are its annotated fields.  Raises ValueError for invalid speeds.
    """

    road_map: ClassVar[None] = None

    area: Area
    min_speed: float
    max_speed: float

    def __post_init__(self) -> None:
        if not 0 <= self.min_speed <= self.max_speed:
            raise ValueError("the minimum speed must be 0 to the maximum speed")

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Return its parameters besides the area and the speeds."""
        return parameters_of(cls)

    @classmethod
    def in_area(cls, area: Area, min_v: float, max_v: float, **own: Any) -> Self:
        """Return the model for nodes at `min_v` to `max_v` m/s; `own` are its parameters."""
        return cls(area, min_v, max_v, **own)

    def position(self, rng: random.Random) -> Position2D:
        """Return a uniformly distributed position in the area."""
        x0, y0, x1, y1 = self.area
        return rng.uniform(x0, x1), rng.uniform(y0, y1)

    def positions(self, count: int, rng: random.Random) -> list[Position2D]:
        """Return `count` uniformly distributed positions in the area."""
        return [self.position(rng) for _ in range(count)]

    def inside(self, x: float, y: float) -> Position2D:
        """Return the point of the area that is nearest to a point."""
        x0, y0, x1, y1 = self.area
        return min(max(x, x0), x1), min(max(y, y0), y1)

    @abc.abstractmethod
    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of the nodes that begin at `positions`."""


class LonerModel(FieldModel):
    """A model in which each node moves independently of the others."""

    def trajectories(
        self, positions: Sequence[Position2D], duration: float, generators: Generators
    ) -> list[tuple[Waypoint, ...]]:
        """Return the waypoints of nodes that begin at `positions` and stay there at speed 0."""
        if self.max_speed <= 0:
            return [(Waypoint(0.0, *start),) for start in positions]
        return [
            self.trajectory(start, duration, generators("node", number))
            for number, start in enumerate(positions)
        ]

    @abc.abstractmethod
    def trajectory(
        self, start: Position2D, duration: float, rng: random.Random
    ) -> tuple[Waypoint, ...]:
        """Return the waypoints of one node that begins at `start`, and can move."""

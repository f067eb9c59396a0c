"""Manhattan mobility: vehicles on a grid of streets that turn at random at intersections.

The Manhattan model of the IMPORTANT framework (Bai, Sadagopan and Helmy, INFOCOM 2003): horizontal
and vertical streets with two lanes for each direction; at an intersection a vehicle goes straight
on with probability 0.5, turns left with 0.25 and right with 0.25; its speed depends on its last one
and on the vehicle ahead (`emulation.mobility.traffic` has the rules).

Left open by the framework and chosen here:
- The map.  `blocks` by `blocks` equal blocks; the outermost streets run along the edges of the
  area, or of what `margin` leaves of it, with all their lanes inside.
- Lanes.  A vehicle that turns keeps its lane: from the inner lane to the inner one, from the outer
  lane to the outer one.  Otherwise it never changes lanes, as on the framework's freeways.
- The edge.  A vehicle does not leave the map: if a direction is missing, the probabilities of the
  others keep their ratio (at a corner one is left).
- Traffic keeps to the right.  A turn happens where the two lanes cross, at the vehicle's speed.
  Vehicles on crossing streets ignore each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, NamedTuple

from emulation.mobility.traffic import LANE_WIDTH, Junction, Lane, LaneMobility, Lanes, Turn
from emulation.mobility.trajectory import Position2D
from nodeapp.parameters import Param

Blocks = Annotated[int, Param("blocks along a side", low=1, high=100)]
Margin = Annotated[float, Param("m without streets on each side of the area", low=0, high=100_000)]

STRAIGHT: Final = 0.5
LEFT: Final = 0.25
RIGHT: Final = 0.25


@dataclass(frozen=True)
class ManhattanMobility(LaneMobility):
    """Streets around `blocks` by `blocks` blocks in a rectangle (x0, y0, x1, y1), metres.

    Streets have `lanes` in each direction, and keep `margin` metres from the rectangle's edges.
    Raises ValueError if the streets do not fit beside each other.
    """

    name: ClassVar[str] = "Manhattan"
    blocks: Blocks = 5
    lanes: Lanes = 2
    margin: Margin = 0.0

    def __post_init__(self) -> None:
        x0, y0, x1, y1 = self.area
        room = min(x1 - x0, y1 - y0) - 2 * self.margin
        if (
            min(self.blocks, self.lanes) < 1
            or self.margin < 0
            or room < 2 * self.lanes * LANE_WIDTH * (2 * self.blocks + 1)
        ):
            raise ValueError(
                f"{self.blocks} blocks with {self.lanes} lanes each way do not fit: use 1 or more, "
                "lower blocks or raise side, or lower lanes or margin"
            )
        xs, ys = self._middles(x0, x1), self._middles(y0, y1)
        streets: list[tuple[Position2D, Position2D]] = [((xs[0], y), (xs[-1], y)) for y in ys]
        streets += [((x, ys[0]), (x, ys[-1])) for x in xs]
        grids = [_Grid(xs, ys, aside=(lane + 0.5) * LANE_WIDTH) for lane in range(self.lanes)]
        lanes: list[Lane] = []
        for grid in grids:
            lanes += grid.lanes(first=len(lanes))
        self._build(streets, lanes)

    def _middles(self, low: float, high: float) -> list[float]:
        inside = self.margin + self.lanes * LANE_WIDTH
        low, high = low + inside, high - inside
        return [low + (high - low) * number / self.blocks for number in range(self.blocks + 1)]


class _Way(NamedTuple):
    """A street, by its index among those of its axis, and the direction, 1 or -1, along it."""

    axis: int
    street: int
    sign: int

    @property
    def number(self) -> int:
        """The lane's index among the lanes of its axis."""
        return 2 * self.street + (self.sign < 0)

    def side(self) -> int:
        """Return on which side of the middle of its street the lane is, along the other axis."""
        # To the right of east (axis 0) is south, of north (axis 1) is east.
        return self.sign * (1 if self.axis else -1)


class _Grid:
    """Builds one lane each way of a grid; `xs` are the vertical streets, `ys` the horizontal ones.

    The lanes are `aside` metres from the middle of their street.  Vehicles that turn stay on them.
    """

    def __init__(self, xs: Sequence[float], ys: Sequence[float], aside: float) -> None:
        self._along = (xs, ys)  # cross streets of a horizontal street, and of a vertical one
        self._aside = aside
        self._first = 0

    def lanes(self, first: int) -> tuple[Lane, ...]:
        """Return the lanes; `first` is the number that the first of them gets."""
        self._first = first
        return tuple(
            self._lane(_Way(axis, street, sign))
            for axis in (0, 1)
            for street in range(len(self._along[1 - axis]))
            for sign in (1, -1)
        )

    def _number(self, way: _Way) -> int:
        return self._first + way.number + (2 * len(self._along[1]) if way.axis else 0)

    def _across(self, way: _Way) -> float:
        """Return where a way's lane is along the other axis."""
        return self._along[1 - way.axis][way.street] + way.side() * self._aside

    def _start(self, way: _Way) -> float:
        """Return where a lane begins along its own axis: at the first lane that crosses it."""
        along = self._along[way.axis]
        return along[0 if way.sign > 0 else -1] - way.sign * self._aside

    def _lane(self, way: _Way) -> Lane:
        count = len(self._along[way.axis])
        crossed = range(count) if way.sign > 0 else range(count - 1, -1, -1)
        junctions = tuple(self._junction(way, street) for street in crossed)
        length = junctions[-1].turns[-1].offset
        if way.axis == 0:
            return Lane(self._start(way), self._across(way), way.sign, 0.0, length, junctions)
        return Lane(self._across(way), self._start(way), 0.0, way.sign, length, junctions)

    def _junction(self, way: _Way, street: int) -> Junction:
        others = self._along[1 - way.axis]
        last = len(self._along[way.axis]) - 1
        begin = self._along[way.axis][street] - way.sign * self._aside
        # Right of east is south, of north is east; opposite ways turn the opposite way.
        right = way.sign * (1 if way.axis else -1)
        turns = []
        for weight, sign in ((RIGHT, right), (LEFT, -right)):
            if way.street == (len(others) - 1 if sign > 0 else 0):
                continue  # the street ends here
            onto = _Way(1 - way.axis, street, sign)
            turns.append(
                Turn(
                    weight,
                    way.sign * (self._across(onto) - self._start(way)),
                    self._number(onto),
                    sign * (self._across(way) - self._start(onto)),
                )
            )
        goes_on = street != (last if way.sign > 0 else 0)
        entry = way.sign * (begin - self._start(way))
        return Junction(entry, STRAIGHT if goes_on else 0.0, tuple(turns))

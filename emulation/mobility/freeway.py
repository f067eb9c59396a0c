"""Freeway mobility: vehicles bound to the lanes of straight roads.

The freeway model of the IMPORTANT framework (Bai, Sadagopan and Helmy, INFOCOM 2003): several
freeways on a map, each with lanes in both directions; a vehicle never changes its lane; its speed
depends on its last one and on the vehicle ahead (`emulation.mobility.traffic` has the rules).

Left open by the framework and chosen here:
- The map.  Roads cross the whole area, the 1st, 3rd, ... from west to east, the 2nd, 4th, ... from
  south to north, evenly spread.  They cross by bridges: vehicles pass each other, radio waves meet.
- The end of a road.  The framework removes a vehicle that leaves the area and inserts it
  elsewhere, which breaks all its radio links at once.  Here it crosses the median at its speed
  and comes back on the same lane of the other direction, a few metres away.  Density and order
  of the vehicles stay, and links break only by driving.  With `one_way` all vehicles of a road
  drive in one direction, so one that leaves has to jump back to the lane's start.
- Traffic keeps to the right.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

from emulation.mobility.traffic import LANE_WIDTH, Junction, Lane, LaneMobility, Lanes, Turn
from emulation.mobility.trajectory import Position2D
from nodeapp.parameters import Param

Roads = Annotated[int, Param("freeways, west to east and south to north in turn", low=1, high=20)]
OneWay = Annotated[bool, Param("all vehicles of a road in one direction")]


@dataclass(frozen=True)
class FreewayMobility(LaneMobility):
    """Freeways in a rectangle (x0, y0, x1, y1), metres, with `lanes` in each direction.

    With `one_way` there is only one direction.  Raises ValueError if the roads do not fit beside
    each other.
    """

    name: ClassVar[str] = "Freeway"
    roads: Roads = 2
    lanes: Lanes = 2
    one_way: OneWay = False

    def __post_init__(self) -> None:
        x0, y0, x1, y1 = self.area
        if min(self.roads, self.lanes) < 1:
            raise ValueError("at least one road and one lane are needed: raise roads or lanes")
        eastward, northward = (self.roads + 1) // 2, self.roads // 2
        room = min((y1 - y0) / max(1, eastward), (x1 - x0) / max(1, northward))
        if room < 2 * self.lanes * LANE_WIDTH:
            raise ValueError(
                f"{self.roads} roads with {self.lanes} lanes each way do not fit: "
                "lower roads or lanes, or raise side"
            )
        streets: list[tuple[Position2D, Position2D]] = []
        for number in range(eastward):
            y = y0 + (y1 - y0) * (number + 0.5) / eastward
            streets.append(((x0, y), (x1, y)))
        for number in range(northward):
            x = x0 + (x1 - x0) * (number + 0.5) / northward
            streets.append(((x, y0), (x, y1)))
        lanes: list[Lane] = []
        for start, end in streets:
            for number in range(self.lanes):
                aside = (number + 0.5) * LANE_WIDTH
                if self.one_way:
                    lanes.append(_over(start, end, aside, len(lanes)))
                else:
                    lanes += _loop(start, end, aside, len(lanes))
        self._build(streets, lanes)


def _over(start: Position2D, end: Position2D, aside: float, number: int) -> Lane:
    """Return a lane `aside` metres to the right of a road's middle that ends where it begins."""
    lane = _loop(start, end, aside, number)[0]
    again = Turn(1.0, lane.length, number, 0.0)
    return dataclasses.replace(lane, junctions=(Junction(lane.length, 0.0, (again,)),))


def _loop(start: Position2D, end: Position2D, aside: float, first: int) -> list[Lane]:
    """Return the lanes `aside` metres to the right of a road's middle: there, across, back, across.

    `first` is the number that the first of the four lanes gets.
    """
    (x0, y0), (x1, y1) = start, end
    length = (x1 - x0) + (y1 - y0)  # roads run along an axis
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    right_x, right_y = dy * aside, -dx * aside

    def lane(x: float, y: float, ahead: tuple[float, float], length: float, then: int) -> Lane:
        turn = Turn(1.0, length, first + then, 0.0)
        return Lane(x, y, *ahead, length, (Junction(length, 0.0, (turn,)),))

    return [
        lane(x0 + right_x, y0 + right_y, (dx, dy), length, 1),
        lane(x1 + right_x, y1 + right_y, (-dy, dx), 2 * aside, 2),
        lane(x1 - right_x, y1 - right_y, (-dx, -dy), length, 3),
        lane(x0 - right_x, y0 - right_y, (dy, -dx), 2 * aside, 0),
    ]

"""Static nodes, uniform on a square, with the same mean degree whatever their number.

The networks of Carvalho, Araujo and Rodrigues (docs/papers.md#georendezvous), section 4: 80 to
3,000 static nodes, uniformly distributed inside a square, links as on a unit disk, 45 neighbours
per node on average, no collisions of packets.  That is the default, but for the number of nodes.

The paper leaves open whether 45 counts the nodes at the border, which have fewer neighbours.  Here
it does (`border`): the side is such that the expected mean over all nodes is `degree`,

    degree = (n - 1) F(range / side),   F(s) = pi s^2 - 8/3 s^3 + s^4/2   for s up to 1,

F being the probability that two uniform points of a unit square are within s (Philip 2007,
docs/papers.md#square-line-picking).  Without it, `degree` is that of a node in the middle of a
large field, n pi range^2 / side^2, and the mean is lower, by 34 % of 80 nodes and by 6 % of 3,000.

Placements are drawn again until they are connected; with `cells`, until the cells of
cell hash routing are, of which only adjacent ones are linked (`nodeapp.routing.cells`).  That is
stricter: the first placement passes for all of 200 seeds with 80 nodes, 197 of 200 with 300 and 97
of 100 with 3,000.

With a `speed` the nodes move (random waypoint), unlike in the paper.
"""

from __future__ import annotations

import math
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.mobility.trajectory import Position2D
from emulation.scenario.connectivity import connected, parts
from emulation.scenario.topo import PLACEMENTS, Topo
from emulation.scenario.topology_parameters import (
    MobilityModel,
    Mode,
    PathLoss,
    RadioRange,
    Slowest,
    Standard,
)
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param
from nodeapp.routing.cells import CellGrid, largest_side


class UniformField(Topo):
    """Static nodes, uniform on a square that follows from their mean number of neighbours."""

    workload = TopicWorkload(topics=4, publishers=1, subscribers=5, drawn_names=True)

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Annotated[int, Param("stations", low=2, high=5000)] = 80,
        degree: Annotated[float, Param("mean number of neighbours", low=1, high=4999)] = 45.0,
        border: Annotated[
            bool, Param("the mean counts nodes at the border; no: as if there were none")
        ] = True,
        cells: Annotated[
            bool, Param("drawn until the cells of cell hash routing are connected, too")
        ] = True,
        speed: Annotated[
            float, Param("m/s of every station; 0: nobody moves", low=0, high=100)
        ] = 0.0,
        slowest: Slowest = 1.0,
        mobility: MobilityModel = "random-waypoint",
        range: RadioRange = 250.0,
        propagation: PathLoss = "unitDisk",
        collisions: Annotated[bool, Param("frames on unit disks can collide")] = False,
        standard: Standard = "g",
        mode: Mode = "adhoc",
    ) -> None:
        side = side_of(nodes, degree, range, border=border)
        self.setRadio(range, propagation, standard, mode)
        if propagation == "unitDisk":
            model = self.radio.propagation.model_copy(update={"collisions": collisions})
            self.radio = self.radio.model_copy(update={"propagation": model})
        self.setMobilityModel(mobility, max_x=side, max_y=side, min_v=slowest * speed, max_v=speed)
        for number, position in enumerate(self._draw(nodes, side, cells=cells), start=1):
            self.addStation(f"sta{number}", position=position)

    def _draw(self, nodes: int, side: float, *, cells: bool) -> list[Position2D]:
        assert self.mobility is not None
        reach = self.radio.range or math.inf
        grid = CellGrid(largest_side(reach), (0.0, 0.0))
        rng = self.rng("placement")
        for _ in range(PLACEMENTS):
            positions = self.mobility.positions(nodes, rng)
            # Adjacent cells hear each other: if they are connected, so are the nodes.
            if cells_connected(grid, positions) or (not cells and connected(self.radio, positions)):
                return positions
        raise ScenarioError(
            f"{PLACEMENTS} random placements of {nodes} stations on a square of {side:.0f} m were "
            f"all disconnected{' in cells' if cells else ''}: raise degree"
        )


def side_of(nodes: int, degree: float, reach: float, *, border: bool) -> float:
    """Return the side of the square, metres, on which nodes have `degree` neighbours on average.

    Raises `ScenarioError` if so few nodes cannot have so many neighbours.
    """
    if not border:
        return reach * math.sqrt(nodes * math.pi / degree)
    wanted = degree / (nodes - 1)
    if wanted > _within(1.0):
        raise ScenarioError(
            f"{nodes} nodes cannot have {degree:g} neighbours each on a square wider than the "
            "radio range: raise nodes or lower degree"
        )
    low, high = 0.0, 1.0  # of range / side
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle) < wanted else (low, middle)
    return reach / high


def _within(s: float) -> float:
    """Return the probability that two uniform points of a unit square are within `s` <= 1."""
    return math.pi * s**2 - 8 / 3 * s**3 + s**4 / 2


def cells_connected(grid: CellGrid, positions: list[Position2D]) -> bool:
    """Return whether steps between populated adjacent cells lead from every node to every other."""
    cells = {grid.cell(position) for position in positions}
    return len(parts(list(cells), reach=1.5)) == 1  # adjacent cells are at most sqrt(2) apart

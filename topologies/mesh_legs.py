"""Clients that all set out from the middle of a mesh, one leg each: the paper's evaluation.

The simulation of Zheng, Cao, Liu and Wang (docs/papers.md#mesh-prediction, section V): a square of
(2k+1) x (2k+1) cells; a client starts in the middle of the central one, goes to a random point of
the square in a straight line, and gets events as a Poisson process.  One run of theirs is one leg.
Here many clients make theirs in one mesh at the same time and do not influence each other: frames
do not collide (unit disk), every client has a feed of its own, queues are as good as empty, and a
broker treats clients one by one.

Where the paper is silent: the destination is uniform in the square.  Those of one run are points
of a lattice with a random shift (Cranley and Patterson 1976), over the share of the area that is
nearer to the middle and the direction: each is uniform, and together they cover the square evenly,
so that the means of runs differ less than those of independent legs.  Runs of different seeds are
independent.  Events are published at the central broker's host, which serves all clients from the
start, so that they are with the serving broker at once; a leg starts when all subscriptions are
known; a client stays where it has arrived.  A run ends when all have arrived, if that is before its
duration.
A client's access point is that of its cell: the nearest is received best, without hysteresis.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Final

from emulation.errors import ScenarioError
from emulation.mobility.movement_file import Replay
from emulation.mobility.trajectory import Position2D, Waypoint
from emulation.scenario.access_point import AssociationSpec
from emulation.scenario.topo import Topo
from emulation.scenario.topology_parameters import FailedBrokers, SpeedError, Turn
from emulation.workloads.feeds import Feeds
from nodeapp.parameters import Param

DEPARTURE: Final = 12.0
"""Seconds into the run: the graph is built and subscriptions are known."""
GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""The lattice of n points (i/n, i times this): the golden section spreads them evenly."""
REST: Final = 10.0
"""Least seconds that a run lasts after an arrival, for the handover."""


class MeshLegs(Topo):
    """Clients that set out from the middle of a mesh, one leg each, without collisions."""

    workload = Feeds()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        k: Annotated[int, Param("cells from the central one to the edge", low=1, high=20)] = 3,
        nodes: Annotated[int, Param("clients", low=1, high=1000)] = 10,
        speed: Annotated[float, Param("m/s of every client", low=0.1, high=100)] = 3.0,
        cell: Annotated[float, Param("m, side of a cell", low=10, high=10_000)] = 250.0,
        scan: Annotated[float, Param("s between a client's scans", low=0.05, high=60)] = 0.5,
        turn: Turn = 0.0,
        speed_error: SpeedError = 0.0,
        failed: FailedBrokers = 0,
    ) -> None:
        self.setRadio(cell, "unitDisk", "g")
        unit_disk = self.radio.propagation.model_copy(update={"collisions": False})
        self.radio = self.radio.model_copy(update={"propagation": unit_disk})
        self.mesh_radio = self.radio.model_copy(update={"range": 1.68 * cell})
        self.association = AssociationSpec(hysteresis_db=0.0, scan_interval=scan)
        self.turn, self.speed_error = turn, speed_error
        side = 2 * k + 1
        width = side * cell
        self.area = (0.0, 0.0, width, width)
        cells = [(row, column) for row in _upto(side) for column in _upto(side)]
        others = [grid_cell for grid_cell in cells if grid_cell != (k, k)]
        if failed > len(others) // 2:
            raise ScenarioError(f"failed: {failed} of {len(cells)} brokers are too many: lower it")
        dead = set(self.rng("failed brokers").sample(others, failed))
        publisher = number = 0
        for row, column in cells:
            position = (column + 0.5) * cell, (row + 0.5) * cell
            if (row, column) in dead:
                self.failed_brokers.append(position)
                continue
            number += 1
            if (row, column) == (k, k):
                publisher = number
                self.wired_clients.append(f"br{number}")
            self.addAccessPoint(f"ap{number}", ssid="mesh", position=position)
            self.addHost(f"br{number}")
            self.addLink(f"br{number}", f"ap{number}")
        self._draw(nodes, speed, width, number, publisher)

    def _draw(self, nodes: int, speed: float, width: float, brokers: int, publisher: int) -> None:
        """Add the clients, with their paths and the times of their events."""
        rng = self.rng("mobility")
        middle = width / 2
        shift_x, shift_y = rng.random(), rng.random()
        tracks, windows = [], []
        for index in _upto(nodes):
            x, y = _point((index / nodes + shift_x) % 1.0, (index * GOLDEN + shift_y) % 1.0, width)
            arrival = DEPARTURE + math.hypot(x - middle, y - middle) / speed
            tracks.append(
                (
                    Waypoint(0.0, middle, middle),
                    Waypoint(DEPARTURE, middle, middle),
                    Waypoint(arrival, x, y),
                )
            )
            self.addStation(f"sta{index + 1}", position=(middle, middle))
            windows.append((brokers + index + 1, DEPARTURE, min(arrival, self.duration - REST)))
        needed = max(track[-1].time for track in tracks) + REST
        if self.duration <= DEPARTURE:
            raise ScenarioError(
                f"a run of {self.duration:g} s is over before clients leave; all have arrived "
                f"after {needed:.0f} s: use --duration {math.ceil(needed)}"
            )
        if self.turn or self.speed_error:  # paths may be longer than planned, and slower
            longest = needed - DEPARTURE - REST + bool(self.turn) * width * math.sqrt(2) / speed
            needed = DEPARTURE + longest / (1.0 - self.speed_error) + REST
        self.duration = min(self.duration, math.ceil(needed))
        self.mobility = Replay(tracks)
        assert isinstance(self.workload, Feeds)
        self.workload = dataclasses.replace(
            self.workload, publisher=publisher, windows=tuple(windows)
        )


def _point(share: float, turn: float, width: float) -> Position2D:
    """Return a point of a square: `share` of the area is nearer to its middle than the point.

    "Nearer" in the maximum norm; `turn` is the direction, from 0 to 1 once around.
    """
    far = width / 2 * math.sqrt(share)
    side, along = divmod(4 * turn, 1.0)
    x, y = far, far * (2 * along - 1)
    for _ in _upto(int(side)):
        x, y = -y, x
    return width / 2 + x, width / 2 + y


def _upto(count: int) -> Sequence[int]:
    return range(count)

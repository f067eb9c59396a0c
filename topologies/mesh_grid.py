"""A wireless mesh network: a grid of base stations, and users who roam among them.

The network of Zheng, Cao, Liu and Wang (docs/papers.md#mesh-prediction), section II: a square of
identical grid cells, in the middle of each a base station with its broker, one hop from the base
stations of the eight cells around; users talk to a base station only and move by random waypoint.
The paper's cells are 250 m wide and its squares have 21 and 41 cells a side; emulation, with a
kernel network stack for every base station, takes 3 to 5.

A base station is an access point and a host on which the broker runs.  The range of the mesh
radios lies between the distance of diagonal neighbours (354 m) and that of the next but one
(500 m).  In the paper a user's base station is that of the cell; here it is the one that the user
receives best, with hysteresis, which is about the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.mobility.trajectory import Position2D
from emulation.scenario.access_point import AssociationSpec
from emulation.scenario.topo import Topo
from emulation.scenario.topology_parameters import (
    FailedBrokers,
    MobilityModel,
    PathLoss,
    Slowest,
    SpeedError,
    Standard,
    Turn,
)
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param


class MeshGrid(Topo):
    """A grid of mesh access points, each with a broker, and stations that roam among them."""

    workload = TopicWorkload(topics=2, subscribers=3)

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        side: Annotated[int, Param("access points a side", low=2, high=41)] = 3,
        nodes: Annotated[int, Param("stations", low=1, high=1000)] = 6,
        speed: Annotated[
            float, Param("m/s of every station; 0: nobody moves", low=0, high=100)
        ] = 3.0,
        slowest: Slowest = 1.0,
        mobility: MobilityModel = "random-waypoint",
        cell: Annotated[float, Param("m, side of a grid cell", low=10, high=10_000)] = 250.0,
        range: Annotated[float, Param("m of access radio range", low=1, high=10_000)] = 250.0,
        mesh_range: Annotated[float, Param("m of mesh radio range", low=1, high=10_000)] = 420.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "g",
        hysteresis: Annotated[
            float, Param("dB by which another access point must be stronger", low=0, high=60)
        ] = 5.0,
        scan: Annotated[float, Param("s between a station's scans", low=0.05, high=60)] = 1.0,
        turn: Turn = 0.0,
        speed_error: SpeedError = 0.0,
        failed: FailedBrokers = 0,
    ) -> None:
        self.setRadio(range, propagation, standard)
        self.mesh_radio = self.radio.model_copy(update={"range": mesh_range})
        self.association = AssociationSpec(hysteresis_db=hysteresis, scan_interval=scan)
        width = side * cell
        self.setMobilityModel(
            mobility, max_x=width, max_y=width, min_v=slowest * speed, max_v=speed
        )
        self.turn, self.speed_error = turn, speed_error
        if failed >= side * side:
            raise ScenarioError(
                f"{failed} of {side * side} brokers cannot have failed: lower failed"
            )
        middles = list(_middles(side, cell))
        dead = set(self.rng("failed brokers").sample(middles, failed))
        for number, position in enumerate(middles, start=1):
            if position in dead:
                self.failed_brokers.append(position)
                continue
            self.addAccessPoint(f"ap{number}", ssid="mesh", position=position)
            self.addHost(f"br{number}")
            self.addLink(f"br{number}", f"ap{number}")
        self.addStations(nodes)


def _middles(side: int, cell: float) -> Iterator[Position2D]:
    """Yield the middles of the cells, row by row."""
    for row in range(side):
        for column in range(side):
            yield (column + 0.5) * cell, (row + 0.5) * cell

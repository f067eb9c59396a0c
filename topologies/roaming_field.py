"""Dispatchers that roam a square field.

The published scenario (docs/papers.md#subscription-forwarding) has 200 dispatchers in a square of
2 km, a radio range of 250 m and 2 m/s, "common in the research field", which keeps the graph
connected.  That is `--nodes 200 --set side=2000 --set speed=2`, the last two being the defaults.
Fewer nodes get a smaller square of the same density, 50 a square kilometre, unless `side` is given.

How well connected that is depends on the time: all begin at positions drawn uniformly, again until
the graph is connected, and set out at once; they crowd in the middle, most after 400 s, and spread
again.
Of 100 seeds, at 0, 60, 300, 450, 600 and 1,800 s:

    mean number of neighbours     8.8    10.4   16.2   16.7   14.0   12.8
    share of pairs connected      1      0.997  0.977  0.966  0.982  0.982
    share of graphs connected     1      0.86   0.16   0.07   0.23   0.24

So a node or two are away much of the time (near a corner), which no protocol can help.
"""

from __future__ import annotations

import math
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.scenario.topo import Topo
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

PUBLISHED_NODES = 200
PUBLISHED_SIDE = 2000.0


class RoamingField(Topo):
    """Dispatchers that roam a square field at random, dense enough to stay connected."""

    workload = TopicWorkload()

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Annotated[int, Param("stations", low=2, high=5000)] = 20,
        speed: Annotated[
            float, Param("m/s of every station; 0: nobody moves", low=0, high=100)
        ] = 2.0,
        slowest: Slowest = 1.0,
        mobility: MobilityModel = "random-waypoint",
        side: Annotated[
            float, Param("m of the square; 0: the published density", low=0, high=100_000)
        ] = 0.0,
        range: RadioRange = 250.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "g",
        mode: Mode = "adhoc",
    ) -> None:
        if 0 < side < 1:
            raise ScenarioError(f"side {side:g} m is no field: use 1 m or more, or 0")
        side = side or PUBLISHED_SIDE * math.sqrt(nodes / PUBLISHED_NODES)
        self.setRadio(range, propagation, standard, mode)
        self.setMobilityModel(mobility, max_x=side, max_y=side, min_v=slowest * speed, max_v=speed)
        assert self.mobility is not None
        for number, position in enumerate(self.draw_connected(nodes, self.mobility), start=1):
            self.addStation(f"sta{number}", position=position)

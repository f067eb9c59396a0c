"""Vehicles on freeways: the highway traffic report of a comparison of schemes over GPSR and AODV.

Table 1 of the paper (docs/papers.md#six-schemes) gives 60 nodes, the freeway model, 10 to 60 m/s,
events of 512 bytes, one from every publisher every 10 s, 2 topics with 1 publisher and 9
subscribers each; a run takes 900 s (`--duration 900`).  It does not give the following, which is
chosen here:

- `side` and `roads`: a square of 1 km with two freeways that cross in its middle, because its
  vehicles report on "another highway".  56 % of the square is void, farther than half the radio
  range (K of the paper) from the middle of every road, and at any moment 57 % is as far from every
  vehicle, so most topics hash to where nobody is, as in the paper.  0.996 of all pairs of vehicles
  are connected with two directions and with one, from 10 to 60 m/s (means of 12 seeds and 900 s).
  On one road of 2 km it is 0.98, from 0.92 to 1 by seed; on two of 2 km 0.76.
- `one_way`: off.  The paper has its vehicles move "with the same direction", but takes the
  framework's model, which has lanes each way; with one direction alone vehicles jump back to the
  start of their road, and all their links break at once.
- `lanes`: 2 each way.
- `slowest`: half the speed, because "each node in the highway moves with high speed".  The
  framework's rules alone (0) let vehicles queue behind one that happens to crawl: the mean speed
  over 900 s is then 6 m/s if 60 m/s are allowed; with half the speed it is 36 m/s.
- `acceleration`: a tenth of the speed a second, so that motion looks alike at every speed.
- `safety_distance`: 20 m.
- `range`, `propagation`, `standard`: 250 m and two-ray ground are ns-2's defaults, which the paper
  used; 802.11b is the standard nearest to its WaveLAN, and `radio=ns2` is WaveLAN itself.

`emulation.mobility.freeway` has the model.
"""

from __future__ import annotations

from typing import Annotated

from emulation.mobility.freeway import OneWay, Roads
from emulation.mobility.traffic import Acceleration, Lanes, SafetyDistance
from emulation.scenario.topo import WAYPOINT_SPACING, Topo
from emulation.scenario.topology_parameters import (
    Mode,
    PathLoss,
    RadioRange,
    Slowest,
    Standard,
    TopSpeed,
    Vehicles,
    WaypointSpacing,
)
from emulation.workloads.topic import TopicWorkload
from nodeapp.parameters import Param


class Freeway(Topo):
    """Vehicles on two-way freeways that cross a square, bound to their lanes; has a road map."""

    workload = TopicWorkload(
        topics=2, publishers=1, subscribers=9, interval=10.0, size=512, drawn_names=True
    )

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Vehicles = 60,
        speed: TopSpeed = 30.0,
        slowest: Slowest = 0.5,
        acceleration: Acceleration = 0.0,
        safety_distance: SafetyDistance = 20.0,
        side: Annotated[float, Param("m of the square", low=100, high=100_000)] = 1000.0,
        roads: Roads = 2,
        lanes: Lanes = 2,
        one_way: OneWay = False,
        waypoint_spacing: WaypointSpacing = WAYPOINT_SPACING,
        range: RadioRange = 250.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "b",
        mode: Mode = "adhoc",
    ) -> None:
        self.setRadio(range, propagation, standard, mode)
        self.setMobilityModel(
            "Freeway",
            max_x=side,
            max_y=side,
            min_v=slowest * speed,
            max_v=speed,
            acceleration=acceleration,
            safety_distance=safety_distance,
            roads=roads,
            lanes=lanes,
            one_way=one_way,
        )
        self.waypoint_spacing = waypoint_spacing
        self.addStations(nodes)

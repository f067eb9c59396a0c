"""Vehicles in city streets: the police surveillance of a comparison of schemes over GPSR and AODV.

Table 1 of the paper (docs/papers.md#six-schemes) gives 60 nodes, the Manhattan model, 1 to 20 m/s,
events of 1,024 bytes, one from every publisher every 10 s, 6 topics with 2 publishers and 5
subscribers each; a run takes 900 s (`--duration 900`).  It does not give the following, which is
chosen here:

- `side` and `blocks`: a square of 1 km with 5 blocks of 197 m each way.  0.98 of all pairs of
  vehicles are connected (means of 12 seeds and 900 s).  With 4 blocks of 246 m on one lane each
  way it is 0.96, with 8 of 124 m 0.98; on squares of 1.5 km it is 0.26 with 5 blocks, 0.5 with 8.
  60 nodes that turn at random on 1 km² came to 0.989 at 10 m/s and the same range in ns-3.
- `margin`: 0, so that the streets fill the square.  Then a topic hashes to a position with a street
  within 100 m.  In the paper "most topics are hashed to void regions".  With `margin=450` 0.58 of
  the square of 1.9 km over which topics hash is void, farther than half the radio range (K of
  the paper) from the middle of every street; at any moment 0.65 is as far from every vehicle.  The
  traffic is the same: 0.99 of the pairs are connected at 1 m/s, 0.98 at 10, 0.97 at 20.
  For voids between streets to be half of the map, blocks must be 854 m or more: with 2 each way
  that is over 10 km of streets, and 0.13 of the pairs are connected; with 1 block on 1 km 0.54 is
  void and 0.89 of the pairs are connected, but no vehicle ever has a choice of streets.
- `lanes`: 2 each way, as the framework has them.
- `slowest`: half the speed, as on the freeway.  The framework's rules alone (0) let the mean speed
  fall to 3.3 m/s if 10 m/s are allowed, and the connected pairs to 0.96.
- `acceleration`: a tenth of the speed a second, so that motion looks alike at every speed.
- `safety_distance`: 20 m.
- `range`, `propagation`, `standard`: 250 m and two-ray ground are ns-2's defaults, which the paper
  used; 802.11b is the standard nearest to its WaveLAN, and `radio=ns2` is WaveLAN itself.
  Buildings do not block the radio, as in ns-2.

`emulation.mobility.manhattan` has the model.
"""

from __future__ import annotations

from typing import Annotated

from emulation.mobility.manhattan import Blocks
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


class Manhattan(Topo):
    """Vehicles in a grid of city streets that turn at random at intersections; has a road map."""

    workload = TopicWorkload(
        topics=6, publishers=2, subscribers=5, interval=10.0, size=1024, drawn_names=True
    )

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Vehicles = 60,
        speed: TopSpeed = 10.0,
        slowest: Slowest = 0.5,
        acceleration: Acceleration = 0.0,
        safety_distance: SafetyDistance = 20.0,
        side: Annotated[
            float, Param("m of the square that has the streets", low=100, high=100_000)
        ] = 1000.0,
        blocks: Blocks = 5,
        lanes: Lanes = 2,
        margin: Annotated[
            float, Param("m without streets around that square", low=0, high=100_000)
        ] = 0.0,
        waypoint_spacing: WaypointSpacing = WAYPOINT_SPACING,
        range: RadioRange = 250.0,
        propagation: PathLoss = "twoRayGround",
        standard: Standard = "b",
        mode: Mode = "adhoc",
    ) -> None:
        self.setRadio(range, propagation, standard, mode)
        self.setMobilityModel(
            "Manhattan",
            max_x=side + 2 * margin,
            max_y=side + 2 * margin,
            min_v=slowest * speed,
            max_v=speed,
            acceleration=acceleration,
            safety_distance=safety_distance,
            blocks=blocks,
            lanes=lanes,
            margin=margin,
        )
        self.waypoint_spacing = waypoint_spacing
        self.addStations(nodes)

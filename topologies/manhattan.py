"""Vehicles in city streets: the police surveillance of a comparison of schemes over GPSR and AODV.

Its table 1 gives 60 nodes, the Manhattan model, 1 to 20 m/s, events of 1,024 bytes, an event of
every publisher each 10 s, 6 topics with 2 publishers and 5 subscribers each; a run takes 900 s
(`--duration 900`).  It does not give the following, which is chosen here:

- `side` and `blocks`: a square of 1 km with 5 blocks of 198 m each way.  0.98 of all pairs of
  vehicles are connected (means of 12 seeds and 900 s).  With 4 blocks of 248 m it is 0.96, with 8
  of 124 m 0.98; on squares of 1.5 km it is 0.26 with 5 blocks, 0.5 with 8.  60 nodes that turn at
  random on 1 km² came to 0.989 at 10 m/s and the same range in ns-3.
- `slowest`: half the speed, as on the freeway.  The framework's rules alone (0) let the mean speed
  fall to 3.3 m/s where 10 m/s are allowed, and the connected pairs to 0.96.
- `acceleration`: a tenth of the speed a second, so that motion looks alike at every speed.
- `safety_distance`: 20 m.
- `range`, `propagation`, `standard`: 250 m and two-ray ground are ns-2's defaults, which the paper
  used; 802.11b is what there is nearest to ns-2's WaveLAN at 2 Mbit/s.  Buildings do not block the
  radio, as in ns-2.

`emulation.mobility.manhattan` has the model.
"""

from __future__ import annotations

from typing import Annotated

from emulation.topo import WAYPOINT_SPACING, Topo
from emulation.workload import TopicWorkload
from nodeapp.parameters import Param


class Manhattan(Topo):
    """Vehicles in a grid of city streets that turn at random at intersections; has a road map."""

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Annotated[int, Param("vehicles", low=2, high=5000)] = 60,
        speed: Annotated[float, Param("m/s at most", low=0, high=100)] = 10.0,
        slowest: Annotated[float, Param("least speed, as a share of speed", low=0, high=1)] = 0.5,
        acceleration: Annotated[
            float, Param("m/s² at most; 0: a tenth of the speed in a second", low=0, high=100)
        ] = 0.0,
        safety_distance: Annotated[
            float, Param("m to the vehicle ahead within which none is faster", low=0, high=1000)
        ] = 20.0,
        side: Annotated[float, Param("m of the square", low=100, high=100_000)] = 1000.0,
        blocks: Annotated[int, Param("blocks along a side", low=1, high=100)] = 5,
        waypoint_spacing: Annotated[
            float, Param("m between waypoints of the map at most", low=1, high=100_000)
        ] = WAYPOINT_SPACING,
        range: Annotated[float, Param("m of radio range", low=1, high=10_000)] = 250.0,
        propagation: Annotated[
            str,
            Param(
                "path loss model",
                choices=("twoRayGround", "friis", "logDistance", "logNormalShadowing", "unitDisk"),
            ),
        ] = "twoRayGround",
        standard: Annotated[str, Param("802.11 amendment", choices=("b", "g", "n"))] = "b",
        mode: Annotated[
            str,
            Param("adhoc (IBSS), or mesh (802.11s, one hop); on hwsim", choices=("adhoc", "mesh")),
        ] = "adhoc",
        topics: Annotated[int, Param("topics", low=0, high=1000)] = 6,
        publishers: Annotated[int, Param("publishers a topic", low=1, high=1000)] = 2,
        subscribers: Annotated[int, Param("subscribers a topic", low=1, high=1000)] = 5,
        interval: Annotated[
            float, Param("s between a publisher's events", low=0.01, high=3600)
        ] = 10.0,
        size: Annotated[int, Param("bytes of an event", low=0, high=1400)] = 1024,
        selectivity: Annotated[
            float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
        ] = 1.0,
    ) -> None:
        self.radio = self.radio.model_copy(
            update={"standard": standard, "mode": mode, "range": range}
        )
        self.setPropagationModel(propagation)
        self.setMobilityModel(
            "Manhattan",
            max_x=side,
            max_y=side,
            min_v=slowest * speed,
            max_v=speed,
            acceleration=acceleration,
            safety_distance=safety_distance,
            blocks=blocks,
        )
        self.waypoint_spacing = waypoint_spacing
        self.addStations(nodes)
        if topics:
            self.topic_workload = TopicWorkload(
                *(topics, publishers, subscribers, interval, size, selectivity),
                drawn_names=True,
            )

"""Vehicles on freeways: the highway traffic report of a comparison of schemes over GPSR and AODV.

Its table 1 gives 60 nodes, the freeway model, 10 to 60 m/s, events of 512 bytes, an event of every
publisher each 10 s, 2 topics with 1 publisher and 9 subscribers each; a run takes 900 s
(`--duration 900`).  It does not give the following, which is chosen here:

- `side` and `roads`: a square of 1 km with two freeways that cross in its middle, because its
  vehicles report on "another highway".  56 % of the square are further than half the radio range
  from a road, so most topics hash to where nobody is, as in the paper; 0.99 of all pairs of
  vehicles are connected at any speed (means of 12 seeds and 900 s).  On one road of 2 km it is
  0.98, from 0.92 to 1 by seed; on two of 2 km 0.76.
- Directions: both.  The paper has its vehicles move "with the same direction", but takes the
  framework's model, which has lanes each way; with one direction alone (`one_way`) vehicles jump
  back to the start of their road, and all their links break at once.
- `lanes`: 2 each way.
- `slowest`: half the speed, because "each node in the highway moves with high speed".  The
  framework's rules alone (0) let vehicles queue behind one that happens to crawl: the mean speed
  over 900 s is then 6 m/s where 60 m/s are allowed; so it is 36 m/s.
- `acceleration`: a tenth of the speed a second, so that motion looks alike at every speed.
- `safety_distance`: 20 m.
- `range`, `propagation`, `standard`: 250 m and two-ray ground are ns-2's defaults, which the paper
  used; 802.11b is what there is nearest to ns-2's WaveLAN at 2 Mbit/s.

`emulation.mobility.freeway` has the model.
"""

from __future__ import annotations

from typing import Annotated

from emulation.topo import WAYPOINT_SPACING, Topo
from emulation.workload import TopicWorkload
from nodeapp.parameters import Param


class Freeway(Topo):
    """Vehicles on two-way freeways that cross a square, bound to their lanes; has a road map."""

    def build(  # type: ignore[override]  # the parameters are the point
        self,
        nodes: Annotated[int, Param("vehicles", low=2, high=5000)] = 60,
        speed: Annotated[float, Param("m/s at most", low=0, high=100)] = 30.0,
        slowest: Annotated[float, Param("least speed, as a share of speed", low=0, high=1)] = 0.5,
        acceleration: Annotated[
            float, Param("m/s² at most; 0: a tenth of the speed in a second", low=0, high=100)
        ] = 0.0,
        safety_distance: Annotated[
            float, Param("m to the vehicle ahead within which none is faster", low=0, high=1000)
        ] = 20.0,
        side: Annotated[float, Param("m of the square", low=100, high=100_000)] = 1000.0,
        roads: Annotated[
            int, Param("freeways, by turns west to east and south to north", low=1, high=20)
        ] = 2,
        lanes: Annotated[int, Param("lanes each way", low=1, high=8)] = 2,
        one_way: Annotated[bool, Param("all vehicles of a road in one direction")] = False,
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
        topics: Annotated[int, Param("topics", low=0, high=1000)] = 2,
        publishers: Annotated[int, Param("publishers a topic", low=1, high=1000)] = 1,
        subscribers: Annotated[int, Param("subscribers a topic", low=1, high=1000)] = 9,
        interval: Annotated[
            float, Param("s between a publisher's events", low=0.01, high=3600)
        ] = 10.0,
        size: Annotated[int, Param("bytes of an event", low=0, high=1400)] = 512,
        selectivity: Annotated[
            float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
        ] = 1.0,
    ) -> None:
        self.radio = self.radio.model_copy(
            update={"standard": standard, "mode": mode, "range": range}
        )
        self.setPropagationModel(propagation)
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
        if topics:
            self.topic_workload = TopicWorkload(
                *(topics, publishers, subscribers, interval, size, selectivity),
                drawn_names=True,
            )

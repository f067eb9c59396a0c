"""Parameters that several topologies have, as `nodeapp.parameters` declares them.

A topology gives each its own default: `range: RadioRange = 250.0` among the arguments of `build`.
"""

from __future__ import annotations

from typing import Annotated

from nodeapp.parameters import Param

# The radio (`emulation.radio.spec`).
RadioRange = Annotated[float, Param("m of radio range", low=1, high=10_000)]
PathLoss = Annotated[
    str,
    Param(
        "path loss model",
        choices=("twoRayGround", "friis", "logDistance", "logNormalShadowing", "unitDisk"),
    ),
]
Standard = Annotated[str, Param("802.11 amendment", choices=("b", "g", "n"))]
Mode = Annotated[
    str,
    Param("adhoc (IBSS), or mesh (802.11s, one hop); on hwsim", choices=("adhoc", "mesh")),
]

# The workload (`emulation.workloads.topic`).
Topics = Annotated[int, Param("topics", low=0, high=1000)]
Publishers = Annotated[int, Param("publishers a topic", low=1, high=1000)]
Subscribers = Annotated[int, Param("subscribers a topic", low=1, high=1000)]
Interval = Annotated[float, Param("s between a publisher's events", low=0.01, high=3600)]
Size = Annotated[int, Param("bytes of an event", low=0, high=1400)]
Selectivity = Annotated[
    float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
]

# Vehicles (`emulation.mobility.traffic`).
Vehicles = Annotated[int, Param("vehicles", low=2, high=5000)]
TopSpeed = Annotated[float, Param("m/s at most", low=0, high=100)]
Slowest = Annotated[float, Param("least speed, as a share of speed", low=0, high=1)]
Acceleration = Annotated[
    float, Param("m/s² at most; 0: a tenth of the speed in a second", low=0, high=100)
]
SafetyDistance = Annotated[
    float, Param("m to the vehicle ahead within which none is faster", low=0, high=1000)
]
WaypointSpacing = Annotated[
    float, Param("m between waypoints of the map at most", low=1, high=100_000)
]

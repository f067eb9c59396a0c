"""Parameters shared by several topologies, declared as in `nodeapp.parameters`.

A topology gives each its own default: `range: RadioRange = 250.0` among the arguments of `build`.
Workloads (`emulation.workloads`) and mobility models (`emulation.mobility`) declare their own.
"""

from __future__ import annotations

from typing import Annotated

from emulation.mobility.registry import MODELS, setting
from emulation.radio.spec import PROPAGATION_MODELS
from nodeapp.parameters import Param

# The radio (`emulation.radio.spec`).
RadioRange = Annotated[float, Param("m of radio range", low=1, high=10_000)]
PathLoss = Annotated[str, Param("path loss model", choices=tuple(PROPAGATION_MODELS))]
Standard = Annotated[str, Param("802.11 amendment", choices=("b", "g", "n"))]
Mode = Annotated[
    str,
    Param("adhoc (IBSS), or mesh (802.11s, one hop); on hwsim", choices=("adhoc", "mesh")),
]

# Clients that move in a mesh, and its brokers (docs/protocols.md).
Turn = Annotated[float, Param("that a station leaves a leg early, unannounced", low=0, high=1)]
SpeedError = Annotated[
    float, Param("share by which speeds differ from what was announced", low=0, high=0.9)
]
FailedBrokers = Annotated[
    int, Param("brokers that all know of but that do not exist", low=0, high=1000)
]

# Motion (`emulation.mobility`).
MobilityModel = Annotated[
    str, Param("how stations move", choices=tuple(map(setting, MODELS.values())))
]
Slowest = Annotated[float, Param("least speed, as a share of speed", low=0, high=1)]

# Vehicles (`emulation.mobility.traffic`).
Vehicles = Annotated[int, Param("vehicles", low=2, high=5000)]
TopSpeed = Annotated[float, Param("m/s at most", low=0, high=100)]
WaypointSpacing = Annotated[
    float, Param("m between waypoints of the map at most", low=1, high=100_000)
]

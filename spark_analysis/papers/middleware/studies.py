"""What is run: the systems by number of stations, by speed and by fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from spark_analysis.measures.delay import DELAY_P50, DELAY_P99
from spark_analysis.measures.delivery import DELIVERY_RATIO
from spark_analysis.measures.middleware import MEMORY, PROCESSOR_SHARE
from spark_analysis.measures.overhead import BYTES_PER_DELIVERY, FRAMES_PER_DELIVERY
from spark_analysis.measures.recovery import FAULTS_RECOVERED, RECOVERY_TIME
from spark_analysis.papers.paper import PROTOCOL, Axis, Figure, Scope, Source, Study
from spark_analysis.report.curves import OF_MEANS, Quantity
from spark_analysis.report.metric import Metric
from spark_analysis.sweeps.spec import SweepSpec

BACKEND: Final = "tap"
TOPOLOGY: Final = "roaming_field"
KINDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "brokers": ("mqtt", "mqtt-bridged", "nats"),
        "no brokers": ("zeromq", "dds", "gossipsub", "zenoh"),
        "protocols of the testbed": (
            "flooding",
            "semi-probabilistic",
            "broker-aodv",
            "georendezvous",
        ),
    }
)
"""The systems by panel of the figures."""
NAMES: Final = MappingProxyType(
    {
        "mqtt": "MQTT",
        "mqtt-bridged": "bridged MQTT",
        "nats": "NATS",
        "zeromq": "ZeroMQ",
        "dds": "DDS",
        "gossipsub": "gossipsub",
        "zenoh": "Zenoh",
        "broker-aodv": "broker over AODV",
    }
)
SYSTEMS: Final = tuple(name for names in KINDS.values() for name in names)
DEPLOYED: Final = KINDS["brokers"] + KINDS["no brokers"]
OVER_TCP: Final = ("mqtt", "mqtt-bridged", "zeromq", "gossipsub", "zenoh")
"""Those over TCP but NATS, which delivers too little at rest to lose more."""
EACH_TO_EACH: Final = ("nats", "zeromq", "dds")
"""Systems whose nodes look for connections to all others."""
STATIONS: Final = 20
"""Where speed and faults are varied."""


def name_of(system: str) -> str:
    """Return what a system is called on pages."""
    return NAMES.get(system, system)


BROKER_GONE: Final = "off sta1 at 20 for 8"
STATIONS_GONE: Final = "off 30% at 20 for 8"
PARTED: Final = "partition x=316 at 20 for 8"
"""At x = 316 m is the middle of the square of 20 stations."""
FAULTS: Final = MappingProxyType(
    {BROKER_GONE: "MQTT's broker", STATIONS_GONE: "30 % of stations", PARTED: "partition"}
)

KIND: Final = "kind"
DELIVERY: Final = DELIVERY_RATIO.column
FRAMES: Final = FRAMES_PER_DELIVERY.column
BYTES: Final = BYTES_PER_DELIVERY.column
NODES: Final = Axis("nodes", "stations")
SPEED: Final = Axis("speed", "speed", "m/s")
FAULT: Final = Axis("faults", "what fails for 8 s", names=FAULTS)
SYSTEM: Final = Axis(PROTOCOL, "system", names=NAMES)
PANEL: Final = Axis(KIND, "")


def _runs(axis: Axis, **fixed: str) -> Source:
    def source(scope: Scope) -> SweepSpec:
        values = scope.texts(axis.column)
        if scope.varied and axis is NODES:
            values = (str(STATIONS),)
        return SweepSpec(
            TOPOLOGY,
            SYSTEMS,
            {axis.column: values},
            scope.seeds,
            scope.duration,
            {**fixed, **scope.settings},
            backend=BACKEND,
        )

    return source


def _cost(_parameters: Mapping[str, Any], duration: float) -> float:
    """Return the seconds of a run with its start and its end: 10 to 16 were measured, by system."""
    return duration + 13.0


def _with_kinds(points: pd.DataFrame) -> pd.DataFrame:
    """Return points with the panel of each system."""
    kinds = {name: kind for kind, names in KINDS.items() for name in names}
    return points.assign(**{KIND: points[PROTOCOL].map(kinds)})


def _study(name: str, title: str, axis: Axis, **fixed: str) -> Study:
    return Study(
        name, title, (axis,), _runs(axis, **fixed), _cost, derive=_with_kinds, deliveries=True
    )


STUDIES: Final = (
    _study("stations", "by the number of stations", NODES),
    _study("speed", f"{STATIONS} stations, by speed", SPEED, nodes=str(STATIONS)),
    _study("faults", f"{STATIONS} stations, by fault", FAULT, nodes=str(STATIONS)),
)


def _quantity(metric: Metric, *, logarithmic: bool = False) -> Quantity:
    quantity = Quantity.of(metric)
    caption = f"{quantity.caption} {OF_MEANS}"
    return replace(quantity, caption=caption, logarithmic=logarithmic)


QUANTITIES: Final = (
    _quantity(DELIVERY_RATIO),
    _quantity(DELAY_P99, logarithmic=True),
    _quantity(FRAMES_PER_DELIVERY, logarithmic=True),
    _quantity(DELAY_P50, logarithmic=True),
    _quantity(BYTES_PER_DELIVERY, logarithmic=True),
    _quantity(PROCESSOR_SHARE, logarithmic=True),
    _quantity(MEMORY, logarithmic=True),
)
RECOVERED: Final = (_quantity(FAULTS_RECOVERED), _quantity(RECOVERY_TIME))
FIGURES: Final = (
    *(
        Figure(("stations",), quantity, NODES, (SYSTEM,), (PANEL,), main=quantity in QUANTITIES[:3])
        for quantity in QUANTITIES
    ),
    *(Figure(("speed",), quantity, SPEED, (SYSTEM,), (PANEL,)) for quantity in QUANTITIES),
    *(
        Figure(("faults",), quantity, FAULT, (SYSTEM,), (PANEL,), main=quantity is QUANTITIES[0])
        for quantity in (*QUANTITIES[:2], *RECOVERED)
    ),
)

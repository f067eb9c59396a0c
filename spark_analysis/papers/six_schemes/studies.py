"""What is run: both scenarios by speed, and by the load of the system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from spark_analysis.measures.delay import DELAY_MEAN, DELAY_P50
from spark_analysis.measures.delivery import DELIVERY_RATIO
from spark_analysis.measures.load import LOAD_MEAN
from spark_analysis.papers.paper import (
    PROTOCOL,
    Axis,
    Figure,
    Preset,
    Scope,
    Study,
    ends_and_middle,
)
from spark_analysis.papers.six_schemes.ways import (
    OVER_AODV,
    PAPER_NAMES,
    SCHEMES,
    VARIATIONS,
    settings_of,
)
from spark_analysis.report.curves import OF_MEANS, Quantity
from spark_analysis.sweeps.spec import SweepSpec

SPEED: Final = Axis("speed", "speed", "m/s")
RATE: Final = Axis("interval", "interval between a publisher's events", "s")
SCHEME: Final = Axis(PROTOCOL, "scheme", names=PAPER_NAMES)
MIDDLE: Final = {"freeway": "30", "manhattan": "10"}
"""Speed at which the load of the system is varied, m/s."""
LOAD_DURATION: Final = 300.0
LOAD_SEEDS: Final = 3
DRAWS: Final = ("speed", "seed")
"""Placement, motion, topics and workload are drawn for each speed and seed."""


def _speeds(
    freeway: Sequence[float], manhattan: Sequence[float], intervals: Sequence[float]
) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
    return {
        "freeway": {"speed": tuple(freeway)},
        "manhattan": {"speed": tuple(manhattan)},
        "freeway-load": {"interval": tuple(intervals)},
        "manhattan-load": {"interval": tuple(intervals)},
    }


PRESETS: Final = (
    Preset(
        "quick",
        "a quick check: short runs at the slowest and the fastest speed, too few to decide much",
        _speeds((10.0, 60.0), (1.0, 20.0), (10.0, 5.0)),
        seeds=2,
        duration=75.0,
    ),
    Preset(
        "paper",
        "two bases as published, with 10 seeds in place of 3; variations at three speeds, and "
        f"shorter; the load of the system at one speed, {LOAD_SEEDS} seeds and {LOAD_DURATION:g} s",
        _speeds(
            (10.0, 20.0, 30.0, 40.0, 50.0, 60.0),
            (1.0, 5.0, 10.0, 15.0, 20.0),
            (10.0, 5.0, 2.0, 1.0),
        ),
        seeds=10,
        duration=900.0,
        varied=300.0,
        varied_seeds=5,
        variations=tuple(variation.key for variation in VARIATIONS),
    ),
)

DELIVERY: Final = replace(
    Quantity.of(DELIVERY_RATIO),
    title="Event delivery reliability",
    caption=f"Deliveries made out of those expected. {OF_MEANS}",
)
DELAY: Final = replace(
    Quantity.of(DELAY_MEAN),
    title="End-to-end event delivery delay",
    caption=f"{DELAY_MEAN.caption} {OF_MEANS}",
)
MEDIAN: Final = replace(
    Quantity.of(DELAY_P50), title="Median of the delay", caption=f"{DELAY_P50.caption} {OF_MEANS}"
)
LOAD: Final = replace(
    Quantity.of(LOAD_MEAN),
    title="Per-node message load",
    caption=f"Bytes a second that a node sends by radio, from the Ethernet header. {OF_MEANS}",
    unit="bytes/s a node",
)


def _by_speed(topology: str) -> Callable[[Scope], SweepSpec]:
    def source(scope: Scope) -> SweepSpec:
        speeds = scope.texts("speed")
        if scope.varied:
            speeds = ends_and_middle(speeds)
        settings = settings_of(topology, scope.settings)
        return SweepSpec(
            topology,
            SCHEMES,
            {"speed": speeds},
            scope.seeds,
            scope.duration,
            settings,
            draws=("speed",),
        )

    return source


def _by_load(topology: str) -> Callable[[Scope], SweepSpec]:
    def source(scope: Scope) -> SweepSpec:
        settings = {**settings_of(topology, scope.settings), "speed": MIDDLE[topology]}
        return SweepSpec(
            topology,
            SCHEMES,
            {"interval": scope.texts("interval")},
            min(scope.seeds, LOAD_SEEDS),
            min(scope.duration, LOAD_DURATION),
            settings,
        )

    return source


_SECONDS: Final[Mapping[str, Mapping[str, float]]] = {
    "freeway": {
        "broker-aodv": 0.012,
        "broker-gpsr": 0.041,
        "broker-gpsr-map": 0.016,
        "rendezvous-aodv": 0.013,
        "rendezvous-gpsr": 0.037,
        "rendezvous-gpsr-map": 0.017,
    },
    "manhattan": {
        "broker-aodv": 0.017,
        "broker-gpsr": 0.051,
        "broker-gpsr-map": 0.045,
        "rendezvous-aodv": 0.031,
        "rendezvous-gpsr": 0.058,
        "rendezvous-gpsr-map": 0.047,
    },
}
"""Processor seconds for each second of a run with an event of a publisher every 10 s, on compiled
code; the tours of voids cost most.  Brokers on `freeway`: means of four to six runs of 900 s of the
base; the rest: of four runs of 75 s at the slowest and the fastest speed."""
_START: Final = 1.0
"""Further processor seconds of a run: its scenario, and its share of the analysis."""
_OF_EVENTS: Final = {True: 0.08, False: 0.0}
"""Share of a second's cost at an event every 10 s that grows with the rate of events, over AODV or
not: measured at an event every second, runs of 30 s on `manhattan`, of 60 s on `freeway`.  What
tours of voids cost over GPSR does not grow: they are refreshes."""


def _cost(topology: str) -> Callable[[Mapping[str, Any], float], float]:
    def cost(parameters: Mapping[str, Any], duration: float) -> float:
        scheme = str(parameters[PROTOCOL])
        more = _OF_EVENTS[scheme in OVER_AODV] * (
            10.0 / float(parameters.get("interval", 10.0)) - 1
        )
        return _START + _SECONDS[topology][scheme] * (1 + more) * duration

    return cost


STUDIES: Final = (
    *(
        Study(
            topology,
            topology,
            (SPEED,),
            _by_speed(topology),
            _cost(topology),
            draws=DRAWS,
            deliveries=True,
        )
        for topology in MIDDLE
    ),
    *(
        Study(
            f"{topology}-load",
            f"{topology} at {speed} m/s, by the load of the system",
            (RATE,),
            _by_load(topology),
            _cost(topology),
        )
        for topology, speed in MIDDLE.items()
    ),
)
BY_SPEED: Final = tuple(MIDDLE)
BY_LOAD: Final = tuple(f"{topology}-load" for topology in MIDDLE)


FIGURES: Final = (
    *(
        Figure((study,), quantity, SPEED, (SCHEME,), main=quantity in (DELIVERY, DELAY))
        for study in BY_SPEED
        for quantity in (DELIVERY, DELAY, MEDIAN, LOAD)
    ),
    *(Figure((study,), LOAD, RATE, (SCHEME,)) for study in BY_LOAD),
)

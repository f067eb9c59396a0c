"""Made-up points of the six schemes: as the paper has them, all alike, and at odds by chance."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Final

import pandas as pd

from spark_analysis.papers.kept import beside
from spark_analysis.papers.six_schemes.ways import SCHEMES

SPEEDS: Final = (10.0, 30.0, 60.0)
SEEDS: Final = (1, 2, 3)
INTERVALS: Final = (10.0, 1.0)
DELIVERY: Final = {
    "broker-aodv": 0.8,
    "broker-gpsr": 0.2,
    "broker-gpsr-map": 0.95,
    "rendezvous-aodv": 0.75,
    "rendezvous-gpsr": 0.3,
    "rendezvous-gpsr-map": 0.85,
}
DELAY: Final = {
    "broker-aodv": 0.010,
    "broker-gpsr": 0.5,
    "broker-gpsr-map": 0.012,
    "rendezvous-aodv": 0.008,
    "rendezvous-gpsr": 0.3,
    "rendezvous-gpsr-map": 0.05,
}


def sensitive(protocol: str) -> bool:
    """Return whether mobility costs a scheme much, by the paper."""
    return protocol.startswith("rendezvous-gpsr")


def table(
    study: str,
    delivery: Callable[[str, float, int], float],
    delay: Callable[[str, float, int], float],
    load: Callable[[str, float, int], float],
    seeds: Sequence[int] = SEEDS,
) -> pd.DataFrame:
    """Return points: what is measured is a function of protocol, speed or interval, and seed."""
    axis, values = ("interval", INTERVALS) if study.endswith("load") else ("speed", SPEEDS)
    rows = []
    for protocol, value, seed in itertools.product(SCHEMES, values, seeds):
        late = delay(protocol, value, seed)
        rows.append(
            {
                "study": study,
                "protocol": protocol,
                axis: value,
                "seed": seed,
                "delivery_ratio": delivery(protocol, value, seed),
                "delay_mean": late,
                "delay_p50": late,
                "load_mean": load(protocol, value, seed),
                **{beside(other): late for other in SCHEMES},
            }
        )
    return pd.DataFrame(rows)


def as_published(study: str = "freeway", seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    """Return points that are as the paper says, with a little noise.

    Claims 8 and 14 exclude each other: it is 14 that does not hold, with a map.
    """
    rng = random.Random(1)

    def delivery(protocol: str, speed: float, seed: int) -> float:
        slope = 0.002 if sensitive(protocol) else 0.0005
        return DELIVERY[protocol] - slope * speed + rng.gauss(0, 0.001)

    def delay(protocol: str, speed: float, seed: int) -> float:
        return DELAY[protocol] * (1 + rng.gauss(0, 0.001)) + 0.001 * speed * sensitive(protocol)

    def load(protocol: str, value: float, seed: int) -> float:
        events = 100.0 * (10.0 / value if study.endswith("load") else 1.0)
        beacons = 200.0 if "gpsr" in protocol else 0.0
        return (beacons + events) * (1.1 if "rendezvous" in protocol else 1) + rng.gauss(0, 0.1)

    return table(study, delivery, delay, load, seeds)


def alike(study: str = "freeway") -> pd.DataFrame:
    """Return points at which all schemes are the same, but for a little noise."""
    rng = random.Random(2)
    return table(
        study,
        lambda *_: 0.6 + rng.gauss(0, 0.001),
        lambda *_: 0.02 * (1 + rng.gauss(0, 0.001)),
        lambda *_: 300.0 * (1 + rng.gauss(0, 0.001)),
    )


def at_odds(
    study: str = "freeway",
    delivered: Callable[[str], float] = lambda protocol: 0.5,
    delay: Callable[[str], float] = lambda protocol: 0.02,
    load: Callable[[str], float] = lambda protocol: 300.0,
) -> pd.DataFrame:
    """Return points whose means are given, and whose draws differ so widely that none decides.

    The deviations of a scheme add up to nothing over three seeds, at each speed and in each trend,
    and no two schemes have the same.
    """

    def deviation(protocol: str, value: float, seed: int) -> float:
        angle = SCHEMES.index(protocol) + 2 * math.pi * seed / len(SEEDS)
        return math.cos(angle) * (1 + value / 60)

    return table(
        study,
        lambda protocol, value, seed: delivered(protocol) + 0.2 * deviation(protocol, value, seed),
        lambda protocol, value, seed: delay(protocol) * math.exp(deviation(protocol, value, seed)),
        lambda protocol, value, seed: load(protocol) * math.exp(deviation(protocol, value, seed)),
    )

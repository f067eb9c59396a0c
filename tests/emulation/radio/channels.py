"""Small channels that the tests of the medium share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from emulation.radio.air import Transmission
from emulation.radio.delivery import Delivery, Status
from emulation.radio.medium import Medium
from emulation.radio.spec import RadioSpec

SIZE = 1000
"""Bytes of an Ethernet frame."""


def channel(
    positions: Sequence[tuple[float, float]], radio: RadioSpec | None = None, seed: int = 1
) -> Medium:
    """Return a medium with stations at `positions`; range 250 m, 802.11g by default."""
    medium = Medium(radio or RadioSpec(range=250), len(positions), random.Random(seed))
    medium.set_positions(positions)
    return medium


def drain(medium: Medium, until: float = 1e9) -> list[Delivery]:
    """Let everything that is under way happen; return the deliveries."""
    result = []
    while medium.next_event() <= until:
        result += medium.advance(medium.next_event())
    return result


def on_air(medium: Medium) -> list[Transmission]:
    """Return the list to which every frame that comes on the air from now on is added."""
    frames: list[Transmission] = []
    medium._air.watch = frames.append
    return frames


def into(told: list[Status]) -> Callable[[Status], bool]:
    """Return an `on_status` that adds to a list."""

    def add(status: Status) -> bool:
        told.append(status)
        return False

    return add


def saturate(
    medium: Medium, flows: dict[int, int], seconds: float, size: int = SIZE
) -> list[Delivery]:
    """Keep the senders of `flows` (sender: destination) busy; return the deliveries."""
    result: list[Delivery] = []
    now = 0.0
    number = 0
    while now <= seconds:
        for sender, destination in flows.items():
            while medium.backlog(sender) < 2:
                medium.transmit(now, sender, destination, size, number)
                number += 1
        now = medium.next_event()
        result += medium.advance(now)
    return result


def poisson(
    medium: Medium, flows: dict[int, int], rate: float, seconds: float, seed: int = 1
) -> list[Delivery]:
    """Have each sender of `flows` send `rate` frames a second; return the deliveries."""
    rng = random.Random(seed)
    times = sorted(
        (rng.uniform(0, seconds), sender) for sender in flows for _ in range(int(rate * seconds))
    )
    result: list[Delivery] = []
    for number, (time, sender) in enumerate(times):
        result += medium.advance(time)
        medium.transmit(time, sender, flows[sender], SIZE, number)
    return result + drain(medium)


def bianchi(stations: int, window: int, stages: int) -> float:
    """Return the collision probability of saturated stations (Bianchi 2000, equations 7 and 9).

    `window` is CWmin + 1, `stages` the number of its doublings.
    """

    def excess(p: float) -> float:
        geometric = sum((2 * p) ** stage for stage in range(stages))
        tau = 2 / (1 + window + p * window * geometric)
        return 1 - (1 - tau) ** (stations - 1) - p

    return _root(excess)


def _root(function: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low

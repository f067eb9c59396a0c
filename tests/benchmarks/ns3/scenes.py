"""Scenes in which media are compared: static stations, and lists of frames that both sides play."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Final

from emulation.radio.medium import BROADCAST, Medium
from emulation.radio.spec import NEVER, Propagation, RadioSpec
from tests.benchmarks.ns3.peer import FramesPlayed, FrameToSend

FREQUENCY: Final = 5180.0
RANGE: Final = 250.0
SIZE: Final = 1014
"""Bytes of an Ethernet frame with 1,000 bytes of payload."""
Positions = list[tuple[float, float]]


def radio(propagation: Propagation, retry_limit: int = 7, rts: bool = False) -> RadioSpec:
    """Return the radio: standard "g" above 4.9 GHz, the PHY of 802.11a; `rts`: every unicast."""
    return RadioSpec(
        range=RANGE,
        frequency_mhz=FREQUENCY,
        propagation=propagation,
        retry_limit=retry_limit,
        rts_threshold=0 if rts else NEVER,
    )


def play(
    spec: RadioSpec,
    positions: Sequence[tuple[float, float]],
    frames: Sequence[FrameToSend],
    until: float,
    mbps: float | None = None,
    seed: int = 1,
) -> FramesPlayed:
    """Play frames over static stations in our medium, unicasts at `mbps`: peer.play_frames."""
    fixed = spec if mbps is None else spec.model_copy(update={"data_rate_mbps": mbps})
    medium = Medium(fixed, len(positions), random.Random(seed))
    medium.set_positions(positions)
    played = FramesPlayed()

    def take(now: float) -> None:
        for delivery in medium.advance(now):
            for receiver in delivery.receivers:
                pair = delivery.source, receiver
                played.received[pair] = played.received.get(pair, 0) + 1

    for time, source, destination, size in frames:
        take(time)
        to = BROADCAST if destination < 0 else destination
        medium.transmit(time, source, to, size, None)
    take(until)
    played.sent = dict(enumerate(medium.counters.sent))
    return played


# Loss over distance.


def ray(ratios: Sequence[float], distance: float) -> Positions:
    """Return a sender at the origin and stations at multiples of `distance`."""
    return [(0.0, 0.0), *((ratio * distance, 0.0) for ratio in ratios)]


def apart(count: int, destinations: Sequence[int], interval: float = 0.004) -> list[FrameToSend]:
    """Return `count` frames of station 0 to each destination, far enough apart that none waits."""
    each = [to for _ in range(count) for to in destinations]
    return [FrameToSend(0.1 + interval * i, 0, to, SIZE) for i, to in enumerate(each)]


# Contention.


def circle(senders: int, radius: float = 5.0) -> Positions:
    """Return a receiver in the middle of `senders` stations."""
    angles = [2 * math.pi * i / senders for i in range(senders)]
    return [(0.0, 0.0), *((radius * math.cos(a), radius * math.sin(a)) for a in angles)]


def saturating(senders: int, total: float, seconds: float, size: int = SIZE) -> list[FrameToSend]:
    """Return frames to station 0, `total` a second in turn from all senders."""
    count = round(total * seconds)
    return [FrameToSend(i / total, 1 + i % senders, 0, size) for i in range(count)]


# Hidden terminals.

HIDDEN: Final[Positions] = [(0.0, 0.0), (-200.0, 0.0), (200.0, 0.0)]
"""B in the middle; A and C, 400 m apart, do not sense each other."""


def poisson(
    rate: float, seconds: float, size: int, broadcast: bool, seed: int = 1
) -> list[FrameToSend]:
    """Return frames from A and C, `rate` a second each."""

    def arrivals(source: int) -> Iterator[FrameToSend]:
        rng = random.Random(f"{seed}/{source}")
        time = rng.expovariate(rate)
        while time < seconds:
            yield FrameToSend(time, source, -1 if broadcast else 0, size)
            time += rng.expovariate(rate)

    return sorted([*arrivals(1), *arrivals(2)])


def hidden_broadcast_delivery(rate: float, airtime: float) -> float:
    """Return the share of broadcasts that B gets: C is silent, and stays so for one frame."""
    return (1 - rate * airtime) * math.exp(-rate * airtime)

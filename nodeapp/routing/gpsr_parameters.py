"""What is configurable in beacons and in GPSR; `nodeapp.routing.neighbours` and `gpsr` say why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nodeapp.parameters import Param


@dataclass(frozen=True)
class BeaconParameters:
    """Parameters of `Neighbours`."""

    hello_interval: Annotated[float, Param("s between beacons (B)", low=0.05, high=3600)] = 1.0
    hello_jitter: Annotated[float, Param("share of B, each way", low=0, high=0.9)] = 0.5
    hello_timeout: Annotated[
        float,
        Param("intervals B without a beacon after which a neighbour is gone", low=1, high=100),
    ] = 4.5
    prediction: Annotated[bool, Param("move neighbours on along their velocities")] = True
    beyond_range: Annotated[bool, Param("use neighbours heard beyond the radio range")] = False


@dataclass(frozen=True)
class GpsrParameters(BeaconParameters):
    """Parameters of `Gpsr`."""

    ttl: Annotated[int, Param("hops a frame may travel per trip", low=1, high=255)] = 128
    link_feedback: Annotated[
        bool, Param("the link layer reports frames that were not acknowledged (2.5)")
    ] = False
    withdraw_queue: Annotated[
        bool, Param("frames queued for a lost neighbour take another path, too (2.5)")
    ] = False
    piggyback: Annotated[bool, Param("data carry their sender's position (2.1)")] = False
    promiscuous: Annotated[
        bool, Param("take positions from data for others; data put off beacons (2.1)")
    ] = False
    replanarize: Annotated[
        str,
        Param(
            "planar graph renewed when positions change, or neighbours come or go (2.5)",
            choices=("positions", "neighbours"),
        ),
    ] = "positions"
    entry_counts: Annotated[
        bool,
        Param(
            "the node at which a frame entered perimeter mode may end that mode, and its edges "
            "may cross the line, once it has moved, as in the paper; no: neither"
        ),
    ] = False
    edges_once: Annotated[
        bool, Param("a frame that would take an edge of its face again has toured it")
    ] = False

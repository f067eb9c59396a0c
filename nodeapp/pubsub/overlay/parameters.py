"""Parameters of the overlays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.parameters import Param
from nodeapp.pubsub.overlay.tables import BITS, CELLS
from nodeapp.routing.aodv import AodvParameters

JOIN: Final = "join"
STATIC: Final = "static"
FORWARD: Final = "forward"
SPLIT: Final = "split"
DROP: Final = "drop"
FLOOD: Final = "flood"
BELIEVED: Final = 1.5
"""Heartbeat intervals of silence after which news that a peer has failed is believed."""


@dataclass(frozen=True)
class IdentifierParameters(AodvParameters):
    """What identifiers are made of; those of AODV count on radios only."""

    space: Annotated[
        str, Param("event space: name:low:high:cells for each attribute, commas between")
    ] = "stock:A:Z:25,price:0:1000:20"
    bits: Annotated[int, Param("bits of an identifier, d", low=16, high=65_536)] = 1024
    hashes: Annotated[int, Param("hash functions of a cell, K", low=1, high=64)] = 3
    settle: Annotated[
        float, Param("s after a change of subscriptions before others are told", low=0, high=60)
    ] = 0.3


@dataclass(frozen=True)
class HeartbeatParameters(IdentifierParameters):
    """Parameters of `mirinae`."""

    heartbeat_interval: Annotated[float, Param("s between heartbeats", low=0.1, high=36_000)] = 5.0
    heartbeat_timeout: Annotated[
        float, Param("s of silence after which a peer counts as failed", low=0.2, high=360_000)
    ] = 17.5


@dataclass(frozen=True)
class OverlayParameters(HeartbeatParameters):
    """Parameters of `semantic-overlay`."""

    discovery: Annotated[
        str,
        Param(
            "join by queries; or static: all peers tell all of themselves (N² messages)",
            choices=(JOIN, STATIC),
        ),
    ] = JOIN
    cover: Annotated[
        str,
        Param("what tables cover: bits of identifiers, or cells (loses nothing)",
              choices=(BITS, CELLS)),
    ] = BITS  # fmt: skip
    covering: Annotated[int, Param("covering links of a peer, c", low=1, high=64)] = 1
    messages: Annotated[
        str,
        Param(
            "forward: Forward messages all along; split: Multicast below and beside",
            choices=(FORWARD, SPLIT),
        ),
    ] = FORWARD
    search_hops: Annotated[
        int, Param("peers that look for a first one an event matches", low=1, high=200)
    ] = 64
    unmatched: Annotated[
        str, Param("an event that no search found a peer for: drop or flood", choices=(DROP, FLOOD))
    ] = DROP
    bootstrap: Annotated[str, Param("ids of peers that are asked first, commas between")] = "1"
    query_timeout: Annotated[
        float, Param("s to wait for the answer to a join query", low=0.05, high=600)
    ] = 2.0
    join_attempts: Annotated[
        int, Param("times that bootstrap peers are asked before giving up", low=1, high=1000)
    ] = 5
    join_rounds: Annotated[int, Param("join queries of a peer at most", low=1, high=1000)] = 16
    join_patience: Annotated[
        int, Param("answers in a row that cover no more, and end a join", low=1, high=1000)
    ] = 3
    requeries: Annotated[
        int, Param("times that a peer asks again for what is not covered", low=0, high=1000)
    ] = 2
    requery_interval: Annotated[float, Param("s before it asks again", low=0.1, high=36_000)] = 5.0

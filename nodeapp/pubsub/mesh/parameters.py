"""Parameters of the protocols of a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.parameters import Param
from nodeapp.routing.gpsr_parameters import GpsrParameters
from nodeapp.routing.spanning_tree import TreeParameters

SPANNING_TREE: Final = "spanning-tree"
FIXED: Final = "fixed"
PROBE_INTERVAL: Final = 10.0
"""Seconds between a client's probes (docs/papers.md#mesh-prediction, section V.B)."""


@dataclass(frozen=True)
class MeshParameters(TreeParameters, GpsrParameters):
    """What brokers and clients of a mesh have in common, whatever the protocol."""

    graph: Annotated[
        str,
        Param(
            "the brokers' acyclic graph: a self-maintaining tree, or one that follows from the map",
            choices=(SPANNING_TREE, FIXED),
        ),
    ] = SPANNING_TREE
    break_delay: Annotated[
        float, Param("s for which entries of a broken link of the graph stay", low=0, high=3600)
    ] = 5.0
    retry: Annotated[
        float, Param("s after which an update of tables is sent again, doubling", low=0.01, high=60)
    ] = 0.2
    table_limit: Annotated[
        int, Param("entries (pattern, neighbour) of a table at most", low=1, high=1_000_000)
    ] = 65_536
    delay: Annotated[
        float,
        Param("s between neighbouring brokers, for predictions; 0: measured", low=0, high=60),
    ] = 0.0
    report_retry: Annotated[
        float, Param("s after which a report or event of a client is repeated", low=0.05, high=60)
    ] = 0.5
    last_hop_retry: Annotated[
        float, Param("s after which a client is sent an event again", low=0.05, high=60)
    ] = 0.5
    last_hop_tries: Annotated[
        int, Param("brokers that look for a client that has an event due", low=1, high=200)
    ] = 8
    handover_retry: Annotated[
        float, Param("s after which a handover is asked for again, doubling", low=0.05, high=60)
    ] = 1.0
    handover_patience: Annotated[
        float, Param("s after which an old broker that is silent is given up", low=1, high=86_400)
    ] = 60.0
    buffer: Annotated[
        int, Param("events that a broker keeps for a client at most", low=1, high=1_000_000)
    ] = 4096
    lease: Annotated[
        float, Param("s after which a client that is silent is forgotten", low=10, high=604_800)
    ] = 3600.0
    probe_interval: Annotated[
        float, Param("s between a client's probes; 0: no probes", low=0, high=86_400)
    ] = 0.0
    silence: Annotated[
        float,
        Param(
            "s without an event after which a client probes, and the third time reports; 0: never",
            low=0,
            high=86_400,
        ),
    ] = 0.0
    deviation: Annotated[
        float,
        Param("m off its reported path from which a client reports again; 0: never", low=0),
    ] = 0.0


@dataclass(frozen=True)
class ProbingParameters(MeshParameters):
    """As `MeshParameters`, with probes."""

    probe_interval: Annotated[
        float, Param("s between a client's probes; 0: no probes", low=0, high=86_400)
    ] = PROBE_INTERVAL

"""The scenario of the evaluation: as published, and what the copy leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from emulation.scenario.scenario import Scenario
from topologies.catalog import make_scenario

TOPOLOGY: Final = "roaming_field"
FLOODING: Final = "flooding"
TREE: Final = "subscription-forwarding"
MIX: Final = "semi-probabilistic"
PROTOCOLS: Final = (FLOODING, TREE, MIX)

SETTINGS: Final[Mapping[str, str]] = {
    "nodes": "200",
    "side": "2000",
    "range": "250",
    "speed": "2",
    "workload": "content",
    "arrivals": "poisson",
    "publishers": "5",
    "subscribers": "25",
    "patterns": "100",
    "interval": "2",
}
"""Nodes, side, range and speed are the paper's.  It leaves open who publishes and who subscribes to
what: 5 publishers with an event every 2 s each, 25 subscribers to 2 of 100 patterns each."""


def scenario(protocol: str, seed: int, duration: float, settings: Mapping[str, str]) -> Scenario:
    """Return the scenario with some settings changed; `duration` in seconds."""
    return make_scenario(
        TOPOLOGY, protocol, seed=seed, duration=duration, settings={**SETTINGS, **settings}
    )

"""For what scenarios are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from emulation.scenario.faults import Kind
from emulation.scenario.scenario import Scenario
from nodeapp.pubsub.base import Service

FEWEST, MOST = 2, 12
"""Nodes of a scenario."""
STRANGER: Final = "stranger"
FAULTS: Final[tuple[Kind, ...]] = (
    *("crash", "radio", "link", "partition", "disturb", "jam", "position", "clock"),
)
"""Kinds of faults that are drawn unless others are asked for."""
DRAWN: Final[tuple[Kind, ...]] = (*FAULTS, "stranger")
"""Those that can be asked for."""


@dataclass(frozen=True)
class Design:
    """A protocol, the class of its service, from how many nodes to how many, and what fails."""

    protocol: str
    service: type[Service]
    nodes: tuple[int, int] = (FEWEST, MOST)
    faults: tuple[Kind, ...] = FAULTS
    base: Callable[[int, int], Scenario] | None = None
    """Returns a topology's scenario for a number of nodes and a seed; None: networks are drawn."""
    frames: tuple[bytes, ...] = field(default=(), repr=False)
    """Recorded datagrams that a stranger forges his from; none: there is no stranger."""

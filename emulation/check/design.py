"""For what scenarios are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from nodeapp.pubsub.base import Service

FEWEST, MOST = 2, 12
"""Nodes of a scenario."""


@dataclass(frozen=True)
class Design:
    """A protocol, the class of its service, and from how many nodes to how many."""

    protocol: str
    service: type[Service]
    nodes: tuple[int, int] = (FEWEST, MOST)

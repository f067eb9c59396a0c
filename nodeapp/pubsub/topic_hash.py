"""From a topic to where its decision point is."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from nodeapp.geometry import Point
from nodeapp.wire import ANY_NODE


class Target(NamedTuple):
    """What a topic hashes to: a node id, or ANY_NODE and a location."""

    node: int
    location: Point


class LocationHash:
    """Hashes topics uniformly to coordinates of the area (x0, y0, x1, y1), metres.

    H_x and H_y of section C's paper (3.3) are the two halves of a SHA-256 digest.
    """

    def __init__(self, area: tuple[float, float, float, float]) -> None:
        self._area = area

    def __call__(self, topic: str) -> Target:
        """Return the location that the topic hashes to."""
        digest = hashlib.sha256(topic.encode()).digest()
        x0, y0, x1, y1 = self._area
        share_x = int.from_bytes(digest[:8], "big") / 2**64
        share_y = int.from_bytes(digest[8:16], "big") / 2**64
        return Target(ANY_NODE, (x0 + share_x * (x1 - x0), y0 + share_y * (y1 - y0)))

"""From a topic to where its decision point is.

The source has three hash functions, one class each here: to a node id, to a coordinate, and to the
waypoint of a road map that is nearest to the coordinate.  A fourth, to a cell, is that of cell hash
routing, to which the source compares itself in its section 6.

Sources: docs/papers.md#six-schemes, sections 3.3 and 3.6; docs/papers.md#cell-hash-routing.
"""

from __future__ import annotations

import abc
import hashlib
import math
from typing import ClassVar, Final, NamedTuple

from nodeapp.geometry import Point, squared_distance
from nodeapp.pubsub.base import Environment
from nodeapp.wire import ANY_NODE

NOWHERE: Final[Point] = (0.0, 0.0)
"""The location of a target that is a node id."""
MAX_KNOWN: Final = 4096
"""Most topics whose waypoint is remembered."""


class Target(NamedTuple):
    """What a topic hashes to: a node id, or ANY_NODE and a location."""

    node: int
    location: Point


class TopicHash(abc.ABC):
    """A hash function that all nodes of an environment share."""

    needs_map: ClassVar[bool] = False
    needs_nodes: ClassVar[bool] = False

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    @abc.abstractmethod
    def __call__(self, topic: str) -> Target:
        """Return what the topic hashes to."""


def _digest(topic: str) -> tuple[int, int]:
    """Return two numbers of 64 bits: the first 16 bytes of a SHA-256 digest."""
    digest = hashlib.sha256(topic.encode()).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:16], "big")


def hashed_location(text: str, area: tuple[float, float, float, float]) -> Point:
    """Return the point of an area (x0, y0, x1, y1), metres, that a text hashes to, uniformly."""
    hash_x, hash_y = _digest(text)
    x0, y0, x1, y1 = area
    return x0 + hash_x / 2**64 * (x1 - x0), y0 + hash_y / 2**64 * (y1 - y0)


def replica_location(topic: str, replica: int, area: tuple[float, float, float, float]) -> Point:
    """Return the point that a topic and the number of a replica hash to, metres.

    That of replica 0 is that of the topic alone.  (docs/papers.md#georendezvous, section 2.3.)
    """
    return hashed_location(f"{topic}\0{replica}" if replica else topic, area)


class LocationHash(TopicHash):
    """Hashes topics uniformly to coordinates of the area: H_x and H_y of 3.3."""

    def __call__(self, topic: str) -> Target:
        return Target(ANY_NODE, hashed_location(topic, self._environment.area))


class CellHash(LocationHash):
    """Hashes topics to the middle of the cell that the coordinate of `LocationHash` lies in.

    Cells are squares with sides of the radio range over 2 sqrt(2), so that nodes in cells that
    touch hear each other; the rows and columns at the far edges of the area may be narrower.
    """

    def __call__(self, topic: str) -> Target:
        """Return the middle of the cell that the topic hashes to."""
        _, (x, y) = super().__call__(topic)
        x0, y0, x1, y1 = self._environment.area
        side = self._environment.radio_range / math.sqrt(8)
        return Target(ANY_NODE, (_middle(x, x0, x1, side), _middle(y, y0, y1, side)))


def _middle(value: float, low: float, high: float, side: float) -> float:
    """Return the middle of the interval of length `side`, counted from `low`, around a value."""
    start = low + (value - low) // side * side
    return (start + min(start + side, high)) / 2


class WaypointHash(LocationHash):
    """Hashes topics to the waypoint nearest to the coordinate that `LocationHash` gives (3.6)."""

    needs_map = True

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self._known: dict[str, Target] = {}

    def __call__(self, topic: str) -> Target:
        """Return the waypoint that the topic hashes to; of two equally near, the western one."""
        target = self._known.get(topic)
        if target is None:
            _, location = super().__call__(topic)
            nearest = min(
                self._environment.waypoints,
                key=lambda waypoint: (squared_distance(waypoint, location), waypoint),
            )
            target = Target(ANY_NODE, nearest)
            if len(self._known) < MAX_KNOWN:
                self._known[topic] = target
        return target


class NodeHash(TopicHash):
    """Hashes topics uniformly to node ids (3.3, "node-based technique").

    The paper's node with the id closest to the hashed value is that id itself: the hash has the
    range of the ids, 1 to `Environment.nodes`, and all of them are in use.
    """

    needs_nodes = True

    def __call__(self, topic: str) -> Target:
        value, _ = _digest(topic)
        return Target(1 + value * self._environment.nodes // 2**64, NOWHERE)

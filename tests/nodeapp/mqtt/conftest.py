"""Nodes in two namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.nodeapp.lab import until
from tests.nodeapp.mqtt.lab import Node


@pytest.fixture
def start(pair: list[int]) -> Iterator[Callable[..., Node]]:
    """Yield a function that starts a node, 1 or 2, and waits until it serves."""
    started: list[Node] = []

    def make(node_id: int, protocol: str, *more: str) -> Node:
        where = (100 * (node_id - 1), 0)
        position = f"--position={where[0]},{where[1]}"
        node = Node(pair[node_id - 1], node_id, protocol, position, "--mqtt", *more)
        started.append(node)
        until(lambda: "mqtt:" in node.status())
        return node

    yield make
    for each in started:
        each.kill()

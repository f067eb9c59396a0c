"""Nodes in two namespaces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from emulation.network.warm import Warm
from nodeapp.installation import PROJECT
from tests.nodeapp.lab import until
from tests.nodeapp.mqtt.lab import Node

MODULES = ("nodeapp.__main__", "nodeapp.pubsub.flooding", "nodeapp.mqtt.front")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A process that has loaded the modules of nodes."""
    with (tmp_path_factory.mktemp("warm") / "log").open("wb") as log:
        process = Warm(MODULES, os.environ | {"PYTHONPATH": str(PROJECT)}, log)
    yield process
    process.close()


@pytest.fixture
def start(pair: list[int], warm: Warm, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Yield a function that starts a node, 1 or 2, and waits until it serves."""
    started: list[Node] = []

    def make(node_id: int, protocol: str, *more: str) -> Node:
        where = (100 * (node_id - 1), 0)
        position = f"--position={where[0]},{where[1]}"
        log = tmp_path / f"node{node_id}.log"
        node = Node(warm, log, pair[node_id - 1], node_id, protocol, position, "--mqtt", *more)
        started.append(node)
        until(lambda: "mqtt:" in node.status())
        return node

    yield make
    for each in started:
        each.kill()

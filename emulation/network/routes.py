"""Shortest paths for the kernels of all nodes: the bound that a routing protocol is measured by.

    python -m emulation.network.routes CONFIG.json

with {"nodes": [{"name", "pid", "interface", "address"}], "medium": control socket, "ready": path,
"brokers": {access point: its broker}}.  Every `INTERVAL` it asks the medium who hears whom and
gives every node a route to every other that it can reach, over the links that cost least; it
touches `ready` as a sign of life.  Nobody sends a frame for that.

Behind access points stations have one link, to the broker of their own; brokers are linked as their
access points hear each other over the mesh.  A station that changes its access point keeps its
address, and its connections.

The cost of a link is its expected number of transmissions: 1 over the share of frames that arrive
(ETX; De Couto et al., "A High-Throughput Path Metric for Multi-Hop Wireless Routing", MobiCom
2003).  The medium reports the loss in one direction; both are alike.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np

from capture.namespaces import network_namespace
from emulation.media import rtnetlink
from emulation.media.control import ask
from emulation.network.helper import run_helper
from emulation.scenario.access_point import MESH_CHANNEL

INTERVAL: Final = 0.5
"""Seconds between two looks at the links: at 20 m/s nodes move 10 m."""
WORST: Final = 0.99
"""Loss above which nobody routes over a link."""
DEVICE_DOWN: Final = (errno.ENETDOWN, errno.ESRCH)
"""Errors for routes of a device that is down: the kernel has forgotten those that there were."""


def next_hops(count: int, links: Sequence[tuple[int, int, float]]) -> dict[tuple[int, int], int]:
    """Return the next hop from each node to each other that it reaches: (from, to) to a node.

    Nodes are numbers below `count`; links are (node, node, loss of a frame).  NumPy alone, as the
    virtual machine has no SciPy.
    """
    costs = np.full((count, count), np.inf)
    np.fill_diagonal(costs, 0.0)
    hops = np.tile(np.arange(count), (count, 1))
    through, shorter = np.empty_like(costs), np.empty(costs.shape, dtype=bool)
    for one, other, loss in links:
        if loss < WORST:
            costs[one, other] = costs[other, one] = 1 / (1 - loss)
    for via in range(count):  # Floyd, "Algorithm 97: Shortest Path", CACM 5 (6), 1962
        np.add(costs[:, via, np.newaxis], costs[via], out=through)
        np.less(through, costs, out=shorter)
        np.copyto(costs, through, where=shorter)
        np.copyto(hops, hops[:, via, np.newaxis], where=shorter)
    nodes, others = np.nonzero(np.isfinite(costs) & ~np.eye(count, dtype=bool))
    reached = zip(nodes.tolist(), others.tolist(), hops[nodes, others].tolist(), strict=True)
    return {(node, to): hop for node, to, hop in reached}


def links_between(
    medium: Path, numbers: Mapping[str, int], brokers: Mapping[str, str]
) -> list[tuple[int, int, float]] | None:
    """Return the links that packets can take as `next_hops` wants them, each in one direction.

    `numbers` are those of the nodes by name; `brokers` are those of access points, empty without.
    None if the medium is about to end.  Raises OSError.
    """
    answer = ask(medium, {"op": "links"})
    if "links" not in answer:
        return None
    links = [
        (brokers.get(x["name"], x["name"]), brokers.get(x["neighbour"], x["neighbour"]), x["loss"])
        for x in answer["links"]
        if not brokers or x.get("channel") == MESH_CHANNEL
    ]
    if brokers:
        points = ask(medium, {"op": "associations"}).get("associations")
        if points is None:
            return None
        links += [(name, brokers[point], 0.0) for name, point in points.items() if point]
    ends = [(numbers[one], numbers[other], loss) for one, other, loss in links]
    losses = {(min(one, other), max(one, other)): loss for one, other, loss in ends}
    return [(*pair, loss) for pair, loss in losses.items()]


class Routes:
    """The routes of all nodes; `nodes` as in the configuration."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]]) -> None:
        self._nodes = nodes
        self.numbers = {node["name"]: number for number, node in enumerate(nodes)}
        self._hops: dict[tuple[int, int], int] = {}
        self._turn = 0
        self._index = []
        for node in nodes:
            with network_namespace(node["pid"]):
                self._index.append(socket.if_nametoindex(node["interface"]))

    def update(self, links: Sequence[tuple[int, int, float]]) -> None:
        """Change the routes that differ from the last ones.  Raises OSError.

        One node in turn gets all of its routes anew: a device that was down has lost them.
        """
        hops = next_hops(len(self._nodes), links)
        self._turn = (self._turn + 1) % len(self._nodes)
        requests: dict[int, list[bytes]] = {}
        for node, to in {*hops, *self._hops}:
            hop = hops.get((node, to))
            if hop != self._hops.get((node, to)) or node == self._turn:
                address = self._nodes[to]["address"]
                gateway = None if hop in (None, to) else self._nodes[hop]["address"]
                index = self._index[node]
                requests.setdefault(node, []).append(
                    rtnetlink.no_route(index, address)
                    if hop is None
                    else rtnetlink.route(index, address, gateway)
                )
        for node, batch in requests.items():
            with network_namespace(self._nodes[node]["pid"]):
                try:
                    rtnetlink.send(batch, "routes")
                except OSError as error:
                    if error.errno not in DEVICE_DOWN:
                        raise
        self._hops = hops


def main() -> int:
    """Keep the routes of a configuration file."""
    return run_helper("routes", _serve)


def _serve(config: Mapping[str, Any]) -> NoReturn:
    routes, ready = Routes(config["nodes"]), Path(config["ready"])
    while True:
        links = links_between(Path(config["medium"]), routes.numbers, config["brokers"])
        if links is not None:
            routes.update(links)
            ready.touch()
        time.sleep(INTERVAL)


if __name__ == "__main__":
    sys.exit(main())

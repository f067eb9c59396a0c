"""Spanning trees on graphs whose links are the test's, under a virtual clock."""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from nodeapp import wire
from nodeapp.client_port import ClientTable
from nodeapp.routing.spanning_tree import SpanningTree, TreeParameters
from tests.nodeapp.network import SimHost, SimNetwork, create_service

Link = tuple[int, int]
INTERVAL = 1.0
"""B, seconds: the default."""


class TreeHost(SimHost):
    """A node that is a part of a tree and nothing else."""

    def __init__(self, network: SimNetwork, node_id: int, parameters: TreeParameters) -> None:
        super().__init__(network, node_id, (0.0, 0.0))
        self.counters: Counter[str] = Counter()
        self.calls: list[tuple[str, int]] = []
        self.tree = SpanningTree(
            self,
            parameters,
            250.0,
            self.counters,
            lambda neighbour: self.calls.append(("up", neighbour)),
            lambda neighbour: self.calls.append(("down", neighbour)),
            lambda neighbour, _: self.calls.append(("failed", neighbour)),
        )

    def hear(self, datagram: bytes, sender: int) -> None:
        if self.failed:
            return
        frame = wire.decode(datagram)
        try:
            self.tree.handlers[frame.kind](frame, sender)
        except wire.WireError:
            self.counters["malformed"] += 1


class GraphNetwork(SimNetwork):
    """Nodes 1 to `count`; links of the radio are those in `links`, in both directions."""

    def __init__(self, links: Iterable[Link] = (), *, seed: int = 0, loss: float = 0.0) -> None:
        super().__init__(seed=seed, loss=loss)
        self.links: set[frozenset[int]] = {frozenset(link) for link in links}

    def in_range(self, one: SimHost, other: SimHost) -> bool:
        return frozenset((one.node_id, other.node_id)) in self.links

    def connect(self, *links: Link) -> None:
        self.links |= {frozenset(link) for link in links}

    def cut(self, *links: Link) -> None:
        self.links -= {frozenset(link) for link in links}

    def neighbours(self, node: int) -> set[int]:
        return {n for link in self.links if node in link for n in link if n != node}

    def alive(self) -> list[int]:
        return [node for node, host in self.nodes.items() if not host.failed]

    def parts(self) -> list[set[int]]:
        """Return the nodes of each connected part."""
        return parts_of(
            self.alive(), lambda n: {m for m in self.neighbours(n) if not self.nodes[m].failed}
        )

    def add_services(self, count: int, protocol: str, **parameters: Any) -> None:
        for node in range(1, count + 1):
            host = SimHost(self, node, (0.0, 0.0))
            host.service = create_service(protocol, host, parameters, self.environment)
            host.clients = ClientTable(host, host.service, host.to_client, dict)
            self.nodes[node] = host
            host.clients.start()
            host.service.start()


class TreeNetwork(GraphNetwork):
    """A graph whose nodes are parts of a tree."""

    def __init__(
        self,
        count: int,
        links: Iterable[Link] = (),
        *,
        seed: int = 0,
        loss: float = 0.0,
        **parameters: Any,
    ) -> None:
        super().__init__(links, seed=seed, loss=loss)
        self.parameters = TreeParameters(**parameters)
        self.hosts: dict[int, TreeHost] = {}
        for node in range(1, count + 1):
            self.restart(node)

    def restart(self, node: int) -> None:
        """Start a node that knows nothing."""
        if node in self.hosts:
            self.hosts[node].failed = True
        host = self.hosts[node] = TreeHost(self, node, self.parameters)
        self.nodes[node] = host
        host.tree.start()

    def tree_links(self) -> set[frozenset[int]]:
        """Return the links that both ends use."""
        return tree_links({node: self.hosts[node].tree for node in self.alive()})

    def parent_circle(self, *, there: bool = True) -> bool:
        """Return whether the parents of some nodes are in a circle.

        A link that has broken carries nothing, and nobody knows of it yet: `there` leaves aside
        parents that are out of reach.
        """
        for start in self.alive():
            node = start
            for _ in self.hosts:
                child, node = node, self.hosts[node].tree.place.parent
                if not node or self.hosts[node].failed:
                    break
                if there and frozenset((child, node)) not in self.links:
                    break
            else:
                return True
        return False

    def check(self) -> None:
        """Assert that there is one tree for each connected part."""
        links = self.tree_links()
        assert links <= self.links
        for part in self.parts():
            inside = {link for link in links if link <= part}
            assert len(inside) == len(part) - 1, (part, inside)
            assert spans(inside, part)
            for node in part:
                tree = self.hosts[node].tree
                assert tree.place.root == min(part)
                assert tree.links == {n for link in links if node in link for n in link - {node}}

    def bound(self) -> float:
        """Return the seconds in which the tree is there after the last change."""
        timeouts = max(self.parameters.hello_timeout, self.parameters.root_timeout)
        far = max(self.eccentricity(part) for part in self.parts())
        return self.parameters.hello_interval * (timeouts + 1.5 * (far + 3))

    def eccentricity(self, part: set[int]) -> int:
        """Return the hops of the longest shortest path within a part."""
        return max(max(self._hops(start).values()) for start in part)

    def _hops(self, start: int) -> dict[int, int]:
        hops, waiting = {start: 0}, deque([start])
        while waiting:
            node = waiting.popleft()
            for other in self.neighbours(node):
                if other not in hops and not self.nodes[other].failed:
                    hops[other] = hops[node] + 1
                    waiting.append(other)
        return hops


def tree_links(trees: dict[int, SpanningTree]) -> set[frozenset[int]]:
    """Return the links that both ends use."""
    return {
        frozenset((node, other))
        for node, tree in trees.items()
        for other in tree.links
        if other in trees and node in trees[other].links
    }


def parts_of(nodes: Iterable[int], neighbours: Callable[[int], set[int]]) -> list[set[int]]:
    """Return the nodes of each connected part of a graph."""
    found, left = [], set(nodes)
    while left:
        part, waiting = set(), [min(left)]
        while waiting:
            node = waiting.pop()
            if node not in part:
                part.add(node)
                waiting += neighbours(node) - part
        found.append(part)
        left -= part
    return found


def spans(links: set[frozenset[int]], nodes: set[int]) -> bool:
    """Return whether links join all of the nodes."""
    return parts_of(nodes, lambda n: {m for link in links if n in link for m in link - {n}}) == [
        nodes
    ]


def has_cycle(links: set[frozenset[int]], nodes: Iterable[int]) -> bool:
    nodes = list(nodes)
    parts = parts_of(nodes, lambda n: {m for link in links if n in link for m in link - {n}})
    return len(links) != len(nodes) - len(parts)


def random_links(count: int, rng: random.Random, degree: float) -> set[Link]:
    """Return links of a random graph of a mean degree."""
    pairs = itertools.combinations(range(1, count + 1), 2)
    return {pair for pair in pairs if rng.random() < degree / max(1, count - 1)}


def connected_links(count: int, rng: random.Random, extra: int) -> set[Link]:
    """Return links of a random connected graph: of a random tree, and some more."""
    links = {(rng.randrange(1, node), node) for node in range(2, count + 1)}
    if count > 1:
        for _ in range(extra):
            one, other = sorted(rng.sample(range(1, count + 1), 2))
            links.add((one, other))
    return links

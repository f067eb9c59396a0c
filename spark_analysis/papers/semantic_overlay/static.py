"""The static setting: every peer has built its table from the whole network, by Algorithms 1 and 2.

Peers, subscriptions and quotes are those of `emulation.workloads.stock`, tables those of
`nodeapp.pubsub.overlay.tables`, and an event goes where `nodeapp.pubsub.overlay.peer` sends it,
all links being equally fast.  So a network of 4,000 peers takes seconds and no messages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, NamedTuple

from emulation.workloads.stock import PARETO, UNIFORM, StockWorkload
from nodeapp.events import Filter
from nodeapp.pubsub.overlay.identifiers import (
    SHARED,
    SHARED_BIT,
    cell_bits,
    covers,
    distance,
    identifier,
)
from nodeapp.pubsub.overlay.space import Space
from nodeapp.pubsub.overlay.tables import (
    BITS,
    OverlayTable,
    Peer,
    choose_in_order,
    matches,
    uncovered,
    with_shared,
)
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS, EVENTS, SPACE, STOCKS

SEARCH_HOPS: Final = 64


class Population(NamedTuple):
    """Peers 1 to n, and the filters of each, `filters[0]` being those of peer 1."""

    peers: list[Peer]
    filters: list[list[Filter]]


def population(
    nodes: int, workload: StockWorkload, space: Space, hashes: int, rng: random.Random
) -> Population:
    """Return peers with random ids and interests."""
    drawn = workload.filters(rng)
    peers, filters = [], []
    for node in range(1, nodes + 1):
        interests = [Filter.decode([*map(list, next(drawn))]) for _ in range(workload.interests)]
        cells = frozenset().union(*(space.filter_cells(interest) for interest in interests))
        mine = identifier(cells, BITS_OF_IDS, hashes)
        peers.append(Peer(node, rng.getrandbits(64), mine, with_shared(cells)))
        filters.append(interests)
    return Population(peers, filters)


def rings(peers: Sequence[Peer]) -> dict[int, list[int]]:
    """Return the rings of peers by the node of their primary peer, which was there first."""
    first: dict[tuple[int, frozenset[int]], int] = {}
    by_primary: dict[int, list[int]] = {}
    for peer in peers:
        primary = first.setdefault((peer.identifier, peer.cells), peer.node)
        by_primary.setdefault(primary, []).append(peer.node)
    return by_primary


@dataclass
class Spread:
    """Where an event went: overlay hops by node, who merely searched, and the messages sent."""

    hops: dict[int, int] = field(default_factory=dict)
    searched: list[int] = field(default_factory=list)
    messages: int = 0


class StaticOverlay:
    """The tables of all peers; `unit` is what they cover, `covering` how many covering links.

    `restart` is as in `nodeapp.pubsub.overlay.tables.both_ways`.
    """

    def __init__(
        self, peers: Sequence[Peer], *, covering: int = 1, unit: str = BITS, restart: bool = True
    ) -> None:
        self.unit = unit
        self.peers = {peer.node: peer for peer in peers}
        self.rings = rings(peers)
        self.ring_of = {node: ring for ring in self.rings.values() for node in ring}
        primaries = sorted((self.peers[node] for node in self.rings), key=lambda peer: peer.order)
        self.tables: dict[int, OverlayTable] = {}
        self.links: dict[int, set[int]] = {peer.node: set() for peer in primaries}
        for index, peer in enumerate(primaries):
            ordered = [*primaries[index + 1 :], *primaries[:index]]
            table = choose_in_order(peer, ordered, covering=covering, unit=unit, restart=restart)
            self.tables[peer.node] = table
            for node in table.nodes:
                self.links[peer.node].add(node)
                self.links[node].add(peer.node)

    def spread(self, publisher: int, bits: int, cell: int, *, flood: bool = False) -> Spread:
        """Return where an event goes that a peer publishes; `bits` is its identifier."""
        spread = Spread({publisher: 0})
        first = self._first(publisher, bits, cell, spread)
        if first is None:
            if flood:
                self._fan_out(publisher, None, cell, spread)
            return spread
        self._fan_out(first, bits, cell, spread)
        return spread

    def _first(self, publisher: int, bits: int, cell: int, spread: Spread) -> int | None:
        """Return the peer from which the event spreads, as a search from the publisher finds it."""
        here, hops, way = publisher, 0, [publisher]
        visited = {publisher}
        cells = frozenset((cell, SHARED))
        while True:
            peer = self.peers[here]
            if matches(peer, bits, cell, self.unit):
                return here
            links = self._links(here)
            if any(matches(self.peers[node], bits, cell, self.unit) for node in links):
                return here
            unvisited = [
                (distance(bits, cells, candidate.identifier, candidate.cells, BITS_OF_IDS), node)
                for node in links
                if node not in visited
                for candidate in [self.peers[node]]
            ]
            if len(visited) > SEARCH_HOPS or (not unvisited and len(way) < 2):
                return None
            if unvisited:
                here = min(unvisited)[1]
                way.append(here)
            else:
                way.pop()
                here = way[-1]
            hops += 1
            spread.messages += 1
            if here not in visited:
                visited.add(here)
                spread.searched.append(here)
                spread.hops[here] = hops

    def _links(self, node: int) -> set[int]:
        """Return the peers that a search can go on to: links, or the primary peer of the ring."""
        return self.links[node] if node in self.links else {self.ring_of[node][0]}

    def _fan_out(self, first: int, bits: int | None, cell: int, spread: Spread) -> None:
        """Send an event to all links that match, hop by hop; to all links if `bits` is None."""
        hops, peers, unit = spread.hops, self.peers, self.unit
        begin = hops[first]
        frontier, depth, seen = [first], begin, {first}
        while frontier:
            depth += 1
            reached = []
            for node in frontier:
                ring = self.ring_of[node]
                onward = list(self.links.get(node, ()))
                if bits is not None:
                    onward = [to for to in onward if matches(peers[to], bits, cell, unit)]
                if len(ring) > 1 and (bits is None or matches(peers[node], bits, cell, unit)):
                    onward.append(ring[(ring.index(node) + 1) % len(ring)])
                spread.messages += len(onward)
                for to in onward:
                    if to not in seen:
                        seen.add(to)
                        hops.setdefault(to, depth)
                        reached.append(to)
            frontier = reached


class Quotes:
    """Events of a workload over a population, with the nodes that want each."""

    def __init__(self, workload: StockWorkload, population: Population, rng: random.Random) -> None:
        self._workload = workload
        self._law = workload.quote_law()
        self._rng = rng
        self._nodes = len(population.peers)
        self._by_stock: dict[Any, list[tuple[int, Filter]]] = {}
        for node, filters in enumerate(population.filters, start=1):
            for interest in filters:
                stock = interest.predicates[0].value
                self._by_stock.setdefault(stock, []).append((node, interest))

    def draw(self, count: int) -> Iterator[tuple[int, Mapping[str, Any], set[int]]]:
        """Yield publisher, attributes and the other nodes that want the event."""
        for _ in range(count):
            publisher = self._rng.randint(1, self._nodes)
            event = self._workload.quote(self._law, self._rng)
            wanting = {
                node
                for node, interest in self._by_stock.get(event["stock"], ())
                if node != publisher and interest.matches(event)
            }
            yield publisher, event, wanting


def uncovered_share(overlay: StaticOverlay) -> float:
    """Return the share of a peer's bits, the shared one left out, that its chosen links lack."""
    return fmean(
        (left & ~SHARED_BIT).bit_count() / max((me.identifier & ~SHARED_BIT).bit_count(), 1)
        for node, table in overlay.tables.items()
        for me in [overlay.peers[node]]
        for left in [uncovered(me, [overlay.peers[to] for to in table.nodes])]
    )


def cause(peer: Peer, bits: int, cell: int) -> str:
    """Return why a peer gets an event that none of its filters matches.

    `grid`: its cell is one of the peer's, only part of which its filters ask for; `bloom`: all of
    its bits are the peer's by a collision; `forwarding`: neither, the peer only passes it on.
    """
    if cell in peer.cells:
        return "grid"
    return "bloom" if covers(peer.identifier, bits) else "forwarding"


def static(
    nodes: int,
    seed: int,
    alpha: float = 0.0,
    hashes: int = 3,
    cover: str = BITS,
    unmatched: str = "drop",
    covering: int = 1,
    quotes: int = EVENTS,
    restart: bool = True,
) -> dict[str, float]:
    """Return what figures 2 to 4 show of one network; `alpha` 0 is the uniform law.

    `restart` is as in `nodeapp.pubsub.overlay.tables.both_ways`.
    """
    rng = random.Random(f"{seed}/{nodes}")
    law = PARETO if alpha else UNIFORM
    workload = StockWorkload(stocks=STOCKS, law=law, alpha=alpha or 1.0)
    space = Space(SPACE)
    drawn = population(nodes, workload, space, hashes, rng)
    overlay = StaticOverlay(drawn.peers, covering=covering, unit=cover, restart=restart)
    made_up = Quotes(workload, drawn, rng)
    depths: list[int] = []
    causes = {"grid": 0, "bloom": 0, "forwarding": 0}
    wanted_in_all = missing = received = messages = events = 0
    deepest: list[int] = []
    for publisher, event, wanting in made_up.draw(min(quotes, 10 * nodes)):
        cell = space.cell(event)
        bits = SHARED_BIT | cell_bits(cell, BITS_OF_IDS, hashes)
        spread = overlay.spread(publisher, bits, cell, flood=unmatched == "flood")
        events += 1
        messages += spread.messages
        got = spread.hops.keys() - {publisher}
        received += len(got)
        wanted_in_all += len(wanting)
        missing += len(wanting - got)
        reached = [spread.hops[node] for node in wanting & got]
        depths += reached
        if reached:
            deepest.append(max(reached))
        for node in got - wanting:
            causes[cause(overlay.peers[node], bits, cell)] += 1
    tables = [len(table.nodes) for table in overlay.tables.values()]
    links = [len(linked) for linked in overlay.links.values()]
    return {
        "depth": fmean(depths) if depths else float("nan"),
        "deepest": fmean(deepest) if deepest else float("nan"),
        "table": fmean(tables),
        "table_most": max(tables),
        "links": fmean(links),
        "links_most": max(links),
        "bound": 2 * BITS_OF_IDS + covering,
        "uncovered": uncovered_share(overlay),
        "false_positives": sum(causes.values()) / max(received, 1),
        **{f"by_{name}": number / max(received, 1) for name, number in causes.items()},
        "false_negatives": missing / max(wanted_in_all, 1),
        "event_messages": messages / events,
        "interested": wanted_in_all / events,
        "rings": sum(len(ring) > 1 for ring in overlay.rings.values()),
    }

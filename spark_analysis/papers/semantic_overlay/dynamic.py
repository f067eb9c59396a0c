"""The dynamic setting: peers join at random times, by the protocol itself under the virtual clock.

Nothing that is reported comes from the peers' own records: joins, links and paths of events are
read from what every host sent, as it would be captured, and deliveries from notifications of
clients.  What a table covers follows from the LINK messages and the peers' subscriptions.
Heartbeats are left out: no peer leaves or fails, as in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from emulation.workloads.base import Operation
from emulation.workloads.stock import RANDOM, START, StockWorkload
from nodeapp import wire
from nodeapp.events import Filter
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, identifier
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.overlay.space import Space
from nodeapp.pubsub.overlay.tables import BITS, CELLS, bound
from spark_analysis.papers.semantic_overlay.setting import BITS_OF_IDS, EVENTS, SPACE, STOCKS
from topologies.stock_peers import StockPeers

JOINS: Final = 20.0
"""Peers that join in a second, on average."""
SETTLED: Final = 20.0
"""Seconds from the last join to the first quote: later attempts of a join are over."""
QUOTES: Final = 10.0
"""Seconds in which quotes are published."""
LAST: Final = 8.0
"""Seconds for quotes that are still searching."""
NEVER: Final = 36_000.0
CONVERGED: Final = {"join_rounds": 1000, "join_patience": 1000, "requeries": 8}
"""A join that ends only when all is covered, or all that it knows of have been asked."""
CONVERGES: Final = 60.0
"""Seconds beside `SETTLED` that such joins take."""


class _Recorder(NullRecorder):
    """Keeps links, messages by kind, and notifications of clients."""

    def __init__(self) -> None:
        self.kinds: Counter[int] = Counter()
        self.links: dict[int, set[int]] = {}
        self.notified: dict[tuple[int, int], dict[int, int]] = {}
        """By event: hops of the first notification, by node."""
        self.involved: dict[tuple[int, int], set[int]] = {}
        """By event: the nodes that it was sent to, to search or to spread."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Any]:
        kind = datagram[1]
        self.kinds[kind] += 1
        if kind == OverlayKind.LINK:
            added = wire.decode_body(wire.decode(datagram).body)[0]
            chosen = self.links.setdefault(station + 1, set())
            (chosen.add if added else chosen.discard)(to)
        elif kind in (CommonKind.EVENT, OverlayKind.SEARCH):
            frame = wire.decode(datagram)
            self.involved.setdefault((frame.publisher, frame.sequence), set()).add(to)
        return self._packets

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        if to_client and datagram[1] == ClientKind.NOTIFY:
            frame = wire.decode(datagram)
            event = self.notified.setdefault((frame.publisher, frame.sequence), {})
            event.setdefault(station + 1, frame.hops)


def _wanting(operations: Sequence[Operation]) -> dict[tuple[int, int], set[int]]:
    """Return who wants each event, its publisher excluded."""
    by_stock: dict[Any, list[tuple[int, Filter]]] = {}
    for operation in operations:
        if operation.action == "subscribe":
            interest = Filter.decode([list(predicate) for predicate in operation.filter])
            by_stock.setdefault(operation.filter[0][2], []).append((operation.node, interest))
    return {
        (operation.node, operation.sequence): {
            node
            for node, interest in by_stock.get(operation.event["stock"], ())
            if node != operation.node and interest.matches(operation.event)
        }
        for operation in operations
        if operation.action == "publish"
    }


def _scenario(
    nodes: int, seed: int, joins: str, hashes: int, cover: str, *, converged: bool
) -> Scenario:
    start = SETTLED + (nodes / JOINS if joins == RANDOM else 2.0) + converged * CONVERGES
    workload = StockWorkload(
        stocks=STOCKS,
        joins=joins,
        warm_up=start,
        events=max(1, 2 * EVENTS // nodes),
        tail=LAST,
    )
    topology = StockPeers(seed, start + QUOTES + LAST, {"nodes": nodes})
    parameters = {
        "space": SPACE,
        "bits": BITS_OF_IDS,
        "hashes": hashes,
        "cover": cover,
        "heartbeat_interval": NEVER,
        "heartbeat_timeout": 2 * NEVER,
        **(CONVERGED if converged else {}),
    }
    return topology.scenario(ProtocolSpec(name="semantic-overlay", parameters=parameters), workload)


def _tables(
    links: dict[int, set[int]], operations: Sequence[Operation], hashes: int
) -> dict[str, float]:
    """Return the bits set in identifiers, and what the links that peers have chosen cover."""
    space = Space(SPACE)
    cells: dict[int, frozenset[int]] = {}
    for operation in operations:
        if operation.action == "subscribe":
            interest = Filter.decode([list(predicate) for predicate in operation.filter])
            of_node = cells.get(operation.node, frozenset())
            cells[operation.node] = of_node | space.filter_cells(interest)
    ids = {node: identifier(of_node, BITS_OF_IDS, hashes) for node, of_node in cells.items()}
    left, alike = [], []
    for node, chosen in links.items():
        open_bits = ids[node] & ~SHARED_BIT
        own = open_bits.bit_count()
        for to in chosen:
            open_bits &= ~ids[to]
            alike.append(bool(cells[node] & cells[to]))
        left.append(open_bits.bit_count() / max(own, 1))
    return {
        "set_bits": fmean(mine.bit_count() for mine in ids.values()),
        "uncovered": fmean(left),
        "alike": fmean(alike),
    }


def dynamic(
    nodes: int,
    seed: int,
    joins: str = RANDOM,
    hashes: int = 3,
    cover: str = BITS,
    converged: bool = False,
) -> dict[str, float]:
    """Return what figure 5 shows of one network, and the messages of a join and of an event.

    `uncovered` is the share of a peer's bits that none of the links that it has chosen has, `alike`
    the share of these links whose peers have a cell in common, `uninterested` that of the peers
    that an event is sent to without a subscription that matches it, `nobody` the share of all
    deliveries due that are missing since an event reached none of those that want it.
    """
    assert joins in (START, RANDOM)
    assert cover in (BITS, CELLS)
    scenario = _scenario(nodes, seed, joins, hashes, cover, converged=converged)
    recorder = _Recorder()
    simulation = Simulation(scenario, recorder)
    simulation.run()
    wanting = _wanting(scenario.workload)
    notified = recorder.notified
    due = sum(map(len, wanting.values()))
    got = {event: notified.get(event, {}).keys() & those for event, those in wanting.items()}
    depths = [notified[event][node] for event, those in got.items() for node in those]
    tables = [len(recorder.links.get(node.id, ())) for node in scenario.nodes]
    both: dict[int, set[int]] = {node.id: set() for node in scenario.nodes}
    for node, chosen in recorder.links.items():
        for link in chosen:
            both[node].add(link)
            both[link].add(node)
    links = [len(of_node) for of_node in both.values()]
    kinds = recorder.kinds
    joining = kinds[OverlayKind.JOIN_QUERY] + kinds[OverlayKind.JOIN_REPLY]
    events = max(len(wanting), 1)
    involved = {event: to - {event[0]} for event, to in recorder.involved.items()}
    others = sum(len(to - wanting[event]) for event, to in involved.items())
    return {
        "depth": fmean(depths) if depths else float("nan"),
        "table": fmean(tables),
        "table_most": max(tables),
        "links": fmean(links),
        "links_most": max(links),
        "bound": bound(BITS_OF_IDS, 1),
        "false_negatives": 1 - sum(map(len, got.values())) / max(due, 1),
        "nobody": sum(len(wanting[event]) for event, those in got.items() if not those)
        / max(due, 1),
        "uninterested": others / max(sum(map(len, involved.values())), 1),
        "join_queries": kinds[OverlayKind.JOIN_QUERY] / nodes,
        "join_replies": kinds[OverlayKind.JOIN_REPLY] / nodes,
        "link_messages": kinds[OverlayKind.LINK] / nodes,
        "join_messages": (joining + kinds[OverlayKind.LINK]) / nodes,
        "event_messages": (kinds[CommonKind.EVENT] + kinds[OverlayKind.SEARCH]) / events,
        "quotes": events,
        "problems": len(simulation.problems),
        **_tables(recorder.links, scenario.workload, hashes),
    }

"""The dynamic setting: peers join at random times, by the protocol itself under the virtual clock.

Nothing that is reported comes from the peers' own books: joins, links and ways of events are read
from what every host sent, as it would be captured, and deliveries from notifications of clients.
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
from nodeapp.pubsub.overlay.tables import bound
from nodeapp.wire import Kind
from spark_analysis.papers.semantic_overlay.static import BITS_OF_IDS, EVENTS, SPACE, STOCKS
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


class _Recorder(NullRecorder):
    """Keeps links, messages by kind, and notifications of clients."""

    def __init__(self) -> None:
        self.kinds: Counter[int] = Counter()
        self.links: dict[int, set[int]] = {}
        self.notified: dict[tuple[int, int], dict[int, int]] = {}
        """By event: hops of the first notification, by node."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Any]:
        kind = datagram[1]
        self.kinds[kind] += 1
        if kind == Kind.LINK:
            added = wire.decode_body(wire.decode(datagram).body)[0]
            chosen = self.links.setdefault(station + 1, set())
            (chosen.add if added else chosen.discard)(to)
        return self._packets

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        if to_client and datagram[1] == Kind.NOTIFY:
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


def _scenario(nodes: int, seed: int, joins: str, hashes: int) -> Scenario:
    start = SETTLED + (nodes / JOINS if joins == RANDOM else 2.0)
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
        "heartbeat_interval": NEVER,
        "heartbeat_timeout": 2 * NEVER,
    }
    return topology.scenario(ProtocolSpec(name="semantic-overlay", parameters=parameters), workload)


def dynamic(nodes: int, seed: int, joins: str = RANDOM, hashes: int = 3) -> dict[str, float]:
    """Return what figure 5 shows of one network, and the messages of a join and of an event."""
    assert joins in (START, RANDOM)
    scenario = _scenario(nodes, seed, joins, hashes)
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
    joining = kinds[Kind.JOIN_QUERY] + kinds[Kind.JOIN_REPLY]
    events = max(len(wanting), 1)
    return {
        "depth": fmean(depths) if depths else float("nan"),
        "table": fmean(tables),
        "table_most": max(tables),
        "links": fmean(links),
        "links_most": max(links),
        "bound": bound(BITS_OF_IDS, 1),
        "false_negatives": 1 - sum(map(len, got.values())) / max(due, 1),
        "join_queries": kinds[Kind.JOIN_QUERY] / nodes,
        "join_messages": joining / nodes,
        "link_messages": kinds[Kind.LINK] / nodes,
        "event_messages": (kinds[Kind.EVENT] + kinds[Kind.SEARCH]) / events,
        "problems": len(simulation.problems),
    }

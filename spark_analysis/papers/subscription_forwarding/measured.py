"""What is measured beside runs: the routes of a network at rest, one repair, and the graph.

Each is a function that a study computes (`spark_analysis.papers.computed`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from emulation.mobility.trajectory import Waypoint
from emulation.scenario.connectivity import connected, partitions
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from nodeapp.events import Filter
from nodeapp.kinds import ClientKind, CommonKind
from nodeapp.pubsub.subscription_forwarding import SubscriptionForwarding
from nodeapp.pubsub.table_messages import TableKind, Update, decode_update
from nodeapp.wire import decode
from spark_analysis.papers.subscription_forwarding.scenario import (
    FLOODING,
    SETTINGS,
    TREE,
    scenario,
)

Row = dict[str, Any]
Delivery = tuple[int, int, int]
"""Subscriber, publisher, sequence number."""

ROUTES_DURATION: Final = 40.0
"""Seconds of the run at rest whose routes are examined."""
LIFETIME: Final = "20"
"""Seconds that its subscriptions live, so that many are withdrawn and others take their place."""
BREAK: Final = 15.0
"""Seconds after which a relay is gone: the tree and the tables have settled by then."""
BEFORE: Final = 3
AFTER: Final = 15
"""Seconds before and after the break for which there are rows."""
OFTEN: Final = "0.25"
"""Seconds between a publisher's events then: 20 events a second."""
RELAY: Final = "relay"
ROOT: Final = "root"
"""Index 0: the lowest id."""
FAR: Final = 1e6
"""Metres by which the relay moves away."""
MINUTES: Final = 10
"""Minutes for which the graph is observed."""


class _Direction:
    """What one end of a link has sent to the other: the patterns of its present session."""

    def __init__(self) -> None:
        self.session = -1
        self.number = 0
        self.patterns: set[bytes] = set()

    def is_new(self, update: Update) -> bool:
        """Return whether an update is the next one, not a frame that was sent again."""
        if update.session > self.session:
            self.session, self.number, self.patterns = update.session, 0, set()
        if update.session < self.session or update.number != self.number:
            return False
        self.number += 1
        return True


class Propagation(NullRecorder):
    """Counts how often patterns are propagated, link by link and direction by direction."""

    def __init__(self) -> None:
        self._directions: dict[tuple[int, int], _Direction] = {}
        self.propagated = 0
        self.twice = 0

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> tuple[Any, ...]:
        """Count the patterns of updates."""
        if datagram[1] == TableKind.SUBSCRIPTION_UPDATE:
            update = decode_update(decode(datagram).body)
            direction = self._directions.setdefault((station, to), _Direction())
            if direction.is_new(update):
                self.propagated += len(update.added)
                self.twice += len(direction.patterns.intersection(update.added))
                direction.patterns |= set(update.added)
                direction.patterns -= set(update.removed)
        return self._packets


def routes(seed: int, nodes: str = SETTINGS["nodes"]) -> Row:
    """Return what the routes of all subscriptions look like after a run without motion.

    `cycles` is 0 if the links that some table entry points along make a tree, or several in parts
    of the network; `off_tree` are entries along a link that is not in the dispatchers' tree.
    `propagated` counts patterns in updates, each repetition of a frame left out, and `twice` those
    that were passed on in a direction in which they had been passed on and not withdrawn.
    """
    changed = {"nodes": nodes, "side": "0", "speed": "0", "workload": "churn", "lifetime": LIFETIME}
    recorder = Propagation()
    simulation = Simulation(scenario(TREE, seed, ROUTES_DURATION, changed), recorder)
    simulation.run()
    services: dict[int, SubscriptionForwarding] = {}
    for host in simulation.nodes:
        assert isinstance(host.service, SubscriptionForwarding)
        services[host.node_id] = host.service
    entries: Counter[frozenset[int]] = Counter()
    off_tree = 0
    for node, service in services.items():
        for neighbour in services:
            held = len(service.table.held_by(neighbour))
            entries[frozenset((node, neighbour))] += held
            off_tree += held * (neighbour not in service.tree.links)
    return {
        "entries": entries.total(),
        "cycles": cycles(link for link, held in entries.items() if held),
        "off_tree": off_tree,
        "propagated": recorder.propagated,
        "twice": recorder.twice,
    }


def cycles(links: Iterable[frozenset[int]]) -> int:
    """Return how many links there are beyond those of a forest; each link has two nodes."""
    above: dict[int, int] = {}

    def top(node: int) -> int:
        while above.setdefault(node, node) != node:
            node = above[node]
        return node

    more = 0
    for link in links:
        first, second = map(top, link)
        more += first == second
        above[first] = second
    return more


class _Deliveries(NullRecorder):
    """Notes deliveries, when updates were sent, and who forwards events."""

    def __init__(self) -> None:
        self.deliveries: set[Delivery] = set()
        self.updates: list[float] = []
        self.forwarded: Counter[int] = Counter()

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> tuple[Any, ...]:
        """Note updates and events."""
        kind = datagram[1]
        if kind == TableKind.SUBSCRIPTION_UPDATE:
            self.updates.append(time)
        elif kind == CommonKind.EVENT:
            self.forwarded[station] += 1
        return self._packets

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        """Note a delivery."""
        frame = decode(datagram)
        if to_client and frame.kind == ClientKind.NOTIFY:
            self.deliveries.add((station + 1, frame.publisher, frame.sequence))


def repair(
    gone: str, reconfiguration: str, link_feedback: bool, seed: int, **changed: str
) -> Iterator[Row]:
    """Yield a row for each second around a break: the share of its events' deliveries made.

    Only one node moves, and is away at once: if `gone` is `RELAY`, the one that forwards the most
    events among those that are not clients and without which the graph is still connected; else the
    tree's root.  Trees differ between orders, and with link feedback, before anybody is gone:
    the relay is the busiest of the very run that it leaves, so that each loses as much as it can.
    `since` is the second after the break in which the events were published, `updates` the messages
    about subscriptions that all nodes sent in it.  Settings of the scenario can be changed.
    """
    duration = BREAK + AFTER + 2.0
    way = {"reconfiguration": reconfiguration, "link_feedback": str(link_feedback).lower()}
    settings = {"speed": "0", "interval": OFTEN, "tail": "2", **changed, **way}
    intact = scenario(TREE, seed, duration, settings)
    broken = without(intact, 0 if gone == ROOT else relay(intact))
    seen = _Deliveries()
    Simulation(broken, seen).run()
    due = _due(broken)
    updates = Counter(math.floor(time - BREAK) for time in seen.updates)
    for since in range(-BEFORE, AFTER):
        awaited = {key for key, time in due.items() if math.floor(time - BREAK) == since}
        delivered = len(awaited & seen.deliveries)
        yield {
            "since": since,
            "due": len(awaited),
            "missing": len(awaited) - delivered,
            "delivery_ratio": delivered / len(awaited) if awaited else None,
            "updates": updates[since],
        }


def relay(scenario: Scenario) -> int:
    """Return the index of the node that forwards the most events before the break.

    Among those that can be spared: it is neither root nor client, and the others stay connected
    without it.  Raises ValueError if there is none.
    """
    watched = _Deliveries()
    Simulation(scenario, watched).run(BREAK)
    forwarded = watched.forwarded
    clients = {operation.node for operation in scenario.workload}
    positions = scenario.trace().positions(0.0)
    for index in sorted(forwarded, key=lambda index: (-forwarded[index], index)):
        rest = [position for other, position in enumerate(positions) if other != index]
        may_go = index > 0 and scenario.nodes[index].id not in clients
        if may_go and connected(scenario.radio, rest):
            return index
    raise ValueError("every node that forwards is a client, or holds the graph together")


def without(scenario: Scenario, index: int) -> Scenario:
    """Return the scenario with a node, and what it would do as a client, gone after `BREAK` s."""
    node = scenario.nodes[index]
    _, x, y = node.waypoints[0]
    ways = (Waypoint(0.0, x, y), Waypoint(BREAK, x, y), Waypoint(BREAK, x + FAR, y))
    gone = node.model_copy(update={"waypoints": ways})
    nodes = (*scenario.nodes[:index], gone, *scenario.nodes[index + 1 :])
    workload = tuple(operation for operation in scenario.workload if operation.node != node.id)
    return scenario.model_copy(update={"nodes": nodes, "workload": workload})


def _due(scenario: Scenario) -> dict[Delivery, float]:
    """Return the deliveries to other nodes that are due, with when their events are published."""
    subscriptions = [
        (operation.node, operation.time, Filter.decode(operation.filter))
        for operation in scenario.workload
        if operation.action == "subscribe"
    ]
    return {
        (node, operation.node, operation.sequence): operation.time
        for operation in scenario.workload
        if operation.action == "publish"
        for node, since, interest in subscriptions
        if node != operation.node and since < operation.time and interest.matches(operation.event)
    }


def graph(range: float, seed: int) -> Iterator[Row]:
    """Yield a row for each minute: whether the graph is connected, and the share of its pairs.

    `range` is that of the radio in metres; placement and motion are those of the runs at 250 m,
    at which the graph is connected at the start.
    """
    published = scenario(FLOODING, seed, 60.0 * MINUTES, {"publishers": "1", "subscribers": "1"})
    radio = published.radio.model_copy(update={"range": range})
    trace = published.trace()
    nodes = len(published.nodes)
    for time in np.linspace(0.0, 60.0 * MINUTES, MINUTES + 1).tolist():
        sizes = partitions(radio, trace.positions(time))
        pairs = sum(size * (size - 1) for size in sizes) / (nodes * (nodes - 1))
        yield {"time": time, "connected": float(len(sizes) == 1), "pairs": pairs}

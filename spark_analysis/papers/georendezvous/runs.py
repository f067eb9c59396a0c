"""The whole protocol on the paper's networks under the virtual clock, read off the radios.

The shortest run that measures paths honestly: nodes stand still and frames do not collide, so a
beacon of every node is enough (`BEACONS`).  Then publishers advertise, subscribers subscribe, each
publisher sends a first event, over all rendezvous cells, and once subscribers have chosen and
pruned, a second one.  Nothing that is reported comes from the nodes' own records: what every radio
sent and heard is recorded as it would be captured, except for the beacons.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final, NamedTuple

from emulation.scenario.scenario import ProtocolSpec, Scenario
from emulation.virtual.recording import NullRecorder
from emulation.virtual.simulation import Simulation
from emulation.workloads.base import Operation, Workload
from nodeapp import wire
from nodeapp.kinds import CommonKind, name_of
from nodeapp.pubsub.messages import TopicKind, decode_located
from nodeapp.pubsub.rendezvous_cell import CellKind
from nodeapp.routing.cell_wire import decode_cell_route
from nodeapp.wire import ANY_NODE, BROADCAST, FLAG_EXPLORE, FLAG_REPLICA, Frame
from spark_analysis.papers.georendezvous.graph import OF, REPLICAS, TREES, TRIED, ratios
from spark_analysis.papers.georendezvous.networks import (
    RANGE,
    CellNetwork,
    Pair,
    drawn_seed,
    hops_from,
)
from topologies.uniform_field import UniformField

BEACONS: Final = 20.0
"""Seconds in which every node sends one beacon."""
ADVERTISED: Final = BEACONS + 1.0
SUBSCRIBED: Final = ADVERTISED + 1.5
FIRST: Final = SUBSCRIBED + 1.5
SECOND: Final = FIRST + 3.0
END: Final = SECOND + 2.0
SPREAD: Final = 1.0
"""Seconds over which the operations of all pairs are spread."""
NEVER: Final = 36_000.0
SIZE: Final = 64
"""Bytes of an event."""
MOST: Final = 16
"""Rendezvous cells of a run; the first 1, 2, 4, ... of them are those of runs with fewer."""


@dataclass(frozen=True)
class _Script(Workload):
    """A workload of fixed operations."""

    performed: tuple[Operation, ...] = ()

    def operations(
        self, nodes: Mapping[int, str], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        return self.performed


class SentFrame(NamedTuple):
    """A transmission: when, by which node, to which (or all), and the frame."""

    time: float
    sender: int
    to: int
    frame: Frame


class _Recorder(NullRecorder):
    """Keeps what radios sent and heard, beacons left out."""

    def __init__(self, scenario: Scenario) -> None:
        self._ids = [node.id for node in scenario.nodes]
        self.sent_frames: list[SentFrame] = []
        self.heard_frames: list[tuple[float, int, SentFrame]] = []
        """Time, receiving node and frame; unicasts only."""

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Any]:
        frame = wire.decode(datagram)
        sent = SentFrame(time, self._ids[station], to, frame)
        if frame.kind != CommonKind.HELLO:
            self.sent_frames.append(sent)
        return (sent,)

    def heard(self, time: float, stations: list[int], packet: Any) -> None:
        if packet.to != BROADCAST:
            self.heard_frames += [(time, self._ids[station], packet) for station in stations]


class CellRun:
    """A run of the protocol with pairs of publishers and subscribers.

    `operations` are those of the clients, if not each pair's own; the run ends at `end`, s.
    """

    def __init__(
        self,
        network: CellNetwork,
        nodes: int,
        seed: int,
        pairs: Sequence[Pair],
        replicas: int,
        tried: int,
        operations: Sequence[Operation] | None = None,
        end: float = END,
    ) -> None:
        self.network = network
        self.pairs = {pair.event: pair for pair in pairs}
        """By the first event; the second has the next sequence number."""
        topology = UniformField(drawn_seed(nodes, seed), end, {"nodes": nodes, "range": RANGE})
        parameters = {
            "replicas": replicas,
            "nearest": tried,
            "tie_break": "nearest",
            "hello_interval": BEACONS,
            "hello_jitter": 0.0,
            "refresh_interval": NEVER,
            "subscription_timeout": NEVER,
            "explore_interval": 0.0,
            "home_memory": NEVER,
            "choice_wait": SECOND - FIRST - SPREAD - 0.5,
            "answer_wait": 0.5,
        }
        scenario = topology.scenario(
            ProtocolSpec(name="georendezvous", parameters=parameters),
            _Script(tuple(_operations(pairs) if operations is None else operations)),
        )
        recorder = _Recorder(scenario)
        simulation = Simulation(scenario, recorder)
        simulation.run()
        if simulation.problems:
            raise RuntimeError(simulation.problems[0])
        self.sent = recorder.sent_frames
        self.heard = recorder.heard_frames

    def notified(self) -> dict[tuple[int, int], dict[int, dict[int, int]]]:
        """Return the hops of notifications: by event, subscriber and replica."""
        by_event: dict[tuple[int, int], dict[int, dict[int, int]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        forwarded = {
            (sent.sender, sent.frame.publisher, sent.frame.sequence, _key(sent.frame))
            for sent in self.sent
            if sent.frame.kind == CommonKind.EVENT and sent.frame.destination == ANY_NODE
        }
        subscribers = {
            (pair.publisher, pair.event[1] + number): set(pair.subscribers)
            for pair in self.pairs.values()
            for number in (0, 1)
        }
        for _, node, sent in self.heard:
            frame = sent.frame
            if frame.kind != CommonKind.EVENT:
                continue
            event, key = (frame.publisher, frame.sequence), _key(frame)
            # A subscriber may be the node of the rendezvous cell that takes the event.
            at_home = frame.destination == ANY_NODE and (node, *event, key) not in forwarded
            if node in subscribers[event] and (frame.destination == node or at_home):
                by_event[event][node].setdefault(key, frame.hops)
        return by_event

    def events(self, event: tuple[int, int]) -> list[tuple[int, int]]:
        """Return sender and receiver of all transmissions of an event."""
        return [
            (sent.sender, sent.to)
            for sent in self.sent
            if sent.frame.kind == CommonKind.EVENT
            and (sent.frame.publisher, sent.frame.sequence) == event
        ]


def _key(frame: Frame) -> int:
    return decode_cell_route(frame.route).key


def _operations(pairs: Sequence[Pair]) -> Iterator[Operation]:
    """Yield the clients' operations in order of time; every node numbers its subscriptions."""
    numbers: dict[int, int] = defaultdict(int)
    apart = SPREAD / max(len(pairs), 1)
    operations = []
    for index, pair in enumerate(pairs):
        offset, topic = apart * index, {"topic": pair.topic}
        operations.append(
            Operation(
                time=ADVERTISED + offset, node=pair.publisher, action="advertise", event=topic
            )
        )
        for node in pair.subscribers:
            numbers[node] += 1
            operations.append(
                Operation(
                    time=SUBSCRIBED + offset,
                    node=node,
                    action="subscribe",
                    subscription=numbers[node],
                    filter=(("topic", "=", pair.topic),),
                )
            )
        operations += [
            Operation(
                time=time + offset,
                node=pair.publisher,
                action="publish",
                sequence=pair.event[1] + number,
                event=topic,
                size=SIZE,
            )
            for number, time in enumerate((FIRST, SECOND))
        ]
    yield from sorted(operations, key=lambda operation: operation.time)


def ways(nodes: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each number of rendezvous cells the paths of a network, as `graph.by_replicas`.

    All are tried, of the first 1, 2, 4, ... of `MOST`.  A direct path is the routing's, on the
    graph: the protocol has none.
    """
    network = CellNetwork(nodes, seed)
    pairs = network.pairs()
    run = CellRun(network, nodes, seed, pairs, MOST, 0)
    notified, linked = run.notified(), network.linked()
    direct = [
        float(len(network.to_node(pair.publisher, pair.subscribers[0], pair.event)) - 1)
        for pair in pairs
    ]
    radio = [
        float(hops_from(linked, pair.publisher - 1)[pair.subscribers[0] - 1]) for pair in pairs
    ]
    over = [notified[pair.event][pair.subscribers[0]] for pair in pairs]
    missing = sum(MOST - len(by_replica) for by_replica in over)
    for replicas in (number for number in REPLICAS if number <= MOST):
        lengths: list[list[float]] = [
            [float(hops) for key, hops in by_replica.items() if key < replicas] or [float("nan")]
            for by_replica in over
        ]
        through = [min(of_pair) for of_pair in lengths]
        yield {"replicas": replicas, "missing": missing, **ratios(through, direct, radio)}


def signalling(nodes: int, tried: int, seed: int, replicas: int = OF) -> dict[str, Any]:
    """Return what a subscriber that tries so many of the cells costs, and what nodes store.

    Messages are counted per subscriber; unnecessary are those that concern a rendezvous cell that
    it did not choose: a subscription, a notification and a prune each.  `frames` are
    all their transmissions.
    """
    network = CellNetwork(nodes, seed)
    pairs = network.pairs()
    run = CellRun(network, nodes, seed, pairs, replicas, tried)
    notified = run.notified()
    chosen = {
        pair.topic: next(iter(notified[pair.publisher, pair.event[1] + 1][pair.subscribers[0]]), -1)
        for pair in pairs
    }
    counts: dict[str, int] = defaultdict(int)
    frames: dict[str, int] = defaultdict(int)
    for kind, item in _signals(run.sent):
        frames[kind] += item
    for name, topic, key in _messages(run):
        counts[name] += 1
        if name in ("subscription", "notification", "prune") and key != chosen[topic]:
            counts["unnecessary"] += 1
    by_cell = entries(run)
    number = len(pairs)
    members = {cell: len(nodes_in) for cell, nodes_in in network.members.items()}
    stored = [by_cell.get(cell, 0) for cell, count in members.items() for _ in range(count)]
    second = [
        min(notified[pair.publisher, pair.event[1] + 1][pair.subscribers[0]].values(), default=0)
        for pair in pairs
    ]
    kinds = ("subscription", "notification", "prune", "unnecessary", "demand", "prune-publisher")
    return {
        **{name.replace("-", "_"): counts[name] / number for name in kinds},
        **{f"{name}_frames": frames[name] / number for name in sorted(frames)},
        "duplicates": (counts["notification"] - number) / number,
        "hops": fmean(second),
        "delay": fmean(_delays(run)),
        "delivered": sum(bool(hops) for hops in second) / number,
        "stored": fmean(stored),
        "stored_most": max(stored),
    }


def cells(nodes: int, replicas: int, seed: int) -> dict[str, Any]:
    """Return what signalling costs and nodes store if topics have so many cells.

    Subscribers try the `TRIED` nearest of them; `signals` are all transmissions but of events.
    """
    row = signalling(nodes, min(TRIED, replicas), seed, replicas)
    signals = sum(value for name, value in row.items() if name.endswith("_frames"))
    return {"signals": signals, "stored": row["stored"]}


def _messages(run: CellRun) -> Iterator[tuple[str, str, int]]:
    """Yield name, topic and replica of the messages on the air, once each: by their first hop."""
    topics = {pair.event: pair.topic for pair in run.pairs.values()}
    notified = run.notified()
    for event, topic in topics.items():
        for over in notified[event].values():
            yield from (("notification", topic, key) for key in over)
    for _, _, _, frame in run.sent:
        if frame.hops != 1 or frame.flags & FLAG_REPLICA:
            continue
        if frame.kind == TopicKind.SUBSCRIPTION and frame.flags & FLAG_EXPLORE:
            predicates, _ = wire.decode_body(decode_located(frame.body).item)
            yield "subscription", predicates[0][2], _key(frame)
        elif frame.kind == CellKind.PRUNE:
            topic, _ = wire.decode_body(decode_located(frame.body).item)
            name = "prune" if frame.destination == ANY_NODE else "prune-publisher"
            yield name, topic, _key(frame)
        elif frame.kind == CellKind.DEMAND:
            yield "demand", wire.decode_body(decode_located(frame.body).item), _key(frame)


def _signals(sent: Iterable[SentFrame]) -> Iterator[tuple[str, int]]:
    for _, _, _, frame in sent:
        if frame.flags & FLAG_REPLICA:
            yield "replica", 1
        elif frame.kind != CommonKind.EVENT:
            yield name_of(frame.kind).lower(), 1


def entries(run: CellRun) -> dict[tuple[int, int], int]:
    """Return how many entries each cell's nodes were told to store, by cell."""
    stored: dict[tuple[int, int], set[tuple[int, int, int, bytes]]] = defaultdict(set)
    for _, _, _, frame in run.sent:
        if frame.flags & FLAG_REPLICA and frame.kind in (
            TopicKind.ADVERTISEMENT,
            TopicKind.SUBSCRIPTION,
        ):
            route = decode_cell_route(frame.route)
            item = decode_located(frame.body).item
            stored[route.sender].add((frame.kind, frame.originator, route.key, item))
    return {cell: len(entries) for cell, entries in stored.items()}


def _delays(run: CellRun) -> Iterator[float]:
    """Yield how long the second event of each pair took, seconds."""
    apart = SPREAD / len(run.pairs)
    first: dict[tuple[int, int], float] = {}
    for time, node, sent in run.heard:
        frame = sent.frame
        if frame.kind == CommonKind.EVENT and frame.destination in (node, ANY_NODE):
            event = frame.publisher, frame.sequence - 1
            pair = run.pairs.get(event)
            if pair is not None and node == pair.subscribers[0]:
                first[event] = time  # the last one: frames for others may pass it earlier
    for index, event in enumerate(run.pairs):
        if event in first:
            yield first[event] - (SECOND + apart * index)


def trees(nodes: int, subscribers: int, seed: int) -> dict[str, Any]:
    """Return how long trees over several cells and over one are, as `by_subscribers`."""
    network = CellNetwork(nodes, seed)
    pairs = network.trees(subscribers, TREES)
    lengths: dict[str, float] = {}
    frames: dict[str, float] = {}
    missing = 0
    for name, replicas, tried in (("one", 1, 1), ("several", OF, TRIED)):
        run = CellRun(network, nodes, seed, pairs, replicas, tried)
        seconds = [(pair.publisher, pair.event[1] + 1) for pair in pairs]
        notified = run.notified()
        missing += sum(subscribers - len(notified[event]) for event in seconds)
        sent = [run.events(event) for event in seconds]
        lengths[name] = fmean(len(set(of_event)) for of_event in sent)
        frames[name] = fmean(len(of_event) for of_event in sent)
    return {
        "missing": missing,
        "length_one": lengths["one"],
        "length_several": lengths["several"],
        "length_ratio": lengths["several"] / lengths["one"],
        "frames_ratio": frames["several"] / frames["one"],
    }

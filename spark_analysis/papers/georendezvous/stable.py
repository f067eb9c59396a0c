"""The paper's stable setting: a publisher that notifies all rendezvous cells, and a new subscriber.

In section 4 "a publisher is already notifying all the rendezvous" when a subscriber comes.  Here
each of a topic's n rendezvous cells has a keeper for that: a node whose shortest path leads over
it, which subscribes first, takes the publisher's events there and prunes the others.  Topics whose
publisher does not send to all n then, since no node near a cell takes it, are left out (`stable`).
Then a subscriber comes, tries some cells, chooses and prunes.

All that is sent from then on is counted, whoever sends it, except for events on their way to
rendezvous cells and to keepers, which are sent without the subscriber, too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, Final

from emulation.workloads.base import Operation
from nodeapp import wire
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.messages import TopicKind, decode_advertisement, decode_located
from nodeapp.pubsub.rendezvous_cell import CellKind, decode_prune
from nodeapp.routing.cell_wire import decode_cell_route
from nodeapp.wire import ANY_NODE, FLAG_REPLICA, Frame
from spark_analysis.papers.georendezvous.graph import TRIED
from spark_analysis.papers.georendezvous.networks import CellNetwork, Pair
from spark_analysis.papers.georendezvous.runs import (
    ADVERTISED,
    FIRST,
    SECOND,
    SIZE,
    SPREAD,
    SUBSCRIBED,
    CellRun,
    SentFrame,
    entries,
)

COME: Final = SECOND + 3.0
"""Seconds after which the new subscribers come."""
NOTIFIED: Final = COME + 1.5
END: Final = NOTIFIED + 4.0
NEAR: Final = 60
"""Nodes around a rendezvous cell among which its keeper is looked for."""
EVENTS: Final = 3
"""Of each publisher: keepers choose by the first, the second shows that all cells are notified, and
the new subscriber chooses by the third."""


def stable(nodes: int, replicas: int, tried: int, seed: int) -> dict[str, Any]:
    """Return what a new subscriber that tries the nearest `tried` of all cells costs; 0: all.

    Per subscriber: `unnecessary` messages, each once however far it goes, beyond the subscription
    at the chosen cell and the notification over it; `broadcasts` inside cells; `frames`, all of
    these on every hop.  `stored` are the entries of a node, `stable` the share of the topics.
    """
    network = CellNetwork(nodes, seed)
    pairs = [
        pair._replace(event=(pair.publisher, EVENTS * number + 1))
        for number, pair in enumerate(network.pairs())
    ]
    keepers = {pair.topic: _keepers(network, pair, replicas, tried) for pair in pairs}
    operations = sorted(_operations(pairs, keepers), key=lambda operation: operation.time)
    run = CellRun(network, nodes, seed, pairs, replicas, tried, operations, END)
    steady = {
        pair.topic
        for pair in pairs
        if _notified(run.sent, (pair.publisher, pair.event[1] + 1)) == replicas
    }
    counts = _counts(run, pairs, steady)
    members = {cell: len(of_cell) for cell, of_cell in network.members.items()}
    by_cell = entries(run)
    stored = [by_cell.get(cell, 0) for cell, count in members.items() for _ in range(count)]
    number = len(steady)
    columns = ("subscription", "notification", "prune", "demand", "prune_publisher")
    share = {name: counts[name] / number if number else float("nan") for name in columns}
    return {
        **share,
        "unnecessary": sum(share.values()) - 2,
        "broadcasts": counts["broadcast"] / number if number else float("nan"),
        "frames": counts["frames"] / number if number else float("nan"),
        "stored": fmean(stored),
        "stable": number / len(pairs),
    }


def savings(nodes: int, replicas: int, seed: int) -> dict[str, Any]:
    """Return what trying `TRIED` of so many cells, and not all, saves a new subscriber."""
    every, two = (stable(nodes, replicas, tried, seed) for tried in (0, TRIED))
    return {
        "frames_all": every["frames"],
        "frames_two": two["frames"],
        "saved": every["frames"] - two["frames"],
        "saved_messages": every["unnecessary"] - two["unnecessary"],
        "stable": min(every["stable"], two["stable"]),
    }


def _keepers(network: CellNetwork, pair: Pair, replicas: int, tried: int) -> list[int]:
    """Return a node for each rendezvous cell that will choose it, if one of the `NEAR` does."""
    targets = network.targets(pair.topic, replicas)
    first = [network.to_home(pair.publisher, target, pair.event) for target in targets]

    def choice(node: int) -> int:
        hops = {
            replica: len(first[replica])
            + len(network.to_node(first[replica][-1], node, pair.event))
            for replica in network.nearest(node, targets)[: tried or replicas]
        }
        return min(hops, key=hops.__getitem__)

    taken = {pair.publisher, *pair.subscribers}
    keepers = []
    for replica, target in enumerate(targets):
        centre = network.grid.centre(target)
        around = sorted(network.positions, key=lambda n: math.dist(network.positions[n], centre))
        free = (node for node in around[:NEAR] if node not in taken)
        keeper = next((node for node in free if choice(node) == replica), None)
        if keeper is not None:
            taken.add(keeper)
            keepers.append(keeper)
    return keepers


def _operations(pairs: Sequence[Pair], keepers: dict[str, list[int]]) -> Iterator[Operation]:
    numbers: dict[int, int] = defaultdict(int)
    apart = SPREAD / len(pairs)
    for index, pair in enumerate(pairs):
        offset, topic = apart * index, {"topic": pair.topic}
        yield Operation(
            time=ADVERTISED + offset, node=pair.publisher, action="advertise", event=topic
        )
        for time, subscribers in ((SUBSCRIBED, keepers[pair.topic]), (COME, pair.subscribers)):
            for node in subscribers:
                numbers[node] += 1
                yield Operation(
                    time=time + offset,
                    node=node,
                    action="subscribe",
                    subscription=numbers[node],
                    filter=(("topic", "=", pair.topic),),
                )
        for number, time in enumerate((FIRST, SECOND, NOTIFIED)):
            yield Operation(
                time=time + offset,
                node=pair.publisher,
                action="publish",
                sequence=pair.event[1] + number,
                event=topic,
                size=SIZE,
            )


def _notified(sent: Sequence[SentFrame], event: tuple[int, int]) -> int:
    """Return to how many rendezvous cells a publisher sent an event."""
    return len(
        {
            decode_cell_route(frame.route).key
            for _, _, _, frame in sent
            if frame.kind == CommonKind.EVENT
            and frame.destination == ANY_NODE
            and (frame.publisher, frame.sequence) == event
        }
    )


def _counts(run: CellRun, pairs: Sequence[Pair], steady: set[str]) -> dict[str, int]:
    """Return messages by kind, broadcasts and frames that concern steady topics, all summed."""
    subscribers = {pair.topic: pair.subscribers[0] for pair in pairs}
    by_event = {(pair.publisher, pair.event[1] + 2): pair.topic for pair in pairs}
    counts: dict[str, int] = defaultdict(int)
    notified: set[tuple[str, int]] = set()
    for sent in run.sent:
        frame = sent.frame
        if sent.time < COME:
            continue
        name, topic = _named(frame, by_event)
        if topic not in steady:
            continue
        if name == "notification" and frame.destination != subscribers[topic]:
            continue
        counts["frames"] += 1
        if frame.flags & FLAG_REPLICA:
            counts["broadcast"] += 1
        elif name == "notification":
            notified.add((topic, decode_cell_route(frame.route).key))
        elif frame.hops == 1:
            counts[name] += 1
    counts["notification"] = len(notified)
    return counts


def _named(frame: Frame, by_event: dict[tuple[int, int], str]) -> tuple[str, str]:
    """Return what a frame is and the topic that it concerns; empty if it does not count."""
    if frame.kind == CommonKind.EVENT:
        topic = by_event.get((frame.publisher, frame.sequence), "")
        return "notification", topic if frame.destination != ANY_NODE else ""
    if frame.kind == TopicKind.SUBSCRIPTION:
        predicates, _ = wire.decode_body(decode_located(frame.body).item)
        return "subscription", str(predicates[0][2])
    if frame.kind == CellKind.PRUNE:
        name = "prune" if frame.destination == ANY_NODE else "prune_publisher"
        return name, decode_prune(frame.body)[0]
    if frame.kind == CellKind.DEMAND:
        return "demand", decode_advertisement(frame.body)[0]
    return "", ""

"""Figures 3(a) to 3(d), computed on the graphs of all networks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any, Final

from spark_analysis.papers.georendezvous.networks import CellNetwork, Pair, hops_from, transmissions

REPLICAS: Final = (1, 2, 4, 7, 8, 16, 32)
MOST: Final = 255
"""Most hops that the header of a frame can count; longer paths count as this."""
TREES: Final = 20
"""Trees in each network for each number of subscribers."""
OF: Final = 8
"""Rendezvous cells of figures 3(c) and 3(d)."""
TRIED: Final = 2
"""The nearest of them, in figure 3(d)."""


def ratios(
    through: Sequence[float], direct: Sequence[float], radio: Sequence[float]
) -> dict[str, float]:
    """Compare a network's paths through rendezvous cells with direct ones, in hops.

    `ratio` is that of the means; `ratio_each` is the mean of the pairs' ratios; `ratio_radio` has
    the shortest paths of the radio's graph in place of the routing's own direct ones.
    """
    return {
        "through": fmean(through),
        "direct": fmean(direct),
        "radio": fmean(radio),
        "ratio": fmean(through) / fmean(direct),
        "ratio_each": fmean(a / b for a, b in zip(through, direct, strict=True)),
        "ratio_radio": fmean(through) / fmean(radio),
    }


class _Ways:
    """The hops of all pairs of a network."""

    def __init__(self, network: CellNetwork, replicas: int) -> None:
        linked = network.linked()
        self.direct: list[float] = []
        self.radio: list[float] = []
        self.over: list[list[int]] = []
        """By pair and replica."""
        self.nearest: list[list[int]] = []
        for pair in network.pairs():
            (subscriber,) = pair.subscribers
            publisher, event = pair.publisher, pair.event
            self.direct.append(len(network.to_node(publisher, subscriber, event)) - 1)
            self.radio.append(float(hops_from(linked, publisher - 1)[subscriber - 1]))
            targets = network.targets(pair.topic, replicas)
            self.over.append(
                [
                    min(len(first) + len(network.to_node(first[-1], subscriber, event)) - 2, MOST)
                    for target in targets
                    for first in [network.to_home(publisher, target, event)]
                ]
            )
            self.nearest.append(network.nearest(subscriber, targets))


def by_replicas(nodes: int, border: bool, seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each number of rendezvous cells the paths of a network, all of them tried."""
    ways = _Ways(CellNetwork(nodes, seed, border=border), max(REPLICAS))
    for replicas in REPLICAS:
        through = [min(over[:replicas]) for over in ways.over]
        yield {"replicas": replicas, **ratios(through, ways.direct, ways.radio)}


def by_nearest(nodes: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield for each number of nearby cells, of `OF`, the paths of a network."""
    ways = _Ways(CellNetwork(nodes, seed), OF)
    for tried in range(1, OF + 1):
        through = [
            min(over[replica] for replica in nearest[:tried])
            for over, nearest in zip(ways.over, ways.nearest, strict=True)
        ]
        yield {"tried": tried, **ratios(through, ways.direct, ways.radio)}


def tree(network: CellNetwork, pair: Pair, replicas: int, tried: int) -> list[list[int]]:
    """Return a second event's paths to all subscribers, over the cells chosen by the first.

    A path to a rendezvous cell appears once, however many subscribers use it.
    """
    targets = network.targets(pair.topic, replicas)
    first = [network.to_home(pair.publisher, target, pair.event) for target in targets]
    second = pair.publisher, pair.event[1] + 1
    used: dict[int, list[int]] = {}
    ways = []
    for subscriber in pair.subscribers:
        hops = {
            replica: len(first[replica])
            + len(network.to_node(first[replica][-1], subscriber, pair.event))
            for replica in network.nearest(subscriber, targets)[:tried]
        }
        chosen = min(hops, key=hops.__getitem__)
        if chosen not in used:
            used[chosen] = network.to_home(pair.publisher, targets[chosen], second)
        ways.append(network.to_node(used[chosen][-1], subscriber, second))
    return [*used.values(), *ways]


def by_subscribers(nodes: int, subscribers: int, seed: int) -> dict[str, Any]:
    """Return how long trees over several rendezvous cells are, compared with those over one.

    `length_ratio` is of distinct transmissions, `frames_ratio` of all.
    """
    network = CellNetwork(nodes, seed)
    lengths: dict[str, list[int]] = {"one": [], "several": []}
    frames: dict[str, list[int]] = {"one": [], "several": []}
    for pair in network.trees(subscribers, TREES):
        for name, replicas, tried in (("one", 1, 1), ("several", OF, TRIED)):
            sent = list(transmissions(tree(network, pair, replicas, tried)))
            lengths[name].append(len(set(sent)))
            frames[name].append(len(sent))
    return {
        "length_one": fmean(lengths["one"]),
        "length_several": fmean(lengths["several"]),
        "length_ratio": fmean(lengths["several"]) / fmean(lengths["one"]),
        "frames_ratio": fmean(frames["several"]) / fmean(frames["one"]),
    }

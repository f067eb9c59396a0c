"""Feeds: every client has a topic of its own, on which one node publishes at random times.

The workload of the mesh-prediction paper's evaluation (docs/papers.md#mesh-prediction, section V):
events for a client form a Poisson process.  As no two clients want the same event, deliveries to
one do not depend on the others, except through the shared network.

A topology may choose the publisher, and for each client when its events come; otherwise a random
node publishes for all others until the run ends.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from emulation.errors import ScenarioError
from emulation.workloads.arrivals import (
    POISSON,
    Arrivals,
    Interval,
    Size,
    Tail,
    check_duration,
    publication_times,
)
from emulation.workloads.base import Operation, Workload

FIRST: Final = 1.0
"""Seconds into the run: all subscribe at once, so that table updates carry many subscriptions."""
WARM_UP: Final = 8.0
"""Seconds before the first event, unless a topology sets windows."""


@dataclass(frozen=True)
class Feeds(Workload):
    """A feed for each client, on which one node publishes."""

    interval: Interval = 4.0
    size: Size = 100
    tail: Tail = 3.0
    arrivals: Arrivals = POISSON
    publisher: int = 0
    """Node id; 0: one of the clients."""
    windows: tuple[tuple[int, float, float], ...] = ()
    """Clients, with the begin and end of their events, seconds."""

    def operations(
        self, nodes: Mapping[int, str], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the operations in order of time.

        Raises `ScenarioError` if there are too few nodes or the run is too short to publish.
        """
        publisher = self.publisher or rng.choice(sorted(nodes))
        windows = self.windows
        if not windows:
            check_duration(duration, WARM_UP, self.tail)
            clients = [node for node in sorted(nodes) if node != publisher]
            windows = tuple((node, WARM_UP, duration) for node in clients)
        if not windows:
            raise ScenarioError("a feed needs a publisher and a client: raise nodes to 2 or more")
        last = duration - self.tail
        windows = tuple((node, begin, min(end, last)) for node, begin, end in windows)
        if all(end <= begin for _, begin, end in windows):
            raise ScenarioError(
                f"a run of {duration:g} s is over before anybody publishes: use a longer "
                "--duration, or a smaller tail"
            )
        operations, times = [], []
        for node, begin, end in windows:
            feed = (("topic", "=", f"feed{node}"),)
            operations.append(
                Operation(time=FIRST, node=node, action="subscribe", subscription=1, filter=feed)
            )
            published = publication_times(self.arrivals, self.interval, begin, end, rng)
            times += [(at, node) for at in published]
        for number, (time, node) in enumerate(sorted(times), start=1):
            operations.append(
                Operation(
                    time=time,
                    node=publisher,
                    action="publish",
                    sequence=number,
                    event={"topic": f"feed{node}"},
                    size=self.size,
                )
            )
        return tuple(sorted(operations, key=lambda operation: operation.time))

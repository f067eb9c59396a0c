"""Feeds: every client has a topic of its own, on which one node publishes at random times.

The workload of the mesh-prediction paper's evaluation (docs/papers.md#mesh-prediction, section V):
events for a client come as a Poisson process.  As no two clients want the same event, what one gets
depends on nothing that another one does, as far as the network lets them alone.

A topology may say who publishes, and for whom from when to when; otherwise a random node publishes
for all others until the run ends.
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
"""Seconds into the run: all subscribe at once, so that updates of tables carry many."""
WARM_UP: Final = 8.0
"""Seconds before the first event, unless a topology says when it may come."""


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
    """Clients, and from when to when their events come, seconds."""

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
            end = duration - self.tail
            windows = tuple((node, WARM_UP, end) for node in sorted(nodes) if node != publisher)
        if not windows:
            raise ScenarioError("a feed needs a publisher and a client: raise nodes to 2 or more")
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

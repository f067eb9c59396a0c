"""Churn: the content workload with subscribers that change their subscriptions.

Every subscription lasts for an exponentially distributed time with the mean `lifetime`.  Then its
subscriber ends it and, at the same moment, subscribes to another pattern that it does not have,
drawn by popularity.  So subscriptions end as a Poisson process whose rate is their number over
`lifetime`, and their number is constant.  Changes stop `tail` seconds before the end, as
publications do.

Around a change the analysis is strict (`spark_analysis.measures.delivery`): an event is due to the
nodes subscribed at the moment of its PUBLISH.  An event still under way when its subscriber leaves
counts as missing, in every protocol; one published before a subscription began that arrives later
counts as unexpected, which does not affect the ratio.  The first kind is about the share delay /
`lifetime` of all deliveries.  `linger` removes it: a subscription about to end less than `linger`
seconds after a matching event was published lasts until these have passed, and longer if there are
more such events.  Any event missing then is the protocol's fault.  Lifetimes are drawn as before;
each event that delays an end extends a subscription by at most `linger`.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from emulation.errors import ScenarioError
from emulation.workloads.base import Operation
from emulation.workloads.content import (
    ContentWorkload,
    Draws,
    Interest,
    Publication,
    subscribe,
)
from nodeapp.events import Filter
from nodeapp.parameters import Param


@dataclass(frozen=True)
class ChurnWorkload(ContentWorkload):
    """The content workload with subscribers that switch between patterns."""

    lifetime: Annotated[
        float, Param("mean s that a subscription lasts (exponential)", low=0.1, high=86_400)
    ] = 30.0
    linger: Annotated[
        float, Param("least s that a subscription outlives a matching event", low=0, high=60)
    ] = 0.0

    def check(self, nodes: int, duration: float) -> None:
        super().check(nodes, duration)
        if self.per_subscriber == self.patterns:
            raise ScenarioError(
                f"a subscriber with all {self.patterns} patterns has none to change to: "
                "raise patterns or lower per_subscriber"
            )

    def subscriptions(
        self,
        interests: Iterable[Interest],
        publications: Sequence[Publication],
        end: float,
        draws: Draws,
    ) -> Iterator[Operation]:
        lives = draws.stream("lifetimes")
        times = [publication.time for publication in publications]
        held: dict[int, set[int]] = {}
        last: dict[int, int] = {}
        ends: list[tuple[float, Interest]] = []

        def begin(interest: Interest) -> Operation:
            held.setdefault(interest.node, set()).add(interest.pattern)
            last[interest.node] = interest.number
            life = lives.expovariate(1.0 / self.lifetime)
            heapq.heappush(ends, (interest.time + life, interest))
            return subscribe(interest, draws)

        for interest in interests:
            yield begin(interest)
        while ends and ends[0][0] < end:
            time, old = heapq.heappop(ends)
            first = bisect.bisect_left(times, time - self.linger)
            wanted = Filter.decode(draws.patterns[old.pattern])
            held_up = time
            for publication in publications[first : bisect.bisect_right(times, time)]:
                if wanted.matches(publication.event):
                    held_up = max(held_up, publication.time + self.linger)
            if held_up > time:
                heapq.heappush(ends, (held_up, old))
                continue
            yield Operation(time=time, node=old.node, action="unsubscribe", subscription=old.number)
            pattern = draws.popularity.draw(lives, held[old.node])
            held[old.node].remove(old.pattern)
            yield begin(Interest(time, old.node, last[old.node] + 1, pattern))

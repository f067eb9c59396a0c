"""The topic workload: to each topic some nodes subscribe, and others publish on it periodically.

Subscriptions start within the first two seconds.  Publications begin after a warm-up and end some
seconds before the run does; each publisher has a random phase.  Content filters come on top: every
event carries `speed`, uniform in [0, 100), and every subscription asks for a speed above a
threshold that the share `selectivity` of the events exceeds.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final

from emulation.errors import ScenarioError
from emulation.workloads.base import Operation, Workload
from nodeapp.parameters import Param

SPEEDS: Final = 100.0
"""Upper end of the event attribute `speed`."""


@dataclass(frozen=True)
class TopicWorkload(Workload):
    """Subscribers and periodic publishers for each of a number of topics.

    Publications run from `warm_up` seconds after the start to `drain` seconds before the end.

    Topics are called topic1, topic2, and so on; with `drawn_names` a number drawn from the seed
    comes after that, so that what they hash to differs from seed to seed.
    """

    topics: Annotated[int, Param("topics", low=0, high=1000)] = 4
    publishers: Annotated[int, Param("publishers a topic", low=1, high=1000)] = 1
    subscribers: Annotated[int, Param("subscribers a topic", low=1, high=1000)] = 5
    interval: Annotated[float, Param("s between a publisher's events", low=0.01, high=3600)] = 2.0
    size: Annotated[int, Param("bytes of an event", low=0, high=1400)] = 512
    selectivity: Annotated[
        float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
    ] = 1.0
    warm_up: float = 8.0
    drain: float = 3.0
    drawn_names: bool = False

    def operations(
        self, nodes: Collection[int], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the operations in order of time; of the nodes only the ids matter.

        Raises `ScenarioError` if there are too few nodes or the run is too short to publish.
        """
        if not self.topics:
            return ()
        if self.publishers + self.subscribers > len(nodes):
            raise ScenarioError(
                f"{self.publishers} publishers and {self.subscribers} subscribers a topic need "
                f"{self.publishers + self.subscribers} nodes, there are {len(nodes)}: "
                "raise nodes or lower publishers and subscribers"
            )
        first, last = self.warm_up, duration - self.drain
        if last <= first:
            raise ScenarioError(
                f"a run of {duration:g} s leaves no time to publish: the first {self.warm_up:g} s "
                f"are for subscriptions, the last {self.drain:g} s for events under way; "
                f"use --duration {self.warm_up + self.drain + 10:g} or more"
            )
        operations: list[Operation] = []
        subscriptions = dict.fromkeys(nodes, 0)
        publications: list[tuple[float, int, str]] = []
        for number in range(self.topics):
            topic = f"topic{number + 1}"
            if self.drawn_names:
                topic += f"-{rng.randrange(10**6):06}"
            chosen = rng.sample(list(nodes), self.publishers + self.subscribers)
            for node in chosen[self.publishers :]:
                subscriptions[node] += 1
                operations.append(self._subscribe(node, topic, subscriptions[node], rng))
            for node in chosen[: self.publishers]:
                time = first + rng.uniform(0.0, self.interval)
                while time < last:
                    publications.append((time, node, topic))
                    time += self.interval
        sequences = dict.fromkeys(nodes, 0)
        for time, node, topic in sorted(publications):
            sequences[node] += 1
            event = {"topic": topic, "speed": round(rng.uniform(0.0, SPEEDS), 1)}
            operations.append(
                Operation(
                    time=time,
                    node=node,
                    action="publish",
                    sequence=sequences[node],
                    event=event,
                    size=self.size,
                )
            )
        return tuple(sorted(operations, key=lambda operation: operation.time))

    def _subscribe(self, node: int, topic: str, number: int, rng: random.Random) -> Operation:
        predicates: list[tuple[str, str, str | float]] = [("topic", "=", topic)]
        if self.selectivity < 1.0:
            predicates.append(("speed", ">=", round(SPEEDS * (1.0 - self.selectivity), 3)))
        return Operation(
            time=rng.uniform(0.5, 2.0),
            node=node,
            action="subscribe",
            subscription=number,
            filter=tuple(predicates),
        )

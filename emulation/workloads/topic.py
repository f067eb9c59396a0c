"""The topic workload: some nodes subscribe to each topic, and others publish on it.

Subscriptions start within the first two seconds.  Publications begin after a warm-up and end some
seconds before the run does (`emulation.workloads.arrivals`).

An event is for a subscriber if three conditions hold, as in the six schemes' paper
(docs/papers.md#six-schemes, section 2): topic, content and policy.  By default only the topic
counts.  Each of the others admits a share of all pairs of a subscription and an event of its
topic, on average over seeds:

- Content.  Every event carries `speed`, uniform in [0, 100).  A subscription asks for an interval
  of speeds that covers the share `selectivity` of them, anywhere within.
- Policy.  Every subscriber has `clearance`, uniform in [0, 100), the same for all topics.  An event
  asks for an interval of clearances.  It is 100 a / (1 - a) wide, where a is the share `admitted`,
  and begins anywhere from its width below 0 to 100: so it includes each clearance with
  probability a, extreme ones as often as those between.

Roles, times and speeds do not depend on either share, nor on whether publishers advertise; nor do
roles depend on the arrivals.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from emulation.errors import ScenarioError
from emulation.workloads.arrivals import (
    PERIODIC,
    Arrivals,
    Interval,
    Size,
    Tail,
    check_duration,
    publication_times,
)
from emulation.workloads.base import Operation, Workload
from nodeapp.parameters import Param

SPEEDS: Final = 100.0
"""Upper end of the event attribute `speed`."""
CLEARANCES: Final = 100.0
"""Upper end of the subscriber attribute `clearance`."""

_Predicates = tuple[tuple[str, str, float], ...]


class _Interest(NamedTuple):
    """A node subscribes to a topic; `number` is that of the subscription at the node."""

    time: float
    node: int
    number: int
    topic: str


class _Publication(NamedTuple):
    """A node publishes on a topic."""

    time: float
    node: int
    topic: str


@dataclass(frozen=True)
class TopicWorkload(Workload):
    """Subscribers and publishers for each of a number of topics.

    Publications run from `warm_up` seconds after the start to `tail` seconds before the end.

    Topics are called topic1, topic2, and so on; with `drawn_names` a number drawn from the seed is
    appended, so that their hashes differ from seed to seed.
    """

    topics: Annotated[int, Param("topics", low=0, high=1000)] = 4
    publishers: Annotated[int, Param("publishers per topic", low=1, high=1000)] = 1
    subscribers: Annotated[int, Param("subscribers per topic", low=1, high=1000)] = 5
    interval: Interval = 2.0
    size: Size = 512
    selectivity: Annotated[
        float, Param("share of a topic's events that a filter lets through", low=0.01, high=1)
    ] = 1.0
    admitted: Annotated[
        float, Param("share of subscribers that an event's policy admits", low=0.01, high=1)
    ] = 1.0
    advertise: Annotated[
        bool, Param("publishers announce at the start on which topics they will publish")
    ] = False
    tail: Tail = 3.0
    arrivals: Arrivals = PERIODIC
    warm_up: float = 8.0
    drawn_names: bool = False

    def operations(
        self, nodes: Collection[int], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the operations in order of time; of the nodes only the ids matter.

        Raises `ScenarioError` if there are too few nodes or the run is too short to publish.
        """
        if not self.topics:
            return ()
        self._check(len(nodes), duration)
        interests: list[_Interest] = []
        publications: list[_Publication] = []
        numbers = dict.fromkeys(nodes, 0)
        for number in range(self.topics):
            topic = f"topic{number + 1}"
            if self.drawn_names:
                topic += f"-{rng.randrange(10**6):06}"
            chosen = rng.sample(list(nodes), self.publishers + self.subscribers)
            for node in chosen[self.publishers :]:
                numbers[node] += 1
                interests.append(_Interest(rng.uniform(0.5, 2.0), node, numbers[node], topic))
            for node in chosen[: self.publishers]:
                end = duration - self.tail
                times = publication_times(self.arrivals, self.interval, self.warm_up, end, rng)
                publications += [_Publication(time, node, topic) for time in times]
        publications.sort()
        speeds = [round(rng.uniform(0.0, SPEEDS), 1) for _ in publications]
        draws = rng.getrandbits(64)  # the last draw, so that its uses do not affect those above
        operations = [
            *self._subscriptions(interests, nodes, draws),
            *self._advertisements(publications, draws),
            *self._events(publications, speeds, draws),
        ]
        return tuple(sorted(operations, key=lambda operation: operation.time))

    def _check(self, nodes: int, duration: float) -> None:
        if self.publishers + self.subscribers > nodes:
            raise ScenarioError(
                f"{self.publishers} publishers and {self.subscribers} subscribers per topic need "
                f"{self.publishers + self.subscribers} nodes, there are {nodes}: "
                "raise nodes or lower publishers and subscribers"
            )
        check_duration(duration, self.warm_up, self.tail)

    def _subscriptions(
        self, interests: Sequence[_Interest], nodes: Collection[int], draws: int
    ) -> Iterator[Operation]:
        of_content = random.Random(f"{draws}/content")
        of_nodes = random.Random(f"{draws}/clearance")
        clearances = {node: round(of_nodes.uniform(0.0, CLEARANCES), 1) for node in nodes}
        for time, node, number, topic in interests:
            content: _Predicates = ()
            if self.selectivity < 1.0:
                width = SPEEDS * self.selectivity
                content = _within("speed", of_content.uniform(0.0, SPEEDS - width), width)
            yield Operation(
                time=time,
                node=node,
                action="subscribe",
                subscription=number,
                filter=(("topic", "=", topic), *content),
                client_attributes={"clearance": clearances[node]} if self.admitted < 1.0 else {},
            )

    def _advertisements(
        self, publications: Sequence[_Publication], draws: int
    ) -> Iterator[Operation]:
        if not self.advertise:
            return
        rng = random.Random(f"{draws}/advertisements")
        for node, topic in dict.fromkeys((event.node, event.topic) for event in publications):
            time = rng.uniform(0.5, 2.0)
            yield Operation(time=time, node=node, action="advertise", event={"topic": topic})

    def _events(
        self, publications: Sequence[_Publication], speeds: Sequence[float], draws: int
    ) -> Iterator[Operation]:
        of_policies = random.Random(f"{draws}/policy")
        sequences: Counter[int] = Counter()
        for (time, node, topic), speed in zip(publications, speeds, strict=True):
            policy: _Predicates = ()
            if self.admitted < 1.0:
                width = CLEARANCES * self.admitted / (1.0 - self.admitted)
                policy = _within("clearance", of_policies.uniform(-width, CLEARANCES), width)
            sequences[node] += 1
            yield Operation(
                time=time,
                node=node,
                action="publish",
                sequence=sequences[node],
                event={"topic": topic, "speed": speed},
                policy=policy,
                size=self.size,
            )


def _within(attribute: str, low: float, width: float) -> _Predicates:
    """Return the predicates of an interval, whose ends have the attributes' decimals."""
    return (attribute, ">=", round(low, 1)), (attribute, "<", round(low + width, 1))

"""The content workload: subscribers take patterns over several attributes from one population.

`emulation.workloads.patterns` has the model of events, patterns and popularity.  As patterns narrow
each other and popular ones are chosen often, many subscriptions cover or equal others.

Roles are drawn at random: `subscribers` nodes, each with `per_subscriber` different patterns, and
`publishers` nodes.  No node is both as long as there are enough of them.  Subscriptions start
within the first two seconds; publications are those of `emulation.workloads.arrivals`, with a topic
and values drawn for each event.

Draws for one purpose do not depend on the parameters of another: the patterns are the same for any
number of subscribers, the events for any patterns, the roles for both.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

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
from emulation.workloads.patterns import (
    Popularity,
    Predicates,
    draw_event,
    draw_population,
)
from nodeapp.parameters import Param


class Interest(NamedTuple):
    """A node subscribes; `number` is that of the subscription there, `pattern` an index."""

    time: float
    node: int
    number: int
    pattern: int


class Publication(NamedTuple):
    """A node publishes an event of these attributes."""

    time: float
    node: int
    event: dict[str, Any]


class Draws(NamedTuple):
    """The draws from a scenario's seed: the patterns, their popularity, and further streams."""

    patterns: Sequence[Predicates]
    popularity: Popularity
    seed: int

    def stream(self, purpose: str) -> random.Random:
        return _stream(self.seed, purpose)


def _stream(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed}/{purpose}")


@dataclass(frozen=True)
class ContentWorkload(Workload):
    """Subscribers to patterns over several attributes, drawn from one population by popularity.

    Publications run from `warm_up` seconds after the start to `tail` seconds before the end.
    """

    patterns: Annotated[int, Param("patterns in the population", low=1, high=10_000)] = 100
    nested: Annotated[
        float, Param("share of the patterns that narrow another one", low=0, high=1)
    ] = 0.5
    zipf: Annotated[
        float, Param("exponent of the patterns' popularity; 0: all alike", low=0, high=10)
    ] = 1.0
    per_subscriber: Annotated[int, Param("patterns per subscriber", low=1, high=1000)] = 2
    subscribers: Annotated[int, Param("nodes that subscribe", low=1, high=5000)] = 10
    publishers: Annotated[int, Param("nodes that publish", low=1, high=5000)] = 4
    topics: Annotated[
        int, Param("topics, over which patterns and events are spread", low=1, high=1000)
    ] = 1
    interval: Interval = 2.0
    size: Size = 512
    arrivals: Arrivals = PERIODIC
    tail: Tail = 3.0
    warm_up: float = 8.0

    def operations(
        self, nodes: Collection[int], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        """Return the operations in order of time; of the nodes only the ids matter.

        Raises `ScenarioError` if there are too few nodes or patterns, or the run is too short.
        """
        self.check(len(nodes), duration)
        seed = rng.getrandbits(64)
        population = draw_population(
            self.patterns, self.topics, self.nested, _stream(seed, "patterns")
        )
        popularity = Popularity(self.patterns, self.zipf, _stream(seed, "popularity"))
        draws = Draws(population, popularity, seed)
        order = draws.stream("roles").sample(list(nodes), len(nodes))
        end = duration - self.tail
        publications = self._publications(order[-self.publishers :], end, draws)
        interests = self._interests(order[: self.subscribers], draws)
        operations = [
            *self.subscriptions(interests, publications, end, draws),
            *self._events(publications),
        ]
        return tuple(sorted(operations, key=lambda operation: operation.time))

    def check(self, nodes: int, duration: float) -> None:
        """Raise `ScenarioError` if the parameters do not fit the network or each other."""
        for name, wanted in (("subscribers", self.subscribers), ("publishers", self.publishers)):
            if wanted > nodes:
                raise ScenarioError(
                    f"{wanted} {name} need as many nodes, there are {nodes}: "
                    f"raise nodes or lower {name}"
                )
        if self.per_subscriber > self.patterns:
            raise ScenarioError(
                f"{self.per_subscriber} patterns per subscriber, out of {self.patterns}: "
                "raise patterns or lower per_subscriber"
            )
        check_duration(duration, self.warm_up, self.tail)

    def _interests(self, nodes: Iterable[int], draws: Draws) -> list[Interest]:
        rng = draws.stream("interests")
        interests = []
        for node in nodes:
            held: set[int] = set()
            for number in range(1, self.per_subscriber + 1):
                pattern = draws.popularity.draw(rng, held)
                held.add(pattern)
                interests.append(Interest(rng.uniform(0.5, 2.0), node, number, pattern))
        return interests

    def subscriptions(
        self,
        interests: Iterable[Interest],
        publications: Sequence[Publication],
        end: float,
        draws: Draws,
    ) -> Iterator[Operation]:
        """Yield the subscribers' operations until `end`, seconds, simultaneous ones in their order.

        `publications` are in order of time.
        """
        for interest in interests:
            yield subscribe(interest, draws)

    def _publications(self, nodes: Iterable[int], end: float, draws: Draws) -> list[Publication]:
        arrivals, events = draws.stream("arrivals"), draws.stream("events")
        times = sorted(
            (time, node)
            for node in nodes
            for time in publication_times(self.arrivals, self.interval, self.warm_up, end, arrivals)
        )
        return [Publication(time, node, draw_event(self.topics, events)) for time, node in times]

    def _events(self, publications: Iterable[Publication]) -> Iterator[Operation]:
        sequences: Counter[int] = Counter()
        for time, node, event in publications:
            sequences[node] += 1
            yield Operation(
                time=time,
                node=node,
                action="publish",
                sequence=sequences[node],
                event=event,
                size=self.size,
            )


def subscribe(interest: Interest, draws: Draws) -> Operation:
    return Operation(
        time=interest.time,
        node=interest.node,
        action="subscribe",
        subscription=interest.number,
        filter=draws.patterns[interest.pattern],
    )

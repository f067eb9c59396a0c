"""The stock workload: clients want the quotes of a stock while its price is in a range.

The application of the semantic overlay's evaluation (docs/papers.md#semantic-overlay, section IV):
an event has a stock's name and price, a subscription a stock's name with a lowest and a highest
price.  Prices range from 0 to 1,000; names have a first letter from A to Y and two more.

The paper leaves the rest open.  The stock of a subscription follows the `law`: `uniform`, or
`pareto`, with a probability proportional to x^-`alpha` for the stock that is x-th in popularity;
popular ones are spread over the alphabet.  The width of a price range is uniform up to twice
`width` of all prices, and the range lies anywhere.  The stocks of quotes follow the same law, or
are uniform (`quotes`); their prices are uniform.

Every node subscribes: within the first two seconds, or (`joins=random`) at a random time before
`warm_up`.  It publishes up to `events` quotes, at random times from `warm_up` on; a share `leaving`
of the nodes end all their subscriptions at a random time.  Nodes that crash are faults
(`--fault "crash 10% at 30"`).
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

from emulation.workloads.arrivals import Size, Tail, check_duration
from emulation.workloads.base import Operation, Workload
from nodeapp.parameters import Param

PRICES: Final = 1000.0
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXY"
UNIFORM: Final = "uniform"
PARETO: Final = "pareto"
ALIKE: Final = "alike"
START: Final = "start"
RANDOM: Final = "random"


def stock_name(index: int) -> str:
    """Return the name of stock `index`, from 0 on: neighbours in popularity differ in a letter."""
    first, rest = index % 25, index // 25
    return LETTERS[first] + LETTERS[rest // 25 % 25] + LETTERS[rest % 25]


class Law:
    """Draws one of a number of stocks: x^-alpha, all alike if alpha is 0."""

    def __init__(self, stocks: int, alpha: float) -> None:
        self._sums = list(itertools.accumulate((x + 1.0) ** -alpha for x in range(stocks)))

    def draw(self, rng: random.Random) -> int:
        sums = self._sums
        return min(bisect.bisect(sums, rng.random() * sums[-1]), len(sums) - 1)


@dataclass(frozen=True)
class StockWorkload(Workload):
    """Clients want the quotes of stocks while their price is in a range, and publish quotes."""

    stocks: Annotated[int, Param("stocks", low=1, high=15_625)] = 20
    law: Annotated[str, Param("law of the interest in stocks", choices=(UNIFORM, PARETO))] = UNIFORM
    alpha: Annotated[float, Param("exponent of the law pareto", low=0.1, high=10)] = 1.0
    interests: Annotated[int, Param("subscriptions of a node", low=1, high=100)] = 2
    width: Annotated[float, Param("mean share of all prices in a range", low=0.001, high=0.5)] = 0.2
    events: Annotated[int, Param("most quotes of a node", low=0, high=1000)] = 4
    quotes: Annotated[
        str, Param("law of the quotes: that of the interests, or uniform", choices=(ALIKE, UNIFORM))
    ] = ALIKE
    joins: Annotated[
        str, Param("when nodes subscribe: at the start, or at random", choices=(START, RANDOM))
    ] = START
    leaving: Annotated[
        float, Param("share of the nodes that end their subscriptions", low=0, high=1)
    ] = 0.0
    warm_up: Annotated[float, Param("s after which quotes are published", low=2.5, high=86_400)] = (
        15.0
    )
    size: Size = 128
    tail: Tail = 3.0

    def operations(
        self, nodes: Collection[int], duration: float, rng: random.Random
    ) -> tuple[Operation, ...]:
        check_duration(duration, self.warm_up, self.tail)
        seed = rng.getrandbits(64)

        def stream(purpose: str) -> random.Random:
            return random.Random(f"{seed}/{purpose}")

        operations = [
            *self._subscriptions(nodes, stream("interests"), stream("joins")),
            *self._quotes(nodes, duration, stream("quotes")),
        ]
        leaving = stream("leaving")
        for node in nodes:
            if leaving.random() < self.leaving:
                time = leaving.uniform(self.warm_up, duration - self.tail)
                operations += [
                    Operation(time=time, node=node, action="unsubscribe", subscription=number)
                    for number in range(1, self.interests + 1)
                ]
        return tuple(sorted(operations, key=lambda operation: operation.time))

    @property
    def _law(self) -> Law:
        return Law(self.stocks, self.alpha if self.law == PARETO else 0.0)

    def filters(self, rng: random.Random) -> Iterator[tuple[tuple[str, str, Any], ...]]:
        """Yield the filters of one node after another, `interests` for each."""
        law = self._law
        while True:
            stock = stock_name(law.draw(rng))
            width = PRICES * rng.uniform(0.0, 2 * self.width)
            low = rng.uniform(0.0, PRICES - width)
            yield (
                ("stock", "=", stock),
                ("price", ">=", round(low, 2)),
                ("price", "<=", round(low + width, 2)),
            )

    def quote(self, law: Law, rng: random.Random) -> dict[str, Any]:
        """Return an event: name and price."""
        price = min(round(rng.uniform(0.0, PRICES), 2), PRICES - 0.01)
        return {"stock": stock_name(law.draw(rng)), "price": price}

    def quote_law(self) -> Law:
        return self._law if self.quotes == ALIKE else Law(self.stocks, 0.0)

    def _subscriptions(
        self, nodes: Collection[int], rng: random.Random, times: random.Random
    ) -> Iterator[Operation]:
        filters = self.filters(rng)
        end = 2.0 if self.joins == START else self.warm_up - 0.5
        for node in nodes:
            time = times.uniform(0.5, end)
            for number in range(1, self.interests + 1):
                yield Operation(
                    time=time,
                    node=node,
                    action="subscribe",
                    subscription=number,
                    filter=next(filters),
                )

    def _quotes(
        self, nodes: Collection[int], duration: float, rng: random.Random
    ) -> Iterator[Operation]:
        law, end = self.quote_law(), duration - self.tail
        for node in nodes:
            times = sorted(
                rng.uniform(self.warm_up, end) for _ in range(rng.randint(0, self.events))
            )
            for sequence, time in enumerate(times, start=1):
                yield Operation(
                    time=time,
                    node=node,
                    action="publish",
                    sequence=sequence,
                    event=self.quote(law, rng),
                    size=self.size,
                )

"""Events with several attributes, a population of patterns over them, and their popularity.

Events.  An event has a topic, three numbers (`NUMBERS`), each uniform among the multiples of 0.1 in
[0, 100), and a text, `place`: one of 20, in four districts, such as `north/3`.

Patterns.  A pattern asks for one topic and has conditions on one to three of the other attributes:
an interval of a number, a district (a prefix of `place`), or one place.  The population grows one
by one.  A pattern is new, or with the probability `nested` narrows an existing one, drawn
uniformly, so that chains arise in which each pattern covers the next:

- New: a topic (in turn) and conditions on one or two attributes, equally often.  Intervals span a
  fifth to three fifths of the values, anywhere; `place` must be in a district or be one place,
  equally often.
- Narrowed: one attribute is drawn.  A condition on it is added, or an existing one is narrowed: to
  0.4 to 0.9 of the interval, or one place of the district.

No two patterns are equal.  Of 100 patterns of one topic (means of 12 seeds, by `nested`):

    nested                                        0     0.5   0.9
    pairs in which one covers the other           0.036 0.050 0.088
    patterns that another one covers              0.70  0.78  0.89
    pairs of a pattern and an event that match    0.23  0.15  0.06

So patterns cover each other even without narrowing: conditions on one attribute cover many on two.

Popularity.  The pattern at rank k is chosen with a probability proportional to k ** -zipf (Zipf's
law; 0: all alike).  Ranks are random: popular patterns are no wider than others.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection
from typing import Any, Final

NUMBERS: Final = ("speed", "density", "delay")
"""Attributes of an event that are numbers, each in [0, 100)."""
PLACE: Final = "place"
PLACES: Final = {
    district: tuple(f"{district}/{street}" for street in range(1, 6))
    for district in ("north", "east", "south", "west")
}
"""Values of the attribute `place`, by district."""
VALUES: Final = 1000
"""How many values a number in an event may have: tenths from 0 on."""
MOST_ATTRIBUTES: Final = 3
"""Most attributes, besides the topic, on which a pattern has conditions."""
TRIES: Final = 20
"""Draws that may hit an excluded pattern before the excluded ones are removed."""

Predicates = tuple[tuple[str, str, Any], ...]
_Interval = tuple[int, int]
"""From, to (exclusive), in tenths."""
_Condition = _Interval | str
"""An interval of a number; a place, or a district with the slash that follows it."""
_Pattern = dict[str, _Condition]
"""Conditions by attribute; that on the topic is a text."""


def topic_name(number: int) -> str:
    return f"topic{number + 1}"


def draw_event(topics: int, rng: random.Random) -> dict[str, Any]:
    """Return the attributes of an event on one of a number of topics."""
    event: dict[str, Any] = {"topic": topic_name(rng.randrange(topics))}
    for name in NUMBERS:
        event[name] = rng.randrange(VALUES) / 10
    event[PLACE] = rng.choice(PLACES[rng.choice(list(PLACES))])
    return event


def draw_population(
    count: int, topics: int, nested: float, rng: random.Random
) -> tuple[Predicates, ...]:
    """Return `count` different patterns over a number of topics, as predicates of filters."""
    drawn: list[_Pattern] = []
    patterns: dict[Predicates, None] = {}
    new = 0
    while len(patterns) < count:
        # The first of each topic is new, or with only nested patterns there would be one topic.
        if len(drawn) >= topics and rng.random() < nested:
            pattern = _narrowed(rng.choice(drawn), rng)
        else:
            pattern = _new(topic_name(new % topics), rng)
            new += 1
        predicates = _predicates(pattern)
        if predicates not in patterns:
            patterns[predicates] = None
            drawn.append(pattern)
    return tuple(patterns)


def _new(topic: str, rng: random.Random) -> _Pattern:
    chosen = rng.sample((*NUMBERS, PLACE), rng.choice((1, 2)))
    return {"topic": topic} | {name: _condition(name, rng) for name in chosen}


def _condition(name: str, rng: random.Random) -> _Condition:
    if name == PLACE:
        district = rng.choice(list(PLACES))
        return rng.choice((f"{district}/", rng.choice(PLACES[district])))
    width = rng.randint(VALUES // 5, VALUES * 3 // 5)
    low = rng.randint(0, VALUES - width)
    return low, low + width


def _narrowed(pattern: _Pattern, rng: random.Random) -> _Pattern:
    """Return a narrower pattern; the pattern itself if the drawn condition cannot be narrowed."""
    named = [name for name in pattern if name != "topic"]
    every = named if len(named) == MOST_ATTRIBUTES else [*NUMBERS, PLACE]
    name = rng.choice(every)
    condition = pattern.get(name)
    narrower: _Condition
    if condition is None:
        narrower = _condition(name, rng)
    elif isinstance(condition, str):
        district, _, street = condition.partition("/")
        narrower = condition if street else rng.choice(PLACES[district])
    else:
        low, high = condition
        width = max(1, int((high - low) * rng.uniform(0.4, 0.9)))
        low = rng.randint(low, high - width)
        narrower = low, low + width
    return pattern | {name: narrower}


def _predicates(pattern: _Pattern) -> Predicates:
    """Return the predicates, in the same order for equal patterns."""
    predicates: list[tuple[str, str, Any]] = [("topic", "=", pattern["topic"])]
    for name in NUMBERS:
        condition = pattern.get(name)
        if isinstance(condition, tuple):
            low, high = condition
            predicates += [(name, ">=", low / 10), (name, "<", high / 10)]
    place = pattern.get(PLACE)
    if place is not None:
        predicates.append((PLACE, "prefix" if str(place).endswith("/") else "=", place))
    return tuple(predicates)


class Popularity:
    """Draws the indices of `count` patterns by Zipf's law with the exponent `zipf`."""

    def __init__(self, count: int, zipf: float, rng: random.Random) -> None:
        self._ranked = rng.sample(range(count), count)
        weights = [rank**-zipf for rank in range(1, count + 1)]
        self._weights = dict(zip(self._ranked, weights, strict=True))
        self._sums = list(itertools.accumulate(weights))

    def draw(self, rng: random.Random, without: Collection[int] = ()) -> int:
        """Return the index of a pattern that is not one of `without`; there must be one."""
        for _ in range(TRIES):
            (index,) = rng.choices(self._ranked, cum_weights=self._sums)
            if index not in without:
                return index
        # The distribution is the same: a rejected draw does not affect the next one.
        left = [index for index in self._ranked if index not in without]
        return rng.choices(left, [self._weights[index] for index in left])[0]

"""Events, the population of patterns, and their popularity."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from emulation.workloads.patterns import (
    NUMBERS,
    PLACE,
    PLACES,
    Popularity,
    draw_event,
    draw_population,
)
from nodeapp.events import Filter, check_attributes


def filters(count: int, topics: int, nested: float, seed: int) -> list[Filter]:
    population = draw_population(count, topics, nested, random.Random(seed))
    return [Filter.decode(predicates) for predicates in population]


def covering_share(population: list[Filter]) -> float:
    """Return the share of the pairs in which one covers the other."""
    pairs = list(itertools.combinations(population, 2))
    return sum(one.covers(other) or other.covers(one) for one, other in pairs) / len(pairs)


def covered_share(population: list[Filter]) -> float:
    """Return the share of the patterns that another one covers."""
    found = [
        any(other.covers(pattern) for other in population if other is not pattern)
        for pattern in population
    ]
    return sum(found) / len(found)


def matched_share(population: list[Filter], events: int = 300) -> float:
    """Return the share of the pairs of a pattern and an event that match."""
    rng = random.Random(1)
    found = [draw_event(1, rng) for _ in range(events)]
    return float(np.mean([each.matches(event) for each in population for event in found]))


def test_events_have_a_topic_numbers_and_a_text() -> None:
    rng = random.Random(1)
    events = [draw_event(3, rng) for _ in range(6000)]
    for event in events[:100]:
        assert set(check_attributes(event)) == {"topic", *NUMBERS, PLACE}
    for name in NUMBERS:
        values = np.array([event[name] for event in events])
        assert (values >= 0).all()
        assert (values < 100).all()
        assert (np.abs(values * 10 - np.round(values * 10)) < 1e-9).all()
        assert stats.kstest(values + 0.05, stats.uniform(0, 100).cdf).pvalue > 0.01
    places = Counter(event[PLACE] for event in events)
    assert set(places) == {place for each in PLACES.values() for place in each}
    assert stats.chisquare(list(places.values())).pvalue > 0.01
    topics = Counter(event["topic"] for event in events)
    assert sorted(topics) == ["topic1", "topic2", "topic3"]
    assert stats.chisquare(list(topics.values())).pvalue > 0.01


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 120),
    topics=st.integers(1, 12),
    nested=st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_patterns_differ_can_match_and_have_one_to_three_attributes(
    count: int, topics: int, nested: float, seed: int
) -> None:
    population = filters(count, topics, nested, seed)
    assert len(set(population)) == count
    for pattern in population:
        attributes = {predicate.attribute for predicate in pattern.predicates}
        assert 1 <= len(attributes - {"topic"}) <= 3
        assert attributes <= {"topic", *NUMBERS, PLACE}
        assert pattern.topic is not None
        nothing = Filter.parse(["topic=x", "topic=y"])
        assert not nothing.covers(pattern), "an event matches it"
    assert {each.topic for each in population[:topics]} == {
        f"topic{number + 1}" for number in range(min(count, topics))
    }
    assert draw_population(count, topics, nested, random.Random(seed)) == draw_population(
        count, topics, nested, random.Random(seed)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nested", "covering", "covered", "matched"),
    [
        (0.0, (0.025, 0.045), (0.62, 0.78), (0.20, 0.26)),
        (0.5, (0.035, 0.065), (0.70, 0.86), (0.12, 0.17)),
        (0.9, (0.060, 0.120), (0.82, 0.96), (0.04, 0.09)),
    ],
)
def test_shares_that_cover_and_match(
    nested: float,
    covering: tuple[float, float],
    covered: tuple[float, float],
    matched: tuple[float, float],
) -> None:
    populations = [filters(100, 1, nested, seed) for seed in range(3)]
    for share, (low, high) in (
        (covering_share, covering),
        (covered_share, covered),
        (matched_share, matched),
    ):
        mean = np.mean([share(population) for population in populations])
        assert low <= mean <= high, share.__name__


@pytest.mark.slow
def test_patterns_of_different_topics_do_not_cover_one_another() -> None:
    one, four = (
        np.mean([covering_share(filters(100, topics, 0.5, seed)) for seed in range(4)])
        for topics in (1, 4)
    )
    assert 0.25 < four / one < 0.6


@pytest.mark.parametrize("zipf", [0.0, 0.8, 1.0, 2.0])
def test_popularity_is_zipfs_law(zipf: float) -> None:
    count, draws = 40, 20_000
    popularity = Popularity(count, zipf, random.Random(7))
    rng = random.Random(8)
    found = Counter(popularity.draw(rng) for _ in range(draws))
    assert set(found) <= set(range(count))
    weights = np.arange(1, count + 1) ** -zipf
    ranked = np.array([found[index] for index in random.Random(7).sample(range(count), count)])
    assert stats.chisquare(ranked, draws * weights / weights.sum()).pvalue > 0.01


def test_popular_patterns_are_drawn_at_random() -> None:
    first = {
        Popularity(50, 3.0, random.Random(seed)).draw(random.Random(seed), range(1))
        for seed in range(200)
    }
    assert len(first) > 40


@pytest.mark.parametrize("zipf", [0.0, 1.0, 10.0])
def test_draws_leave_out_what_they_are_to_leave_out(zipf: float) -> None:
    popularity, rng = Popularity(6, zipf, random.Random(1)), random.Random(2)
    for _ in range(50):
        held: set[int] = set()
        while len(held) < 6:
            drawn = popularity.draw(rng, held)
            assert drawn not in held
            held.add(drawn)


def test_draws_without_some_have_the_distribution_of_the_rest() -> None:
    # With exponent 5 nearly every draw is of rank 1: that of the others is exact all the same.
    ranked = random.Random(1).sample(range(5), 5)
    popularity, rng = Popularity(5, 5.0, random.Random(1)), random.Random(2)
    found = Counter(popularity.draw(rng, {ranked[0]}) for _ in range(20_000))
    weights = np.arange(2, 6) ** -5.0
    counts = [found[index] for index in ranked[1:]]
    assert stats.chisquare(counts, 20_000 * weights / weights.sum()).pvalue > 0.01

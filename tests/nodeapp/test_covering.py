"""Covering against brute force: over all short texts of a small alphabet, and near all numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nodeapp.covering import above, below
from nodeapp.events import Filter
from nodeapp.predicates import (
    INT_MAX,
    INT_MIN,
    ORDER_OPERATORS,
    TEXT_OPERATORS,
    EventError,
    Predicate,
    Value,
)

LETTERS = "\0ab\U0010ffff"
TEXTS = ["".join(t) for length in range(5) for t in itertools.product(LETTERS, repeat=length)]
# Letters beside those of the predicates, and surrogates' neighbours.
OTHERS = ["z", "az", "za", "aza", "bzab", "\ud7ff", "\ue000", "a\ue000", "abzba", "zabzabz"]
NUMBERS: list[float] = [0, -0.0, 1, 1.0, 2, 0.5, -1, 2**53, 2**53 + 1, float(2**53), 2**53 + 2]
NUMBERS += [INT_MAX, INT_MIN, float(2**63), -float(2**63), 1e308, -1e308, 5e-324]
NUMBERS += [n for each in list(NUMBERS) for n in (above(each), below(each))]

texts = st.text(alphabet=LETTERS, max_size=3)
numbers = st.sampled_from(NUMBERS)
# Operators whose results depend on one another more often than not.
text_operators = st.sampled_from(
    ["=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "contains"]
)


def conjunctions(attribute: str = "a") -> st.SearchStrategy[list[Predicate]]:
    def on(
        operators: st.SearchStrategy[str], values: st.SearchStrategy[Value]
    ) -> st.SearchStrategy:
        return st.builds(Predicate, st.just(attribute), operators, values)

    of_texts = on(text_operators, texts)
    of_numbers = on(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "!="]), numbers)
    of_booleans = on(st.sampled_from(["=", "!="]), st.booleans())
    exists = st.just(Predicate(attribute, "exists"))
    return st.one_of(
        st.lists(of_texts, max_size=5),
        st.lists(of_numbers, max_size=5),
        st.lists(st.one_of(of_texts, of_numbers, of_booleans, exists), max_size=3),
    )


def all_values() -> list[Value]:
    return [*TEXTS, *OTHERS, *NUMBERS, True, False]


VALUES = all_values()


def agrees(f: Filter, g: Filter, events: Sequence[dict[str, Value]]) -> None:
    witness = f.counterexample(g)
    assert f.covers(g) == (witness is None)
    if witness is not None:
        assert g.matches(witness)
        assert not f.matches(witness)
    else:
        for event in events:
            assert f.matches(event) or not g.matches(event), event


@given(conjunctions(), conjunctions())
@example([Predicate("a", "contains", "a")], [Predicate("a", ">=", "a"), Predicate("a", "<", "a\0")])
@example([Predicate("a", "!=", "ab")], [Predicate("a", "prefix", "a"), Predicate("a", "<", "ab")])
@example([Predicate("a", ">", 0.5)], [Predicate("a", ">=", above(0.5))])
@example([Predicate("a", "<=", INT_MAX)], [Predicate("a", "<", float(2**63))])
def test_covering_agrees_with_brute_force(f: list[Predicate], g: list[Predicate]) -> None:
    events: list[dict[str, Value]] = [{"a": value} for value in VALUES]
    agrees(Filter(tuple(f)), Filter(tuple(g)), [{}, *events])


def text_predicates(*operators: str) -> st.SearchStrategy[Predicate]:
    return st.builds(Predicate, st.just("a"), st.sampled_from(operators), texts)


@settings(max_examples=500)
@given(
    text_predicates("=", "!=", "<", "<=", ">", ">=", "prefix", "suffix", "contains", "contains"),
    text_predicates(">", ">=", "prefix"),
    st.lists(text_predicates("<", "<="), max_size=1),
    st.lists(text_predicates("!=", "!=", "suffix", "contains"), max_size=2),
)
# The candidates that are needed rarely: each example needs one kind of them.
@example(
    Predicate("a", "contains", "\0"),
    Predicate("a", ">=", "a"),
    [Predicate("a", "<", "ab")],
    [Predicate("a", "!=", "a")],
)
@example(
    Predicate("a", "contains", "a"),
    Predicate("a", ">=", "a"),
    [Predicate("a", "<", "bb")],
    [Predicate("a", "!=", "b")],
)
@example(
    Predicate("a", "contains", "aa"), Predicate("a", ">=", "aab"), [Predicate("a", "<", "b")], []
)
@example(Predicate("a", "prefix", "a"), Predicate("a", ">=", "a"), [], [])
@example(Predicate("a", "prefix", "\U0010ffff"), Predicate("a", ">=", "\U0010ffff"), [], [])
def test_text_intervals(
    f: Predicate, low: Predicate, high: list[Predicate], rest: list[Predicate]
) -> None:
    agrees(Filter((f,)), Filter((low, *high, *rest)), [{"a": text} for text in [*TEXTS, *OTHERS]])


@given(conjunctions("a"), conjunctions("b"), conjunctions("a"), conjunctions("b"), st.data())
def test_covering_of_several_attributes(
    f1: list[Predicate],
    f2: list[Predicate],
    g1: list[Predicate],
    g2: list[Predicate],
    data: st.DataObject,
) -> None:
    attributes = st.dictionaries(st.sampled_from("ab"), st.sampled_from(VALUES))
    events = data.draw(st.lists(attributes, max_size=30))
    agrees(Filter((*f1, *f2)), Filter((*g1, *g2)), events)


@given(conjunctions(), conjunctions())
def test_a_conjunction_is_covered_by_its_parts(f: list[Predicate], g: list[Predicate]) -> None:
    both = Filter((*f, *g))
    assert Filter(tuple(f)).covers(both)
    assert Filter(()).covers(both)
    assert both.covers(both)


@pytest.mark.parametrize(
    ("f", "g", "covers"),
    [
        ("speed>10", "speed>10", True),
        ("speed>10", "speed>=10", False),
        ("speed>=10", "speed>9 speed!=9.5", False),
        ("speed>9", "speed>=10.0", True),
        ("speed=1", "speed=1.0", True),
        ("speed!=5", "speed>5", True),
        ("speed!=5", "speed>=5", False),
        ("speed!=5", "speed>=5 speed!=5.0", True),
        ("speed exists", "speed>5", True),
        ("speed>5", "speed exists", False),
        ("speed>5", "speed>5 street=x", True),
        ("speed>5 street=x", "speed>5", False),
        ("speed=7", "speed>9 speed<3", True),  # nothing matches the second
        ("speed=7", "speed=true speed=1", True),
        ("speed=1", "speed=true", False),
        ("flag=true", "flag!=false", True),
        ("flag=true", "flag exists", False),
        ("street>=b", "street prefix b", True),
        ("street<c", "street prefix b", True),
        ("street<b", "street prefix b", False),
        ("street contains b", "street prefix abc", True),
        ("street contains ca", "street prefix abc street suffix abc", False),
        ("street contains b", "street suffix cb street contains x", True),
        ("street suffix b", "street=ab", True),
        ("street prefix abc", "street>=abc street<abd", True),
        ("street contains b", "street>=abc street<abd", True),
        ("street contains c", "street>=abc street<=abd", False),
        ("street!=abc", "street>abc street prefix abc", True),
        ("topic exists", "traffic", True),
    ],
)
def test_cases(f: str, g: str, covers: bool) -> None:
    def parsed(text: str) -> Filter:
        words = text.replace(" prefix ", "_prefix_").replace(" suffix ", "_suffix_")
        words = words.replace(" contains ", "_contains_").replace(" exists", "_exists")
        return Filter.parse(word.replace("_", " ") for word in words.split())

    assert parsed(f).covers(parsed(g)) is covers


@given(numbers | st.integers(INT_MIN, INT_MAX) | st.floats(allow_nan=False, allow_infinity=False))
def test_neighbours_of_a_number_leave_nothing_between(value: float) -> None:
    after = above(value)
    assert after > value
    if not math.isinf(after):
        assert below(after) == value
        middle = (int(value) + int(after)) // 2
        if value < middle < after:
            assert not INT_MIN <= middle <= INT_MAX


@given(st.sampled_from(sorted(ORDER_OPERATORS | TEXT_OPERATORS)))
def test_operators_that_a_type_does_not_have_are_refused(symbol: str) -> None:
    with pytest.raises(EventError):
        Predicate("a", symbol, True)
    if symbol in TEXT_OPERATORS:
        with pytest.raises(EventError):
            Predicate("a", symbol, 1)

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import MAX_PREDICATES, Filter
from nodeapp.predicates import Value
from nodeapp.pubsub.patterns import (
    LOCAL,
    MAX_PATTERN,
    PatternTable,
    TableFullError,
    decode_pattern,
    encode_pattern,
    is_above,
)
from nodeapp.pubsub.table_messages import (
    MAX_NUMBER,
    MAX_SESSION,
    Acknowledgement,
    Update,
    chunk,
    decode_acknowledgement,
    decode_update,
)
from nodeapp.wire import WireError
from tests.nodeapp.pubsub.oracle import maximal
from tests.nodeapp.strategies import attributes, filters, hostile

few = st.builds(
    Filter.parse,
    st.lists(
        st.sampled_from(
            [
                "a",
                "b",
                "x>1",
                "x>2",
                "x>=2",
                "x=2",
                "x=2.0",
                "x<0",
                "x exists",
                "y prefix m",
                "y=mn",
            ]
        ),
        max_size=3,
    ),
)
patterns = (filters | few).map(encode_pattern)


@given(filters | few, st.randoms())
def test_a_pattern_is_its_filter_whatever_the_order(filter: Filter, rng: object) -> None:
    pattern = encode_pattern(filter)
    assert decode_pattern(pattern) == filter
    predicates = list(filter.predicates) * 2
    rng.shuffle(predicates)  # type: ignore[attr-defined]
    if len(predicates) <= MAX_PREDICATES:
        assert encode_pattern(Filter(tuple(predicates))) == pattern


def test_what_is_not_canonical_is_no_pattern() -> None:
    one, other = ["a", "=", 1], ["b", "=", 2]
    assert decode_pattern(wire.encode_body([one, other])) == Filter.parse(["a=1", "b=2"])
    wrongs: list[object] = [[other, one], [one, one], [["a", "=", None]], {}, [["a", "~", 1]]]
    for wrong in wrongs:
        with pytest.raises(WireError):
            decode_pattern(wire.encode_body(wrong))
    with pytest.raises(WireError, match="too long"):
        decode_pattern(bytes(MAX_PATTERN + 1))


@settings(max_examples=50)
@given(st.sets(patterns, max_size=8))
def test_above_is_a_strict_order_and_the_maximal_ones_match_the_same(found: set[bytes]) -> None:
    for one in found:
        for other in found:
            assert not (is_above(one, other) and is_above(other, one))
            for third in found:
                if is_above(one, other) and is_above(other, third):
                    assert is_above(one, third)
            decoded = decode_pattern(one), decode_pattern(other)
            if one < other:
                assert is_above(one, other) == decoded[0].covers(decoded[1])
    top = maximal(found)
    for each in found:
        assert any(decode_pattern(other).covers(decode_pattern(each)) for other in top)
    assert maximal(top) == top


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), few.map(encode_pattern)), max_size=40),
    attributes,
)
def test_a_table_is_what_was_added_and_not_removed(
    operations: list[tuple[bool, int, bytes]], event: dict[str, Value]
) -> None:
    table = PatternTable(1000)
    held: set[tuple[bytes, int]] = set()
    for adds, holder, pattern in operations:
        if adds:
            table.hold(pattern, holder)
            held.add((pattern, holder))
        else:
            table.release(pattern, holder)
            held.discard((pattern, holder))
        assert len(table) == len(held)
        for neighbour in range(1, 4):
            others = {pattern for pattern, holder in held if holder != neighbour}
            assert table.wanted_by(neighbour) == maximal(others)
    for holder in range(4):
        assert table.held_by(holder) == {pattern for pattern, by in held if by == holder}
    matching = {holder for pattern, holder in held if decode_pattern(pattern).matches(event)}
    assert table.matching(event) == matching


def test_what_only_a_broken_link_holds_goes_to_nobody_new() -> None:
    table = PatternTable(10)
    one, two, three = (encode_pattern(Filter.parse([word])) for word in "abc")
    for pattern, holder in ((one, 5), (two, 5), (two, 6), (three, 6)):
        table.hold(pattern, holder)
    assert table.wanted_by(7, {5}) == {two, three}
    assert table.wanted_by(7, {5}, {one}) == {one, two, three}
    assert table.wanted_by(6, {5}) == set()
    assert table.wanted_by(6) == {one, two}


def test_a_table_has_a_limit() -> None:
    table = PatternTable(2)
    one, two, three = (encode_pattern(Filter.parse([word])) for word in "abc")
    table.hold(one, LOCAL)
    table.hold(one, 5)
    table.hold(one, 5)
    for pattern in (two, one):
        with pytest.raises(TableFullError):
            table.hold(pattern, 6)
    assert len(table) == 2
    table.release(three, 5)
    table.release(one, 5)
    table.hold(two, 6)
    assert table.wanted_by(6) == {one}


sessions, numbers = st.integers(0, MAX_SESSION), st.integers(0, MAX_NUMBER)
lists = st.lists(st.binary(max_size=30), max_size=5)


@given(st.builds(Update, sessions, numbers, st.booleans(), lists, lists))
def test_updates_survive_the_wire(update: Update) -> None:
    assert decode_update(update.encode()) == update


@given(st.builds(Acknowledgement, sessions, numbers, st.booleans()))
def test_acknowledgements_survive_the_wire(ack: Acknowledgement) -> None:
    assert decode_acknowledgement(ack.encode()) == ack


@given(hostile)
def test_other_bodies_are_refused_or_decoded(body: bytes) -> None:
    for decode in (decode_update, decode_acknowledgement, decode_pattern):
        try:
            decode(body)
        except WireError:
            continue


@pytest.mark.parametrize(
    "value",
    [
        [1, 0, True, []],
        [-1, 0, True, [], []],
        [2**63, 0, True, [], []],
        [1, True, True, [], []],
        [1, 2**32, True, [], []],
        [1, 0, 1, [], []],
        [1, 0, True, ["text"], []],
        [1, 0, True, [], b""],
        [1, 0, True, [bytes(MAX_PATTERN + 1)], []],
    ],
)
def test_updates_out_of_bounds_are_refused(value: object) -> None:
    with pytest.raises(WireError):
        decode_update(wire.encode_body(value))


def test_chunks_keep_the_order_and_the_room() -> None:
    assert chunk([b"x" * 10] * 5, 30) == [b"x" * 10] * 2
    assert chunk([b"x" * 100, b"y"], 30) == [b"x" * 100]
    assert chunk([], 30) == []

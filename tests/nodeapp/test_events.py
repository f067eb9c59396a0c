from __future__ import annotations

import contextlib
import math
import shlex

import pytest
from cbor2 import CBORSimpleValue, undefined
from hypothesis import example, given
from hypothesis import strategies as st

from nodeapp import wire
from nodeapp.events import (
    MAX_EVENT,
    Event,
    Filter,
    Subscription,
    format_attributes,
    parse_attributes,
)
from nodeapp.predicates import EventError, Predicate, Value
from nodeapp.wire import WireError
from tests.nodeapp.strategies import attributes, bodies, events, filters, predicates, values


@given(events)
def test_events_survive_the_wire(event: Event) -> None:
    decoded = Event.decode(event.publisher, event.sequence, event.encode())
    assert decoded == event
    assert {n: type(v) for n, v in decoded.attributes.items()} == {
        n: type(v) for n, v in event.attributes.items()
    }


@given(filters)
def test_filters_survive_the_wire(filter: Filter) -> None:
    assert Filter.decode(wire.decode_body(wire.encode_body(filter.encode()))) == filter


@given(filters, attributes)
def test_subscriptions_survive_the_wire(filter: Filter, own: dict[str, Value]) -> None:
    subscription = Subscription(filter, own)
    assert Subscription.decode(subscription.encode()) == subscription


@given(bodies)
def test_whatever_a_body_is_it_is_refused_or_an_event(body: bytes) -> None:
    for decode in (lambda b: Event.decode(1, 1, b), Subscription.decode):
        with contextlib.suppress(WireError):
            decode(body)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        CBORSimpleValue(3),
        undefined,
        [{}, None],
        [{}, None, ""],
        [[], None, b""],
        [{"a": None}, None, b""],
        [{"a": b"x"}, None, b""],
        [{"a": [1]}, None, b""],
        [{"": 1}, None, b""],
        [{b"a": 1}, None, b""],
        [{"a b": 1}, None, b""],
        [{"a" * 256: 1}, None, b""],
        [{"a": math.nan}, None, b""],
        [{"a": math.inf}, None, b""],
        [{"a": 2**63}, None, b""],
        [{}, "a", b""],
        [{}, {}, b""],
        [{}, [["a", "="]], b""],
        [{}, [["a", "~", 1]], b""],
        [{}, [["a", ["="], 1]], b""],
        [{}, [[1, "=", 1]], b""],
        [{}, [["a", "exists", 1]], b""],
        [{}, [["a", "prefix", 1]], b""],
        [{}, [["a", "<", True]], b""],
        [{}, [["a", "=", "x" * 1025]], b""],
        [{}, [["a", "=", 1]] * 65, b""],
    ],
)
def test_what_is_no_event_is_refused(value: object) -> None:
    with pytest.raises(WireError):
        Event.decode(1, 1, wire.encode_body(value))


def test_a_relayed_body_is_the_publishers_bytes() -> None:
    # The payload's length in a longer form than needed: legal CBOR, not what we would write.
    body = b"\x83\xa1\x61a\x01\xf6\x59\x00\x02xy"
    assert Event.decode(1, 1, body).encode() is body


@pytest.mark.parametrize(
    ("value", "other", "equal"),
    [(1, 1.0, True), (1, True, False), (0, False, False), ("1", 1, False), (0.0, -0.0, True)],
)
def test_numbers_compare_as_numbers_and_types_stay_apart(
    value: Value, other: Value, equal: bool
) -> None:
    predicate = Predicate("a", "=", value)
    assert predicate.holds(other) is equal
    assert (predicate == Predicate("a", "=", other)) is equal
    assert Predicate("a", "!=", value).holds(other) is (not equal and type(value) is type(other))


@pytest.mark.parametrize(
    ("filter", "event", "matches"),
    [
        ("traffic", "traffic speed=5", True),
        ("traffic", "weather", False),
        ("traffic speed>=5", "traffic speed=5", True),
        ("traffic speed>5", "traffic", False),
        ("speed!=5", "traffic", False),
        ("speed!=5", "speed=fast", False),
        ("speed!=5", "speed=6", True),
        ("'speed exists'", "speed=fast", True),
        ("'street prefix Ma'", "street=Main", True),
        ("'street suffix in'", "street=Main", True),
        ("'street contains ai'", "street=Main", True),
        ("'street contains ia'", "street=Main", False),
        ("street<Main", "street=Maim", True),
        ("", "anything at=all", True),
    ],
)
def test_matching(filter: str, event: str, matches: bool) -> None:
    found = Filter.parse(shlex.split(filter)).matches(parse_attributes(event.split()))
    assert found is matches


@given(filters)
@example(Filter((Predicate("speed", "<", "="),)))
def test_filters_print_in_the_form_they_are_read(filter: Filter) -> None:
    words = shlex.split(str(filter))
    # A topic is a text whatever it looks like, which only values of other types notice.
    if all(p.attribute != "topic" or p.type in ("text", "any") for p in filter.predicates):
        assert Filter.parse(words) == filter


@given(attributes)
def test_attributes_print_in_the_form_they_are_read(own: dict[str, Value]) -> None:
    if isinstance(own.get("topic", ""), str):
        assert parse_attributes(shlex.split(format_attributes(own))) == own


def test_what_others_send_prints_in_one_line_that_a_terminal_does_not_obey() -> None:
    text = "x\x1b[2J\x9b0m\nalarm level=9"
    for name in ("topic", "text"):
        printed = format_attributes({name: text})
        assert printed.isprintable()
        assert parse_attributes(shlex.split(printed)) == {name: text}
    long = {"topic": 2000 * "t", "text": 1025 * "x"}  # more than a condition may have
    assert format_attributes(long) == f"topic={long['topic']} text={long['text']}"


@given(predicates, values)
def test_a_predicate_never_fails_on_a_value(predicate: Predicate, value: Value) -> None:
    assert predicate.holds(value) in (True, False)


@pytest.mark.parametrize(
    "word", ["", "a b c", "=5", 'a="x', "speed>99999999999999999999", "a<true", "a prefix", "'x'"]
)
def test_words_that_are_no_condition_are_refused_in_a_line(word: str) -> None:
    with pytest.raises(EventError) as caught:
        Filter.parse([word])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [["speed>5"], ["a=1", "a=2"], ["traffic", "weather"]])
def test_words_that_are_no_attributes_are_refused(words: list[str]) -> None:
    with pytest.raises(EventError):
        parse_attributes(words)


def test_topics_are_texts() -> None:
    assert parse_attributes(["topic=5"]) == {"topic": "5"}
    assert Filter.parse(["5"]).topic == "5"
    assert Filter.parse(["speed>5"]).topic is None
    assert Event(1, 1, {"topic": 5}).topic is None


@given(events, st.integers(0, 700))
def test_padding_gives_exactly_the_size(event: Event, size: int) -> None:
    bare = len(Event(event.publisher, event.sequence, event.attributes, event.policy).encode())
    padded = event.padded(size)
    assert len(padded.encode()) == max(size, bare)
    decoded = Event.decode(event.publisher, event.sequence, padded.encode())
    assert decoded == padded
    assert decoded.attributes == event.attributes


def test_padding_bridges_every_width_of_the_length() -> None:
    event = Event(1, 1, {"topic": "a"})
    for size in [*range(10, 320), MAX_EVENT]:
        assert len(event.padded(size).encode()) == max(size, len(event.encode()))
    with pytest.raises(EventError):
        event.padded(MAX_EVENT + 1)


def test_subscriptions_tell_types_apart() -> None:
    one, true = (Subscription(Filter(), {"a": value}) for value in (1, True))
    assert one != true
    assert one == Subscription(Filter(), {"a": 1})
    assert len({one, true}) == 2

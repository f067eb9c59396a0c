"""Topics and topic filters of MQTT as events and filters of the node app."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeapp.events import MAX_EVENT, Event
from nodeapp.mqtt.topics import EXPIRES, MqttMessage, event_of, filter_of, matches, message_of
from nodeapp.predicates import EventError

LEVELS = st.sampled_from(["", "a", "b", "ab", "a b", "$x"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(bool)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
FILTERS = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(LEVELS | st.just("+"), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(lambda text: text and text[0] != "$") | st.just("#")


def as_regex(topic_filter: str) -> str:
    """Return section 4.7.1 as a regular expression."""
    pattern = re.escape(topic_filter).replace(r"\+", "[^/]*").replace(r"\#", "#")
    if pattern == "#":
        return ".*"
    return pattern[:-2] + "(/.*)?" if pattern.endswith("/#") else pattern


@given(FILTERS, TOPICS)
def test_matching_is_that_of_the_standard(topic_filter: str, topic: str) -> None:
    own = topic[0] == "$" and topic_filter[0] in "+#"
    expected = not own and re.fullmatch(as_regex(topic_filter), topic, re.DOTALL) is not None
    assert matches(topic_filter, topic) == expected


@given(FILTERS, TOPICS)
def test_the_nodes_filter_misses_no_topic(topic_filter: str, topic: str) -> None:
    if matches(topic_filter, topic):
        assert filter_of(topic_filter).matches({"topic": topic})
    if "+" not in topic_filter and "#" not in topic_filter:
        assert filter_of(topic_filter).topic == topic_filter


@pytest.mark.parametrize(
    ("topic_filter", "words"),
    [
        ("a/b", "a/b"),
        ("a/+/c", "'topic prefix a/' 'topic suffix /c'"),
        ("a/+/b/+", "'topic prefix a/'"),
        ("a/#", "'topic prefix a'"),
        ("+/c", "'topic suffix /c'"),
        ("#", "'topic exists'"),
        ("+", "'topic exists'"),
    ],
)
def test_wildcards_are_prefixes_and_suffixes(topic_filter: str, words: str) -> None:
    assert str(filter_of(topic_filter)) == words


@pytest.mark.parametrize(
    "topic_filter", ["", "a#", "a/#/b", "a+/b", "##", "$share/g/a", "$SYS/#", "a\0", "x" * 1025]
)
def test_other_filters_are_refused(topic_filter: str) -> None:
    with pytest.raises(EventError):
        filter_of(topic_filter)


@given(
    TOPICS.filter(lambda topic: topic[0] != "$"),
    st.binary(),
    st.integers(0, 2),
    st.fixed_dictionaries(
        {},
        optional={
            "payload_format_indicator": st.just(1),
            "content_type": TEXTS,
            "response_topic": TOPICS,
            "correlation_data": st.binary(),
            "user_properties": st.lists(st.tuples(TEXTS, TEXTS), min_size=1),
            EXPIRES: st.floats(0, 1e12),
        },
    ),
)
def test_messages_go_there_and_back(
    topic: str, payload: bytes, qos: int, properties: dict[str, Any]
) -> None:
    message = MqttMessage(topic, payload, qos, properties)
    assert message_of(Event.decode(7, 9, event_of(7, 9, message).encode())) == message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 90_000,
        '{"user_properties": [["a"]]}',
        '{"correlation_data": "x"}',
        '{"content_type": 3, "expires": "soon", "retain": true, "user_properties": [[1, 2]]}',
        '{"content_type": "\\ud800", "response_topic": "\\udfff"}',  # surrogates
        '{"user_properties": [["a", "\\udc00"]]}',
    ],
)
def test_properties_that_are_none_are_left_out(text: str) -> None:
    event = Event(1, 1, {"topic": "a", "mqtt5": text})
    assert message_of(event) == MqttMessage("a", b"")
    assert message_of(Event(1, 1, {"topic": "a", "mqtt5": 3})) == MqttMessage("a", b"")


@pytest.mark.parametrize("topic", ["", "a/+", "#", "$SYS/load", "a\0b", "a\tb", "a\x7f", "\ufffe"])
def test_other_topics_are_refused(topic: str) -> None:
    with pytest.raises(EventError, match="no topic to publish on"):
        event_of(1, 1, MqttMessage(topic, b""))


def test_a_message_must_fit_an_event() -> None:
    with pytest.raises(EventError, match="fit, topic included"):
        event_of(1, 1, MqttMessage("a", bytes(MAX_EVENT)))


@pytest.mark.parametrize(
    "attributes", [{}, {"topic": 3}, {"topic": "a/#"}, {"topic": ""}, {"topic": "a\tb"}]
)
def test_events_without_such_a_topic_are_no_messages(attributes: dict[str, int | str]) -> None:
    assert message_of(Event(1, 1, attributes)) is None
    assert message_of(Event(1, 1, {"topic": "a", "qos": 7})) == MqttMessage("a", b"")

"""Messages and topic filters of MQTT as events and filters of the node app, and back.  Sans-I/O.

Source: OASIS, MQTT Version 3.1.1, 2014, section 4.7, and the same of MQTT Version 5.0, 2019.

A message is an event whose attribute `topic` is the whole topic name, slashes included, and whose
payload is the message's; `qos` is an attribute if it is above 0, `mqtt5` if the message has
properties of MQTT 5, which subscribers get unaltered: JSON, by their names in section 3.3.2.3.  A
topic filter becomes the narrowest conjunction over `topic` that no matching topic fails:

    a/b      topic = a/b
    a/+/c    topic prefix a/, topic suffix /c
    a/#      topic prefix a        (`a` itself matches, section 4.7.1.2)
    #        topic exists

`matches` decides exactly.  A protocol that has topics alone refuses all but the first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from nodeapp.events import MAX_EVENT, TOPIC, Event, Filter
from nodeapp.installation import setup_with
from nodeapp.predicates import EventError, Predicate
from nodeapp.pubsub.fields import is_plain

QOS: Final = "qos"
"""The attribute with the quality of service at which a message was published."""
PROPERTIES: Final = "mqtt5"
"""The attribute with the properties of a message."""
WILDCARDS: Final = frozenset("+#")
_BARRED: Final = re.compile(r"[\0\ud800-\udfff]")
"""U+0000, and surrogates: what JSON, which made up properties are in, can have and UTF-8 cannot."""
EXPIRES: Final = "expires"
"""The property with the time at which a message expires: clocks of nodes agree; s since 1970."""


@dataclass(frozen=True, slots=True)
class MqttMessage:
    """A message; its properties are by name, without those that have their default."""

    topic: str
    payload: bytes
    qos: int = 0
    properties: Mapping[str, Any] = field(default_factory=dict)

    def left(self, now: float) -> float:
        """Return the seconds until it expires."""
        return float(self.properties.get(EXPIRES, math.inf)) - now

    def at(self, qos: int) -> MqttMessage:
        """Return the message at another quality."""
        return self if qos == self.qos else replace(self, qos=qos)


def is_filter(topic_filter: str) -> bool:
    """Return whether a topic filter is well formed (section 4.7.1), and none of the broker's."""
    levels = topic_filter.split("/")
    return (
        _is_text(topic_filter)
        and topic_filter != ""
        and topic_filter[0] != "$"
        and not any(WILDCARDS & set(level) and len(level) > 1 for level in levels)
        and "#" not in levels[:-1]
    )


def filter_of(topic_filter: str) -> Filter:
    """Return the filter that every event on a matching topic matches.

    Raises `EventError` for a topic filter that is malformed, too long or not served: shared
    subscriptions (`$share`, which MQTT 3.1.1 does not have) and other topics of brokers (`$SYS`).
    """
    if not is_filter(topic_filter):
        raise EventError(f"{topic_filter!r}: no topic filter (+, # are levels), or begins with $")
    levels = topic_filter.split("/")
    wild = [number for number, level in enumerate(levels) if level in WILDCARDS]
    if not wild:
        return Filter((Predicate(TOPIC, "=", topic_filter),))
    prefix = "/".join([*levels[: wild[0]], ""])
    suffix = "/".join(["", *levels[wild[-1] + 1 :]])
    if levels[wild[0]] == "#":
        prefix, suffix = prefix[:-1], ""
    if levels[-1] == "#":
        suffix = ""
    parts = [("prefix", prefix), ("suffix", suffix)]
    predicates = [Predicate(TOPIC, operator, text) for operator, text in parts if text]
    return Filter(tuple(predicates) or (Predicate(TOPIC, "exists"),))


def matches(topic_filter: str, topic: str) -> bool:
    """Return whether a topic matches a topic filter that `filter_of` takes."""
    if topic.startswith("$") and topic_filter[0] in WILDCARDS:
        return False
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(
        one in ("+", other) for one, other in zip(wanted, levels, strict=True)
    )


def is_topic(topic: str) -> bool:
    """Return whether a client may publish on a topic: no wildcards, and none of the broker's."""
    return _is_name(topic) and topic[0] != "$"


def _is_name(text: object) -> bool:
    """Return whether something is the name of a topic (sections 1.5.4, 4.7.3)."""
    if not isinstance(text, str) or not text or WILDCARDS & set(text):
        return False
    return _is_text(text) and is_plain(text)


def event_of(publisher: int, sequence: int, message: MqttMessage) -> Event:
    """Return the event of a message.

    Raises `EventError` for a topic that is none or is the broker's own, and a message too large.
    """
    if not is_topic(message.topic):
        raise EventError(f"{message.topic!r} is no topic to publish on")
    attributes: dict[str, str | int] = {TOPIC: message.topic}
    if message.qos:
        attributes[QOS] = message.qos
    if message.properties:
        attributes[PROPERTIES] = json.dumps(message.properties, default=bytes.hex)
    size = len(message.payload)
    event = Event(publisher, sequence, attributes, None, message.payload)
    if size > MAX_EVENT or len(event.encode()) > MAX_EVENT:
        raise EventError(f"a message of {size} bytes: {MAX_EVENT} fit, topic included")
    return event


def lacks_mqtt() -> str | None:
    """Return what serving clients of MQTT needs and what to do; None if it is installed."""
    with contextlib.suppress(ValueError):  # barred in sys.modules
        if importlib.util.find_spec("mqtt5") is not None:
            return None
    return f"mqtt needs the package mqtt5: {setup_with('mqtt-clients')}"


def message_of(event: Event) -> MqttMessage | None:
    """Return the message of an event.

    None if its topic is none that MQTT can carry; an event that no client of MQTT published has
    quality 0 and no properties.
    """
    topic = event.topic
    if topic is None or not _is_name(topic) or len(topic.encode()) > 65_535:
        return None
    qos = event.attributes.get(QOS)
    return MqttMessage(
        topic,
        event.payload,
        qos if type(qos) is int and qos in (1, 2) else 0,
        _properties(event.attributes.get(PROPERTIES)),
    )


def _properties(text: object) -> dict[str, Any]:
    """Return the properties in an attribute, without what is none: anybody may have sent it."""
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        properties = json.loads(text)  # type: ignore[arg-type]
        if "correlation_data" in properties:
            properties["correlation_data"] = bytes.fromhex(properties["correlation_data"])
        if "user_properties" in properties:
            pairs = [(name, value) for name, value in properties["user_properties"]]
            properties["user_properties"] = pairs
        return proper(properties)
    return {}


def proper(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a message's properties that are as the standard wants them."""
    return {
        name: value
        for name, value in properties.items()
        if name in _ALLOWED and _ALLOWED[name](value)
    }


def _is_text(value: object) -> bool:
    """Return whether something is a text that MQTT can carry (section 1.5.4)."""
    return isinstance(value, str) and _BARRED.search(value) is None


_ALLOWED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "payload_format_indicator": lambda value: type(value) is int and value == 1,
    "content_type": _is_text,
    "response_topic": _is_name,
    "correlation_data": lambda value: isinstance(value, bytes),
    "user_properties": lambda value: all(map(_is_text, itertools.chain(*value))),
    EXPIRES: lambda value: isinstance(value, float) and math.isfinite(value),
}

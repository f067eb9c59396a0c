"""Topics and topic filters of MQTT as events and filters of the node app, and back.  Sans-I/O.

Source: OASIS, MQTT Version 3.1.1, 2014, section 4.7.

A message is an event whose attribute `topic` is the whole topic name, slashes included, and whose
payload is the message's; `qos` is an attribute if it is above 0.  A topic filter becomes the
narrowest conjunction over `topic` that no matching topic fails:

    a/b      topic = a/b
    a/+/c    topic prefix a/, topic suffix /c
    a/#      topic prefix a        (`a` itself matches, section 4.7.1.2)
    #        topic exists

`matches` decides exactly.  A protocol that has topics alone refuses all but the first.
"""

from __future__ import annotations

import contextlib
import importlib.util
from typing import Final

from nodeapp.events import MAX_EVENT, TOPIC, Event, Filter
from nodeapp.installation import COMMAND
from nodeapp.predicates import EventError, Predicate

QOS: Final = "qos"
"""The attribute with the quality of service at which a message was published."""
WILDCARDS: Final = frozenset("+#")


def filter_of(topic_filter: str) -> Filter:
    """Return the filter that every event on a matching topic matches.

    Raises `EventError` for a topic filter that is malformed or not served: shared subscriptions
    (`$share`, which MQTT 3.1.1 does not have) and other topics of brokers (`$SYS`).
    """
    levels = topic_filter.split("/")
    if not topic_filter or "\0" in topic_filter or topic_filter[0] == "$":
        raise EventError(f"{topic_filter!r}: no topic filter, or one that begins with $")
    if any(WILDCARDS & set(level) and len(level) > 1 for level in levels) or "#" in levels[:-1]:
        raise EventError(f"{topic_filter!r}: + and # are whole levels, # the last")
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


def event_of(publisher: int, sequence: int, topic: str, payload: bytes, qos: int) -> Event:
    """Return the event of a message.

    Raises `EventError` for a topic that is none or is the broker's own, and a message too large.
    """
    if not topic or topic[0] == "$" or "\0" in topic or WILDCARDS & set(topic):
        raise EventError(f"{topic!r} is no topic to publish on")
    attributes: dict[str, str | int] = {TOPIC: topic}
    if qos:
        attributes[QOS] = qos
    event = Event(publisher, sequence, attributes, None, payload)
    if len(payload) > MAX_EVENT or len(event.encode()) > MAX_EVENT:
        raise EventError(f"a message of {len(payload)} bytes: {MAX_EVENT} fit, topic included")
    return event


def lacks_mqtt() -> str | None:
    """Return what serving clients of MQTT needs and what to do; None if it is installed."""
    with contextlib.suppress(ValueError):  # barred in sys.modules
        if importlib.util.find_spec("amqtt") is not None:
            return None
    return f"mqtt needs the package amqtt: {COMMAND} setup --with amqtt"


def message_of(event: Event) -> tuple[str, bytes, int] | None:
    """Return topic, payload and quality of service of an event.

    None if its topic is none that MQTT can carry; an event that no client of MQTT published has
    quality 0.
    """
    topic = event.topic
    if not topic or "\0" in topic or WILDCARDS & set(topic) or len(topic.encode()) > 65_535:
        return None
    qos = event.attributes.get(QOS)
    return topic, event.payload, qos if type(qos) is int and qos in (1, 2) else 0

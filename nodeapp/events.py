"""Events, filters over them, and the access policy that an event carries.

An event is a set of attribute-value pairs; its topic is the attribute `topic`, a text.  A filter
is a conjunction of predicates (attribute, operator, value), see `nodeapp.predicates`.
`Filter.matches` and `Filter.covers` are exact: `f.covers(g)` holds if and only if every event that
matches g matches f (`nodeapp.covering` has the theory).

A policy is a filter over the attributes of a subscriber: an event goes only to subscribers whose
attributes match it.

The body of an event is the CBOR array [attributes, policy or null, payload]; the payload is
opaque.  It is encoded once, by the publisher's client: whoever relays it sends the same bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from nodeapp import wire
from nodeapp.covering import counterexample
from nodeapp.predicates import (
    EventError,
    Predicate,
    Value,
    check_name,
    format_value,
    type_of,
)

Attributes = Mapping[str, Value]

TOPIC: Final = "topic"
MAX_EVENT: Final = wire.MAX_BODY - 4_000
"""Most bytes of an event's body: protocols put it into bodies of their own."""
MAX_PREDICATES: Final = 64
"""Most predicates in a filter."""


def check_length(body: bytes, most: int) -> None:
    """Raise `EventError` for a body of more than `most` bytes."""
    if len(body) > most:
        raise EventError(f"{len(body)} bytes when encoded; a datagram holds {most}: shorten it")


def check_attributes(attributes: object) -> dict[str, Value]:
    """Return `attributes` if they are names with allowed values; raises `EventError` if not."""
    if not isinstance(attributes, dict):
        raise EventError("attributes must be a map of names to values")
    for name, value in attributes.items():
        check_name(name)
        type_of(value)
    return attributes


def parse_attributes(words: Iterable[str]) -> dict[str, Value]:
    """Return the attributes a user wrote: `speed=10`, or a bare word, which is the topic.

    Raises `EventError` for another form, or an attribute given twice.
    """
    attributes: dict[str, Value] = {}
    for word in words:
        predicate = Predicate.parse(word)
        if predicate.operator != "=":
            raise EventError(f"{word!r} is not an attribute: write name=value, or a bare topic")
        if predicate.attribute in attributes:
            raise EventError(f"{predicate.attribute} is given twice")
        assert predicate.value is not None
        attributes[predicate.attribute] = predicate.value
    return attributes


def format_attributes(attributes: Attributes) -> str:
    """Return attributes in the form that `parse_attributes` reads, quoted for a shell."""
    return _join(_pair(name, "=", value) for name, value in attributes.items())


def _pair(name: str, symbol: str, value: Value) -> str:
    return _topic(value) if name == TOPIC else f"{name}{symbol}{format_value(value)}"


def _topic(value: Value) -> str:
    if isinstance(value, str) and value.isprintable():
        try:
            if Predicate.parse(value) == Predicate(TOPIC, "=", value):
                return value
        except EventError:
            pass
    return f"{TOPIC}={format_value(value, always_text=True)}"


def _join(words: Iterable[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


@dataclass(frozen=True, slots=True)
class Filter:
    """A conjunction of predicates; without any it matches every event.

    Filters of the same predicates are equal, in any order.  Raises `EventError` for more
    than `MAX_PREDICATES`.
    """

    predicates: tuple[Predicate, ...] = field(default=(), compare=False)
    _set: frozenset[Predicate] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "predicates", tuple(self.predicates))
        object.__setattr__(self, "_set", frozenset(self.predicates))
        if len(self.predicates) > MAX_PREDICATES:
            raise EventError(f"a filter of more than {MAX_PREDICATES} conditions")

    def matches(self, attributes: Attributes) -> bool:
        """Return whether all predicates hold for these attributes."""
        for predicate in self.predicates:
            value = attributes.get(predicate.attribute)
            if value is None or not predicate.holds(value):
                return False
        return True

    def covers(self, other: Filter) -> bool:
        """Return whether every event that matches `other` matches this filter."""
        return self._set <= other._set or self.counterexample(other) is None

    def counterexample(self, other: Filter) -> dict[str, Value] | None:
        """Return attributes that match `other` and not this filter; None if it covers `other`."""
        return counterexample(self.predicates, other.predicates)

    @property
    def topic(self) -> str | None:
        """The topic that the filter asks for, if any."""
        for predicate in self.predicates:
            if predicate.attribute == TOPIC and predicate.operator == "=":
                return predicate.value if isinstance(predicate.value, str) else None
        return None

    def encode(self) -> list[list[Any]]:
        """Return the filter as CBOR has it: [[attribute, operator, value], ...]."""
        return [[p.attribute, p.operator, p.value] for p in self.predicates]

    @classmethod
    def decode(cls, encoded: object) -> Self:
        """Return the filter that `encode` encoded.  Raises `wire.WireError`."""
        if not isinstance(encoded, Sequence) or isinstance(encoded, str | bytes):
            raise wire.WireError("a filter must be an array of predicates")
        predicates = []
        try:
            for item in encoded:
                if not isinstance(item, list | tuple) or len(item) != 3:
                    raise EventError("a predicate must be [attribute, operator, value]")
                predicates.append(Predicate(*item))
            return cls(tuple(predicates))
        except EventError as error:
            raise wire.WireError(str(error)) from None

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """Return the filter a user wrote, one predicate per word (see `Predicate.parse`).

        Raises `EventError`.
        """
        return cls(tuple(Predicate.parse(word) for word in words))

    def __str__(self) -> str:
        return _join(
            _pair(p.attribute, "=", p.value)
            if p.operator == "=" and p.value is not None
            else str(p)
            for p in self.predicates
        )


@dataclass(frozen=True, slots=True)
class Event:
    """What a publisher published; `publisher` and `sequence` together are its id.

    Raises `EventError` for attributes that are not allowed.
    """

    publisher: int
    sequence: int
    attributes: Attributes
    policy: Filter | None = None
    payload: bytes = b""
    _body: bytes | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_attributes(self.attributes)

    @property
    def id(self) -> tuple[int, int]:
        """Publisher and sequence number."""
        return self.publisher, self.sequence

    @property
    def topic(self) -> str | None:
        """The event's topic, if it has one."""
        value = self.attributes.get(TOPIC)
        return value if isinstance(value, str) else None

    def encode(self) -> bytes:
        """Return the body: the very bytes it was decoded from, if it was decoded."""
        body = self._body
        if body is None:
            policy = None if self.policy is None else self.policy.encode()
            body = wire.encode_body([dict(self.attributes), policy, self.payload])
            object.__setattr__(self, "_body", body)
        return body

    @classmethod
    def decode(cls, publisher: int, sequence: int, body: bytes) -> Self:
        """Return the event of this id and body.  Raises `wire.WireError`."""
        value = wire.decode_body(body)
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], bytes):
            raise wire.WireError("an event must be [attributes, policy, payload]")
        attributes, policy, payload = value
        try:
            return cls(
                publisher,
                sequence,
                attributes,
                None if policy is None else Filter.decode(policy),
                payload,
                body,
            )
        except EventError as error:
            raise wire.WireError(str(error)) from None

    def padded(self, size: int) -> Event:
        """Return the event with zero bytes as payload, so that its body is `size` bytes long.

        The event without payload if that is no shorter.  Raises `EventError` for more than a
        datagram holds.
        """
        if size > MAX_EVENT:
            raise EventError(f"an event of {size} bytes; at most {MAX_EVENT} fit a datagram")
        bare = Event(self.publisher, self.sequence, self.attributes, self.policy)
        head = bare.encode()[:-1]  # without the empty payload, one byte
        room = size - len(head)
        # A length that fits several widths of CBOR's length field takes the next wider one: with
        # the shortest only, some sizes (25 bytes of payload with its length) would not exist.
        for width, code, most in ((0, 0x40, 23), (1, 0x58, 0xFF), (2, 0x59, 0xFFFF)):
            count = room - 1 - width
            if 0 < count <= most:
                field = bytes([code + count]) if not width else bytes([code])
                field += count.to_bytes(width, "big") if width else b""
                return Event(
                    self.publisher,
                    self.sequence,
                    self.attributes,
                    self.policy,
                    bytes(count),
                    head + field + bytes(count),
                )
        return bare


def fingerprint(publisher: int, sequence: int, body: bytes) -> int:
    """Return 64 bits that tell an event, whose body `Event.encode` returns, from all others.

    Nobody can forge one with the fingerprint of another: Python's hash of bytes has a key that is
    drawn for each process (SipHash), and different ids of one body never share one.
    """
    return (hash(body) ^ (publisher << 32 | sequence)) & 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class Subscription:
    """A filter, and the attributes of the subscriber for which policies ask.

    Raises `EventError` for attributes that are not allowed.
    """

    filter: Filter
    attributes: Attributes = field(default_factory=dict)
    _body: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_attributes(self.attributes)
        body = wire.encode_body([self.filter.encode(), dict(sorted(self.attributes.items()))])
        object.__setattr__(self, "_body", body)

    def accepts(self, event: Event) -> bool:
        """Return whether the event matches the filter and its policy admits the subscriber."""
        return self.filter.matches(event.attributes) and (
            event.policy is None or event.policy.matches(self.attributes)
        )

    def encode(self) -> bytes:
        """Return the subscription as CBOR: [filter, attributes]."""
        return self._body

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return the subscription in `body`.  Raises `wire.WireError`."""
        value = wire.decode_body(body)
        if not isinstance(value, list) or len(value) != 2:
            raise wire.WireError("a subscription must be [filter, attributes]")
        try:
            return cls(Filter.decode(value[0]), check_attributes(value[1]))
        except EventError as error:
            raise wire.WireError(str(error)) from None

    def __eq__(self, other: object) -> bool:
        # The encoding tells 1 from true, which compare equal in Python.
        return isinstance(other, Subscription) and self._body == other._body

    def __hash__(self) -> int:
        return hash(self._body)

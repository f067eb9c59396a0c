"""Subscription tables: patterns, who holds them, and which of them a neighbour has to know.

A pattern is a filter in canonical form: the CBOR array of its predicates, each once, in the order
of their encodings.  Its holders are neighbours, and `LOCAL` for this node's clients.

What others hold is passed on to a neighbour unless another pattern that is passed on covers it.
Covering is exact (`nodeapp.covering`); of two patterns that cover each other, that with the lesser
encoding stays.  So pattern p is above q if p covers q, and q does not cover p or is greater, which
is a strict order; what a neighbour has to know are the maximal ones of the patterns that somebody
else holds.  If one of them goes, those that it alone had covered become maximal.  The
maximal patterns of what neighbours passed on, each the maximal ones of what it knows, are those of
all: a chain of tables has the same entries as a computation over all subscriptions at once.

As the order among all patterns of a table is kept, a new one is compared with each of them; most
pairs differ in the attributes that they name, or in their topics, which takes no theory.
"""

from __future__ import annotations

import functools
from collections.abc import Set
from typing import Final, NamedTuple

from nodeapp import wire
from nodeapp.covering import solution
from nodeapp.events import Attributes, Filter
from nodeapp.predicates import Predicate
from nodeapp.wire import MAX_BODY, WireError

LOCAL: Final = 0
"""Holder of the patterns of this node's own clients."""
MAX_PATTERN: Final = MAX_BODY - 256
"""Bytes of a pattern, so that one fits a frame."""


class TableFullError(Exception):
    """The table has as many entries as it may have."""


def encode_pattern(filter: Filter) -> bytes:
    encoded = {wire.encode_body(predicate): predicate for predicate in filter.encode()}
    return wire.encode_body([encoded[predicate] for predicate in sorted(encoded)])


@functools.lru_cache(maxsize=4096)  # a pattern comes to many nodes of a simulator
def decode_pattern(pattern: bytes) -> Filter:
    """Return the filter of a pattern.  Raises `WireError`, also if it is not in canonical form."""
    if len(pattern) > MAX_PATTERN:
        raise WireError("too long a pattern")
    filter = Filter.decode(wire.decode_body(pattern))
    if encode_pattern(filter) != pattern:
        raise WireError("a pattern that is not in canonical form")
    return filter


class _Outline(NamedTuple):
    """What tells most filters apart."""

    attributes: frozenset[str]
    topic: str | None
    satisfiable: bool

    def may_cover(self, other: _Outline) -> bool:
        """Return False only if a filter of this outline covers none of the other one."""
        return not other.satisfiable or (
            self.attributes <= other.attributes
            and (self.topic is None or other.topic is None or self.topic == other.topic)
        )


@functools.lru_cache(maxsize=4096)
def _outline(pattern: bytes) -> _Outline:
    filter = decode_pattern(pattern)
    by_attribute: dict[str, list[Predicate]] = {}
    for predicate in filter.predicates:
        by_attribute.setdefault(predicate.attribute, []).append(predicate)
    satisfiable = all(solution(predicates) is not None for predicates in by_attribute.values())
    return _Outline(frozenset(by_attribute), filter.topic, satisfiable)


@functools.lru_cache(maxsize=65_536)
def _covers(pattern: bytes, other: bytes) -> bool:
    return decode_pattern(pattern).covers(decode_pattern(other))


def covers(pattern: bytes, other: bytes) -> bool:
    """Return whether every event of `other` is one of `pattern`."""
    return pattern == other or (
        _outline(pattern).may_cover(_outline(other)) and _covers(pattern, other)
    )


def is_above(pattern: bytes, other: bytes) -> bool:
    """Return whether a node that knows `pattern` need not know `other`; a strict order."""
    if not _outline(pattern).may_cover(_outline(other)) or pattern == other:
        return False
    return _covers(pattern, other) and (pattern < other or not _covers(other, pattern))


class _Entry:
    """One pattern, its holders, and the patterns above it."""

    __slots__ = ("above", "filter", "holders", "outline")

    def __init__(self, pattern: bytes) -> None:
        self.filter = decode_pattern(pattern)
        self.outline = _outline(pattern)
        self.holders: set[int] = set()
        self.above: set[bytes] = set()


class PatternTable:
    """Who holds which pattern: `limit` entries (pattern, holder) at most."""

    def __init__(self, limit: int) -> None:
        self.changes = 0
        """Times that an entry was added or removed, or something else changed what is wanted."""
        self._limit = limit
        self._size = 0
        self._entries: dict[bytes, _Entry] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """Whether no entry can be added."""
        return self._size >= self._limit

    def hold(self, pattern: bytes, holder: int) -> None:
        """Add an entry, if it is not there.

        Raises `TableFullError`, and `WireError` for what is not a pattern.
        """
        entry = self._entries.get(pattern)
        if entry is not None and holder in entry.holders:
            return
        if self.full:
            raise TableFullError
        if entry is None:
            entry = _Entry(pattern)
            for other, known in self._entries.items():
                if known.outline.may_cover(entry.outline) and is_above(other, pattern):
                    entry.above.add(other)
                elif entry.outline.may_cover(known.outline) and is_above(pattern, other):
                    known.above.add(pattern)
            self._entries[pattern] = entry
        entry.holders.add(holder)
        self._size += 1
        self.changes += 1

    def release(self, pattern: bytes, holder: int) -> None:
        """Remove an entry, if it is there."""
        entry = self._entries.get(pattern)
        if entry is None or holder not in entry.holders:
            return
        entry.holders.remove(holder)
        self._size -= 1
        self.changes += 1
        if not entry.holders:
            del self._entries[pattern]
            for other in self._entries.values():
                other.above.discard(pattern)

    def held_by(self, holder: int) -> set[bytes]:
        return {pattern for pattern, entry in self._entries.items() if holder in entry.holders}

    def covering(self, pattern: bytes) -> set[int]:
        holders: set[int] = set()
        for other, entry in self._entries.items():
            if not entry.holders <= holders and covers(other, pattern):
                holders |= entry.holders
        return holders

    def wanted_by(
        self, neighbour: int, broken: Set[int] = frozenset(), known: Set[bytes] = frozenset()
    ) -> set[bytes]:
        """Return the patterns that a neighbour has to know: the maximal ones of all others.

        A pattern that is held over broken links alone goes to no neighbour that did not know it:
        its holders may now be reached over that neighbour.
        """
        others = {
            pattern: entry
            for pattern, entry in self._entries.items()
            if (len(entry.holders) > 1 or neighbour not in entry.holders)
            and (not broken or pattern in known or not entry.holders - {neighbour} <= broken)
        }
        return {pattern for pattern, entry in others.items() if entry.above.isdisjoint(others)}

    def matching(self, attributes: Attributes) -> set[int]:
        """Return the holders of patterns that an event with these attributes matches."""
        holders: set[int] = set()
        for entry in self._entries.values():
            if not entry.holders <= holders and entry.filter.matches(attributes):
                holders |= entry.holders
        return holders

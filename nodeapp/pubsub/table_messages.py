"""Bodies of the frames by which two neighbours on a tree keep their subscription tables, in CBOR.

    SUBSCRIPTION_UPDATE  [session, number, last, [pattern, ...], [pattern, ...]]
    SUBSCRIPTION_ACK     [session, number, again]

An update adds the patterns of its first list and removes those of the second, each a byte string
(`nodeapp.pubsub.patterns`).  `number` counts the updates of a session from 0; with the first that
is `last` the session has told everything, and what the receiver has from before it is void.  An
acknowledgement repeats session and number; `again` asks for a new session, whichever the present
one is if `session` is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from nodeapp import wire
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.fields import is_whole, items_of
from nodeapp.pubsub.patterns import MAX_PATTERN
from nodeapp.wire import WireError

MAX_SESSION: Final = 2**63 - 1
MAX_NUMBER: Final = 2**32 - 1


class TableKind(Kind):
    """Messages by which neighbours keep their subscription tables."""

    SUBSCRIPTION_UPDATE = 40, Role.DEMAND
    SUBSCRIPTION_ACK = 41


class Update(NamedTuple):
    """What a SUBSCRIPTION_UPDATE says."""

    session: int
    number: int
    last: bool
    added: list[bytes]
    removed: list[bytes]

    def encode(self) -> bytes:
        return wire.encode_body(list(self))


class Acknowledgement(NamedTuple):
    """What a SUBSCRIPTION_ACK says."""

    session: int
    number: int
    again: bool

    def encode(self) -> bytes:
        return wire.encode_body(list(self))


def chunk(patterns: Iterable[bytes], room: int, *, first: bool = True) -> list[bytes]:
    """Return as many patterns, in order, as fit `room` bytes; if `first`, one in any case."""
    taken: list[bytes] = []
    for pattern in patterns:
        room -= len(pattern) + 5
        if room < 0 and (taken or not first):
            break
        taken.append(pattern)
    return taken


def decode_update(body: bytes) -> Update:
    """Return what the body says; the patterns are not decoded.  Raises `WireError`."""
    session, number, last, added, removed = items_of(
        wire.decode_body(body), 5, "an update of subscriptions"
    )
    _check(session, number, last)
    for patterns in (added, removed):
        if not isinstance(patterns, list) or not all(map(_is_pattern, patterns)):
            raise WireError("not an update of subscriptions")
    return Update(session, number, last, added, removed)


def decode_acknowledgement(body: bytes) -> Acknowledgement:
    """Return what the body says.  Raises `WireError`."""
    values = items_of(wire.decode_body(body), 3, "an acknowledgement of subscriptions")
    _check(*values)
    return Acknowledgement(*values)


def _check(session: Any, number: Any, flag: Any) -> None:
    if not is_whole(session, 0, MAX_SESSION) or not is_whole(number, 0, MAX_NUMBER):
        raise WireError("a session or number out of range")
    if not isinstance(flag, bool):
        raise WireError("a flag that is not true or false")


def _is_pattern(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) <= MAX_PATTERN

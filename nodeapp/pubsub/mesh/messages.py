"""Bodies of the frames between the brokers and clients of a mesh, in CBOR.

    REPORT       [number, status, [subscription, ...], [[broker, number, received], ...]]
    REPORT_ACK   [number, session's number, refusal or null]
    DELIVERY     [broker, number, index, tries, status or null, age, event]
    RECEIVED     [broker, number, index]
    PROBE        [access broker or 0, number, received]
    HANDOVER     [client, old number, new broker, new number, latest,
                  received, [pattern, ...], done]
    HANDED_OVER  [client, old broker, old number, new number, total or null, latest,
                  received]
    PROPAGATED   [client, broker, number, old broker, old number, pattern]

A client numbers its reports by the milliseconds of its clock, each above the last; the broker that
hears one and its number name the **session** in which that broker serves the client.  A broker
numbers the events of a session from 1: that is `index`.  `received` says which of them have
arrived, [n, [m, ...]]: all up to n, and those above it that are listed.  `status` is [[x, y], [x,
y], velocity, pause, remaining pause], `age` how long ago it was reported, seconds.

A report older than one that the broker knows of is refused, with the number of that one in place of
the session's: the clock of a client begins again with its machine, and its numbers go on above.

A probe of a session that the broker does not have is answered by a REPORT_ACK with the number 0 and
the session's: the broker has started again, or is gone, and the client reports anew.  The
sequence number in the header of a broker's REPORT_ACKs and beacons is when it began, milliseconds
of its clock: so a client hears at once that its broker has started again.

DELIVERY is an event on its way to one client, which is the frame's final destination: `broker` and
`number` are its session.  Its `status` is null if it is handed over to a new serving broker.

REPORT and PROBE have the client as originator.  DELIVERY, HANDOVER, HANDED_OVER and, if the client
is at another broker, PROBE and its answer are relayed by geographic forwarding
(`nodeapp.pubsub.mesh.relay`), PROPAGATED along the acyclic graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from nodeapp import wire
from nodeapp.kinds import Kind, Role
from nodeapp.pubsub.fields import LIMIT, is_whole, items_of
from nodeapp.pubsub.mesh.prediction import ClientStatus
from nodeapp.wire import MAX_BODY, WireError

NO_REPORT: Final = 0
"""The number of no report: an answer to a probe has it."""
MAX_NUMBER: Final = 2**63 - 1
MAX_RAISED: Final = 2**62
"""A client goes above a number that it is said to have sent, up to this one: none above is its own.
"""
MAX_INDEX: Final = 2**32 - 1
LISTED: Final = 2000
"""Most events above the first gap that one message lists."""


class MeshKind(Kind):
    """Messages between the brokers and clients of a mesh."""

    DELIVERY = 54, Role.EVENT
    RECEIVED = 55
    REPORT = 56
    REPORT_ACK = 57
    PROBE = 58
    HANDOVER = 59
    PROPAGATED = 60
    HANDED_OVER = 61


class SessionKey(NamedTuple):
    """A broker serves a client since the client's report of this number."""

    broker: int
    number: int


class Received:
    """Which events of a session have arrived: all up to `base`, and some above it."""

    __slots__ = ("above", "base")

    def __init__(self, base: int = 0, above: Iterable[int] = ()) -> None:
        self.base = base
        self.above = {index for index in above if index > base}
        self._close_up()

    def __contains__(self, index: int) -> bool:
        return index <= self.base or index in self.above

    def add(self, index: int) -> None:
        """Note that an event has arrived."""
        if index > self.base:
            self.above.add(index)
            self._close_up()

    def merge(self, other: Received) -> None:
        """Note all that have arrived according to another."""
        self.base = max(self.base, other.base)
        self.above = {index for index in self.above | other.above if index > self.base}
        self._close_up()

    def _close_up(self) -> None:
        while self.base + 1 in self.above:
            self.base += 1
            self.above.remove(self.base)

    def encode(self) -> list[Any]:
        """Return it as CBOR has it."""
        return [self.base, sorted(self.above)[:LISTED]]


class Report(NamedTuple):
    """What a REPORT says; `sessions` are those before it that are not known to have ended."""

    number: int
    status: ClientStatus
    subscriptions: tuple[bytes, ...]
    sessions: tuple[tuple[SessionKey, Received], ...]

    def encode(self) -> bytes:
        listed = [[s.broker, s.number, received.encode()] for s, received in self.sessions]
        status = encode_status(self.status)
        return wire.encode_body([self.number, status, list(self.subscriptions), listed])


class EventDelivery(NamedTuple):
    """What a DELIVERY says."""

    session: SessionKey
    event_index: int
    tries: int
    status: ClientStatus | None
    age: float
    event: bytes

    def encode(self) -> bytes:
        status = None if self.status is None else encode_status(self.status)
        return wire.encode_body(
            [*self.session, self.event_index, self.tries, status, self.age, self.event]
        )


class Handover(NamedTuple):
    """What a HANDOVER says: the broker of the session `new` wants what `old_number` has.

    `latest` is the number of the client's last report that it knows of; `patterns` are those that
    it propagates; `done`: it has everything, the old one may forget.
    """

    client: int
    old_number: int
    new: SessionKey
    latest: int
    received: Received
    patterns: tuple[bytes, ...]
    done: bool

    def encode(self) -> bytes:
        received, patterns = self.received.encode(), list(self.patterns)
        return wire.encode_body(
            [self.client, self.old_number, *self.new, self.latest, received, patterns, self.done]
        )


class HandedOver(NamedTuple):
    """What a HANDED_OVER says: the session had `total` events and gets no more; None: it does.

    `latest` is the number of the client's last report that the old broker knows of, `received` what
    the client has, or nobody will ever have.
    """

    client: int
    old: SessionKey
    new_number: int
    total: int | None
    latest: int
    received: Received

    def encode(self) -> bytes:
        received = self.received.encode()
        return wire.encode_body(
            [self.client, *self.old, self.new_number, self.total, self.latest, received]
        )


class Propagated(NamedTuple):
    """What a PROPAGATED says: from here on, events for `pattern` reach the new session's broker."""

    client: int
    new: SessionKey
    old: SessionKey
    pattern: bytes

    def encode(self) -> bytes:
        return wire.encode_body([self.client, *self.new, *self.old, self.pattern])


def encode_status(status: ClientStatus) -> list[Any]:
    """Return a status as CBOR has it."""
    return [list(status.current), list(status.destination), *status[2:]]


def decode_status(value: Any) -> ClientStatus:
    """Return a status.  Raises `WireError` for one that no client can have."""
    current, destination, velocity, pause, remaining = items_of(value, 5, "a mobility status")
    numbers = (*items_of(current, 2, "a point"), *items_of(destination, 2, "a point"))
    for number in (*numbers, velocity, pause, remaining):
        _number(number)
    if min(velocity, pause, remaining) < 0:
        raise WireError("a mobility status with a negative velocity or pause")
    return ClientStatus(
        (float(current[0]), float(current[1])),
        (float(destination[0]), float(destination[1])),
        float(velocity),
        float(pause),
        float(remaining),
    )


def decode_report(body: bytes) -> Report:
    """Return what a REPORT says.  Raises `WireError`."""
    number, status, subscriptions, sessions = items_of(wire.decode_body(body), 4, "a report")
    _whole(number, MAX_NUMBER)
    if not isinstance(subscriptions, list) or not all(isinstance(s, bytes) for s in subscriptions):
        raise WireError("a report without a list of subscriptions")
    if not isinstance(sessions, list):
        raise WireError("a report without a list of sessions")
    decoded = []
    for session in sessions:
        broker, of, received = items_of(session, 3, "a session")
        decoded.append((_session(broker, of), _received(received)))
    return Report(number, decode_status(status), tuple(subscriptions), tuple(decoded))


def encode_report_ack(number: int, session: int, refusal: str | None) -> bytes:
    """Return the body of a REPORT_ACK."""
    return wire.encode_body([number, session, refusal])


def decode_report_ack(body: bytes) -> tuple[int, int, str | None]:
    """Return number, session or later number, and refusal of a REPORT_ACK.  Raises `WireError`."""
    number, session, refusal = items_of(wire.decode_body(body), 3, "an acknowledged report")
    if not (refusal is None or isinstance(refusal, str)):
        raise WireError("a refusal that is not a text")
    return _whole(number, MAX_NUMBER), _whole(session, MAX_NUMBER), refusal


def decode_delivery(body: bytes) -> EventDelivery:
    """Return what a DELIVERY says; the event is not decoded.  Raises `WireError`."""
    broker, number, index, tries, status, age, event = items_of(
        wire.decode_body(body), 7, "a delivery"
    )
    _whole(index, MAX_INDEX)
    _whole(tries, 255)
    if _number(age) < 0 or not isinstance(event, bytes):
        raise WireError("not a delivery")
    client_status = None if status is None else decode_status(status)
    return EventDelivery(_session(broker, number), index, tries, client_status, float(age), event)


def encode_received(session: SessionKey, index: int) -> bytes:
    """Return the body of a RECEIVED."""
    return wire.encode_body([*session, index])


def decode_received(body: bytes) -> tuple[SessionKey, int]:
    """Return what a RECEIVED says.  Raises `WireError`."""
    broker, number, index = items_of(wire.decode_body(body), 3, "an acknowledged delivery")
    return _session(broker, number), _whole(index, MAX_INDEX)


def encode_probe(access: int, number: int, received: Received) -> bytes:
    """Return the body of a PROBE."""
    return wire.encode_body([access, number, received.encode()])


def decode_probe(body: bytes) -> tuple[int, int, Received]:
    """Return what a PROBE says: where it was heard, the session.  Raises `WireError`."""
    access, number, received = items_of(wire.decode_body(body), 3, "a probe")
    return _whole(access, wire.BROADCAST - 1), _whole(number, MAX_NUMBER), _received(received)


def decode_handover(body: bytes) -> Handover:
    """Return what a HANDOVER says.  Raises `WireError`."""
    client, old, broker, number, latest, received, patterns, done = items_of(
        wire.decode_body(body), 8, "a handover"
    )
    if not isinstance(done, bool):
        raise WireError("a handover whose done is not true or false")
    if not isinstance(patterns, list) or not all(isinstance(item, bytes) for item in patterns):
        raise WireError("a handover without its patterns")
    return Handover(
        _whole(client, wire.BROADCAST - 1),
        _whole(old, MAX_NUMBER),
        _session(broker, number),
        _whole(latest, MAX_NUMBER),
        _received(received),
        tuple(patterns),
        done,
    )


def decode_handed_over(body: bytes) -> HandedOver:
    """Return what a HANDED_OVER says.  Raises `WireError`."""
    client, broker, old, new, total, latest, received = items_of(
        wire.decode_body(body), 7, "an answer to a handover"
    )
    if total is not None:
        _whole(total, MAX_INDEX)
    return HandedOver(
        _whole(client, wire.BROADCAST - 1),
        _session(broker, old),
        _whole(new, MAX_NUMBER),
        total,
        _whole(latest, MAX_NUMBER),
        _received(received),
    )


def decode_propagated(body: bytes) -> Propagated:
    """Return what a PROPAGATED says; the pattern is not decoded.  Raises `WireError`."""
    client, broker, number, old, old_number, pattern = items_of(
        wire.decode_body(body), 6, "a propagated subscription"
    )
    if not isinstance(pattern, bytes):
        raise WireError("a propagated subscription without its pattern")
    new, before = _session(broker, number), _session(old, old_number)
    return Propagated(_whole(client, wire.BROADCAST - 1), new, before, pattern)


def _whole(value: Any, high: int) -> int:
    if not is_whole(value, 0, high):
        raise WireError("a number out of range")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not abs(value) < LIMIT:  # false for NaN too
        raise WireError("not a finite number")
    return float(value)


def _session(broker: Any, number: Any) -> SessionKey:
    if _whole(broker, wire.BROADCAST - 1) == 0:
        raise WireError("a broker that is not a node")
    return SessionKey(broker, _whole(number, MAX_NUMBER))


def _received(value: Any) -> Received:
    base, above = items_of(value, 2, "a list of what has arrived")
    if not isinstance(above, list) or len(above) > MAX_BODY:
        raise WireError("not a list of what has arrived")
    return Received(_whole(base, MAX_INDEX), (_whole(index, MAX_INDEX) for index in above))

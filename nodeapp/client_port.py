"""The local clients of a node and their subscriptions: the node's side of the client port.

Sans-I/O: datagrams from clients in, datagrams to clients out; the caller carries them.

A request carries a token in `originator`; its reply is an ACK with the same token and the
request's kind as `destination`.  The ACK's body is null if the request was done and a text if it
was refused.  Requests may be repeated: a client that misses the ACK sends again.

A subscription is a lease: it lapses `LEASE` seconds after its last SUBSCRIBE, so that a client
that vanished leaves nothing behind.  Equal subscriptions of several clients are one to the
service.  An event goes to a client once, however many of its subscriptions it matches.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nodeapp import wire
from nodeapp.events import Event, Filter, Subscription
from nodeapp.host import Host
from nodeapp.kinds import ClientKind
from nodeapp.pubsub.base import RefusedError, Route, Service
from nodeapp.wire import Frame, WireError

LEASE: Final = 60.0
"""Seconds that a subscription lasts without being renewed."""
RENEWAL: Final = 20.0
"""Seconds between a client's renewals."""
SWEEP: Final = 5.0
"""Seconds between searches for lapsed subscriptions."""
MAX_SUBSCRIPTIONS: Final = 10_000
"""Subscriptions of all local clients together."""
MAX_REFUSAL: Final = 500
"""Characters of the reason in an ACK; what is refused may be quoted in it."""
SHOWN: Final = 100
"""Subscriptions that a reply to STATUS lists, ..."""
SHOWN_BYTES: Final = 16_384
"""... and bytes that these take: the reply must fit a datagram."""

Address = tuple[Any, ...]
"""A client as its carrier names it; of an IP socket, host and port."""


@dataclass(slots=True)
class _Lease:
    subscription: Subscription
    renewed: float


class ClientTable:
    """Clients by address, with their subscriptions by number.

    `send(address, datagram)` carries a datagram to a client; `about()` returns what the host adds
    to the reply to STATUS.  While `closed` is a text, other requests are refused with it.
    """

    def __init__(
        self,
        host: Host,
        service: Service,
        send: Callable[[Address, bytes], None],
        about: Callable[[], dict[str, Any]],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.closed: str | None = None
        self._host = host
        self._service = service
        self._send = send
        self._about = about
        self._clients: dict[Address, dict[int, _Lease]] = {}
        self._users: Counter[Subscription] = Counter()
        self._requests: dict[int, Callable[[Frame, Address], None]] = {
            ClientKind.SUBSCRIBE: self._subscribe,
            ClientKind.UNSUBSCRIBE: self._unsubscribe,
            ClientKind.PUBLISH: self._publish,
            ClientKind.ADVERTISE: self._advertise,
            ClientKind.NAVIGATE: self._navigate,
        }

    def start(self) -> None:
        """Begin to look for lapsed subscriptions."""
        self._host.call_later(SWEEP, self._sweep)

    def datagram_received(self, datagram: bytes, client: Address) -> None:
        """Take a datagram from the client port; malformed ones are counted."""
        try:
            frame = wire.decode(datagram)
        except WireError as error:
            self.counters[error.counter] += 1
            return
        if frame.kind == ClientKind.STATUS and not frame.body:  # a body makes it a reply
            self._status(frame, client)
            return
        request = self._requests.get(frame.kind)
        if request is None:
            self.counters["unexpected kind"] += 1
            return
        if self.closed is not None:
            self._acknowledge(frame, client, self.closed)
            return
        try:
            request(frame, client)
        except WireError as error:
            self.counters["malformed"] += 1
            self._acknowledge(frame, client, str(error))
        except RefusedError as error:
            self.counters["refused"] += 1
            self._acknowledge(frame, client, str(error))
        else:
            self._acknowledge(frame, client, None)

    def notify(self, event: Event, hops: int) -> None:
        """Send the event to every client that has a subscription for it."""
        body = event.encode()
        for client, leases in list(self._clients.items()):
            for number, lease in leases.items():
                if lease.subscription.accepts(event):
                    frame = Frame(
                        ClientKind.NOTIFY,
                        self._host.node_id,
                        number,
                        event.publisher,
                        event.sequence,
                        hops=hops,
                        body=body,
                    )
                    self.counters["notified"] += 1
                    self._send(client, frame.encode())
                    break

    def _acknowledge(self, request: Frame, client: Address, refusal: str | None) -> None:
        body = wire.encode_body(refusal if refusal is None else refusal[:MAX_REFUSAL])
        frame = Frame(ClientKind.ACK, request.originator, request.kind, hops=0, body=body)
        self._send(client, frame.encode())

    def _check_addressee(self, publisher: int) -> None:
        if publisher != self._host.node_id:
            raise RefusedError(f"this is node {self._host.node_id}, not {publisher}")

    def _subscribe(self, frame: Frame, client: Address) -> None:
        if frame.publisher:
            self._check_addressee(frame.publisher)
        if frame.sequence == 0:
            raise WireError("subscriptions are numbered from 1")
        subscription = Subscription.decode(frame.body)
        leases = self._clients.get(client, {})
        held = leases.get(frame.sequence)
        if held is not None and held.subscription == subscription:
            held.renewed = self._host.now()
            return
        if held is None and sum(map(len, self._clients.values())) >= MAX_SUBSCRIPTIONS:
            raise RefusedError(f"this node has {MAX_SUBSCRIPTIONS} subscriptions already")
        # The new one first: if it is refused the old one stands, and if both are equal to a third
        # the service never loses it in between.
        if not self._users[subscription]:
            self._service.subscribe(subscription)
        self._users[subscription] += 1
        if held is not None:
            self._end(client, frame.sequence)
        lease = _Lease(subscription, self._host.now())
        self._clients.setdefault(client, {})[frame.sequence] = lease

    def _unsubscribe(self, frame: Frame, client: Address) -> None:
        if frame.sequence:
            if frame.sequence in self._clients.get(client, {}):  # else it is a repetition
                self._end(client, frame.sequence)
            return
        wanted = Filter.decode(wire.decode_body(frame.body))
        ended = [
            (holder, number)
            for holder, leases in self._clients.items()
            for number, lease in leases.items()
            if lease.subscription.filter == wanted
        ]
        if not ended:
            raise RefusedError(f"nobody at this node subscribes to {wanted}")
        for holder, number in ended:
            self._end(holder, number)
            notice = Frame(ClientKind.UNSUBSCRIBE, self._host.node_id, 0, hops=0, sequence=number)
            self._send(holder, notice.encode())

    def _end(self, client: Address, number: int) -> None:
        leases = self._clients[client]
        subscription = leases.pop(number).subscription
        if not leases:
            del self._clients[client]
        self._users[subscription] -= 1
        if not self._users[subscription]:
            del self._users[subscription]
            self._service.unsubscribe(subscription)

    def _sweep(self) -> None:
        self._host.call_later(SWEEP, self._sweep)
        oldest = self._host.now() - LEASE
        lapsed = [
            (client, number)
            for client, leases in self._clients.items()
            for number, lease in leases.items()
            if lease.renewed < oldest
        ]
        for client, number in lapsed:
            self.counters["lapsed"] += 1
            self._end(client, number)

    def _publish(self, frame: Frame, client: Address) -> None:
        self._check_addressee(frame.publisher)
        if frame.sequence == 0:
            raise WireError("events are numbered from 1")
        self._service.publish(Event.decode(frame.publisher, frame.sequence, frame.body))

    def _advertise(self, frame: Frame, client: Address) -> None:
        if frame.publisher:
            self._check_addressee(frame.publisher)
        topic = wire.decode_body(frame.body)
        if not isinstance(topic, str):
            raise WireError("an advertisement must be a topic")
        self._service.advertise(topic)

    def _navigate(self, frame: Frame, client: Address) -> None:
        if frame.publisher:
            self._check_addressee(frame.publisher)
        values = wire.decode_body(frame.body)
        if (
            not isinstance(values, list)
            or len(values) != len(Route._fields)
            or not all(type(value) in (int, float) and abs(value) < 1e9 for value in values)
        ):
            raise WireError("a route must be [x, y, speed, pause, remaining pause], numbers")
        self._service.navigate(Route(*map(float, values)))

    def _status(self, frame: Frame, client: Address) -> None:
        subscriptions = sorted(
            str(lease.subscription.filter)[:MAX_REFUSAL]
            for leases in self._clients.values()
            for lease in leases.values()
        )
        status = {
            **self._about(),
            **self._service.status(),
            "clients": len(self._clients),
            "client counters": dict(self.counters),
            "subscriptions": _first(subscriptions[:SHOWN], SHOWN_BYTES),
            "subscriptions in all": len(subscriptions),
        }
        reply = Frame(ClientKind.STATUS, frame.originator, 0, hops=0, body=wire.encode_body(status))
        self._send(client, reply.encode())


def _first(texts: Sequence[str], most: int) -> list[str]:
    """Return as many of the texts, from the first on, as take `most` bytes."""
    sizes = itertools.accumulate(len(text.encode()) for text in texts)
    return [text for text, size in zip(texts, sizes, strict=True) if size <= most]

"""Handover: a new serving broker takes over a client's session from the old one.

The paper's section IV.C, with what it leaves to the reader: how messages that are lost, late or
duplicated do no harm, and when propagation has ended.

  1. The client's report names the session that it comes from, and which of its events have arrived.
     The new broker subscribes, begins a session of its own, and asks the old broker (HANDOVER) for
     the rest.  It asks again while anything is missing, at first after `handover_retry`.
  2. The old broker sends what is missing, `WINDOW` events for each time it is asked, and from
     then on every event that still comes to it, as DELIVERY.  The new broker drops what it has
     already, by event id, and numbers the rest in its own session.
  3. When the client has confirmed that it knows who serves it now, PROPAGATED goes from the new
     broker along the acyclic graph (`nodeapp.pubsub.mesh.graph`).  When it has reached the old
     one, for all patterns that both have, and the old one has itself got all from the brokers
     before it, the old session ends: the old broker unsubscribes, unless other clients have the
     same pattern, and says how many events there were (HANDED_OVER).
  4. When the new broker has all of them, it says so (HANDOVER, done), and the old broker forgets
     the session.

A broker that is handing over may be asked by several: by one whose answer the client never got, and
by the next one.  The report with the higher number counts; the other one is told so and drops its
session, which no client has confirmed.  An old broker that does not answer for `handover_patience`,
at first or later, is given up, with what it held.

An event reaches the client exactly once: at least once since every session keeps it until the next
one or the client has it, and at most once since the client knows its id.  That holds as long as the
graph's links lose nothing and keep their order, a client keeps its subscriptions, and no broker
dies or gives up.

Source: docs/papers.md#mesh-prediction, section IV.C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from nodeapp.host import Host
from nodeapp.pubsub.mesh.graph import Graph
from nodeapp.pubsub.mesh.messages import (
    EventDelivery,
    HandedOver,
    Handover,
    MeshKind,
    Propagated,
    Received,
    SessionKey,
    decode_handed_over,
    decode_handover,
    decode_propagated,
)
from nodeapp.pubsub.mesh.parameters import MeshParameters
from nodeapp.pubsub.mesh.relay import Relay
from nodeapp.pubsub.mesh.session import EventSource, Held, Served
from nodeapp.pubsub.patterns import LOCAL
from nodeapp.wire import Frame

WINDOW: Final = 32
"""Events that an old broker sends each time it is asked."""
CONFIRM: Final = 1.0
"""Seconds after which a client is told again that it is served, until it confirms."""
CONFIRM_TRIES: Final = 10
LONGEST: Final = 8.0
"""The longest wait, in multiples of the first; waits double."""
FIRST_DELAY: Final = 0.005
"""Seconds per hop that are assumed before any are measured."""
GAIN: Final = 0.125
"""Weight of a new measurement of the delay (RFC 6298, section 2)."""

Sessions = dict[tuple[int, int], Served]
"""Sessions of this broker, by client and number."""


class Handovers:
    """Both ends of the handovers of one broker.

    `take(served, held)` gives a session an event from the old one; `end(served)` is called when
    one ends, and `drop(served)` when it is not needed any more.
    """

    def __init__(
        self,
        host: Host,
        parameters: MeshParameters,
        counters: Counter[str],
        relay: Relay,
        graph: Graph,
        sessions: Sessions,
        latest: dict[int, int],
        take: Callable[[Served, Held], None],
        end: Callable[[Served], None],
        drop: Callable[[Served], None],
    ) -> None:
        self.measured = FIRST_DELAY
        """Seconds per hop between neighbouring brokers, smoothed."""
        self._host = host
        self._retry = parameters.handover_retry
        self._patience = parameters.handover_patience
        self._ttl = parameters.ttl
        self._counters = counters
        self._relay = relay
        self._graph = graph
        self._sessions = sessions
        self._latest = latest
        self._take, self._end, self._drop = take, end, drop

    # The new broker.

    def fetch(self, served: Served, session: SessionKey, received: Received) -> None:
        """Take over from an old session, of which the client has `received`."""
        if session in served.sources:
            served.sources[session].received.merge(received)
            return
        source = EventSource(session, received, self._host.now())
        served.sources[session] = source
        self._counters["handovers"] += 1
        self._ask(served, source, self._retry)

    def _ask(self, served: Served, source: EventSource, wait: float) -> None:
        if served.sources.get(source.session) is not source:
            return
        now = self._host.now()
        if now - source.heard > self._patience:
            self._counters["handovers given up"] += 1
            self._finish(served, source)
            return
        if source.timer is not None:
            source.timer.cancel()
        longest = LONGEST * self._retry
        source.timer = self._host.call_later(
            wait, self._again, served, source, min(2 * wait, longest)
        )
        source.asked, source.fetched = now, 0
        self._send_handover(served, source, done=False)
        if source.total is None and served.confirmed:
            for pattern in served.patterns:
                self._propagate(served, source, pattern)

    def _again(self, served: Served, source: EventSource, wait: float) -> None:
        source.repeated = True
        self._ask(served, source, wait)

    def _send_handover(self, served: Served, source: EventSource, *, done: bool) -> None:
        number, broker = source.session.number, source.session.broker
        patterns = () if done else served.patterns
        handover = Handover(
            served.client,
            number,
            served.session,
            self._latest.get(served.client, 0),
            source.received,
            patterns,
            done,
        )
        me = self._host.node_id
        frame = Frame(MeshKind.HANDOVER, me, broker, hops=0, body=handover.encode())
        self._relay.to_broker(frame, broker)

    def _propagate(self, served: Served, source: EventSource, pattern: bytes) -> None:
        message = Propagated(served.client, served.session, source.session, pattern)
        if source.session.broker == self._host.node_id:
            self._propagated(message)
            return
        me = self._host.node_id
        body = message.encode()
        frame = Frame(MeshKind.PROPAGATED, me, ttl=self._ttl, hops=0, body=body)
        self._graph.forward_propagated(frame, pattern, LOCAL)

    def fetched(self, client: int, delivery: EventDelivery, held: Held) -> bool:
        """Take an event of an old session; return whether a session here fetches from that."""
        fetches = False
        for served in list(self._sessions.values()):
            source = served.sources.get(delivery.session) if served.client == client else None
            if source is None:
                continue
            fetches = True
            source.heard = self._host.now()
            if delivery.event_index in source.received:
                continue
            source.received.add(delivery.event_index)
            source.fetched += 1
            self._take(served, held)
            if source.complete:
                self._finished(served, source)
            elif source.fetched >= WINDOW:
                self._ask(served, source, self._retry)
        return fetches

    def handed_over(self, frame: Frame) -> None:
        """Take an old broker's answer.  Raises `WireError`."""
        answer = decode_handed_over(frame.body)
        served = self._sessions.get((answer.client, answer.new_number))
        if served is None:
            return
        if answer.latest > self._latest.get(answer.client, 0) and not served.confirmed:
            self._counters["sessions superseded"] += 1
            self._drop(served)
            return
        source = served.sources.get(answer.old)
        if source is None:
            return
        if not source.answered and not source.repeated and frame.hops:
            sample = (self._host.now() - source.asked) / (2 * frame.hops)
            self.measured += GAIN * (sample - self.measured)
        source.answered, source.heard = True, self._host.now()
        source.received.merge(answer.received)
        # A broker that has handed over says that it has nothing.  If it says so to a request from
        # before the client's last report here, it does not know that the client has come back.
        if answer.total or (
            answer.total == 0 and answer.latest >= self._latest.get(answer.client, 0)
        ):
            source.total = answer.total
        if source.complete:
            self._finished(served, source)

    def confirmed(self, served: Served) -> None:
        """The client knows that this broker serves it."""
        if not served.confirmed:
            served.confirmed = True
            for source in list(served.sources.values()):
                if source.complete:
                    self._finished(served, source)
                else:
                    for pattern in served.patterns:
                        self._propagate(served, source, pattern)

    def _finished(self, served: Served, source: EventSource) -> None:
        if served.confirmed:
            self._send_handover(served, source, done=True)
            self._finish(served, source)

    def _finish(self, served: Served, source: EventSource) -> None:
        del served.sources[source.session]
        if source.timer is not None:
            source.timer.cancel()
        self._end_if_possible(served)

    # The old broker.

    def asked(self, frame: Frame) -> None:
        """Take a new broker's HANDOVER.  Raises `WireError`."""
        handover = decode_handover(frame.body)
        client, new = handover.client, handover.new
        self._latest[client] = max(self._latest.get(client, 0), handover.latest)
        served = self._sessions.get((client, handover.old_number))
        if handover.done:
            if served is not None and served.new == new:
                self._drop(served)
            return
        taken_later = served is not None and served.new not in (None, new)
        if served is None or (taken_later and served.taken > handover.latest):
            self._answer(client, handover.old_number, new, 0, Received())
            return
        self.confirmed(served)  # the client has named it
        served.new, served.taken = new, handover.latest
        served.propagating = frozenset(handover.patterns)
        missing = [index for index in served.events if index not in handover.received]
        for index in missing[:WINDOW]:
            self.hand(served, index)
        self._end_if_possible(served)
        total = served.total if served.ended else None
        self._answer(client, handover.old_number, new, total, served.received)

    def hand(self, served: Served, index: int) -> None:
        """Send an event of an old session to the new broker."""
        assert served.new is not None
        frame, _ = served.delivery(self._host.node_id, index)
        self._counters["events handed over"] += 1
        self._relay.to_broker(frame, served.new.broker)

    def propagated(self, frame: Frame, sender: int) -> None:
        """Take PROPAGATED, or hand it on.  Raises `WireError`."""
        message = decode_propagated(frame.body)
        if message.old.broker == self._host.node_id:
            self._propagated(message)
        else:
            self._graph.forward_propagated(frame, message.pattern, sender)

    def _propagated(self, message: Propagated) -> None:
        served = self._sessions.get((message.client, message.old.number))
        if served is not None and not served.ended:
            served.reached.setdefault(message.new, set()).add(message.pattern)
            self._end_if_possible(served)

    def _end_if_possible(self, served: Served) -> None:
        if served.ended or not served.may_end:
            return
        assert served.new is not None
        self._counters["sessions ended"] += 1
        self._end(served)
        self._answer(
            served.client, served.session.number, served.new, served.total, served.received
        )

    def _answer(
        self,
        client: int,
        old_number: int,
        new: SessionKey,
        total: int | None,
        received: Received,
    ) -> None:
        me = self._host.node_id
        latest = self._latest.get(client, 0)
        body = HandedOver(
            client, SessionKey(me, old_number), new.number, total, latest, received
        ).encode()
        frame = Frame(MeshKind.HANDED_OVER, me, new.broker, hops=0, body=body)
        self._relay.to_broker(frame, new.broker)

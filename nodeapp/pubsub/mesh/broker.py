"""A broker of a mesh: its clients, the acyclic graph, and what goes between brokers.

A client belongs to the broker that heard its last report, the serving broker (the paper, section
IV.A).  Events that come along the graph and match the subscriptions of a client that is served here
are numbered, kept until it has them, and sent as the strategy says.

Reports are refused if their destination is outside the area, or if the table is full.  One that is
older than what is known of the client counts for nothing, and the client is told of the later one:
if two brokers think that they serve a client, the one with its later report does.

Source: docs/papers.md#mesh-prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from nodeapp.events import Event, Subscription
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Environment, EventIds
from nodeapp.pubsub.mesh.broker_map import broker_map_of
from nodeapp.pubsub.mesh.graph import Graph
from nodeapp.pubsub.mesh.handover import CONFIRM, CONFIRM_TRIES, Handovers, Sessions
from nodeapp.pubsub.mesh.last_hop import LastHop
from nodeapp.pubsub.mesh.messages import (
    NO_REPORT,
    MeshKind,
    Report,
    SessionKey,
    decode_delivery,
    decode_probe,
    decode_received,
    decode_report,
    encode_probe,
    encode_report_ack,
)
from nodeapp.pubsub.mesh.parameters import FIXED, MeshParameters
from nodeapp.pubsub.mesh.prediction import PredictedPath
from nodeapp.pubsub.mesh.relay import Relay, known_neighbours
from nodeapp.pubsub.mesh.session import Held, Served
from nodeapp.pubsub.mesh.strategies import Send, Strategy
from nodeapp.pubsub.patterns import LOCAL, MAX_PATTERN, TableFullError
from nodeapp.routing.neighbours import Neighbours
from nodeapp.routing.spanning_tree import SpanningTree
from nodeapp.wire import Frame, WireError, moment

MARGIN: Final = 1.0
"""Metres by which a destination may be outside the area: GPS and rounding."""

MAX_FETCHED: Final = 16
"""Old sessions, the latest, that a client's report has a broker ask for."""
MAX_SESSIONS: Final = 65_536
"""Sessions that a broker keeps, those of clients that have left included."""
MAX_UNSERVED: Final = 65_536
"""Clients served elsewhere whose last number is remembered."""

MakeStrategy = Callable[[Callable[[], float], int, Callable[[], float], Send], Strategy]
"""Makes a strategy from the clock, this node, the delay of a hop, and the function that sends."""


class MeshBroker:
    """One broker; `deliver(event, hops)` hands an event to clients on the broker's own host."""

    def __init__(
        self,
        host: Host,
        environment: Environment,
        parameters: MeshParameters,
        counters: Counter[str],
        make_strategy: MakeStrategy,
        deliver: Callable[[Event, int], None],
    ) -> None:
        self._host, self._area = host, environment.area
        self._broker_map = broker_map_of(environment)
        self._parameters, self._counters = parameters, counters
        self._deliver = deliver
        self._began = moment(host.now())
        self._seen = EventIds()
        self.sessions: Sessions = {}
        self._by_topic: dict[str | None, dict[tuple[int, int], Served]] = {}
        self._latest: dict[int, int] = {}
        self._unserved: set[int] = set()
        """Clients with a known number that were not served here at the last sweep."""
        self.graph = Graph(
            host, parameters.table_limit, parameters.retry, parameters.break_delay, counters
        )
        reach = environment.mesh_range
        self._tree: SpanningTree | None = None
        neighbours: Neighbours
        if parameters.graph == FIXED:
            neighbours = known_neighbours(host, parameters, self._broker_map, reach)
        else:
            self._tree = SpanningTree(
                host, parameters, reach, counters, self.graph.link_up, self.graph.link_down
            )
            neighbours = self._tree.neighbours
            neighbours.began = self._began
        self.relay = Relay(
            host, parameters, self._broker_map, reach, counters, self._arrived, neighbours
        )
        self._strategy = make_strategy(host.now, host.node_id, lambda: self.delay, self._send)
        self._last_hop = LastHop(
            host,
            self._broker_map,
            self.relay,
            parameters.last_hop_retry,
            parameters.last_hop_tries,
            self._strategy.rounds,
            counters,
        )
        self._handovers = Handovers(
            host,
            parameters,
            counters,
            self.relay,
            self.graph,
            self.sessions,
            self._latest,
            lambda served, held: self._take(served, held, handed=True),
            self._end,
            self._drop,
        )
        self._handle()

    def _handle(self) -> None:
        """Set the handlers of each kind of frame: as received, and as arrived for this node."""
        self.handlers: dict[int, Callable[[Frame, int], None]] = {
            **self.graph.handlers,
            CommonKind.EVENT: self._event_received,
            MeshKind.REPORT: self._report_received,
            MeshKind.RECEIVED: self._received,
            MeshKind.PROBE: self._probe_received,
            MeshKind.DELIVERY: self.relay.receive,
            MeshKind.HANDOVER: self.relay.receive,
            MeshKind.HANDED_OVER: self.relay.receive,
            MeshKind.REPORT_ACK: self.relay.receive,
            MeshKind.PROPAGATED: self._handovers.propagated,
            CommonKind.HELLO: self._hello_received,
        }
        self._receivers: dict[int, Callable[[Frame], None]] = {
            MeshKind.DELIVERY: self._delivery_arrived,
            MeshKind.HANDOVER: self._handovers.asked,
            MeshKind.HANDED_OVER: self._handovers.handed_over,
            MeshKind.PROBE: self._probe_arrived,
            MeshKind.REPORT_ACK: self._no_session_arrived,
        }

    @property
    def delay(self) -> float:
        """Seconds from one broker to the next, as Algorithm 1 takes them."""
        return self._parameters.delay or self._handovers.measured

    def start(self) -> None:
        """Build the graph."""
        if self._tree is not None:
            self._tree.start()
        else:
            for neighbour in self._broker_map.graph[self._host.node_id]:
                self.graph.link_up(neighbour)
        self._host.call_later(self._parameters.lease / 4, self._sweep)

    def status(self) -> dict[str, Any]:
        """Return what STATUS reports: the graph, and each session with the predicted path."""
        shown = {}
        for (client, number), served in sorted(self.sessions.items())[:100]:
            status = served.path.status
            elapsed = self._host.now() - served.reported
            shown[f"{client}/{number}"] = {
                "state": "ended" if served.ended else "handing over" if served.new else "serving",
                "new broker": served.new.broker if served.new else 0,
                "at": [round(value, 1) for value in status.position(elapsed)],
                "bound for": [round(value, 1) for value in status.destination],
                "speed": round(status.velocity, 2),
                "path": [passage.broker for passage in served.path.passages[:100]],
                "kept events": len(served.events),
            }
        tree = {} if self._tree is None else {"tree": self._tree.status()}
        return {**self.graph.status(), **tree, "delay": round(self.delay, 6), "served": shown}

    # Patterns of clients on the broker's own host.

    def hold(self, pattern: bytes) -> None:
        """Add one.  Raises `TableFullError`."""
        self.graph.hold(pattern)

    def release(self, pattern: bytes) -> None:
        self.graph.release(pattern)

    # Events.

    def _hello_received(self, frame: Frame, sender: int) -> None:
        if sender not in self._broker_map.positions:
            self._counters["hellos of others than brokers"] += 1
        elif self._tree is not None:
            self._tree.handlers[CommonKind.HELLO](frame, sender)

    def _event_received(self, frame: Frame, sender: int) -> None:
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        if sender not in self._broker_map.positions:
            # A client has published it, and sends it again until it hears this.
            me = self._host.node_id
            heard = Frame(MeshKind.RECEIVED, me, sender, frame.publisher, frame.sequence)
            self._host.send(sender, heard.encode())
            frame = frame._replace(ttl=self._parameters.ttl)
        self.event(frame, event, sender)

    def event(self, frame: Frame, event: Event, sender: int) -> None:
        """Take an event that came from `sender`, or `LOCAL`: for clients here and elsewhere."""
        if not self._seen.add(frame.publisher, frame.sequence, frame.body, self._host.now()):
            self._counters["duplicates"] += 1
            return
        if sender != LOCAL:
            self._deliver(event, frame.hops)
        self.graph.forward_event(frame, event, sender)
        held = Held(frame.publisher, frame.sequence, frame.body, frame.hops)
        for topic in dict.fromkeys((event.topic, None)):
            for served in list(self._by_topic.get(topic, {}).values()):
                if any(subscription.accepts(event) for subscription in served.subscriptions):
                    self._take(served, held, handed=False)

    def _take(self, served: Served, held: Held, *, handed: bool) -> None:
        index = served.take(held)
        if index is None:
            return
        if len(served.events) > self._parameters.buffer:
            self._counters["events dropped: buffer full"] += 1
            served.note_received(next(iter(served.events)))
        if index not in served.events:
            return
        if served.new is not None:
            self._handovers.hand(served, index)
        else:
            self._strategy.took(served, index, handed=handed)

    def _send(self, served: Served, index: int, broker: int, predicted: bool) -> None:
        age = max(self._host.now() - served.reported, 0.0)
        status = served.path.status if predicted else None
        frame, delivery = served.delivery(self._host.node_id, index, status, age)
        if broker == self._host.node_id:
            self._last_hop.deliver(frame, delivery)
        else:
            self.relay.to_broker(frame, broker)

    # Frames that geographic forwarding brings.

    def _arrived(self, frame: Frame) -> None:
        receiver = self._receivers.get(frame.kind)
        if receiver is None:
            self._counters["unexpected kind"] += 1
            return
        receiver(frame)

    def _delivery_arrived(self, frame: Frame) -> None:
        delivery = decode_delivery(frame.body)
        held = Held(frame.publisher, frame.sequence, delivery.event, frame.hops)
        if not self._handovers.fetched(frame.destination, delivery, held):
            self._last_hop.deliver(frame, delivery)

    def _probe_received(self, frame: Frame, sender: int) -> None:
        if sender in self._broker_map.positions:
            self.relay.receive(frame, sender)
            return
        _, number, received = decode_probe(frame.body)
        me = self._host.node_id
        body = encode_probe(me, number, received)
        self.relay.to_broker(frame._replace(originator=sender, body=body), frame.destination)

    def _probe_arrived(self, frame: Frame) -> None:
        access, number, received = decode_probe(frame.body)
        served = self.sessions.get((frame.originator, number))
        if served is None:
            self._counters["probes of nobody served here"] += 1
            body = encode_report_ack(NO_REPORT, number, "no such session")
            answer = Frame(MeshKind.REPORT_ACK, self._host.node_id, frame.originator, body=body)
            self.relay.to_broker(answer, access)
            return
        served.heard = self._host.now()
        served.merge_received(received)
        if served.new is None and access in self._broker_map.positions:
            self._strategy.probed(served, access)

    def _no_session_arrived(self, frame: Frame) -> None:
        """Hand a client here the answer to its probe."""
        self._host.send(frame.destination, frame._replace(ttl=0, route=b"").encode())

    # Clients.

    def _refusal(self, report: Report) -> str | None:
        x0, y0, x1, y1 = self._area
        for x, y in (report.status.current, report.status.destination):
            if not (x0 - MARGIN <= x <= x1 + MARGIN and y0 - MARGIN <= y <= y1 + MARGIN):
                return f"{x:.1f},{y:.1f} is outside the area {x0:g},{y0:g},{x1:g},{y1:g}"
        return None

    def _report_received(self, frame: Frame, sender: int) -> None:
        report = decode_report(frame.body)
        subscriptions = [Subscription.decode(pattern) for pattern in report.subscriptions]
        if any(len(pattern) > MAX_PATTERN for pattern in report.subscriptions):
            raise WireError("too long a filter")
        latest = self._latest.get(sender, 0)
        if report.number < latest:
            self._counters["older reports"] += 1
            self._acknowledge(sender, report.number, latest, "a later report is known")
            return
        refusal, served = self._refusal(report), None
        if refusal is None:
            served = self._serving(sender, report)
            if served is None:
                refusal = f"broker {self._host.node_id} has no room for more sessions"
            elif not self._subscribe(served, subscriptions):
                refusal = f"the table of broker {self._host.node_id} is full: raise table_limit"
        if served is None or refusal is not None:
            self._counters["reports refused"] += 1
            self._acknowledge(sender, report.number, 0, refusal)
            return
        self._latest[sender] = report.number
        served.path = PredictedPath(self._broker_map, report.status)
        served.reported = served.heard = self._host.now()
        self._acknowledge(sender, report.number, served.session.number, None)
        self._host.call_later(CONFIRM, self._remind, served, report.number, 1)
        for session, received in report.sessions[-MAX_FETCHED:]:
            if session == served.session:
                served.merge_received(received)
                self._handovers.confirmed(served)
            else:
                self._handovers.fetch(served, session, received)
        self._strategy.reported(served)

    def _serving(self, client: int, report: Report) -> Served | None:
        """Return the session in which a client is served here, or a new one; None without room."""
        for served in self.sessions.values():
            if served.client == client and served.new is None and not served.ended:
                return served
        if len(self.sessions) >= MAX_SESSIONS:
            return None
        session = SessionKey(self._host.node_id, report.number)
        now = self._host.now()
        served = Served(client, session, PredictedPath(self._broker_map, report.status), now, now)
        self.sessions[client, report.number] = served
        return served

    def _subscribe(self, served: Served, subscriptions: list[Subscription]) -> bool:
        if served.subscriptions == tuple(subscriptions):
            return True
        before = served.patterns
        self._forget_topics(served)
        served.subscribe(subscriptions)
        held = []
        try:
            for pattern in served.patterns:
                self.graph.hold(pattern)
                held.append(pattern)
        except TableFullError:
            for pattern in (*held, *before):
                self.graph.release(pattern)
            served.subscribe(())
            self._counters["table full"] += 1
            return False
        for pattern in before:
            self.graph.release(pattern)
        key = served.client, served.session.number
        for subscription in subscriptions:
            self._by_topic.setdefault(subscription.filter.topic, {})[key] = served
        return True

    def _forget_topics(self, served: Served) -> None:
        key = served.client, served.session.number
        for subscription in served.subscriptions:
            of_topic = self._by_topic.get(subscription.filter.topic, {})
            of_topic.pop(key, None)
            if not of_topic:
                self._by_topic.pop(subscription.filter.topic, None)

    def _acknowledge(self, client: int, number: int, session: int, refusal: str | None) -> None:
        body = encode_report_ack(number, session, refusal)
        me = self._host.node_id
        frame = Frame(MeshKind.REPORT_ACK, me, client, sequence=self._began, body=body)
        self._host.send(client, frame.encode())

    def _received(self, frame: Frame, sender: int) -> None:
        session, index = decode_received(frame.body)
        self._last_hop.received(sender, session, index)
        if session.broker != self._host.node_id:
            return
        served = self.sessions.get((sender, session.number))
        if served is not None:
            served.heard = self._host.now()
            if index:
                served.note_received(index)
            else:
                self._handovers.confirmed(served)

    def _remind(self, served: Served, number: int, tries: int) -> None:
        """Tell a client again that it is served here, until it confirms."""
        key = served.client, served.session.number
        if served.confirmed or self.sessions.get(key) is not served:
            return
        if tries < CONFIRM_TRIES and self._latest.get(served.client) == number:
            self._acknowledge(served.client, number, served.session.number, None)
            self._host.call_later(CONFIRM, self._remind, served, number, tries + 1)

    def _end(self, served: Served) -> None:
        """Take no more events for a session."""
        served.ended = True
        self._forget_topics(served)
        for pattern in served.patterns:
            self.graph.release(pattern)
        served.subscriptions, served.patterns = (), ()

    def _drop(self, served: Served) -> None:
        """Forget a session."""
        if not served.ended:
            self._end(served)
        for source in served.sources.values():
            if source.timer is not None:
                source.timer.cancel()
        served.sources.clear()
        self.sessions.pop((served.client, served.session.number), None)

    def _sweep(self) -> None:
        oldest = self._host.now() - self._parameters.lease
        for served in [session for session in self.sessions.values() if session.heard < oldest]:
            self._counters["clients forgotten"] += 1
            self._drop(served)
        served_here = {served.client for served in self.sessions.values()}
        unserved = [client for client in self._latest if client not in served_here]
        # Two sweeps are more than a handover or a late report takes.  Nobody is shut out for longer
        # by a number that somebody else has sent.
        for number, client in enumerate(unserved):
            if client in self._unserved or number < len(unserved) - MAX_UNSERVED:
                del self._latest[client]
        self._unserved = {client for client in unserved if client in self._latest}
        self._host.call_later(self._parameters.lease / 4, self._sweep)

"""What passed on the loopbacks and the radios of one run under the virtual clock.

Theory of operation.  Clients speak to their node in datagrams, and nodes to each other, so a
recorder sees all that a property may ask for: who was subscribed to what from when to when, what
was published, who was notified, and when the last frame of an event was sent.  Nothing is asked of
a protocol itself.

A run that would never end is ended: when a node asks for call after call without letting time pass
(`STANDSTILL`) or for ever more (`MOST_CALLS`), or when nodes send ever more (`MOST_FRAMES`, or more
frames of one event than the protocol promises).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from emulation.scenario.faults import down
from emulation.scenario.scenario import NodeSpec, Scenario
from emulation.virtual.recording import NullRecorder, Packet
from emulation.virtual.simulation import Simulation
from nodeapp.events import Event, Subscription
from nodeapp.host import Host, Timer
from nodeapp.kinds import ClientKind, event_kinds
from nodeapp.pubsub.base import Service
from nodeapp.pubsub.registry import service_of, typed
from nodeapp.wire import HEADER, Frame, WireError, decode, decode_body

STANDSTILL: Final = 10_000
"""Calls that a node may ask for at one instant."""
MOST_CALLS: Final = 200_000
"""Calls that a node may ask for in one run; some ask for 5,000 in two minutes."""
MOST_FRAMES: Final = 50_000
"""Datagrams between nodes in one run; a dozen nodes send some 10,000 in two minutes."""
REST: Final = 10.0
"""Seconds before the quiet end's events; less than any protocol needs to settle."""
SETTLED: Final = "settled"
"""The topology parameter of a drawn scenario that has the second from which it is quiet."""

EventId = tuple[int, int]
"""Publisher and sequence number."""


class SubscriptionSpan(NamedTuple):
    """A client's subscription at a node, from when to when; None: to the end of the run."""

    node: int
    subscription: Subscription
    start: float
    end: float | None


class Publishing(NamedTuple):
    """A client has published an event; `accepted` by its node app."""

    time: float
    event: Event
    accepted: bool


class Notice(NamedTuple):
    """A client at a node was notified of an event."""

    time: float
    node: int
    event: EventId
    body: bytes


class Crash(NamedTuple):
    """A node's app has raised an exception."""

    time: float
    node: str
    error: Exception


class EndlessError(BaseException):
    """A run that would never end; not an Exception, which a node app survives.

    Shrinking keeps its `kind`.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class _WatchedHost:
    """A host that counts the calls a service asks for at one instant; else the host itself."""

    def __init__(self, host: Host, name: str) -> None:
        self._host = host
        self._name = name
        self._instant = -1.0
        self._calls = self._all_calls = 0
        self.node_id, self.rng = host.node_id, host.rng
        self.now, self.position = host.now, host.position
        self.send, self.withdraw = host.send, host.withdraw
        self.watch_links, self.overhear = host.watch_links, host.overhear
        self.notify = host.notify

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> Timer:
        """Call back when the clock says so, unless time stands still."""
        now = self._host.now()
        if now != self._instant:
            self._instant, self._calls = now, 0
        self._calls += 1
        self._all_calls += 1
        if self._calls > STANDSTILL or self._all_calls > MOST_CALLS:
            still = ": virtual time stands still" if self._calls > STANDSTILL else ""
            raise EndlessError(
                "calls", f"{self._name} asks for call after call at {now:.3f} s{still}"
            )
        return self._host.call_later(delay, callback, *args)


class Observed(NullRecorder):
    """The record of one run; complete when `observe` returns it."""

    def __init__(self, scenario: Scenario, service: type[Service]) -> None:
        """`service` is the class whose promises say how many frames an event may take."""
        self.scenario = scenario
        self.service = service
        self._most = service.promises.frames
        self._sent = array("d")
        """When nodes sent frames, seconds."""
        value = scenario.topology_parameters.get(SETTLED, scenario.duration)
        self.settled = float(value)
        """From when on all is quiet, seconds; the end of the run if it is not one of `check`."""
        self.interests: list[SubscriptionSpan] = []
        self.published: dict[EventId, Publishing] = {}
        self.notices: list[Notice] = []
        self.crashes: list[Crash] = []
        self.last_frames: dict[EventId, tuple[float, int]] = {}
        """By event: when its last frame between nodes was sent, and by whom."""
        self.kinds: Counter[int] = Counter()
        """Datagrams between nodes, by kind."""
        self.handled: set[int] = set()
        """Kinds that a node has a handler for."""
        self.samples: dict[int, bytes] = {}
        """The first datagram of each kind."""
        self.forgeries = set(_forged(scenario))
        """Events that a stranger sends too, whose contents and number may be forged."""
        self.endless = ""
        """Why the run was ended before its time, if it was, ..."""
        self.endless_kind = ""
        """... and which limit it was."""
        self.latest = 0.0
        """When a node or a client last sent anything."""
        self._of_event: Counter[EventId] = Counter()
        self._event_kinds = event_kinds()
        self._ids = [node.id for node in scenario.nodes]
        self._requests: dict[int, tuple[float, Frame]] = {}
        self._open: dict[tuple[int, int], tuple[float, Subscription]] = {}

    @property
    def began(self) -> bool:
        """Whether all nodes could start."""
        return self.endless_kind != "start"

    def at_rest(self, seconds: float = REST, window: float = REST) -> int:
        """Return the most frames in a `window`, in the last `seconds` before `settled`."""
        times = np.array(self._sent)
        times = times[(times > self.settled - seconds) & (times <= self.settled)]
        return int(max(np.searchsorted(times, times + window) - np.arange(len(times)), default=0))

    # What the simulation reports.

    def sent(self, time: float, station: int, to: int, datagram: bytes) -> Sequence[Packet]:
        self.latest = time
        self._sent.append(time)
        if len(self._sent) > MOST_FRAMES:
            raise EndlessError(
                "frames", f"nodes send ever more: {MOST_FRAMES:,} frames by {time:.1f} s"
            )
        if len(datagram) >= HEADER.size:
            header = HEADER.unpack_from(datagram)
            kind, event = header[1], (header[9], header[10])
            self.kinds[kind] += 1
            if self.kinds[kind] == 1:
                self.samples[kind] = datagram
            if kind in self._event_kinds:
                self.last_frames[event] = (time, self._ids[station])
                self._of_event[event] += 1
                # A stranger's packet is heard by all, and each may send it on.
                most = self._most * (len(self._ids) if event in self.forgeries else 1)
                if self._of_event[event] > most:
                    raise EndlessError(
                        "frames of an event",
                        f"nodes send ever more: {most:,} frames of one event by {time:.1f} s",
                    )
        return super().sent(time, station, to, datagram)

    def on_loopback(self, time: float, station: int, datagram: bytes, *, to_client: bool) -> None:
        self.latest = time
        try:
            frame = decode(datagram)
        except WireError:
            return
        node = self._ids[station]
        if not to_client:
            self._requested(time, node, frame)
        elif frame.kind == ClientKind.NOTIFY:
            event = (frame.publisher, frame.sequence)
            self.notices.append(Notice(time, node, event, frame.body))
        elif frame.kind == ClientKind.ACK and decode_body(frame.body) is None:
            self._accepted(node, frame.originator)

    def _requested(self, time: float, node: int, frame: Frame) -> None:
        self._requests[frame.originator] = (time, frame)
        if frame.kind == ClientKind.UNSUBSCRIBE:
            self._end(node, frame.sequence, time)
        elif frame.kind == ClientKind.PUBLISH:
            event = Event.decode(frame.publisher, frame.sequence, frame.body)
            self.published.setdefault(event.id, Publishing(time, event, False))

    def _accepted(self, node: int, token: int) -> None:
        time, frame = self._requests.pop(token, (0.0, None))
        if frame is None:
            return
        if frame.kind == ClientKind.SUBSCRIBE:
            subscription = Subscription.decode(frame.body)
            self._open.setdefault((node, frame.sequence), (time, subscription))
        elif frame.kind == ClientKind.PUBLISH:
            event = self.published[frame.publisher, frame.sequence].event
            self.published[event.id] = Publishing(time, event, True)

    def _end(self, node: int, number: int, time: float | None) -> None:
        held = self._open.pop((node, number), None)
        if held is not None:
            self.interests.append(SubscriptionSpan(node, held[1], held[0], time))

    def finish(self) -> None:
        """End the subscriptions that are still open."""
        for node, number in list(self._open):
            self._end(node, number, None)

    # What properties ask.

    def name(self, node: int) -> str:
        return self.scenario.nodes[self._ids.index(node)].name

    def lives(self, node: int, time: float) -> int:
        """Return how often a node's app has been killed before a time; what it did then counts."""
        crashes = down(self.scenario.faults, self.name(node), "crash")
        return sum(start < time for start, _ in crashes)

    def is_up(self, node: int) -> bool:
        """Return whether a node's app runs at the end."""
        ends = (end for _, end in down(self.scenario.faults, self.name(node), "crash"))
        return all(end is not None and end <= self.scenario.duration for end in ends)

    def expected(self) -> Iterator[tuple[SubscriptionSpan, list[Publishing]]]:
        """Yield each interest of the quiet end with the last events of each publisher it matches.

        Only interests, subscribers and publishers count that stay from then on, and no event that a
        stranger sends too: it cannot be told from a replay.
        """
        last: dict[int, list[Publishing]] = {}
        for publishing in self.published.values():
            if (
                publishing.accepted
                and publishing.event.id not in self.forgeries
                and publishing.time >= self.settled
                and self.is_up(publishing.event.publisher)
            ):
                last.setdefault(publishing.event.publisher, []).append(publishing)
        for interest in self.interests:
            stays = interest.end is None and interest.start <= self.settled
            if not stays or not self.is_up(interest.node):
                continue
            for publications in last.values():
                accepts = interest.subscription.accepts
                matching = [publishing for publishing in publications if accepts(publishing.event)]
                if matching:
                    yield interest, matching

    def notified(self, node: int, event: EventId) -> bool:
        """Return whether a node's client has heard of an event."""
        return any(notice.node == node and notice.event == event for notice in self.notices)


def _forged(scenario: Scenario) -> Iterator[EventId]:
    for fault in scenario.faults:
        datagram = bytes.fromhex(fault.datagram)
        if len(datagram) >= HEADER.size:
            header = HEADER.unpack_from(datagram)
            yield header[9], header[10]


def observe(scenario: Scenario, service: type[Service] | None = None) -> Observed:
    """Run a scenario and return what passed; `service` stands in for the protocol's own class."""
    service_class = service or service_of(scenario.protocol.name)
    parameters = typed(scenario.protocol.name, scenario.protocol.parameters)
    environment = scenario.environment()

    def make(host: Host, spec: NodeSpec) -> Service:
        try:
            running = service_class(_WatchedHost(host, spec.name), environment, parameters)
            services.append(running)
            return running
        except Exception as error:
            observed.crashes.append(Crash(host.now(), spec.name, error))
            text = f"{spec.name} cannot start at {host.now():g} s"
            raise EndlessError("start", text) from error

    services: list[Service] = []
    observed = Observed(scenario, service_class)
    try:
        simulation = Simulation(
            scenario,
            observed,
            make,
            lambda node, error: observed.crashes.append(Crash(simulation.now, node, error)),
        )
        simulation.run()
    except EndlessError as error:
        observed.endless, observed.endless_kind = str(error), error.kind
    observed.finish()
    for running in services:  # some add handlers when they start
        observed.handled.update(running.handlers)
    return observed

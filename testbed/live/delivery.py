"""Who is to receive the events of a run under way, and who has, counted as the report does.

An event is due to the clients that are subscribed when it is published, unless their node is cut
off on purpose (`spark_analysis.measures.delivery`): both are known by the report's own definitions.
Requests that nodes refused are not looked at, so the report may count fewer.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from emulation.scenario.runfolder import Run
from nodeapp.events import Event
from spark_analysis.measures.runs import CUT_OFF, Outage, outages
from spark_analysis.measures.subscriptions import LEASE_NS, Request, SubscribedInterval, intervals
from testbed.live.captures import ClientMessage


class DueClient(NamedTuple):
    """A client: its node's index, and its port there."""

    node: int
    client: int


class LiveDelivery:
    """Deliveries of a run; requests, events and notifications of clients come in order of time."""

    def __init__(self) -> None:
        self.events: dict[tuple[int, int], set[DueClient]] = {}
        """The clients that have received each event, by publisher and sequence number."""
        self.expected = 0
        self.received = 0
        self._due: dict[tuple[int, int], frozenset[DueClient]] = {}
        self._requests: dict[int, deque[Request]] = {}
        """Each node's requests that may still have an effect."""
        self._intervals: dict[int, list[SubscribedInterval]] = {}
        """Each node's intervals, unless there are newer requests."""
        self._crashes: dict[int, list[tuple[int, int]]] = {}
        self._silences: dict[int, list[Outage]] = {}

    def learn_faults(self, run: Run, epoch_ns: int) -> None:
        """Take in when nodes are down, Unix ns."""
        index = {node.id: number for number, node in enumerate(run.scenario.nodes)}
        self._crashes, self._silences, self._intervals = {}, {}, {}
        if not run.faults:
            return
        for outage in outages(run, "crash", epoch_ns):
            stretch = outage.from_ns, outage.until_ns
            self._crashes.setdefault(index[outage.node_id], []).append(stretch)
        for kind in CUT_OFF:
            for outage in outages(run, kind, epoch_ns):
                self._silences.setdefault(index[outage.node_id], []).append(outage)

    def request(self, message: ClientMessage) -> None:
        """Take in a SUBSCRIBE or an UNSUBSCRIBE."""
        waiting = self._requests.setdefault(message.node, deque())
        while waiting and waiting[0].time_ns <= message.time_ns - LEASE_NS:
            waiting.popleft()
        waiting.append(
            Request(message.time_ns, message.client, message.kind, message.sequence, message.body)
        )
        self._intervals.pop(message.node, None)

    def publish(self, message: ClientMessage, event: Event) -> list[DueClient]:
        """Take in an event that is new; return to whom it is due."""
        at = message.time_ns
        due = {
            DueClient(node, held.client)
            for node in self._requests
            if node == message.node or not self._is_silent(node, at)
            for held in self._subscribed(node)
            if held.from_ns <= at < held.until_ns and held.subscription.accepts(event)
        }
        key = event.publisher, event.sequence
        self.events[key], self._due[key] = set(), frozenset(due)
        self.expected += len(due)
        return sorted(due)

    def notify(self, key: tuple[int, int], receiver: DueClient) -> bool:
        """Take in that a client has received an event; return whether that is new."""
        if receiver in self.events[key]:
            return False
        self.events[key].add(receiver)
        self.received += self.is_due(key, receiver)
        return True

    def is_due(self, key: tuple[int, int], receiver: DueClient) -> bool:
        """Return whether an event is due to a client."""
        return receiver in self._due[key]

    def _subscribed(self, node: int) -> list[SubscribedInterval]:
        if node not in self._intervals:
            self._intervals[node] = intervals(self._requests[node], self._crashes.get(node, ()))
        return self._intervals[node]

    def _is_silent(self, node: int, at_ns: int) -> bool:
        return any(down.from_ns <= at_ns < down.until_ns for down in self._silences.get(node, ()))

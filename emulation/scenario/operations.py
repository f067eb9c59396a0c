"""The operations of clients, checked before a run.

A request that no client can make would end the run in its middle, and one that the protocol cannot
serve would be refused at its time: what the run measures would then be something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from emulation.errors import ScenarioError
from emulation.scenario.scenario import ProtocolSpec
from emulation.workloads.base import Operation
from nodeapp.events import (
    MAX_EVENT,
    TOPIC,
    Event,
    Filter,
    Subscription,
    check_attributes,
    check_length,
)
from nodeapp.predicates import EventError, type_of
from nodeapp.pubsub.base import Route, Service
from nodeapp.wire import MAX_BODY, WireError, encode_body

LONG: Final = 1000
"""Characters of texts in an event from which its length is measured."""


def check_operations(
    operations: Iterable[Operation], protocol: ProtocolSpec, service: type[Service]
) -> None:
    """Raise `ScenarioError` for an operation that cannot be requested or that is not served."""
    checker = _Checker(protocol, service)
    for operation in operations:
        try:
            checker.check(operation)
        except (EventError, WireError) as error:
            raise ScenarioError(
                f"node {operation.node}, {operation.action} at {operation.time:g} s: {error}"
            ) from None


class _Checker:
    """Checks operations: what many of them share, once, since there may be very many."""

    def __init__(self, protocol: ProtocolSpec, service: type[Service]) -> None:
        self._protocol = protocol
        self._service = service
        self._seen: set[object] = set()
        """Names of attributes of events; filters and attributes of subscribers as texts."""

    def check(self, operation: Operation) -> None:
        """Raise `EventError` or `WireError` for no request, `ScenarioError` for one not served."""
        match operation.action:
            case "publish":
                self._check_event(operation)
            case "subscribe":
                self._check_subscription(operation)
            case "advertise":
                topic = operation.event.get(TOPIC)
                if not isinstance(topic, str):
                    raise EventError('needs a topic: event={"topic": "traffic"}')
                type_of(topic)
                check_length(encode_body(topic), MAX_BODY)
            case "navigate":
                values = operation.event.values()
                if operation.event.keys() != set(Route._fields) or str in map(type, values):
                    raise EventError(f"needs an event with {', '.join(Route._fields)}, all numbers")

    def _check_event(self, operation: Operation) -> None:
        event = operation.event
        names = tuple(event)
        is_new = names not in self._seen
        if is_new:
            check_attributes(event)
        length = 0
        for value in event.values():
            type_of(value)
            if isinstance(value, str):
                length += len(value)
        if is_new or length > LONG or operation.policy:
            policy = Filter.decode(operation.policy) if operation.policy else None
            check_length(Event(1, 1, event, policy).encode(), MAX_EVENT)
        if is_new:
            foreign = self._service.foreign(event, self._protocol.parameters)
            if foreign:
                raise ScenarioError(
                    f"{foreign}, or choose a workload that does, like --workload stock"
                )
            self._seen.add(names)
        if self._service.needs_topic and not isinstance(event.get(TOPIC), str):
            raise self._without_topic("events")

    def _check_subscription(self, operation: Operation) -> None:
        wanted, attributes = operation.filter, operation.client_attributes
        as_text = repr((wanted, attributes))
        if as_text in self._seen:
            return
        self._seen.add(as_text)
        pattern = Filter.decode(wanted)
        check_length(Subscription(pattern, attributes).encode(), MAX_BODY)
        unfit = self._service.unfit(wanted)
        if unfit:
            raise ScenarioError(f"{unfit}, or choose a workload that does, like --workload topic")
        if self._service.needs_topic and pattern.topic is None:
            raise self._without_topic("filters")

    def _without_topic(self, what: str) -> ScenarioError:
        return ScenarioError(
            f"{self._protocol.name} finds subscribers by topic: give {what} a topic, or choose a "
            "workload that does, like --workload topic"
        )

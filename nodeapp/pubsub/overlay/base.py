"""What the two overlays share: interests as cells, events as identifiers, frames on an underlay."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Final

from nodeapp.events import Event, Subscription
from nodeapp.host import Host, Timer
from nodeapp.kinds import Kind
from nodeapp.predicates import Value
from nodeapp.pubsub.base import Environment, EventIds, Promises, RefusedError, Service
from nodeapp.pubsub.overlay.identifiers import SHARED_BIT, cell_bits
from nodeapp.pubsub.overlay.parameters import IdentifierParameters
from nodeapp.pubsub.overlay.space import MOST, TOO_MANY, Space, SpaceError
from nodeapp.routing.underlay import is_node, make_underlay
from nodeapp.wire import Frame, WireError

MAX_PENDING: Final = 256
"""Events that wait until a peer is in the overlay."""


class OverlayService(Service):
    """A peer.  Its cells are those of all local subscriptions together."""

    Parameters = IdentifierParameters
    promises = Promises(wired=True)

    def __init__(
        self, host: Host, environment: Environment, parameters: IdentifierParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self.parameters = parameters
        self.space = Space(parameters.space)
        self.seen = EventIds()
        self.underlay = make_underlay(
            host,
            parameters,
            self.counters,
            self._arrived,
            self.unreachable,
            wired=environment.wired,
        )
        self._settling: Timer | None = None
        self._pending: list[Event] = []
        self.takes: dict[int, Any] = {}
        """By kind: what takes a frame of another peer that has arrived."""

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        try:
            Space(str(parameters["space"]))
        except SpaceError as error:
            return str(error)
        return None

    @classmethod
    def foreign(cls, event: Mapping[str, Value], parameters: Mapping[str, Any]) -> str | None:
        try:
            Space(str(parameters["space"])).cell(event)
        except SpaceError as error:
            return str(error)
        return None

    def start(self) -> None:
        for kind in self.takes:
            self.handlers[kind] = self.underlay.receive
        self.handlers |= self.underlay.handlers
        self.underlay.start()
        self._changed()

    # Interests.

    def subscribe(self, subscription: Subscription) -> None:
        try:
            together = self.cells() | self.space.filter_cells(subscription.filter)
        except SpaceError as error:
            raise RefusedError(str(error)) from None
        if len(together) > MOST:
            raise RefusedError(TOO_MANY)
        super().subscribe(subscription)
        self._changed()

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        self._changed()

    def cells(self) -> frozenset[int]:
        """Return the cells of all local subscriptions."""
        cells: set[int] = set()
        for subscription in self.local:
            cells |= self.space.filter_cells(subscription.filter)
        return frozenset(cells)

    def _changed(self) -> None:
        if self._settling is None:
            self._settling = self.host.call_later(self.parameters.settle, self._settled)

    def _settled(self) -> None:
        self._settling = None
        self.interests_changed(self.cells())

    @abc.abstractmethod
    def interests_changed(self, cells: frozenset[int]) -> None:
        """Tell others of interests that have not changed for a while; at the start, too."""

    # Frames.

    def send(self, kind: Kind, to: int, body: bytes, sequence: int = 0) -> None:
        """Send a message to a peer; a message that has no event may use its sequence number."""
        me = self.host.node_id
        self.underlay.send(Frame(kind, me, to, sequence=sequence, hops=0, body=body))

    def _arrived(self, frame: Frame) -> None:
        """Take a frame that the underlay has brought here."""
        take = self.takes.get(frame.kind)
        if take is None or frame.originator == self.host.node_id:
            self.counters["unexpected kind"] += 1
            return
        try:
            if not is_node(frame.originator):
                raise WireError("a message from nobody")
            take(frame)
        except WireError:
            self.counters["malformed"] += 1

    def unreachable(self, node: int) -> None:
        """Take note that the underlay has no path to a peer."""
        self.counters["unreachable"] += 1

    # Events.

    def event_identifier(self, event: Event) -> tuple[int, int]:
        """Return identifier and cell of an event.  Raises `SpaceError` outside the space."""
        cell = self.space.cell(event.attributes)
        bits, hashes = self.parameters.bits, self.parameters.hashes
        return SHARED_BIT | cell_bits(cell, bits, hashes), cell

    def publish(self, event: Event) -> None:
        try:
            self.space.cell(event.attributes)
        except SpaceError as error:
            raise RefusedError(str(error)) from None
        if self.trouble():
            raise RefusedError(self.trouble())
        super().publish(event)

    def disseminate(self, event: Event) -> None:
        self.seen.add(event.publisher, event.sequence, event.encode(), self.host.now())
        if self.ready():
            self.launch(event)
        elif len(self._pending) < MAX_PENDING:
            self._pending.append(event)

    @property
    def waits(self) -> bool:
        """Whether events wait until this peer is in the overlay."""
        return bool(self._pending)

    def entered(self) -> None:
        """Send what has waited."""
        pending, self._pending = self._pending, []
        for event in pending:
            self.launch(event)

    @abc.abstractmethod
    def launch(self, event: Event) -> None:
        """Send a local client's event to others."""

    @abc.abstractmethod
    def ready(self) -> bool:
        """Return whether this peer is in the overlay."""

    def trouble(self) -> str:
        """Return why events cannot be carried, and what to do; empty if nothing is wrong."""
        return ""

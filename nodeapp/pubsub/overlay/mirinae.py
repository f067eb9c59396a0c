"""Mirinae as far as it is described: the overlay with which the semantic overlay is compared.

Peers and identifiers are those of `nodeapp.pubsub.overlay.peer`; links and the ways of events are
those of `hypercube`.  Every peer tells all others of itself and makes its links of all: how Mirinae
keeps its links when peers come and go is not modelled.

What is not known of it for certain: docs/overlay.md.  Source: docs/papers.md#mirinae.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nodeapp import wire
from nodeapp.events import Event
from nodeapp.host import Host, Timer
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.overlay.base import OverlayService
from nodeapp.pubsub.overlay.hypercube import NODE_BITS, Dimension, dimensions, unique
from nodeapp.pubsub.overlay.identifiers import covers, identifier
from nodeapp.pubsub.overlay.messages import Codec, Described, Rules
from nodeapp.pubsub.overlay.parameters import IdentifierParameters
from nodeapp.pubsub.overlay.space import SpaceError
from nodeapp.pubsub.overlay.tables import Peer, with_shared
from nodeapp.wire import Frame, Kind, WireError

REBUILD: Final = 0.2
"""Seconds from an announcement until links are made of all: others come with it."""
MAX_KNOWN: Final = 8192


class Mirinae(OverlayService):
    """One peer of the hypercube."""

    Parameters = IdentifierParameters

    def __init__(
        self, host: Host, environment: Environment, parameters: IdentifierParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self._codec = Codec(Rules(parameters.bits, parameters.hashes, parameters.space))
        self._me: Described | None = None
        self._others: dict[int, int] = {}
        self._links: list[Dimension] = []
        self._rebuild_at: Timer | None = None
        self._is_in = False
        self.takes = {
            Kind.ANNOUNCE: self._announcement_received,
            Kind.CUBE_EVENT: self._event_received,
        }

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        """Return why the parameters cannot work here; None if they can."""
        if not environment.nodes:
            return "mirinae needs to know all node ids: number the nodes from 1"
        return super().misfit(environment, parameters)

    def interests_changed(self, cells: frozenset[int]) -> None:
        """Tell all others of the new interests."""
        if cells or self._me is not None:
            self._tell(cells)

    def disseminate(self, event: Event) -> None:
        """Send an event on its way; a peer without interests tells others of itself for that."""
        super().disseminate(event)
        if self._me is None:
            self._tell(frozenset())

    def _tell(self, cells: frozenset[int]) -> None:
        bits, hashes = self.parameters.bits, self.parameters.hashes
        mine = identifier(cells, bits, hashes)
        if self._me is not None and self._me.peer.identifier == mine:
            return
        peer = Peer(self.host.node_id, 0, mine, with_shared(cells))
        self._me = Described(peer, int(self.host.now() * 1000))
        body = self._codec.announcement(self._me)
        for node in range(1, self.environment.nodes + 1):
            if node != self.host.node_id:
                self.send(Kind.ANNOUNCE, node, body)
        self._soon()

    def _announcement_received(self, frame: Frame) -> None:
        described = self._codec.read_announcement(frame.body)
        if isinstance(described, Rules):
            self.counters["other rules"] += 1
            return
        peer = described.peer
        if peer.node != frame.originator:
            raise WireError("a peer that says it is another")
        if len(self._others) < MAX_KNOWN:
            self._others[peer.node] = unique(peer.identifier, peer.node)
            self._soon()

    def _soon(self) -> None:
        if self._rebuild_at is None:
            self._rebuild_at = self.host.call_later(REBUILD, self._rebuild)

    def _rebuild(self) -> None:
        self._rebuild_at = None
        if self._me is None:
            return
        mine = unique(self._me.peer.identifier, self.host.node_id)
        self._links = dimensions(mine, self._others)
        if not self._is_in:
            self._is_in = True
            self.entered()

    def ready(self) -> bool:
        """Return whether this peer has links."""
        return self._is_in

    def launch(self, event: Event) -> None:
        """Send an event to all dimensions in which somebody may want it."""
        self._pass_on(event, self.parameters.bits + NODE_BITS, 0)

    def _event_received(self, frame: Frame) -> None:
        match wire.decode_body(frame.body):
            case [int(level), bytes(body)]:
                event = Event.decode(frame.publisher, frame.sequence, body)
            case _:
                raise WireError("not an event on its way through a hypercube")
        if not self.seen.add(frame.publisher, frame.sequence, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver_event(event, frame.hops)
        self._pass_on(event, level, frame.hops)

    def _pass_on(self, event: Event, below: int, hops: int) -> None:
        try:
            wanted, _ = self.event_identifier(event)
        except SpaceError:
            raise WireError("an event outside the space") from None
        for level, node, ones in self._links:
            if level < below and covers(ones, wanted):
                body = wire.encode_body([level, event.encode()])
                self.underlay.send(
                    Frame(
                        Kind.CUBE_EVENT,
                        self.host.node_id,
                        node,
                        event.publisher,
                        event.sequence,
                        hops=hops,
                        body=body,
                    )
                )

    def status(self) -> dict[str, Any]:
        """Return the number of links, too."""
        return {**super().status(), "overlay": {"links": len(self._links), "in": self._is_in}}

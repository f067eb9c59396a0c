"""A semantic overlay: peers cluster by the similarity of their interests.

Theory of operation.  `membership` keeps the links.  An event has the identifier of its cell, and a
peer matches it if its own identifier has all of these bits.  A peer that matches and gets the event
for the first time sends it on to its links that match: as a Forward message to covering and
covered peers and to neighbours, as a Multicast message (with `messages=split`, and always from one
that got a Multicast) to covered peers and neighbours.  The primary peer of a ring does that for all
of its ring, round which the event goes as well.

A publisher that does not match, or a peer that has no link that does, searches: the event goes, in
a SEARCH, to the link that is nearest to it by equation 1 and where it has not been, back if there
is none, until a peer has links that match.  What happens to an event for which none is found within
`search_hops` is up to `unmatched`.

A frame's hops count those of the network below: on a wired network they are those of the overlay.

Source: docs/papers.md#semantic-overlay, section III-B; how it was read: docs/overlay.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.pubsub.base import Environment, Promises
from nodeapp.pubsub.overlay import messages
from nodeapp.pubsub.overlay.base import OverlayService
from nodeapp.pubsub.overlay.identifiers import SHARED, covers, distance
from nodeapp.pubsub.overlay.joining import bootstrap_nodes
from nodeapp.pubsub.overlay.membership import OverlayMembership
from nodeapp.pubsub.overlay.messages import OverlayKind
from nodeapp.pubsub.overlay.parameters import FLOOD, SPLIT, STATIC, OverlayParameters
from nodeapp.pubsub.overlay.space import SpaceError
from nodeapp.pubsub.overlay.tables import matches
from nodeapp.wire import FLAG_FLOOD, FLAG_MULTICAST, Frame, WireError


class SemanticOverlay(OverlayService):
    """One peer of the overlay."""

    Parameters = OverlayParameters
    # "Ensures a published event to be delivered to all interested nodes with high probability"
    # (III-A): docs/overlay.md lists how events are lost; without a bootstrap peer, for one.
    # An event waits until its peer is in, which asks a bootstrap peer that is back within 7 s.
    promises = Promises(served=False, delivered=False, arrival=10.0, wired=True)

    def __init__(self, host: Host, environment: Environment, parameters: OverlayParameters) -> None:
        super().__init__(host, environment, parameters)
        self._unit = parameters.cover
        self._search_hops = parameters.search_hops
        self._floods = parameters.unmatched == FLOOD
        self._splits = parameters.messages == SPLIT
        self.membership = OverlayMembership(
            host, parameters, environment.nodes, self.counters, self.send, self.entered
        )
        self._around = self.membership.around
        self.takes = {
            **self.membership.handlers,
            CommonKind.EVENT: self._event_received,
            OverlayKind.SEARCH: self._search_received,
        }

    @classmethod
    def misfit(cls, environment: Environment, parameters: Mapping[str, Any]) -> str | None:
        try:
            nodes = bootstrap_nodes(str(parameters["bootstrap"]))
        except ValueError as error:
            return str(error)
        if parameters["discovery"] == STATIC and not environment.nodes:
            return "discovery=static needs to know all node ids: number the nodes from 1"
        strangers = [node for node in nodes if environment.nodes and node > environment.nodes]
        if strangers:
            return (
                f"bootstrap: there is no node {strangers[0]}: name one from 1 to "
                f"{environment.nodes}"
            )
        return super().misfit(environment, parameters)

    def start(self) -> None:
        super().start()
        self.membership.start()

    def interests_changed(self, cells: frozenset[int]) -> None:
        if cells or self.waits:
            self.membership.enter(cells)
        else:
            self.membership.leave()

    def ready(self) -> bool:
        return self.membership.is_in

    def trouble(self) -> str:
        return self.membership.trouble

    def _arrived(self, frame: Frame) -> None:
        self.membership.heard(frame.originator)
        super()._arrived(frame)

    # Events.

    def disseminate(self, event: Event) -> None:
        super().disseminate(event)
        if self._around.me is None:
            self.membership.enter(frozenset())

    def launch(self, event: Event) -> None:
        self._pass_on(event, self.event_frame(event), 0)

    def _event_received(self, frame: Frame) -> None:
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        if not self.seen.add(frame.publisher, frame.sequence, frame.body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver_event(event, frame.hops)
        self._pass_on(event, frame, frame.originator)

    def _pass_on(self, event: Event, frame: Frame, sender: int) -> None:
        """Send an event to the links that it is for; search for such if there is none."""
        try:
            wanted, cell = self.event_identifier(event)
        except SpaceError:
            raise WireError("an event outside the space") from None
        me = self._around.me
        if me is None:
            return
        around = self._around.successor()
        unit = self._unit
        mine, match = me.peer, matches(me.peer, wanted, cell, unit)
        if around is not None and match and around != sender:
            self._send_event(frame, around, frame.flags)
        links = self._around.links()
        if frame.flags & FLAG_FLOOD:
            for node in links:
                if node != sender:
                    self._send_event(frame, node, frame.flags)
            return
        down_only = bool(frame.flags & FLAG_MULTICAST)
        sent = False
        for node, peer in links.items():
            if not matches(peer, wanted, cell, unit):
                continue
            sent = True
            above = peer.identifier != mine.identifier and covers(peer.identifier, mine.identifier)
            if node == sender or (above and down_only):
                continue
            multicast = down_only or (self._splits and match and not above)
            self._send_event(frame, node, FLAG_MULTICAST if multicast else 0)
        if not sent and not match:
            self._search(event, frame.hops, wanted, cell, [], [])

    def _send_event(self, frame: Frame, to: int, flags: int) -> None:
        self.underlay.send(
            frame._replace(originator=self.host.node_id, destination=to, flags=flags, route=b"")
        )

    def _search_received(self, frame: Frame) -> None:
        visited, way, body = messages.read_search(frame.body)
        event = Event.decode(frame.publisher, frame.sequence, body)
        try:
            wanted, cell = self.event_identifier(event)
        except SpaceError:
            raise WireError("an event outside the space") from None
        me = self._around.me
        if me is None:
            return
        unit = self._unit
        around = (me.peer, *self._around.links().values())
        if any(matches(peer, wanted, cell, unit) for peer in around):
            if self.seen.add(frame.publisher, frame.sequence, body, self.host.now()):
                self.deliver_event(event, frame.hops)
                resumed = self.event_frame(event, hops=frame.hops)
                self._pass_on(event, resumed, frame.originator)
            return
        self._search(event, frame.hops, wanted, cell, visited, way)

    def _search(
        self,
        event: Event,
        hops: int,
        wanted: int,
        cell: int,
        visited: list[int],
        way: list[int],
    ) -> None:
        """Send an event on to where it has not been, the nearest first, or back."""
        been, me = {*visited, self.host.node_id}, self.host.node_id
        cells = frozenset((cell, SHARED))
        bits = self.parameters.bits
        left = [
            (distance(wanted, cells, peer.identifier, peer.cells, bits), node)
            for node, peer in self._around.links().items()
            if node not in been
        ]
        primary = self._around.primary
        if primary not in been:  # it has the links
            left = [(0.0, primary)]
        if (not left and not way) or len(been) > self._search_hops:
            self.counters["no peer found for an event"] += 1
            if self._floods:
                self.seen.add(event.publisher, event.sequence, event.encode(), self.host.now())
                frame = self.event_frame(event, hops=hops)._replace(flags=FLAG_FLOOD)
                self._pass_on(event, frame, 0)
            return
        if left:
            to, back = min(left)[1], [*way, me]
        else:
            to, back = way[-1], way[:-1]
        self.underlay.send(
            Frame(
                OverlayKind.SEARCH,
                me,
                to,
                event.publisher,
                event.sequence,
                hops=hops,
                body=messages.search(sorted(been), back, event.encode()),
            )
        )

    def status(self) -> dict[str, Any]:
        around = self._around
        kinds = zip(("covering", "covered", "neighbours"), around.table, strict=True)
        return {
            **super().status(),
            "overlay": {
                **{name: len(nodes) for name, nodes in kinds},
                "incoming": len(around.incoming),
                "links": len(around.links()),
                "ring": len(around.ring),
                "in": self.ready(),
                "trouble": self.trouble(),
            },
        }

"""Subscription forwarding: events follow subscriptions back over one spanning tree.

The nodes are dispatchers on a tree that they keep themselves (`nodeapp.routing.spanning_tree`).  A
subscription goes along the tree to every dispatcher; each records the pattern with the neighbour
that it came from and passes it on to its other neighbours, unless one it has passed on there covers
it (`nodeapp.pubsub.patterns`).  An unsubscription removes entries the same way, and what the
pattern had covered is passed on in its place.  An event goes from dispatcher to dispatcher along
the links whose entries it matches, except the one that it came by: once over each link of the
smallest sub-tree that joins publisher and subscribers.

Entries travel in updates that are repeated until they are acknowledged
(`nodeapp.pubsub.table_link`); events are unicast frames, repeated only by the link layer, or one
broadcast for all links, which nobody repeats (`addressing`; `nodeapp.pubsub.addressees`).

A pattern is a filter.  Access policies are checked where the subscribers are: events also reach
dispatchers whose subscribers they do not admit.

Reconfiguration, when the tree replaces a link by another: subscriptions are issued over the new
link, and those that came over the broken one are withdrawn.

  * `make-before-break`: the old entries stay for `break_delay`, in which the tree is mended and the
    new link's subscriptions spread; if both lead the same way nothing changes then.  They are
    told to no other neighbour: what lies behind a broken link may be what the new one leads to.
  * `break-before-make`: they are withdrawn at once, and what the new link brings comes after that.
    The straw man: the whole tree forgets a subscription to learn it again a moment later.

An event on its way over a link that is just replaced is lost.  An event that comes by two
paths while the tree changes goes no further and to no client again.

Source: docs/papers.md#subscription-forwarding, docs/papers.md#reconfiguration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from nodeapp.events import Event, Subscription
from nodeapp.host import Host
from nodeapp.kinds import CommonKind
from nodeapp.parameters import Param
from nodeapp.pubsub.addressees import UNICAST, Addressing, broadcast_to, is_for
from nodeapp.pubsub.base import Environment, EventIds, Promises, RefusedError, Service
from nodeapp.pubsub.patterns import LOCAL, MAX_PATTERN, TableFullError, encode_pattern
from nodeapp.pubsub.table_links import TableLinks
from nodeapp.routing.spanning_tree import SpanningTree, TreeParameters
from nodeapp.wire import Frame

MAKE_BEFORE_BREAK: Final = "make-before-break"
BREAK_BEFORE_MAKE: Final = "break-before-make"


@dataclass(frozen=True)
class SubscriptionForwardingParameters(TreeParameters):
    """Parameters of `SubscriptionForwarding`."""

    reconfiguration: Annotated[
        str,
        Param(
            "a broken link's entries are withdrawn after the new one's are known, or at once",
            choices=(MAKE_BEFORE_BREAK, BREAK_BEFORE_MAKE),
        ),
    ] = MAKE_BEFORE_BREAK
    break_delay: Annotated[
        float,
        Param("s for which make-before-break keeps a broken link's entries", low=0, high=3600),
    ] = 5.0
    addressing: Addressing = UNICAST
    max_jitter: Annotated[
        float, Param("s before an event's list is passed on, at most", low=0, high=10)
    ] = 0.05
    retry: Annotated[
        float, Param("s after which an update is sent again, doubling", low=0.01, high=60)
    ] = 0.2
    table_limit: Annotated[
        int, Param("entries (pattern, neighbour) of a table at most", low=1, high=1_000_000)
    ] = 16_384
    ttl: Annotated[int, Param("hops an event may travel", low=1, high=255)] = 128


class SubscriptionForwarding(Service):
    """A dispatcher on the tree.

    Raises `nodeapp.parameters.ParameterError` if the host cannot do what a parameter asks for.
    """

    Parameters = SubscriptionForwardingParameters
    needs_position = True  # of the beacons: from out of range they do not count
    promises = Promises(misplaced=False)

    def __init__(
        self, host: Host, environment: Environment, parameters: SubscriptionForwardingParameters
    ) -> None:
        super().__init__(host, environment, parameters)
        self._parameters = parameters
        keeps = parameters.reconfiguration == MAKE_BEFORE_BREAK
        self.entries = TableLinks(
            host,
            parameters.table_limit,
            parameters.retry,
            parameters.break_delay if keeps else None,
            self.counters,
        )
        self.table = self.entries.table
        self.tree = SpanningTree(
            host,
            parameters,
            environment.radio_range,
            self.counters,
            self.entries.link_up,
            self.entries.link_down,
            self._failed,
        )
        self._seen = EventIds()
        self.handlers.update(self.tree.handlers)
        self.handlers.update(self.entries.handlers)
        self.handlers[CommonKind.EVENT] = self._event_received

    def start(self) -> None:
        self.tree.start()

    def status(self) -> dict[str, Any]:
        return {**super().status(), "table entries": len(self.table), "tree": self.tree.status()}

    # Local subscriptions.

    def subscribe(self, subscription: Subscription) -> None:
        pattern = encode_pattern(subscription.filter)
        if len(pattern) > MAX_PATTERN:
            raise RefusedError(
                f"a filter of {len(pattern)} bytes; {MAX_PATTERN} fit a frame: use fewer or "
                "shorter conditions"
            )
        try:
            self.entries.hold(pattern)
        except TableFullError:
            self.counters["table full"] += 1
            raise RefusedError(
                f"the table of this node has {len(self.table)} entries already: raise table_limit"
            ) from None
        super().subscribe(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        super().unsubscribe(subscription)
        self.entries.release(encode_pattern(subscription.filter))

    # Events.

    def disseminate(self, event: Event) -> None:
        self._seen.add(event.publisher, event.sequence, event.encode(), self.host.now())
        self._forward(self.event_frame(event, ttl=self._parameters.ttl), event, LOCAL)

    def _event_received(self, frame: Frame, sender: int) -> None:
        if not is_for(frame, self.host.node_id):
            self.counters["not addressed"] += 1
            return
        event = Event.decode(frame.publisher, frame.sequence, frame.body)
        if not self._seen.add(frame.publisher, frame.sequence, frame.body, self.host.now()):
            self.counters["duplicates"] += 1
            return
        self.deliver_event(event, frame.hops)
        if self._parameters.addressing == UNICAST:
            self._forward(frame, event, sender)
        else:  # others heard the same transmission, and would answer it together
            delay = self.host.rng.uniform(0.0, self._parameters.max_jitter)
            self.host.call_later(delay, self._forward, frame, event, sender)

    def _forward(self, frame: Frame, event: Event, sender: int) -> None:
        links = sorted(self.table.matching(event.attributes) & self.entries.links.keys() - {sender})
        if not links:
            return
        if frame.ttl == 0 or frame.hops == 255:
            self.counters["time to live used up"] += 1
            return
        self.counters["events forwarded"] += len(links)
        onward = frame.forwarded(b"")
        if self._parameters.addressing == UNICAST:
            for neighbour in links:
                self.host.send(neighbour, onward._replace(destination=neighbour).encode())
        else:
            broadcast_to(self.host, onward, links)

    def _failed(self, neighbour: int, datagram: bytes) -> None:
        if datagram[1] == CommonKind.EVENT:
            self.counters["events lost at a broken link"] += 1

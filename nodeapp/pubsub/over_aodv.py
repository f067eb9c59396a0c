"""The node-based schemes of the six: decision points by node id, reached by AODV.

A topic hashes to a node id, so its decision point is one node, wherever that is (3.4).  AODV's
route discovery is the location system that 3.3 asks for.  There is no proximity selection: section
3.5 is about locations.  The paper does not say which node takes over if that node fails, and here
none does: refreshes build its state again when it is back.  With `takeover` a node for which a
search has found no route to the decision point turns to the node with the next id, for
`takeover_time`; others do so when their own searches fail.

Source: docs/papers.md#six-schemes, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from nodeapp.events import Event
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment, Promises
from nodeapp.pubsub.decision_point import Broker, DecisionPoint, Routing
from nodeapp.pubsub.rendezvous import Rendezvous
from nodeapp.pubsub.topic_hash import NodeHash
from nodeapp.routing.aodv import Aodv, AodvParameters
from nodeapp.wire import Frame


@dataclass(frozen=True)
class NodeBasedParameters(AodvParameters):
    """Parameters of the schemes here."""

    takeover: Annotated[
        bool, Param("the node with the next id stands in for one that cannot be reached")
    ] = False
    takeover_time: Annotated[
        float, Param("s after which the node itself is tried again", low=1, high=36_000)
    ] = 30.0


class _NodeBased(DecisionPoint):
    """Sends to the node that a topic hashes to, or to the node that stands in for it."""

    # Without `takeover`, nobody takes the place of that node.  A search waits for 2.8, 5.6 and
    # 11.2 s for answers from the whole network, and frames wait with it (RFC 3561, 6.3).
    promises = Promises(outlives=False, arrival=25.0)

    def __init__(self, host: Host, environment: Environment, parameters: Any) -> None:
        self._lost_until: dict[int, float] = {}
        """By node: until when another stands in for it."""
        super().__init__(host, environment, parameters)

    def lost(self, node: int) -> None:
        """Take note that no route to a node was found."""
        if 0 < node <= self.environment.nodes:  # so that there are no more entries
            self._lost_until[node] = self.host.now() + self.parameters.takeover_time

    def send_to_point(self, topic: str, frame: Frame) -> None:
        if not self._lost_until:
            super().send_to_point(topic, frame)
            return
        target, now, nodes = self.topic_hash(topic), self.host.now(), self.environment.nodes
        node = target.node
        for _ in range(nodes):
            if self._lost_until.get(node, now) <= now:
                break
            node = node % nodes + 1
        if node != target.node:
            self.counters["sent to who stands in"] += 1
        self.router.send(frame._replace(destination=node), target.location)


def _make_router(point: DecisionPoint) -> Aodv:
    assert isinstance(point, _NodeBased)
    parts = point.host, point.parameters, point.counters, point.arrived, point.replaces
    return Aodv(*parts, point.lost) if point.parameters.takeover else Aodv(*parts)


AODV = Routing(NodeBasedParameters, _make_router)


class BrokerAodv(_NodeBased, Broker, routing=AODV, hashing=NodeHash):
    """B-AODV."""

    def _is_broker_of(self, event: Event, frame: Frame) -> bool:
        if super()._is_broker_of(event, frame) or not self.parameters.takeover:
            return super()._is_broker_of(event, frame)
        # A broker's copies are its own; a node with subscriptions to the topic stands in for one.
        from_publisher = frame.originator == event.publisher and event.topic is not None
        known = self.subscriptions.of_topic(event.topic or "", self.host.now())
        return from_publisher and any(True for _ in known)


class RendezvousAodv(_NodeBased, Rendezvous, routing=AODV, hashing=NodeHash):
    """R-AODV."""

"""The node-based ones of the six schemes: decision points by node id, reached by AODV.

A topic hashes to a node id, so its decision point is one node, wherever that is (3.4).  AODV's
route discovery is the location system that 3.3 asks for.  There is no proximity selection: section
3.5 is about locations.  The paper does not say which node takes over if that node fails, and here
none does: refreshes build its state again when it is back.

Source: docs/papers.md#six-schemes, section 3.
"""

from __future__ import annotations

from nodeapp.pubsub.broker import Broker
from nodeapp.pubsub.decision_point import DecisionPoint, Routing
from nodeapp.pubsub.rendezvous import Rendezvous
from nodeapp.pubsub.topic_hash import NodeHash
from nodeapp.routing.aodv import Aodv, AodvParameters


def _make_router(point: DecisionPoint) -> Aodv:
    return Aodv(point.host, point.parameters, point.counters, point.arrived, point.replaces)


AODV = Routing(AodvParameters, _make_router)


class BrokerAodv(Broker, routing=AODV, hashing=NodeHash):
    """B-AODV."""


class RendezvousAodv(Rendezvous, routing=AODV, hashing=NodeHash):
    """R-AODV."""

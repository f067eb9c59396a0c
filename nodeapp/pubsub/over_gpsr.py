"""The geographic schemes of the six: decision points at a location, reached by GPSR.

The node nearest to the location that a topic hashes to serves it, and with it every node within K
of the location (3.5, "proximity broker / rendezvous node selection").  With K half the radio range
any two nodes within K hear each other, so each of them has all subscriptions, and a move of one is
no loss.  `proximity` 0 is the basic approach: the nearest node alone, found by a tour of the face
that the location lies in (`nodeapp.routing.gpsr`).

The paper says two things about a location that no node is near: the node closest to it serves
(3.3), and GPSR drops a frame that has gone around a void, "since the destination node does not
locate at the position" (3.1).  By default the closest node serves; with `serve_voids` off the frame
is dropped when it is about to take the first edge of its tour again.  Near is within K; as no node
is within a K of 0, near is then what it would be under proximity selection (`NEAR`), so that the
same locations are voids with it and without it.

Source: docs/papers.md#six-schemes, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.geometry import Point, squared_distance
from nodeapp.parameters import Param
from nodeapp.pubsub.decision_point import Broker, DecisionPoint, Routing
from nodeapp.pubsub.messages import TopicKind
from nodeapp.pubsub.rendezvous import Rendezvous
from nodeapp.pubsub.topic_hash import CellHash, LocationHash, WaypointHash
from nodeapp.routing.gpsr import Gpsr
from nodeapp.routing.gpsr_parameters import GpsrParameters
from nodeapp.wire import ANY_NODE, BROADCAST, Frame

NEAR: Final = 0.5
"""Share of the radio range: what is near a location if `proximity` is 0; K of 3.5."""


@dataclass(frozen=True)
class ProximityParameters(GpsrParameters):
    """Parameters of GPSR with proximity selection."""

    proximity: Annotated[
        float, Param("K as a share of the radio range; 0: the nearest node alone", low=0, high=1)
    ] = 0.5
    serve_voids: Annotated[
        bool, Param("the nearest node serves a location nobody is near (within K); no: drop it")
    ] = True


def _make_router(point: DecisionPoint) -> Gpsr:
    parameters, radio_range = point.parameters, point.environment.radio_range
    squared_k = (parameters.proximity * radio_range) ** 2
    squared_near = ((parameters.proximity or NEAR) * radio_range) ** 2

    def capture(frame: Frame, location: Point) -> bool:
        """Serve a frame for a location that this node is within K of."""
        if frame.destination != ANY_NODE:
            return False
        if not squared_k or squared_distance(router.neighbours.position(), location) > squared_k:
            return False
        point.arrived(frame)
        if frame.kind == TopicKind.SUBSCRIPTION:
            replica = router.located(point.replica(frame))
            point.host.send(BROADCAST, replica.encode())
        return True

    def deliver(frame: Frame, location: Point) -> None:
        """Take a frame that is for this node, or for a location that this node is nearest to."""
        if (
            frame.destination != ANY_NODE
            or parameters.serve_voids
            or squared_distance(router.neighbours.position(), location) <= squared_near
        ):
            point.arrived(frame)
        else:
            point.counters["dropped at a void"] += 1

    router = Gpsr(point.host, parameters, radio_range, point.counters, deliver, capture)
    point.overheard = router.overheard
    return router


GPSR = Routing(ProximityParameters, _make_router, needs_position=True, needs_places=True)


class BrokerGpsr(Broker, routing=GPSR, hashing=LocationHash):
    """B-GPSR (no map)."""

    router: Gpsr


class BrokerGpsrMap(Broker, routing=GPSR, hashing=WaypointHash):
    """B-GPSR (with map)."""


class BrokerGpsrCell(Broker, routing=GPSR, hashing=CellHash):
    """Brokers at the middle of a cell."""


class RendezvousGpsr(Rendezvous, routing=GPSR, hashing=LocationHash):
    """R-GPSR (no map)."""


class RendezvousGpsrMap(Rendezvous, routing=GPSR, hashing=WaypointHash):
    """R-GPSR (with map)."""


class RendezvousGpsrCell(Rendezvous, routing=GPSR, hashing=CellHash):
    """Rendezvous nodes at the middle of a cell."""

"""Geographic forwarding between the brokers of a mesh: GPSR over mesh neighbours.

A frame for a broker is bound for where that broker stands.  On a full grid greedy forwarding finds
it; if brokers are missing, perimeter mode goes around.  A frame for a client is taken by the
broker at the position that it is bound for, or, if that one is missing, by the broker nearest to
there, which is where perimeter mode ends (GHT, section 4.1).

Neighbours are those of the spanning tree's beacons, or, in the fixed graph, those of the map.

Sources: docs/papers.md#mesh-prediction, docs/papers.md#gpsr, docs/papers.md#ght.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from nodeapp.geometry import Point, nudge
from nodeapp.host import Host
from nodeapp.pubsub.mesh.broker_map import BrokerMap
from nodeapp.pubsub.mesh.messages import MeshKind
from nodeapp.routing.gpsr import Gpsr
from nodeapp.routing.gpsr_parameters import BeaconParameters, GpsrParameters
from nodeapp.routing.neighbours import Neighbours
from nodeapp.wire import Frame

FOR_CLIENTS: Final = (MeshKind.DELIVERY, MeshKind.REPORT_ACK)


def known_neighbours(
    host: Host, parameters: BeaconParameters, broker_map: BrokerMap, reach: float
) -> Neighbours:
    """Return the neighbours that the map of brokers gives; they need no beacons, so no start."""
    neighbours = Neighbours(host, parameters, reach)
    for node in broker_map.neighbours[host.node_id]:
        (x, y), (dx, dy) = broker_map.positions[node], nudge(node)
        neighbours.know(node, x + dx, y + dy)
    return neighbours


class Relay:
    """Carries frames to brokers; `arrived(frame)` is called when one is there.

    Frames of the kinds `FOR_CLIENTS` are for clients; all others are for the broker that they name.
    A PROBE whose broker is missing is answered by the broker nearest to there.
    """

    def __init__(
        self,
        host: Host,
        parameters: GpsrParameters,
        broker_map: BrokerMap,
        reach: float,
        counters: Counter[str],
        arrived: Callable[[Frame], None],
        neighbours: Neighbours,
    ) -> None:
        self._gpsr = Gpsr(
            host,
            parameters,
            reach,
            counters,
            lambda frame, location: arrived(frame),
            self._is_here,
            neighbours,
            self._toured,
        )
        self.receive = self._gpsr.receive
        self.neighbours = neighbours
        self._host = host
        self._counters = counters
        self._broker_map = broker_map
        self._here = broker_map.positions[host.node_id]
        self._arrived = arrived

    def to_broker(self, frame: Frame, broker: int) -> None:
        """Send a frame to a broker; to this one too, at once but not from within the call.

        One that is for nobody known is counted.
        """
        if broker == self._host.node_id:
            self._host.call_later(0.0, self._arrived, frame)
        elif broker in self._broker_map.positions:
            self._gpsr.send(frame, self._broker_map.positions[broker])
        else:
            self._counters["to no broker of the mesh"] += 1

    def _is_here(self, frame: Frame, location: Point) -> bool:
        if frame.kind not in FOR_CLIENTS or location != self._here:
            return False
        self._arrived(frame)
        return True

    def _toured(self, frame: Frame, location: Point) -> bool:
        if frame.kind not in (MeshKind.DELIVERY, MeshKind.PROBE):
            return False
        self._counters["served as the nearest broker"] += 1
        self._arrived(frame)
        return True

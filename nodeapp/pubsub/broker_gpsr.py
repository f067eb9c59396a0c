"""Brokers at the location a topic hashes to, reached by GPSR (B-GPSR of section C's paper).

The node nearest to the location is the topic's broker, and with it every node within K of it
(3.5, "proximity broker selection"): the first of these that a subscription reaches captures it
and broadcasts it once, so that its neighbours store it as well; the first that an event reaches
processes it and tells nobody.  With K half the radio range any two nodes within K hear each
other, so each of them has all subscriptions and a move of one is no loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nodeapp.geometry import Point, squared_distance
from nodeapp.host import Host
from nodeapp.parameters import Param
from nodeapp.pubsub.base import Environment
from nodeapp.pubsub.broker import Broker, BrokerParameters
from nodeapp.pubsub.topic_hash import LocationHash
from nodeapp.routing.gpsr import Gpsr, GpsrParameters
from nodeapp.wire import ANY_NODE, Frame, Kind


@dataclass(frozen=True)
class BrokerGpsrParameters(BrokerParameters, GpsrParameters):
    """Parameters of `BrokerGpsr`."""

    proximity: Annotated[
        float, Param("K as a share of the radio range; 0: the nearest node alone", low=0, high=1)
    ] = 0.5


class BrokerGpsr(Broker):
    """Brokers at the location a topic hashes to, reached by GPSR."""

    Parameters = BrokerGpsrParameters
    needs_position = True

    def __init__(
        self, host: Host, environment: Environment, parameters: BrokerGpsrParameters
    ) -> None:
        super().__init__(host, environment, parameters, LocationHash(environment.area))
        self.router: Gpsr = Gpsr(
            host, parameters, environment.radio_range, self.counters, self.arrived, self._capture
        )
        self._squared_k = (parameters.proximity * environment.radio_range) ** 2

    def _capture(self, frame: Frame, location: Point) -> bool:
        """Serve a frame for a place that this node is within K of."""
        if frame.destination != ANY_NODE:
            return False
        if squared_distance(self.router.neighbours.place(), location) > self._squared_k:
            return False
        self.arrived(frame)
        if frame.kind == Kind.SUBSCRIPTION:
            self.replicate(frame)
        return True

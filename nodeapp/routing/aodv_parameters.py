"""Parameters of AODV: RFC 3561, section 10, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.parameters import Param

TIMEOUT_BUFFER: Final = 2
"""Hops that a ring search waits longer than its ring needs."""
DELETE_PERIOD_FACTOR: Final = 5
"""K."""


@dataclass(frozen=True)
class AodvParameters:
    """Parameters of `nodeapp.routing.aodv.Aodv`."""

    hello_interval: Annotated[float, Param("HELLO_INTERVAL, s", low=0.05, high=3600)] = 1.0
    allowed_hello_loss: Annotated[
        float, Param("ALLOWED_HELLO_LOSS, intervals of silence", low=1, high=100)
    ] = 2.0
    active_route_timeout: Annotated[
        float, Param("ACTIVE_ROUTE_TIMEOUT, s a route lasts unused", low=0.1, high=3600)
    ] = 3.0
    net_diameter: Annotated[int, Param("NET_DIAMETER, hops", low=1, high=254)] = 35
    node_traversal_time: Annotated[
        float, Param("NODE_TRAVERSAL_TIME, s a hop", low=0.001, high=10)
    ] = 0.04
    ttl_start: Annotated[int, Param("TTL_START, hops of the first ring", low=1, high=254)] = 1
    ttl_increment: Annotated[int, Param("TTL_INCREMENT, hops", low=1, high=254)] = 2
    ttl_threshold: Annotated[
        int, Param("TTL_THRESHOLD, hops of the last ring but the whole network", low=0, high=254)
    ] = 7
    rreq_retries: Annotated[
        int, Param("RREQ_RETRIES, searches of the whole network after the first", low=0, high=20)
    ] = 2
    rreq_ratelimit: Annotated[int, Param("RREQ_RATELIMIT, own a second", low=1, high=10_000)] = 10
    rerr_ratelimit: Annotated[int, Param("RERR_RATELIMIT, own a second", low=1, high=10_000)] = 10
    destination_only: Annotated[bool, Param("only destinations reply (D flag)")] = False
    gratuitous_reply: Annotated[bool, Param("repliers tell the destination, too (G flag)")] = True
    jitter: Annotated[
        float, Param("s that a request waits at most before it is relayed", low=0, high=1)
    ] = 0.01
    link_feedback: Annotated[
        bool, Param("the link layer reports frames that were not acknowledged (6.9)")
    ] = False
    buffer: Annotated[int, Param("frames that wait for routes", low=1, high=10_000)] = 64

    @property
    def hello_lifetime(self) -> float:
        """Seconds of silence after which a neighbour is lost (6.9)."""
        return self.allowed_hello_loss * self.hello_interval

    @property
    def my_route_timeout(self) -> float:
        """MY_ROUTE_TIMEOUT, s."""
        return 2 * self.active_route_timeout

    @property
    def net_traversal_time(self) -> float:
        """NET_TRAVERSAL_TIME, s."""
        return 2 * self.node_traversal_time * self.net_diameter

    @property
    def path_discovery_time(self) -> float:
        """PATH_DISCOVERY_TIME, s."""
        return 2 * self.net_traversal_time

    @property
    def delete_period(self) -> float:
        """DELETE_PERIOD, s."""
        return DELETE_PERIOD_FACTOR * max(self.active_route_timeout, self.hello_lifetime)

    def ring_traversal_time(self, ttl: int) -> float:
        """RING_TRAVERSAL_TIME, s."""
        return 2 * self.node_traversal_time * (ttl + TIMEOUT_BUFFER)

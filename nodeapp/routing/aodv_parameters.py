"""Parameters of AODV: RFC 3561, section 10, with its defaults.

What the RFC does not have is what ns-2 (2.35, `aodv/aodv.h`, `aodv.cc`) does differently: constants
and waiting times here, rules in `aodv_ns2`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from nodeapp.parameters import Param
from nodeapp.routing.aodv_ns2 import Ns2Clauses

TIMEOUT_BUFFER: Final = 2
"""Hops for which a ring search waits longer than its ring needs."""
DELETE_PERIOD_FACTOR: Final = 5
"""K."""
REPAIR_SHARE: Final = 0.3
"""MAX_REPAIR_TTL as a share of NET_DIAMETER."""
LOCAL_ADD_TTL: Final = 2
"""Hops by which a repair searches farther than the destination was."""
NEXT_HOP_SLACK: Final = 0.01
"""Seconds by which NEXT_HOP_WAIT is longer than NODE_TRAVERSAL_TIME."""


@dataclass(frozen=True)
class AodvParameters(Ns2Clauses):
    """Parameters of `nodeapp.routing.aodv.Aodv`."""

    hello_interval: Annotated[float, Param("HELLO_INTERVAL, s", low=0.05, high=3600)] = 1.0
    allowed_hello_loss: Annotated[
        float, Param("ALLOWED_HELLO_LOSS, intervals of silence", low=1, high=100)
    ] = 2.0
    active_route_timeout: Annotated[
        float, Param("ACTIVE_ROUTE_TIMEOUT, s a route lasts unused", low=0.1, high=3600)
    ] = 3.0
    my_route_timeout: Annotated[
        float,
        Param(
            "MY_ROUTE_TIMEOUT, s a reply of the destination lasts; 0: twice ACTIVE_ROUTE_TIMEOUT",
            low=0,
            high=3600,
        ),
    ] = 0.0
    rev_route_life: Annotated[
        float,
        Param(
            "s a reverse route lasts at least after a request (ns-2: REV_ROUTE_LIFE); 0: the "
            "MinimalLifetime of 6.5, which is shorter with each hop",
            low=0,
            high=3600,
        ),
    ] = 0.0
    net_diameter: Annotated[int, Param("NET_DIAMETER, hops", low=1, high=254)] = 35
    node_traversal_time: Annotated[
        float, Param("NODE_TRAVERSAL_TIME, s per hop", low=0.001, high=10)
    ] = 0.04
    ttl_start: Annotated[int, Param("TTL_START, hops of the first ring", low=1, high=254)] = 1
    ttl_increment: Annotated[int, Param("TTL_INCREMENT, hops", low=1, high=254)] = 2
    ttl_threshold: Annotated[
        int, Param("TTL_THRESHOLD, hops of the last ring before the whole network", low=0, high=254)
    ] = 7
    rreq_retries: Annotated[
        int, Param("RREQ_RETRIES, searches of the whole network after the first", low=0, high=20)
    ] = 2
    adaptive_timeout: Annotated[
        bool,
        Param(
            "a request waits for as long as the last ones took (ns-2): 2 TTL hops at the time a "
            "hop took in the last three searches, times the requests to the whole network"
        ),
    ] = False
    max_rreq_timeout: Annotated[
        float,
        Param(
            "s a request waits at most, and a search after one that failed (ns-2: "
            "MAX_RREQ_TIMEOUT); 0: no limit, no wait",
            low=0,
            high=3600,
        ),
    ] = 0.0
    rreq_ratelimit: Annotated[
        int, Param("RREQ_RATELIMIT, own requests per second", low=1, high=10_000)
    ] = 10
    rerr_ratelimit: Annotated[
        int, Param("RERR_RATELIMIT, own errors per second", low=1, high=10_000)
    ] = 10
    destination_only: Annotated[bool, Param("only destinations reply (D flag)")] = False
    gratuitous_reply: Annotated[bool, Param("repliers tell the destination, too (G flag)")] = True
    jitter: Annotated[
        float, Param("s that a request waits at most before it is relayed", low=0, high=1)
    ] = 0.01
    link_feedback: Annotated[
        bool, Param("the link layer reports frames that were not acknowledged (6.9)")
    ] = False
    salvage: Annotated[
        bool,
        Param("a node seeks another route for own frames not acknowledged; no: drops (ns-2)"),
    ] = True
    local_repair: Annotated[bool, Param("intermediate nodes repair broken routes (6.12)")] = False
    max_repair_ttl: Annotated[
        int,
        Param("MAX_REPAIR_TTL, hops to the destination; 0: 0.3 NET_DIAMETER", low=0, high=254),
    ] = 0
    blacklist: Annotated[
        bool,
        Param("ignore requests of neighbours that do not acknowledge replies for a while (6.8)"),
    ] = True
    reply_ack: Annotated[
        bool, Param("replies ask the next hop to acknowledge them (A flag, 6.7)")
    ] = False
    buffer: Annotated[int, Param("frames that wait for routes", low=1, high=10_000)] = 64
    buffer_timeout: Annotated[
        float,
        Param("s a frame waits for a route at most; 0: as long as its search", low=0, high=3600),
    ] = 0.0

    @property
    def hello_lifetime(self) -> float:
        """Seconds of silence after which a neighbour is lost (6.9)."""
        return self.allowed_hello_loss * self.hello_interval

    @property
    def reply_lifetime(self) -> float:
        """MY_ROUTE_TIMEOUT, s."""
        return self.my_route_timeout or 2 * self.active_route_timeout

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

    @property
    def repair_hops(self) -> int:
        """MAX_REPAIR_TTL, hops."""
        return self.max_repair_ttl or int(REPAIR_SHARE * self.net_diameter)

    @property
    def blacklist_timeout(self) -> float:
        """BLACKLIST_TIMEOUT, s."""
        return self.rreq_retries * self.net_traversal_time

    @property
    def next_hop_wait(self) -> float:
        """NEXT_HOP_WAIT, s."""
        return self.node_traversal_time + NEXT_HOP_SLACK

    def ring_traversal_time(self, ttl: int) -> float:
        """RING_TRAVERSAL_TIME, s."""
        return 2 * self.node_traversal_time * (ttl + TIMEOUT_BUFFER)

    def reverse_lifetime(self, hops: int) -> float:
        """Return the MinimalLifetime of a route to a request's originator `hops` away (6.5), s."""
        if self.rev_route_life:
            return self.rev_route_life
        return max(self.path_discovery_time - 2 * hops * self.node_traversal_time, 0.0)

"""Where ns-2.35's AODV differs from RFC 3561, clause by clause; each is a setting.

All are off by default.  The profile `aodv=ns2` turns all of them on, with ns-2's constants, for
comparison with results of ns-2; single settings may depart from it.  Its routes may loop: a node
answers requests with routes that lead over the node that asks, and one whose route is under repair
still offers it to others.

Where ns-2 and this still differ, as far as known:
  * a route expires when its time is over, not at the next half second;
  * a reply for others has the route's exact remaining time; ns-2 cuts it to whole seconds, and
    that of a route under repair is whatever a negative number turns into;
  * a node's own sequence number does not go up when it loses a neighbour: the next request, which
    tells it to others, raises it anyhow;
  * precursors end with the route; ns-2 keeps them until the route is reported broken, so that a
    renewed route may report to more nodes;
  * no ARP: ns-2 asks for each neighbour's address once and never forgets it.

Source: ns-2.35, `aodv/aodv.cc`, `aodv.h`, `aodv_rqueue.cc` (docs/papers.md#ns-2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final

from nodeapp.parameters import Param, Scalar

NEVER_BROKEN: Final = 255
"""The last hop count of a route that never broke (ns-2: INFINITY2)."""

NS2: Final[Mapping[str, Scalar]] = MappingProxyType(
    {
        "link_feedback": True,
        "active_route_timeout": 10.0,
        "my_route_timeout": 10.0,
        "rev_route_life": 6.0,
        "net_diameter": 30,
        "node_traversal_time": 0.03,
        "ttl_start": 30,
        "rreq_retries": 3,
        "rreq_ratelimit": 10_000,
        "rerr_ratelimit": 10_000,
        "gratuitous_reply": False,
        "adaptive_timeout": True,
        "max_rreq_timeout": 10.0,
        "buffer_timeout": 30.0,
        "salvage": False,
        "local_repair": True,
        "blacklist": False,
        "withdraw_queue": True,
        "control_breaks": False,
        "errors_to": "all",
        "rings": "ns2",
        "repair_one": True,
        "buffer_replaces": False,
        "buffer_pacing": 0.01,
        "reply_raises": True,
        "reply_checks": False,
        "better_replies": False,
        "neighbour_routes": False,
        "data_refreshes": False,
        "data_precursors": False,
        "drop_loops": True,
    }
)
"""ns-2.35's constants, with all clauses.

`ttl_start` is not aodv.h's 5: the last hop count of a route that never was is 255, so that the
first request goes through the whole network (sendRequest).
"""


@dataclass(frozen=True)
class Ns2Clauses:
    """The clauses in which ns-2's AODV differs; the defaults are RFC 3561's."""

    aodv: Annotated[
        str,
        Param(
            "rfc; or ns2: the defaults of ns-2.35's AODV where they differ",
            choices=("rfc", "ns2"),
            profiles={"ns2": NS2},
        ),
    ] = "rfc"
    withdraw_queue: Annotated[
        bool, Param("frames queued for a neighbour are dropped when its link breaks (ns-2)")
    ] = False
    control_breaks: Annotated[
        bool, Param("a control frame not acknowledged breaks its link; no: it is lost (ns-2)")
    ] = True
    errors_to: Annotated[
        str,
        Param(
            "who hears of broken routes: their precursors; or all in range, of routes over the "
            "broken link even if nobody is known to use them (ns-2)",
            choices=("precursors", "all"),
        ),
    ] = "precursors"
    rings: Annotated[
        str,
        Param(
            "rings of a search: rfc (6.4); or ns2: beyond the last one and the last route by "
            "TTL_INCREMENT, from TTL_THRESHOLD on the whole network",
            choices=("rfc", "ns2"),
        ),
    ] = "rfc"
    repair_one: Annotated[
        bool,
        Param(
            "local repair mends the route of the frame that was not acknowledged, by an ordinary "
            "search; it is tried if the frame has come farther than it has to go, others stay as "
            "they are, and nobody is told if it fails (ns-2)"
        ),
    ] = False
    buffer_replaces: Annotated[
        bool, Param("a refresh that waits for a route makes way for a newer one; no: both (ns-2)")
    ] = True
    buffer_pacing: Annotated[
        float, Param("s between frames that a reply sets free (ns-2: ARP_DELAY)", low=0, high=1)
    ] = 0.0
    reply_raises: Annotated[
        bool, Param("each reply of the destination has a new sequence number (ns-2)")
    ] = False
    reply_checks: Annotated[
        bool,
        Param(
            "no reply with a route over the node that asked, or that may expire before the first "
            "frame is here; no: with any that is new enough (ns-2)"
        ),
    ] = True
    better_replies: Annotated[
        bool,
        Param("a node with a better route than a reply's sends that on; no: drops it (ns-2)"),
    ] = True
    neighbour_routes: Annotated[
        bool, Param("a control frame leaves a route of one hop to its sender; no: ns-2")
    ] = True
    data_refreshes: Annotated[
        bool,
        Param(
            "data refresh the routes to originator, sender and next hop (6.2); no: only the one "
            "that they take (ns-2)"
        ),
    ] = True
    data_precursors: Annotated[
        bool,
        Param("nodes that send data over a route hear of its end; no: that got a reply (ns-2)"),
    ] = True
    drop_loops: Annotated[
        bool, Param("a node drops frames of its own that come back to it (ns-2)")
    ] = False

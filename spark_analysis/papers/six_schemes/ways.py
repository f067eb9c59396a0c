"""The base of the reproduction, which is the paper's own set-up, and what differs from it.

The paper (docs/papers.md#six-schemes) ran ns-2 with its AODV, and with GPSR as Karp and Kung
published it (docs/papers.md#gpsr).  ns-2's constants are those of version 2.35: aodv.h, aodv.cc and
ns-mac.tcl.  Each variation turns one mechanism of the base back to what this testbed does by
itself, or to another reading of what the paper leaves open; `deployed` turns back all that a node
app on a UDP socket cannot have.

The list was made before anything ran; a variation that is added later says why (`added`).  A
setting with the name of a topology before it (`manhattan.margin`) is of that topology alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spark_analysis.papers.paper import Variation

Settings = Mapping[str, str]

AODV: Final[Settings] = MappingProxyType(
    {
        "link_feedback": "true",  # of GPSR as well: Karp and Kung, sections 2.1 and 2.5
        "active_route_timeout": "10",
        "my_route_timeout": "10",
        "rev_route_life": "6",
        "net_diameter": "30",
        "node_traversal_time": "0.03",
        "ttl_start": "30",
        "rreq_retries": "3",
        "rreq_ratelimit": "10000",
        "rerr_ratelimit": "10000",
        "gratuitous_reply": "false",
        "adaptive_timeout": "true",
        "max_rreq_timeout": "10",
        "buffer_timeout": "30",
        "salvage": "false",
        "local_repair": "true",
        "max_repair_ttl": "30",
        "repair_nearer": "true",
        "repair_retries": "4",
        "blacklist": "false",
    }
)
"""AODV as ns-2.35 has it.  `ttl_start` is not aodv.h's 5: the first request to a destination is
network-wide there, since a new route's last hop count is infinite (aodv.cc, sendRequest)."""
GPSR: Final[Settings] = MappingProxyType(
    {
        "withdraw_queue": "true",
        "piggyback": "true",
        "promiscuous": "true",
        "replanarize": "neighbours",
        "prediction": "false",
        "beyond_range": "true",
        "serve_voids": "false",
    }
)
"""GPSR as Karp and Kung (2000) have it; a frame that has toured a void is dropped (the paper,
section 3.1)."""
RADIO: Final[Settings] = MappingProxyType({"radio": "ns2"})
SCENARIO: Final[Settings] = MappingProxyType(
    {
        "freeway.one_way": "true",
        "manhattan.margin": "450",
        "tail": "45",
        "advertise": "true",
        "selectivity": "0.5",
        "admitted": "0.5",
    }
)
"""Table 1 of the paper is the topologies' default; this is what its text says besides: vehicles of
a freeway in one direction (section 4), most topics in voids in both scenarios (section 5), content
predicates and access policies (section 2).  Events of the last 45 s would not end in the run."""

PUBLISHED: Final[Settings] = MappingProxyType({**AODV, **GPSR, **RADIO, **SCENARIO})


def _but(**changes: str) -> Settings:
    """Return the base with one mechanism changed."""
    return MappingProxyType({**PUBLISHED, **changes})


def _without(*parts: Settings) -> Settings:
    """Return the base with the defaults of this testbed in place of some of its parts."""
    left_out = {key for part in parts for key in part}
    return MappingProxyType({k: v for k, v in PUBLISHED.items() if k not in left_out})


_LINK_LAYER: Final[Settings] = MappingProxyType(
    {"link_feedback": "", "withdraw_queue": "", "local_repair": ""}
)
_RUNS: Final = ("freeway", "manhattan")
"""Studies of most variations; those of the system's load run as published and as deployed."""

BASE: Final = Variation(
    "published",
    "as published",
    PUBLISHED,
    "The paper's own set-up: ns-2.35's AODV, MAC and radio, GPSR as Karp and Kung published it, "
    "vehicles of a freeway in one direction, maps on which most topics hash to voids, and voids "
    "drop.",
)

DEPLOYED: Final = Variation(
    "deployed",
    "as deployed",
    _without(AODV, GPSR, RADIO),
    "What a node app on a UDP socket has: only silence tells of a broken link, positions come from "
    "beacons alone and are predicted between them, frames fade out with distance, and a topic in a "
    "void is served by the node nearest to it.",
)

CONTROL: Final = Variation(
    "as-long",
    "as published, as long as variations",
    PUBLISHED,
    "The base over as many seconds and seeds as variations have, changed in nothing else: what "
    "turns here is no mechanism's doing, and the others are compared with it.",
    added="variations run for a third of the base's time, and what that does by itself was not "
    "known. Its runs are those of schemes that other variations leave as they are.",
)

VARIATIONS: Final = (
    CONTROL,
    DEPLOYED,
    Variation(
        "silence",
        "no link-layer feedback",
        _without(_LINK_LAYER),
        "AODV and GPSR learn of a broken link by missing hellos and beacons alone; so AODV says "
        "hello, and nothing is repaired or sent again.",
        _RUNS,
    ),
    Variation(
        "rfc",
        "AODV of RFC 3561",
        MappingProxyType(
            {
                **_without(AODV),
                "link_feedback": "true",
                "active_route_timeout": "10",  # its section 10, for link layers that report breaks
                "local_repair": "true",
            }
        ),
        "The RFC's constants, expanding ring, waiting times and repair in place of ns-2's.",
        _RUNS,
    ),
    Variation(
        "unrepaired",
        "no local repair",
        _but(local_repair="false"),
        "A node where a route breaks reports it and drops the frame.",
        _RUNS,
    ),
    Variation(
        "ring",
        "expanding ring",
        _but(ttl_start="5"),
        "aodv.h read literally: requests go 5 hops far at first, and farther only if nobody "
        "answers.",
        _RUNS,
    ),
    Variation(
        "prediction",
        "positions predicted",
        _but(prediction="true"),
        "GPSR moves neighbours on along their velocities between beacons.",
        _RUNS,
    ),
    Variation(
        "beacons-alone",
        "positions from beacons alone",
        _but(piggyback="false", promiscuous="false"),
        "Data frames carry no position, so that beacons are never saved.",
        _RUNS,
    ),
    Variation(
        "beacons-often",
        "beacons twice as often",
        _but(hello_interval="0.5"),
        "The paper does not say how often GPSR's beacons come; Karp and Kung ran 1 s and longer.",
        _RUNS,
    ),
    Variation(
        "planar",
        "planar graph of every position",
        _but(replanarize="positions"),
        "The planar graph follows each new position, not only neighbours that come and go.",
        _RUNS,
    ),
    Variation(
        "edges-once",
        "tours end at any edge",
        _but(edges_once="true"),
        "A frame that would take an edge of its face again has toured it, not only at the first.",
        _RUNS,
        added="runs of 120 s showed tours that closed on other edges than their first, and filled "
        "the channel (docs/six-schemes.md).",
    ),
    Variation(
        "near",
        "no neighbours beyond the range",
        _but(beyond_range="false"),
        "Who is farther away than the nominal range is no neighbour, even if heard.",
        _RUNS,
    ),
    Variation(
        "served",
        "voids served",
        _but(serve_voids="true"),
        "The node nearest to a location in a void serves it, as section 3.3 of the paper says; the "
        "tour of the void finds it (GHT, section 4.1).",
        _RUNS,
    ),
    Variation(
        "closest",
        "closest node alone",
        _but(proximity="0"),
        "Section 3.3 without 3.5: the node closest to the location serves it, not all nearby.",
        _RUNS,
    ),
    Variation(
        "fading",
        "frames fade out",
        _but(reception="bit-errors"),
        "Frames are lost by an error model over their signal, longer ones earlier, in place of a "
        "range within which all arrive.",
        _RUNS,
    ),
    Variation(
        "no-rts",
        "no RTS",
        _but(rts_threshold="2347"),
        "Unicasts are not announced, so that hidden senders collide.",
        _RUNS,
    ),
    Variation(
        "sense",
        "carriers sensed in range alone",
        _but(sense_range="250"),
        "A sender is sensed as far as it is received, 250 m, not 550 m.",
        _RUNS,
    ),
    Variation(
        "fast",
        "unicasts at 2 Mb/s",
        _but(data_rate="2"),
        "WaveLAN's nominal rate; ns-2.35's scripts set 1 Mb/s.",
        _RUNS,
    ),
    Variation(
        "radio",
        "our radio",
        _without(RADIO),
        "802.11b with rates by signal, an error model and no RTS in place of ns-2's MAC and radio.",
        _RUNS,
    ),
    Variation(
        "both-ways",
        "both directions",
        _but(**{"freeway.one_way": "false"}),
        "Vehicles of a freeway drive in both directions, as in the framework's model.",
        ("freeway",),
    ),
    Variation(
        "no-margin",
        "no land without streets",
        _but(**{"manhattan.margin": "0"}),
        "Topics hash to the square of the streets alone, none of which is in a void.",
        ("manhattan",),
    ),
    Variation(
        "topic-alone",
        "topics alone",
        _but(selectivity="1", admitted="1"),
        "Every event is for all who subscribe to its topic: no content predicate, no policy.",
        _RUNS,
    ),
)


def settings_of(topology: str, settings: Settings) -> dict[str, str]:
    """Return the settings of one topology: those of all, and its own without its name."""
    chosen = {}
    for key, value in settings.items():
        of, _, name = key.rpartition(".")
        if of in ("", topology):
            chosen[name] = value
    return chosen

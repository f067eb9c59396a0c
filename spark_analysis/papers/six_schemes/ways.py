"""The base of the reproduction, which is the paper's own set-up, and what differs from it.

The paper (docs/papers.md#six-schemes) ran ns-2 with its AODV, and with GPSR as Karp and Kung
published it (docs/papers.md#gpsr).  ns-2 is version 2.35: its aodv.cc (`nodeapp.routing.aodv_ns2`)
and ns-mac.tcl.  There are two bases, since the paper leaves open how its tours of voids end and
that decides claims.  Each variation turns one mechanism of the base to another reading of what the
paper leaves open; `deployed` turns back all that a node app on a UDP socket cannot have.

A way that was added after results had been seen says why (`added`).  A setting with the name of a
topology before it (`manhattan.margin`) is of that topology alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from spark_analysis.papers.paper import Variation

PAPER_NAMES: Final = MappingProxyType(
    {
        "broker-aodv": "B-AODV",
        "broker-gpsr": "B-GPSR (no map)",
        "broker-gpsr-map": "B-GPSR (with map)",
        "rendezvous-aodv": "R-AODV",
        "rendezvous-gpsr": "R-GPSR (no map)",
        "rendezvous-gpsr-map": "R-GPSR (with map)",
    }
)
SCHEMES: Final = tuple(PAPER_NAMES)
OVER_AODV: Final = ("broker-aodv", "rendezvous-aodv")
WITHOUT_MAP: Final = ("broker-gpsr", "rendezvous-gpsr")
WITH_MAP: Final = ("broker-gpsr-map", "rendezvous-gpsr-map")
GEOGRAPHIC: Final = (*WITHOUT_MAP, *WITH_MAP)
GEOGRAPHIC_RENDEZVOUS: Final = ("rendezvous-gpsr", "rendezvous-gpsr-map")
BEST: Final = "broker-gpsr-map"
"""The scheme that the paper recommends, and exempts from what it says of geographic schemes."""

Settings = Mapping[str, str]

AODV: Final[Settings] = MappingProxyType(
    {
        "link_feedback": "true",  # of GPSR as well: Karp and Kung, sections 2.1 and 2.5
        "aodv": "ns2",
    }
)
"""AODV as ns-2.35 has it: its constants, and what its aodv.cc does otherwise than RFC 3561
(`nodeapp.routing.aodv_ns2`)."""
GPSR: Final[Settings] = MappingProxyType(
    {
        "withdraw_queue": "true",  # of AODV as well, whose frames are dropped then
        "piggyback": "true",
        "promiscuous": "true",
        "replanarize": "neighbours",
        "entry_counts": "true",
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


_BOTH: Final = ("freeway", "manhattan")
"""Studies of most variations; those of the system's load run in the two bases and as deployed."""

BASE: Final = Variation(
    "published",
    "as published",
    PUBLISHED,
    "The paper's own set-up: ns-2.35's AODV, MAC and radio, GPSR as Karp and Kung published it, "
    "vehicles of a freeway in one direction, maps on which most topics hash to voids, and voids "
    "drop.",
)

ENDED: Final = Variation(
    "ended",
    "as published, tours end and voids served",
    _but(edges_once="true", serve_voids="true"),
    "The base with both readings of the paper under which its tours of voids end: a frame that "
    "would take an edge of its face again has toured it, and the node nearest to a location in a "
    "void serves it (sections 3.3 and 3.4 of the paper; GHT, section 4.1).",
    added="runs of 120 s showed tours that closed on other edges than their first, and filled the "
    "channel; as no reading lets all claims hold, both are judged.",
    whole=True,
)
"""The second base: as many speeds, seeds and seconds as the first."""

CONTROL: Final = Variation(
    "as-long",
    "as published, as long as variations",
    PUBLISHED,
    "The base over as many seconds and seeds as variations have, changed in nothing else: what "
    "turns here is no mechanism's doing, and the others are compared with it.",
    added="variations run for a third of the base's time, and what that does by itself was not "
    "known. Its runs are those of schemes that other variations leave as they are.",
    studies=_BOTH,
)

VARIATIONS: Final = (
    ENDED,
    CONTROL,
    Variation(
        "deployed",
        "as deployed",
        _without(AODV, GPSR, RADIO),
        "What a node app on a UDP socket has: only silence tells of a broken link, positions come "
        "from beacons alone and are predicted between them, frames fade out with distance, and a "
        "topic in a void is served by the node nearest to it.",
        _BOTH,
    ),
    Variation(
        "rfc",
        "AODV of RFC 3561",
        MappingProxyType(
            {
                **_but(aodv="rfc"),
                "active_route_timeout": "10",  # its section 10, for link layers that report breaks
                "local_repair": "true",
            }
        ),
        "The RFC's rules, constants, expanding ring, waiting times and repair in place of ns-2's.",
        _BOTH,
    ),
    Variation(
        "entry",
        "entries never end a tour",
        _but(entry_counts="false"),
        "The node at which a frame entered perimeter mode never puts it back to greedy mode, and "
        "its edges cross no line, wherever it has moved: a tour is a tour.",
        _BOTH,
        added="Karp and Kung's rule was found to differ from what had been run as published.",
    ),
    Variation(
        "no-margin",
        "no land without streets",
        _but(**{"manhattan.margin": "0"}),
        "Topics hash to the square of the streets alone, none of which is in a void.",
        ("manhattan",),
    ),
    Variation(
        "closest",
        "closest node alone",
        _but(proximity="0"),
        "Section 3.3 without 3.5: the node closest to the location serves it, not all nearby.",
        _BOTH,
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

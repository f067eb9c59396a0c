"""Topic-driven brokers and rendezvous nodes for vehicles, over GPSR and AODV.

The paper analyses publish/subscribe over mobile ad hoc networks of vehicles: brokers or
rendezvous nodes are found by AODV at the node id that a topic hashes to, by GPSR at the place it
hashes to, or by GPSR at the waypoint of a road map next to that place.  It compares these six
schemes in a freeway and a Manhattan scenario (its table 1) by delivery ratio, end-to-end delay
and per-node message load against speed (its figures 4 and 5): 900 s, three seeds.

The paper's words are the claims below; its figures have no numbers that could be read.  Where it
says "very low" or "highest", a rule says what that is taken to mean.  What it leaves open of the
scenarios is stated in the topologies `freeway` and `manhattan`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import pandas as pd

from spark_analysis.metrics.known import DELAY_MEAN, DELIVERY_RATIO, LOAD_MEAN
from spark_analysis.papers.claims import (
    Claim,
    Comparison,
    above,
    difference,
    positive,
    values_of,
)
from spark_analysis.papers.paper import (
    PROTOCOL,
    Axis,
    Figure,
    Paper,
    Preset,
    Scope,
    Slice,
    Study,
    Variation,
    ends_and_middle,
    per_second,
)
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.spec import SweepSpec

SCHEMES: Final = (
    "broker-aodv",
    "broker-gpsr",
    "broker-gpsr-map",
    "rendezvous-aodv",
    "rendezvous-gpsr",
    "rendezvous-gpsr-map",
)
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
VERY_LOW: Final = 0.5
"""Delivery ratio below which delivery is taken to be very low: more is lost than arrives."""
COST: Final = per_second(0.05, start=0.5)
"""Mean of the schemes, measured on runs of 40 and 160 s in both scenarios, with their analysis."""


SPEED: Final = Axis("speed", "speed", "m/s")
SCHEME: Final = Axis(PROTOCOL, "scheme", names=PAPER_NAMES)


def _speeds(
    freeway: Sequence[float], manhattan: Sequence[float]
) -> Mapping[str, Mapping[str, tuple[float, ...]]]:
    return {"freeway": {"speed": tuple(freeway)}, "manhattan": {"speed": tuple(manhattan)}}


PRESETS: Final = (
    Preset(
        "quick",
        "runs of 40 s, at three speeds",
        _speeds((10.0, 30.0, 60.0), (1.0, 10.0, 20.0)),
        seeds=3,
        duration=40.0,
        variations=("ns2",),
    ),
    Preset(
        "paper",
        "as published: runs of 900 s; variations run for 300 s, at three speeds",
        _speeds((10.0, 20.0, 30.0, 40.0, 50.0, 60.0), (1.0, 5.0, 10.0, 15.0, 20.0)),
        seeds=3,
        duration=900.0,
        varied=300.0,
        variations=("ns2", "oneway", "feedback", "voids", "disk", "sparse"),
    ),
)
BASE: Final = Variation(
    "default",
    "as on a socket",
    {},
    "What a node app on a UDP socket has: only silence tells of a broken link. Frames fade out "
    "with distance by the error model. A topic that is hashed to a place without nodes is served "
    "by the node nearest to it, as section 3.3 of the paper says; GPSR's tour of the void finds it "
    "(GHT, section 4.1).",
)
_FEEDBACK: Final = MappingProxyType({"link_feedback": "true", "active_route_timeout": "10"})
"""RFC 3561, section 10: 10 s at least where the link layer tells of breaks."""
_NS2: Final = MappingProxyType(
    {
        **_FEEDBACK,
        "ttl_start": "5",
        "net_diameter": "30",
        "node_traversal_time": "0.03",
        "rreq_retries": "3",
        "propagation": "unitDisk",
        "serve_voids": "false",
    }
)
VARIATIONS: Final = (
    Variation(
        "ns2",
        "as in ns-2",
        _NS2,
        "What the paper's simulator has: the link layer tells AODV of each frame that was not "
        "acknowledged, and there are no hellos; the constants of its aodv.h; a unit disk; GPSR "
        "drops at voids.",
    ),
    Variation(
        "voids",
        "voids drop",
        {"serve_voids": "false"},
        "GPSR drops a packet whose destination it cannot reach, as section 3.1 of the paper says "
        "of it: nobody serves a place in a void.",
    ),
    Variation(
        "disk",
        "unit disk",
        {"propagation": "unitDisk"},
        "Frames arrive up to 250 m and none beyond, as with the reception threshold of ns-2, which "
        "the paper used.  By default reception fades out by the error model, so that hellos and "
        "route requests, which are short, are heard over links that lose data frames.",
    ),
    Variation(
        "feedback",
        "link-layer feedback",
        _FEEDBACK,
        "The link layer tells AODV of each frame that was not acknowledged, and AODV takes the "
        "link for broken at once, and sends no hellos.",
    ),
    Variation(
        "oneway",
        "one direction, as in ns-2",
        {**_NS2, "one_way": "true"},
        "All vehicles of a freeway drive in one direction, as the paper's words have it, so that "
        "neighbours stay together for longer; those that leave the map come in at its other side.",
        ("freeway",),
    ),
    Variation(
        "sparse",
        "wide blocks",
        {"blocks": "2", "serve_voids": "false"},
        "Two blocks a side of the same square kilometre, and voids drop: the middle of each block "
        "is farther from any street than half the radio range.",
        ("manhattan",),
    ),
)

_OVER: Final = "Mean of the seeds with its 95 % confidence interval."
QUANTITIES: Final = (
    replace(
        Quantity.of(DELIVERY_RATIO),
        title="Event delivery reliability",
        caption=f"Deliveries made out of those expected. {_OVER}",
    ),
    replace(
        Quantity.of(DELAY_MEAN),
        title="End-to-end event delivery delay",
        caption=f"{DELAY_MEAN.caption} {_OVER}",
    ),
    replace(
        Quantity.of(LOAD_MEAN),
        title="Per-node message load",
        caption=f"Bytes a second that a node sends by radio, from the Ethernet header. {_OVER}",
        unit="bytes/s a node",
    ),
)


def _sweep(topology: str) -> Callable[[Scope], SweepSpec]:
    def source(scope: Scope) -> SweepSpec:
        speeds = scope.texts("speed")
        if scope.varied:
            speeds = ends_and_middle(speeds)
        settings = dict(scope.settings)
        return SweepSpec(
            topology, SCHEMES, {"speed": speeds}, scope.seeds, scope.duration, settings
        )

    return source


STUDIES: Final = (
    Study("freeway", "freeway", (SPEED,), _sweep("freeway"), COST),
    Study("manhattan", "manhattan", (SPEED,), _sweep("manhattan"), COST),
)
FIGURES: Final = tuple(
    Figure((study.name,), quantity, SPEED, (SCHEME,))
    for study in STUDIES
    for quantity in QUANTITIES
)
AXES: Final = ("speed",)


def _delivery(points: pd.DataFrame, one: str, other: str) -> Comparison:
    return above(
        points, "delivery_ratio", one, other, AXES, scale=100, unit="points", label="delivery"
    )


def _delay(points: pd.DataFrame, one: str, other: str) -> Comparison:
    return above(points, "delay_mean", one, other, AXES, scale=1000, unit="ms", label="delay")


def _load(points: pd.DataFrame, one: str, other: str) -> Comparison:
    return above(points, "load_mean", one, other, AXES, unit="bytes/s", label="load")


def _each(
    compare: Callable[[pd.DataFrame, str, str], Comparison],
    points: pd.DataFrame,
    ones: Sequence[str],
    others: Sequence[str],
) -> list[Comparison]:
    return [compare(points, one, other) for one in ones for other in others if one != other]


def _very_low_without_map(points: pd.DataFrame) -> list[Comparison]:
    return [
        positive(
            100 * (VERY_LOW - values_of(points[points[PROTOCOL] == scheme], "delivery_ratio")),
            f"delivery: {scheme} below {100 * VERY_LOW:.0f} %",
            "points",
        )
        for scheme in ("broker-gpsr", "rendezvous-gpsr")
    ]


def _map_raises_delivery(points: pd.DataFrame) -> list[Comparison]:
    return [
        _delivery(points, f"{point}-gpsr-map", f"{point}-gpsr")
        for point in ("broker", "rendezvous")
    ]


def _best_in_modest_mobility(points: pd.DataFrame) -> list[Comparison]:
    modest = points[points["speed"] <= points["speed"].median()]
    best = "broker-gpsr-map"
    return _each(_delivery, modest, [best], SCHEMES)


def _rendezvous_sensitive(points: pd.DataFrame) -> list[Comparison]:
    """Compare what each loses from the lowest speed to the highest, seed by seed."""
    slow, fast = points["speed"].min(), points["speed"].max()
    result = []
    for routing in ("gpsr", "gpsr-map"):
        losses = []
        for speed in (slow, fast):
            rows = points[points["speed"] == speed]
            pair = (f"broker-{routing}", f"rendezvous-{routing}")
            gap = difference(rows, "delivery_ratio", *pair, AXES)
            losses.append(gap.droplevel("speed"))
        wider = ((losses[1] - losses[0]) * 100).dropna() if slow < fast else losses[0][:0]
        text = f"delivery lost from {slow:g} to {fast:g} m/s: {pair[1]} above {pair[0]}"
        result.append(positive(wider, text, "points"))
    return result


GEOGRAPHIC: Final = ("broker-gpsr", "broker-gpsr-map", "rendezvous-gpsr", "rendezvous-gpsr-map")
WITHOUT_MAP: Final = ("broker-gpsr", "rendezvous-gpsr")
WITH_MAP: Final = ("broker-gpsr-map", "rendezvous-gpsr-map")
OVER_AODV: Final = ("broker-aodv", "rendezvous-aodv")

CLAIMS: Final = (
    Claim(
        "no-map-delivery",
        "Without a map the geographic schemes have very low delivery",
        "section 5, event delivery reliability",
        _very_low_without_map,
    ),
    Claim(
        "map-raises-delivery",
        "The waypoints of the map raise their delivery significantly",
        "section 5, event delivery reliability",
        _map_raises_delivery,
    ),
    Claim(
        "broker-map-best",
        "In modest mobility the broker with a map delivers most of all",
        "section 5, event delivery reliability",
        _best_in_modest_mobility,
    ),
    Claim(
        "rendezvous-sensitive",
        "The geographic rendezvous schemes are more sensitive to mobility",
        "section 5, event delivery reliability",
        _rendezvous_sensitive,
    ),
    Claim(
        "aodv-delay",
        "The AODV schemes have the lower delay",
        "section 5, end-to-end event delivery delay",
        lambda points: _each(_delay, points, GEOGRAPHIC, OVER_AODV),
    ),
    Claim(
        "no-map-delay",
        "GPSR without a map has the highest delay: packets tour the void",
        "section 5, end-to-end event delivery delay",
        lambda points: _each(_delay, points, WITHOUT_MAP, WITH_MAP + OVER_AODV),
    ),
    Claim(
        "broker-map-delay",
        "Unlike the other geographic schemes, the broker with a map has a small delay",
        "section 5, end-to-end event delivery delay",
        lambda points: _each(
            _delay, points, (*WITHOUT_MAP, "rendezvous-gpsr-map"), ("broker-gpsr-map",)
        ),
    ),
    Claim(
        "geographic-load",
        "The geographic schemes load nodes more than the AODV schemes",
        "section 5, per-node message load",
        lambda points: _each(_load, points, GEOGRAPHIC, OVER_AODV),
    ),
    Claim(
        "broker-load",
        "A broker loads nodes less than a rendezvous, which needs advertisements as well",
        "section 5, per-node message load",
        lambda points: [
            _load(points, f"rendezvous-{routing}", f"broker-{routing}")
            for routing in ("aodv", "gpsr", "gpsr-map")
        ],
    ),
)

_VOIDS: Final = (
    "It depends on two things that the paper leaves open. Whether a void is served: the node "
    "nearest to the place can do it, and then a map gains little; where GPSR drops what it cannot "
    "deliver, topics in voids are lost. And how much of the map is void: 56 % of the freeways' "
    "square is farther from a road than half the radio range, but no place of the Manhattan grid "
    "is, so that nothing is lost there without a map, unless its blocks are wide."
)
_TIES: Final = (
    "On the freeways both schemes with a map deliver everything, so that neither is best; on the "
    "Manhattan grid no topic is in a void, and all four geographic schemes do equally well. What "
    "is decided is that they deliver more than those over AODV."
)
_LEGS: Final = (
    "The paper blames places that are out of date. Here they cost little: subscriptions are "
    "renewed each second, so that at 60 m/s the place that a publisher has from the rendezvous "
    "node is some 120 m old, and GPSR hands a frame to any neighbour that it is for, wherever that "
    "is by then. What shows with speed is another thing: an event of a rendezvous scheme goes to "
    "its subscribers straight, that of a broker scheme by way of the broker, over twice the hops."
)
_SEARCHES: Final = (
    "A publisher sends an event every 10 s. By then its route over AODV has expired or broken, and "
    "the event waits for a search; GPSR, whose beacons and refreshes each second are the price for "
    "that, forwards at once. Without a report from the link layer, a broken route also swallows "
    "what is sent over it until two hellos have stayed away. The report and ns-2's constants raise "
    "AODV's delivery by a quarter to a half, not its speed. `aodv_against_ns3` compares this AODV "
    "with ns-3's."
)
_TOURS: Final = (
    "On the freeways tours of the voids take several times as long as ways with a map, but so do "
    "AODV's searches. Where voids drop, the few events that come through without a map are those "
    "for places near a road, over short ways. The Manhattan grid has no voids to tour, unless its "
    "blocks are wide."
)
_LIKE: Final = (
    "The two schemes with a map differ by a leg: an event goes by way of the broker, or straight "
    "to the subscribers. Both take tens of milliseconds."
)
_FLOODS: Final = (
    "Without a map tours of voids load nodes on the freeways ten times as much as AODV, as the "
    "paper says of all geographic schemes. With a map there is little but a beacon a second: AODV "
    "says hello as often, unless the link layer reports breaks, and floods requests besides, one "
    "to four of them a node and second, the more the faster links break. One direction on the "
    "freeways makes it a third less. Only beacons every quarter of a second would outweigh that."
)

REMARKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "no-map-delivery": _VOIDS,
        "map-raises-delivery": _VOIDS,
        "broker-map-best": _TIES,
        "rendezvous-sensitive": _LEGS,
        "aodv-delay": _SEARCHES,
        "no-map-delay": _TOURS,
        "broker-map-delay": _LIKE,
        "geographic-load": _FLOODS,
    }
)
"""What was found out about claims that do not hold in every variation, by their keys."""

PAPER: Final = Paper(
    key="six-schemes",
    title="Six publish/subscribe schemes for vehicles",
    citation="Six publish/subscribe schemes over AODV and GPSR for vehicles: a paper whose title, "
    "authors and venue are not known, since the copy begins at its abstract.",
    anchor="six-schemes",
    studies=STUDIES,
    figures=FIGURES,
    claims=CLAIMS,
    presets=PRESETS,
    base=BASE,
    variations=VARIATIONS,
    remarks=REMARKS,
    slice=Slice(SCHEMES, {"freeway": {"speed": 30.0}, "manhattan": {"speed": 10.0}}),
    names=PAPER_NAMES,
)

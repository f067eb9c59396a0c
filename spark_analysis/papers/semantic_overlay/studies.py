"""What is run: static networks by size, law of the interests and hashes; joins; equations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_analysis.papers.computed import Computed, Function
from spark_analysis.papers.paper import (
    CURVE,
    Axis,
    Figure,
    Preset,
    Scope,
    Study,
    Variation,
    ends_and_middle,
    per_point,
)
from spark_analysis.papers.semantic_overlay.bits import largest
from spark_analysis.papers.semantic_overlay.compared import compared
from spark_analysis.papers.semantic_overlay.dynamic import dynamic
from spark_analysis.papers.semantic_overlay.equations import STEPS, by_nodes, by_ratio
from spark_analysis.papers.semantic_overlay.static import static
from spark_analysis.report.curves import Quantity

NODES: Final = Axis("nodes", "number of peers")
ALPHA: Final = Axis("alpha", "exponent of the Pareto law")
HASHES: Final = Axis("hashes", "hash functions, K")
COVER: Final = Axis("cover", "tables cover", names={"bits": "bits", "cells": "cells"})
CONVERGED: Final = Axis(
    "converged",
    "joins",
    names={"False": "3 fruitless answers or 16 rounds", "True": "until convergence"},
)
CONVERGED_SEEDS: Final = 4
"""Networks of each way to join: until convergence it takes ten times as many messages."""
SET_BITS: Final = Axis("set_bits", "bits set in the identifier")
STEP: Final = Axis("step", "publications a join, in steps of 0.4 k d/(2p)")
SETTING: Final = Axis("study", "setting", names={"static": "static", "dynamic": "with joins"})
BOTH: Final = Axis("study", "system", names={**SETTING.names, "compared": "Mirinae"})
SYSTEM: Final = Axis(
    "system",
    "system",
    names={"semantic-overlay": "semantic overlay", "mirinae": "Mirinae"},
)
SIZES: Final = (125, 250, 500, 1000, 2000, 4000)
LARGEST: Final = 4000
VARIED: Final = 500
"""Peers of the largest networks with joins in a variation."""
READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "cover": str,
    "hashes": int,
    "restart": "true".__eq__,
    "converged": "true".__eq__,
}
"""Reads the settings of variations."""
OF_HASHES: Final = 1000
OF_LAW: Final = 100
"""Quotes of a network whose interests follow a law: each has many takers."""


def _computed(
    function: Function, columns: tuple[str, ...], **settings: Any
) -> Callable[[Scope], Computed]:
    known = inspect.signature(function).parameters

    def source(scope: Scope) -> Computed:
        vary = {column: scope.values[column] for column in columns}
        if scope.varied:
            few = tuple(nodes for nodes in vary["nodes"] if nodes <= VARIED or function is static)
            vary["nodes"] = ends_and_middle(few)
        changed = {key: READ[key](text) for key, text in scope.settings.items() if key in known}
        return Computed(function, vary, scope.seeds, settings={**settings, **changed})

    return source


def _growing(seconds: float, power: float) -> Callable[[Mapping[str, Any], float], float]:
    """Return a cost that grows with the number of peers; `seconds` are those of 1,000."""
    return lambda parameters, duration: seconds * (float(parameters["nodes"]) / 1000) ** power


STUDIES: Final = (
    Study("static", "static setting", (NODES,), _computed(static, ("nodes",)), _growing(0.6, 1.5)),
    Study(
        "bits",
        "the largest table that a peer can have, by bits set",
        (SET_BITS,),
        lambda scope: Computed(largest, scope.values, inline=True),
        per_point(0.05),
    ),
    Study(
        "popularity",
        "interests by a Pareto law",
        (NODES, ALPHA),
        _computed(static, ("nodes", "alpha"), quotes=OF_LAW),
        lambda parameters, duration: 8.0 * float(parameters["nodes"]) / LARGEST,
    ),
    Study(
        "hashes",
        "hash functions, and what tables cover",
        (NODES, HASHES, COVER),
        _computed(static, ("nodes", "hashes", "cover"), unmatched="flood"),
        per_point(1.0),
    ),
    Study(
        "dynamic",
        "peers that join at random times",
        (NODES,),
        _computed(dynamic, ("nodes",)),
        _growing(16.0, 1.6),
    ),
    Study(
        "convergence",
        "joins until all is covered, and what tables cover",
        (NODES, CONVERGED, COVER, HASHES),
        lambda scope: Computed(dynamic, scope.values, min(scope.seeds, CONVERGED_SEEDS)),
        _growing(70.0, 1.4),
    ),
    Study(
        "compared",
        "the compared overlay",
        (NODES,),
        _computed(compared, ("nodes",)),
        _growing(3.0, 2.0),
    ),
    Study(
        "overhead",
        "overhead by number of peers, computed",
        (NODES,),
        lambda scope: Computed(by_nodes, {"nodes": scope.values["nodes"]}, inline=True),
        per_point(0.001),
    ),
    Study(
        "ratio",
        "overhead by ratio of rates, computed",
        (STEP,),
        lambda scope: Computed(by_ratio, {"step": scope.values["step"]}, inline=True),
        per_point(0.001),
    ),
)


_REVIEWED: Final = "a review of the first results found that text, pseudocode and code differ here"
VARIATIONS: Final = (
    Variation(
        "cells",
        "tables that cover cells",
        {"cover": "cells"},
        "The text of section III-A has a region that is not covered yet, the code bits.",
        ("static", "dynamic"),
        added=_REVIEWED,
    ),
    Variation(
        "one-hash",
        "one hash function",
        {"hashes": "1"},
        "The paper does not say how many there are; an event has a bit for each.",
        ("static", "dynamic"),
        added=_REVIEWED,
    ),
    Variation(
        "literal",
        "Algorithm 2 to the letter",
        {"restart": "false"},
        "In the pseudocode the second pass goes on with what the first has covered; the text and "
        "the proof of proposition 1 have it begin afresh.",
        ("static",),
        added=_REVIEWED,
    ),
    Variation(
        "converged",
        "joins until convergence",
        {"converged": "true"},
        "A join takes steps until the table converges; the base ends it after 3 fruitless answers "
        "or 16 rounds.",
        ("static", "dynamic"),
        added=_REVIEWED,
    ),
)


def _preset(name: str, summary: str, sizes: tuple[int, ...], law: int, **rest: Any) -> Preset:
    compared_at: tuple[int, ...] = rest.pop("compared")
    joined: tuple[int, ...] = rest.pop("joined")
    alphas: tuple[float, ...] = rest.pop("alphas")
    values: dict[str, dict[str, tuple[Any, ...]]] = {
        "static": {"nodes": sizes},
        "bits": {"set_bits": (30, 128, 256, 512, 640, 819)},
        "popularity": {"nodes": (law,), "alpha": alphas},
        "hashes": {
            "nodes": (min(OF_HASHES, sizes[-1]),),
            "hashes": (1, 2, 3, 5),
            "cover": ("bits", "cells"),
        },
        "dynamic": {"nodes": joined},
        "convergence": {
            "nodes": (min(250, sizes[-1]),) if len(joined) < len(SIZES) else (250, 500),
            "converged": (False, True),
            "cover": ("bits", "cells"),
            "hashes": (1, 3),
        },
        "compared": {"nodes": compared_at},
        "overhead": {"nodes": (64, 128, 256, 512, 1024, 2048, 4096)},
        "ratio": {"step": tuple(range(STEPS + 1))},
    }
    return Preset(name, summary, values, **rest)


PRESETS: Final = (
    _preset(
        "quick",
        "a quick check with 3 networks of up to 500 peers: too few to decide much",
        (125, 250, 500),
        500,
        alphas=(1.0, 4.0),
        joined=(125, 250, 500),
        compared=(125, 250),
        seeds=3,
    ),
    _preset(
        "paper",
        "as published: 1,024 bits, 10 networks of each size, up to 4,000 peers",
        SIZES,
        LARGEST,
        alphas=(1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
        joined=SIZES,
        compared=(125, 250, 500, 1000),
        seeds=10,
        varied_seeds=5,
        variations=tuple(variation.key for variation in VARIATIONS),
    ),
)

_MEAN: Final = "Mean of the networks with its 95 % confidence interval."


def _figure(
    studies: tuple[str, ...],
    column: str,
    title: str,
    caption: str,
    unit: str,
    x: Axis,
    *series: Axis,
    scale: float = 1.0,
    main: bool = False,
) -> Figure:
    quantity = Quantity(column, title, f"{caption} {_MEAN}", unit, scale)
    return Figure(studies, quantity, x, series, main=main)


_DEPTH: Final = "Overlay hops of deliveries to peers that want the event, searching included."
_TABLE: Final = "Links that a peer has chosen."
_LINKS: Final = "Links of a peer, chosen and incoming."
_FALSE: Final = "Of all peers that get an event, those without a matching subscription."
_LOST: Final = "Of the peers that want an event, those that do not get it."
FIGURES: Final = (
    _figure(("static",), "depth", "Delivery depth, static (2a)", _DEPTH, "hops", NODES),
    _figure(("static",), "table", "Routing table, static (2b)", _TABLE, "entries", NODES),
    _figure(("static",), "links", "The same with incoming links", _LINKS, "entries", NODES),
    _figure(("static",), "table_most", "Largest routing table", _TABLE, "entries", NODES),
    _figure(
        ("popularity",), "false_positives", "False positives (3)", _FALSE, "%", ALPHA, scale=100.0
    ),
    *(
        _figure(("popularity",), f"by_{cause}", f"False positives by {name}", text, "%", ALPHA,
                scale=100.0)
        for cause, name, text in (
            ("grid", "the grid", "The event's cell is one of the peer's; its filter has a part."),
            ("bloom", "collision", "All bits of the event are the peer's, by a collision."),
            ("forwarding", "forwarding", "The peer is on the way of a search."),
        )
    ),
    _figure(("popularity",), "table", "Routing table by law (4)", _TABLE, "entries", ALPHA),
    _figure(
        ("static", "dynamic"), "links", "Routing table with joins (5a)", _LINKS, "entries", NODES,
        SETTING, main=True,
    ),
    _figure(("static", "dynamic"), "table", "Chosen links", _TABLE, "entries", NODES, SETTING),
    _figure(
        ("static", "dynamic", "compared"), "depth", "Delivery depth with joins (5b)", _DEPTH,
        "hops", NODES, BOTH, main=True,
    ),
    _figure(
        ("overhead",), "overhead", "Overhead by peers, computed (6a)",
        "Propositions 2 and 3, in units of p times publications a second.", "", NODES, SYSTEM,
    ),
    _figure(
        ("ratio",), "overhead", "Overhead by rates, computed (6b)",
        "Propositions 2 and 3, in units of k d/2 ln n times joins a second.", "", STEP, SYSTEM,
    ),
    _figure(
        ("static", "dynamic", "compared"), "false_negatives", "False negatives", _LOST, "%",
        NODES, BOTH, scale=100.0, main=True,
    ),
    _figure(
        ("hashes",), "false_negatives", "False negatives by hash functions", _LOST, "%", HASHES,
        COVER, scale=100.0,
    ),
    _figure(("hashes",), "false_positives", "False positives by hash functions", _FALSE, "%",
            HASHES, COVER, scale=100.0),
    _figure(("hashes",), "table", "Routing table by hash functions", _TABLE, "entries", HASHES,
            COVER),
    Figure(
        ("bits",),
        Quantity("entries", "Largest table that a peer can have", "One peer's chosen links.",
                 "entries"),
        SET_BITS,
        (CURVE,),
        columns={"largest_table": "built", "closed_form": "4m + c", "bound": "2d + c"},
    ),
    _figure(("convergence",), "false_negatives", "False negatives by how joins end", _LOST, "%",
            HASHES, COVER, CONVERGED, scale=100.0),
    Figure(
        ("dynamic",),
        Quantity("join_parts", "Messages of a join", f"Each time one is sent. {_MEAN}", "messages"),
        NODES,
        (CURVE,),
        columns={
            "join_messages": "all",
            "join_queries": "queries",
            "join_replies": "replies",
            "link_messages": "LINK messages",
        },
    ),
    _figure(("static", "dynamic", "compared"), "event_messages", "Messages of an event",
            "Searching included.", "messages", NODES, BOTH, main=True),
    _figure(("compared",), "uninterested", "Mirinae: deliveries to peers that do not want an event",
            "Peers whose identifier does not match.", "messages", NODES),
)  # fmt: skip

"""What is run: graphs of all networks, the protocol on some of them, the plane, other systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from spark_analysis.measures.delay import DELAY_MEAN, HOPS_MEAN
from spark_analysis.measures.overhead import FRAMES_PER_DELIVERY
from spark_analysis.papers.computed import Computed, Function
from spark_analysis.papers.georendezvous.graph import (
    OF,
    TREES,
    TRIED,
    by_nearest,
    by_replicas,
    by_subscribers,
)
from spark_analysis.papers.georendezvous.networks import PAIRS
from spark_analysis.papers.georendezvous.plane import (
    ACROSS,
    plane_by_moves,
    plane_by_nearest,
    plane_by_replicas,
)
from spark_analysis.papers.georendezvous.runs import cells, signalling, trees, ways
from spark_analysis.papers.georendezvous.stable import savings, stable
from spark_analysis.papers.georendezvous.theorem import theorem
from spark_analysis.papers.georendezvous.voids import without_voids
from spark_analysis.papers.paper import (
    CURVE,
    PROTOCOL,
    Axis,
    Figure,
    Preset,
    Scope,
    Study,
    Variation,
    per_point,
)
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.spec import SweepSpec

NODES: Final = Axis("nodes", "number of nodes")
REPLICAS: Final = Axis("replicas", "rendezvous cells")
TRIED_AXIS: Final = Axis("tried", f"nearest rendezvous cells tried, of {OF}")
SUBSCRIBERS: Final = Axis("subscribers", "subscribers")
K: Final = Axis("k", "k")
SYSTEM: Final = Axis(
    PROTOCOL,
    "system",
    names={
        "georendezvous": "GeoRendezvous",
        "rendezvous-gpsr": "Rendezvous node, GPSR",
        "broker-gpsr": "Broker, GPSR",
    },
)
METHOD: Final = Axis(
    "method",
    "",
    names={
        "graph": "graph",
        "protocol": "protocol",
        "plane": "continuous plane",
        "moves": "plane, in moves to eight sides",
        "cells": f"plane of {ACROSS} by {ACROSS} cells",
        "full": "networks as if no cell were empty",
        "shortest": "shortest ways over the networks' cells",
    },
)
SIZES: Final = (80, 150, 300, 600, 1200, 3000)
RUNS: Final = 40
"""Most networks of each size that run the whole protocol; graphs are computed for all."""
FEWER: Final = 10
"""Networks for signalling."""
SWITCHED: Final = 50
"""Networks, and values of the plane, that show what makes the plane differ."""
TREE_RUNS: Final = 6
"""Networks that run the protocol for its trees."""
SYSTEM_SEEDS: Final = 3
ONE_SIZE: Final = 600
"""Nodes of figures 3(c) and 3(d)."""


def _labelled(method: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows.assign(method=method)


def _computed(function: Function, columns: tuple[str, ...], most: int | None = None) -> Any:
    def source(scope: Scope) -> Computed:
        seeds = scope.seeds if most is None else min(scope.seeds, most)
        return Computed(function, {column: scope.values[column] for column in columns}, seeds)

    return source


def _graph(scope: Scope) -> Computed:
    border = scope.settings.get("border", "true") == "true"
    vary = {"nodes": scope.values["nodes"]}
    return Computed(by_replicas, vary, scope.seeds, settings={"border": border})


def _systems(scope: Scope) -> SweepSpec:
    return SweepSpec(
        "uniform_field",
        ("georendezvous", "rendezvous-gpsr", "broker-gpsr"),
        {"nodes": scope.texts("nodes"), "replicas": ("1", str(OF))},
        min(scope.seeds, SYSTEM_SEEDS),
        scope.duration,
        {"nearest": "0", "topics": "10", "subscribers": "1", "advertise": "true"},
        draws=("nodes",),
    )


def _stable(scope: Scope) -> Computed:
    vary = {column: scope.values[column] for column in ("nodes", "tried")}
    return Computed(stable, vary, min(scope.seeds, FEWER), settings={"replicas": OF})


def _at_3000(seconds: float, least: float) -> Callable[[Mapping[str, Any], float], float]:
    """Return a cost that grows with the number of nodes: `seconds` for 3,000, and `least`."""
    return lambda parameters, duration: least + seconds * float(parameters["nodes"]) / 3000


BY_NODES: Final = ("nodes",)
STUDIES: Final = (
    Study("graph", "ways", (NODES,), _graph, _at_3000(0.5, 0.02), derive=_labelled("graph")),
    Study(
        "plane",
        "a continuous plane",
        (),
        lambda scope: Computed(plane_by_replicas, {}, scope.seeds, inline=True),
        per_point(0.03),
    ),
    Study(
        "nearest",
        f"the nearest of {OF}",
        (NODES,),
        _computed(by_nearest, BY_NODES),
        per_point(0.03),
        derive=_labelled("graph"),
    ),
    Study(
        "plane-nearest",
        f"the nearest of {OF} on a continuous plane",
        (),
        lambda scope: Computed(plane_by_nearest, {}, scope.seeds, inline=True),
        per_point(0.02),
    ),
    Study(
        "trees",
        f"trees over {OF} cells, {TRIED} tried, beside 1",
        (NODES, SUBSCRIBERS),
        _computed(by_subscribers, ("nodes", "subscribers")),
        per_point(0.05),
        derive=_labelled("graph"),
    ),
    Study(
        "signalling",
        f"signalling of subscribers that try the nearest of {OF}",
        (NODES, TRIED_AXIS),
        _computed(signalling, ("nodes", "tried"), FEWER),
        per_point(1.0),
    ),
    Study(
        "stable",
        f"a new subscriber where all {OF} cells are notified",
        (NODES, TRIED_AXIS),
        _stable,
        per_point(1.5),
    ),
    Study(
        "cells",
        "signalling and state by number of cells",
        (NODES, REPLICAS),
        _computed(cells, ("nodes", "replicas"), FEWER),
        per_point(1.0),
    ),
    Study(
        "systems",
        "systems side by side",
        (NODES,),
        _systems,
        lambda parameters, duration: 2.0 + duration * float(parameters["nodes"]) / 1500,
        draws=("nodes", "seed"),
    ),
    # Added when the figures had shown that the plane and the networks differ.
    Study(
        "moves",
        "a plane of cells",
        (),
        lambda scope: Computed(plane_by_moves, {}, min(scope.seeds, SWITCHED), inline=True),
        per_point(0.03),
    ),
    Study(
        "voids",
        "networks without voids",
        (NODES,),
        _computed(without_voids, BY_NODES, SWITCHED),
        per_point(0.1),
    ),
    Study(
        "theorem",
        "theorem 3.1",
        (NODES,),
        _computed(theorem, BY_NODES),
        _at_3000(1.2, 0.02),
    ),
    Study(
        "savings",
        f"a new subscriber that tries {TRIED} cells, beside one that tries all",
        (NODES, REPLICAS),
        _computed(savings, ("nodes", "replicas"), FEWER),
        per_point(4.0),
    ),
    Study(
        "protocol",
        "ways in runs of the protocol",
        (NODES,),
        _computed(ways, BY_NODES, RUNS),
        _at_3000(7.5, 0.3),
        derive=_labelled("protocol"),
    ),
    Study(
        "protocol-trees",
        "trees in runs of the protocol",
        (NODES, SUBSCRIBERS),
        _computed(trees, ("nodes", "subscribers"), TREE_RUNS),
        per_point(2.5),
        derive=_labelled("protocol"),
    ),
)


def _preset(name: str, summary: str, sizes: tuple[int, ...], **rest: Any) -> Preset:
    one_size = {"nodes": (ONE_SIZE,)}
    receivers: tuple[int, ...] = rest.pop("receivers")
    values: dict[str, dict[str, tuple[Any, ...]]] = {
        "graph": {"nodes": sizes},
        "protocol": {"nodes": sizes},
        "plane": {},
        "nearest": one_size,
        "plane-nearest": {},
        "trees": {**one_size, "subscribers": receivers},
        "protocol-trees": {**one_size, "subscribers": receivers},
        "signalling": {**one_size, "tried": (1, 2, 4, 8)},
        "stable": {**one_size, "tried": (1, 2, 4, 8)},
        "savings": {**one_size, "replicas": (4, 8, 16)},
        "cells": {**one_size, "replicas": (1, OF)},
        "moves": {},
        "voids": one_size,
        "theorem": {"nodes": sizes},
        "systems": {"nodes": rest.pop("compared")},
    }
    return Preset(name, summary, values, **rest)


PRESETS: Final = (
    _preset(
        "quick",
        "a quick check with 3 networks per size, up to 600 nodes: too few to decide much",
        (80, 300, 600),
        receivers=(1, 8, 32),
        compared=(80,),
        seeds=3,
        duration=30.0,
    ),
    _preset(
        "paper",
        f"as published: {PAIRS} pairs in each of 200 networks per size; of these {RUNS} run the "
        f"whole protocol, {TREE_RUNS} its trees of {TREES} publishers; {FEWER} for signalling",
        SIZES,
        receivers=(1, 2, 4, 8, 16, 32),
        compared=(80, 300),
        seeds=200,
        duration=40.0,
        varied_seeds=50,
        variations=("no-border",),
    ),
)
VARIATIONS: Final = (
    Variation(
        "no-border",
        "degree without the border",
        {"border": "false"},
        "45 neighbours as if there were no border, so that the square is larger and the mean over "
        "all nodes lower: the paper does not say which it means.",
        ("graph",),
    ),
)

_MEAN: Final = "Mean of the networks with its 95 % confidence interval."
RATIO: Final = Quantity(
    "ratio",
    "Way over the best rendezvous cell",
    f"Hops over the rendezvous cell with the shortest way, over those of the direct way. {_MEAN}",
    "times the direct way",
)
RADIO: Final = Quantity(
    "ratio_radio",
    "The same, over the shortest ways in the radio's graph",
    f"Hops of cell hash routing over those of the shortest way in the unit-disk graph. {_MEAN}",
    "times the shortest way",
)
LENGTH: Final = Quantity(
    "length_ratio",
    "Length of trees",
    f"Distinct transmissions of an event over {OF} cells, of which subscribers try the {TRIED} "
    f"nearest, over those over 1. {_MEAN}",
    "times the tree over 1",
)
FRAMES: Final = Quantity(
    "frames_ratio",
    "All transmissions",
    f"All transmissions of an event over {OF} cells over those over 1. {_MEAN}",
    "times those over 1",
)


def _at_one_size(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `ONE_SIZE` nodes, and those that have no nodes."""
    chosen: pd.DataFrame = rows[(rows["nodes"] == ONE_SIZE) | rows["nodes"].isna()]
    return chosen


def _of_systems(column: str, title: str, caption: str, unit: str) -> Figure:
    quantity = Quantity(column, title, f"{caption} {_MEAN}", unit)
    return Figure(("systems",), quantity, NODES, (SYSTEM, REPLICAS))


FIGURES: Final = (
    Figure(("graph",), RATIO, REPLICAS, (NODES,), main=True),
    Figure(("graph",), RATIO, NODES, (REPLICAS,), main=True),
    Figure(("nearest", "plane-nearest"), RATIO, TRIED_AXIS, (METHOD,), main=True),
    Figure(("trees", "protocol-trees"), LENGTH, SUBSCRIBERS, (METHOD,), main=True),
    Figure(("trees", "protocol-trees"), FRAMES, SUBSCRIBERS, (METHOD,)),
    Figure(("graph", "protocol", "plane"), RATIO, REPLICAS, (METHOD,), only=_at_one_size),
    Figure(
        ("graph", "voids", "moves", "plane"),
        replace(RATIO, title="What makes the plane differ"),
        REPLICAS,
        (METHOD,),
        only=_at_one_size,
    ),
    Figure(("graph",), RADIO, REPLICAS, (NODES,)),
    Figure(
        ("stable",),
        Quantity(
            "unnecessary",
            "Unnecessary messages where all cells are notified",
            f"Of a new subscriber; 3(n-1) by the paper. {_MEAN}",
            "messages",
        ),
        TRIED_AXIS,
        (NODES,),
    ),
    Figure(
        ("savings",),
        Quantity(
            "frames",
            "Transmissions of a new subscriber",
            f"On every hop, broadcasts inside cells included. {_MEAN}",
            "frames",
        ),
        REPLICAS,
        (CURVE,),
        columns={"frames_all": "all cells tried", "frames_two": f"the {TRIED} nearest tried"},
    ),
    Figure(
        ("cells",),
        Quantity("stored", "State by number of cells", f"Entries of a node. {_MEAN}", "entries"),
        REPLICAS,
        (NODES,),
    ),
    *(
        Figure(
            ("signalling",),
            Quantity(column, title, f"{caption} {_MEAN}", unit),
            TRIED_AXIS,
            (NODES,),
        )
        for column, title, caption, unit in (
            ("unnecessary", "Messages of cells not chosen", "No other subscriber.", "messages"),
            ("duplicates", "Duplicates before pruning", "Of a first event, on the air.", "events"),
            ("stored", "State of a node", "Advertisers and subscriptions stored.", "entries"),
            ("stored_most", "State of the busiest node", "The same, largest.", "entries"),
            ("replica_frames", "Replication inside cells", "Broadcasts a pair.", "frames"),
        )
    ),
    *(
        Figure(
            ("signalling",),
            Quantity(column, title, f"{caption} {_MEAN}", unit),
            TRIED_AXIS,
            (CURVE,),
            columns=columns,
        )
        for column, title, caption, unit, columns in (
            (
                "messages",
                "Messages by kind",
                "Of a pair, each once however far it goes.",
                "messages a pair",
                {
                    "subscription": "subscriptions",
                    "notification": "first notifications",
                    "prune": "prunes of subscribers",
                    "demand": "demands",
                    "prune_publisher": "prunes towards publishers",
                },
            ),
            (
                "transmissions",
                "Transmissions by kind",
                "Of a pair, on every hop.",
                "frames a pair",
                {
                    "advertisement_frames": "advertisements",
                    "subscription_frames": "subscriptions",
                    "prune_frames": "prunes",
                    "demand_frames": "demands",
                    "replica_frames": "replication",
                },
            ),
        )
    ),
    Figure(
        ("theorem",),
        Quantity(
            "constant",
            "Constants of theorem 3.1",
            "Growth bound Delta and diameter L, of the nodes looked at in each network: the 20 "
            f"pairs' and those nearest to the four corners. {_MEAN}",
            "",
        ),
        NODES,
        (CURVE,),
        columns={"growth": "Delta", "epsilon": "epsilon = E[l]/L", "diameter": "L, hops"},
    ),
    Figure(
        ("theorem",),
        Quantity("probability", "P(l_r <= l + 2kl)", f"Share of the nodes. {_MEAN}", ""),
        NODES,
        (K,),
    ),
    Figure(
        ("theorem",),
        Quantity("bound", "Bound of theorem 3.1", f"Of the networks' constants. {_MEAN}", ""),
        NODES,
        (K,),
    ),
    Figure(("systems",), Quantity.of(HOPS_MEAN), NODES, (SYSTEM, REPLICAS)),
    Figure(("systems",), Quantity.of(DELAY_MEAN), NODES, (SYSTEM, REPLICAS)),
    Figure(("systems",), Quantity.of(FRAMES_PER_DELIVERY), NODES, (SYSTEM, REPLICAS)),
    _of_systems("path_stretch", "Detour", "Hops over those of the shortest way.", "times"),
    _of_systems("tree_length", "Notification tree", "Distinct transmissions an event.", "links"),
)

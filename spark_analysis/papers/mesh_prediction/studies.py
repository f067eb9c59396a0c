"""What is run: the paper's points, wrong predictions, and its equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from spark_analysis.measures.delivery import DELIVERY_RATIO
from spark_analysis.measures.legs import (
    EVENT_FRAMES_IN_ALL,
    EVENT_MESH_PACKETS,
    LEG_DELAY,
    LEG_MESH_PACKETS,
    LEG_PACKETS,
)
from spark_analysis.papers.computed import Computed
from spark_analysis.papers.mesh_prediction.alone import alone
from spark_analysis.papers.mesh_prediction.equations import draws, formulas
from spark_analysis.papers.mesh_prediction.names import PAPER_NAMES, PREDICTION, PROTOCOLS
from spark_analysis.papers.paper import (
    PROTOCOL,
    Axis,
    Figure,
    Preset,
    Scope,
    Study,
    Variation,
    per_point,
)
from spark_analysis.report.curves import OF_MEANS, Quantity
from spark_analysis.sweeps.spec import SweepSpec

K: Final = Axis("k", "k")
INTERVAL: Final = Axis("interval", "mean interval", "s")
SPEED: Final = Axis("speed", "speed of clients", "m/s")
TURN: Final = Axis("turn", "probability that a client turns early")
ERROR: Final = Axis("speed_error", "error of the speed, at most")
FAILED: Final = Axis("failed", "brokers that have failed, of 121")
SYSTEM: Final = Axis(PROTOCOL, "protocol", names=PAPER_NAMES)

LEGS: Final = "legs"
ALONE: Final = "alone"
FORMULAS: Final = "formulas"
DRAWS: Final = "draws"
TURNS: Final = "turns"
ERRORS: Final = "speed-errors"
FAILURES: Final = "failures"

CLIENTS: Final = "24"
"""Clients of one mesh; they do not influence each other (`topologies.mesh_legs`).  So many cost
about as much as their mesh, which costs the same for any number."""
QUIET: Final[Mapping[str, str]] = MappingProxyType({"graph": "fixed", "lease": "86400"})
"""No beacons, since no broker comes or goes, and no signs of life: the paper has neither."""
LEGS_ALONE: Final = 1000
"""Legs of a draw by what a leg costs alone: 10 draws are the paper's 10,000."""
DRAWN: Final = 20_000
"""Legs of a draw of the equations: 10 draws are 20 times the paper's legs."""
DIFFERENCE: Final = "delay_difference"
"""Column: delay beyond that of prediction in the same scenario, s."""


def with_difference(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `DIFFERENCE`; empty for prediction."""
    keys = [key for key in ("k", "interval", "speed", "seed") if key in rows]
    own = rows[rows[PROTOCOL] == PREDICTION].set_index(keys)["leg_delay"]
    if own.empty:
        return rows.assign(**{DIFFERENCE: float("nan")})
    others = rows.set_index(keys)["leg_delay"]
    gap = (others - own.reindex(others.index)).to_numpy()
    return rows.assign(**{DIFFERENCE: gap}).assign(
        **{DIFFERENCE: lambda t: t[DIFFERENCE].where(t[PROTOCOL] != PREDICTION)}
    )


def _legs(scope: Scope) -> SweepSpec:
    vary = {axis: scope.texts(axis) for axis in ("k", "interval", "speed")}
    settings = {"nodes": CLIENTS, **QUIET, **scope.settings}
    return SweepSpec("mesh_legs", PROTOCOLS, vary, scope.seeds, scope.duration, settings)


def _alone(scope: Scope) -> Computed:
    return Computed(alone, scope.values, 10, {"legs": LEGS_ALONE}, inline=True)


def _wrong(axis: str) -> Callable[[Scope], SweepSpec]:
    def source(scope: Scope) -> SweepSpec:
        quiet = {**QUIET, "graph": "spanning-tree"} if axis == "failed" else QUIET
        settings = {"nodes": CLIENTS, **quiet, "k": "5", "speed": "9", **scope.settings}
        protocols = PROTOCOLS if not scope.varied else (PREDICTION,)
        vary = {axis: scope.texts(axis)}
        return SweepSpec("mesh_legs", protocols, vary, scope.seeds, scope.duration, settings)

    return source


def _formulas(scope: Scope) -> Computed:
    return Computed(formulas, {"k": scope.values["k"]}, inline=True)


def _draws(scope: Scope) -> Computed:
    return Computed(draws, {"k": scope.values["k"]}, 10, {"legs": DRAWN}, inline=True)


def _cost(parameters: Mapping[str, Any], duration: float) -> float:
    """Return the processor seconds of a point, measured at the corners."""
    k, speed = float(parameters["k"]), float(parameters["speed"])
    events = float(CLIENTS) * 2000 * (k / 10) / speed / float(parameters["interval"])
    return 1.0 + 0.014 * k * k + 0.00008 * events * k


STUDIES: Final = (
    Study(
        LEGS,
        "legs from the middle of the mesh",
        (K, INTERVAL, SPEED),
        _legs,
        _cost,
        derive=with_difference,
    ),
    Study(
        ALONE,
        "10,000 legs, by what a leg costs alone",
        (K, INTERVAL, SPEED),
        _alone,
        per_point(0.05),
        derive=with_difference,
    ),
    Study(FORMULAS, "equations 1 to 6", (K,), _formulas, per_point(0.3)),
    Study(DRAWS, "equations 1 to 6 on random legs", (K,), _draws, per_point(0.3)),
    Study(TURNS, "clients that turn early, k = 5, 9 m/s", (TURN,), _wrong("turn"), per_point(4.0)),
    Study(
        ERRORS,
        "speeds that differ from what was reported, k = 5, 9 m/s",
        (ERROR,),
        _wrong("speed_error"),
        per_point(4.0),
    ),
    Study(
        FAILURES,
        "brokers that have failed, k = 5, 9 m/s",
        (FAILED,),
        _wrong("failed"),
        per_point(4.0),
    ),
)

VARIATIONS: Final = (
    Variation(
        "deviation",
        "reports on deviation",
        {"deviation": "125"},
        "A client that is half a cell off the path that it reported reports again, with its course "
        "over ground.",
        (TURNS,),
    ),
    Variation(
        "silence",
        "probes after silence",
        {"silence": "15"},
        "A client that has heard nothing for 15 s asks its serving broker.",
        (TURNS,),
    ),
)

_EQUATIONS: Final = {FORMULAS: {"k": (10, 20)}, DRAWS: {"k": (10, 20)}}
PRESETS: Final = (
    Preset(
        "quick",
        "a quick check: small meshes, slowest and fastest clients, too few to decide much",
        {
            LEGS: {"k": (3, 6), "interval": (4.0, 8.0), "speed": (3.0, 15.0)},
            ALONE: {"k": (3, 6), "interval": (4.0, 8.0), "speed": (3.0, 15.0)},
            **_EQUATIONS,
            TURNS: {"turn": (0.0, 1.0)},
        },
        seeds=2,
        duration=3600.0,
    ),
    Preset(
        "paper",
        "as published, with 10,000 legs per point by what a leg costs alone, and 240 in the mesh "
        "in 10 draws of 24 clients, to show that both agree; wrong predictions in smaller meshes, "
        "with and without recovery",
        {
            LEGS: {
                "k": (10, 20),
                "interval": (4.0, 8.0),
                "speed": (3.0, 9.0, 15.0),
            },
            ALONE: {
                "k": (10, 20),
                "interval": (4.0, 8.0),
                "speed": (3.0, 6.0, 9.0, 12.0, 15.0),
            },
            **_EQUATIONS,
            TURNS: {"turn": (0.0, 0.5, 1.0)},
            ERRORS: {"speed_error": (0.0, 0.5)},
            FAILURES: {"failed": (0, 12)},
        },
        seeds=10,
        duration=3600.0,
        variations=tuple(variation.key for variation in VARIATIONS),
    ),
)

OVERHEAD: Final = replace(
    Quantity.of(LEG_MESH_PACKETS),
    title="Average overhead per event (figure 4)",
    caption=f"{LEG_MESH_PACKETS.caption} {OF_MEANS}",
)
WITH_ACCESS: Final = replace(
    Quantity.of(LEG_PACKETS),
    title="The same with the hop to the client",
    caption=f"{LEG_PACKETS.caption} {OF_MEANS}",
)
POOLED: Final = replace(
    Quantity.of(EVENT_MESH_PACKETS),
    title="The same over all events",
    caption=f"{EVENT_MESH_PACKETS.caption} {OF_MEANS}",
)
WHOLE: Final = replace(
    Quantity.of(EVENT_FRAMES_IN_ALL),
    title="Whole cost per event",
    caption=f"{EVENT_FRAMES_IN_ALL.caption} {OF_MEANS}",
)
DELAY: Final = Quantity(
    DIFFERENCE,
    "Difference on delay per event (figure 5)",
    f"Delay from the serving broker on, less that of prediction in the same scenario. {OF_MEANS}",
    "s",
)
DELIVERY: Final = replace(Quantity.of(DELIVERY_RATIO), title="Delivery if predictions are wrong")
PACKETS: Final = replace(Quantity.of(LEG_PACKETS), title="Packets if predictions are wrong")
WAITING: Final = replace(Quantity.of(LEG_DELAY), title="Delay if predictions are wrong")


def _others(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows[PROTOCOL] != PREDICTION]


FIGURES: Final = (
    *(
        Figure((LEGS,), quantity, SPEED, (SYSTEM,), panels=(K, INTERVAL))
        for quantity in (OVERHEAD, WITH_ACCESS, POOLED, WHOLE)
    ),
    Figure((LEGS,), DELAY, SPEED, (SYSTEM,), panels=(K, INTERVAL), only=_others),
    *(
        Figure((study,), quantity, axis, (SYSTEM,))
        for study, axis in ((TURNS, TURN), (ERRORS, ERROR), (FAILURES, FAILED))
        for quantity in (DELIVERY, PACKETS, WAITING)
    ),
)

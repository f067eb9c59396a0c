"""A made-up paper in one file: floods by the number of nodes, and walks on a line of cells.

It has what a paper may have: runs, a Monte Carlo, a closed form, axes of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from spark_analysis.papers.claims import Claim, Comparison, above, exact, positive, within
from spark_analysis.papers.computed import Computed
from spark_analysis.papers.paper import (
    Axis,
    Figure,
    Paper,
    Preset,
    Scope,
    Study,
    per_point,
    per_second,
)
from spark_analysis.report.curves import Quantity
from spark_analysis.sweeps.spec import SweepSpec

NODES: Final = Axis("nodes", "number of nodes")
CELLS: Final = Axis("cells", "cells of the line")
LAZY: Final = Axis("lazy", "share of lazy walkers", "%")
SYSTEM: Final = Axis("protocol", "system", names={"flooding": "Flood", "formula": "Equation 1"})
BOLDNESS: Final = 0.05
"""Hops by which the mean of the walks may differ from the closed form."""


def walk(seed: int, cells: int, lazy: int, walkers: int) -> dict[str, Any]:
    """Return the mean distance between two random cells; lazy walkers stay where they are."""
    rng = random.Random(f"{seed}/{cells}")
    hops = [
        0 if rng.random() < lazy / 100 else abs(rng.randrange(cells) - rng.randrange(cells))
        for _ in range(walkers)
    ]
    return {"protocol": "walk", "hops": sum(hops) / walkers}


def formula(cells: int) -> Iterator[dict[str, Any]]:
    """Yield the closed form of the mean distance, at each share of lazy walkers."""
    for lazy in (0, 50):
        hops = (cells**2 - 1) / (3 * cells) * (1 - lazy / 100)
        yield {"protocol": "formula", "lazy": lazy, "hops": hops}


def _field(scope: Scope) -> SweepSpec:
    vary = {"nodes": scope.texts("nodes")}
    settings = {"side": "300", "subscribers": "3", **scope.settings}
    return SweepSpec("roaming_field", ("flooding",), vary, scope.seeds, scope.duration, settings)


def _walks(scope: Scope) -> Computed:
    return Computed(walk, scope.values, 5 * scope.seeds, {"walkers": 2000})


def _formula(scope: Scope) -> Computed:
    return Computed(formula, scope.values, inline=True)


def _as_the_formula(points: pd.DataFrame) -> list[Comparison]:
    walks = points[points["protocol"] == "walk"].astype({"seed": int})
    expected = points[points["protocol"] == "formula"].set_index(["cells", "lazy"])["hops"]
    gap = walks.set_index(["cells", "lazy", "seed"])["hops"]
    by_formula = gap.index.droplevel("seed").map(expected.to_dict())
    text = "hops of the walks less those of the formula"
    return [within(gap - by_formula.to_numpy(), -BOLDNESS, BOLDNESS, text, "hops")]


def _laziness_costs_nothing(points: pd.DataFrame) -> list[Comparison]:
    return [above(points, "hops", 50, 0, ("cells",), of="lazy", unit="hops")]


def _grows(points: pd.DataFrame) -> list[Comparison]:
    by_cells = points[points["lazy"] == 0].set_index("cells")["hops"].to_dict()
    return [exact(by_cells[8] - by_cells[4], "hops of 8 cells less those of 4", "hops")]


def _delivers(points: pd.DataFrame) -> list[Comparison]:
    received = points.set_index(["nodes", "seed"])["delivery_ratio"]
    return [positive(received * 100, "delivery", "%")]


PAPER: Final = Paper(
    key="made-up",
    title="On walks and floods",
    citation="A. Nobody. On walks and floods. Journal of Made-up Results, 1999.",
    anchor="six-schemes",
    studies=(
        Study("field", "field", (NODES,), _field, per_second(0.01, start=0.5)),
        Study("walks", "walks", (CELLS, LAZY), _walks, per_point(0.01)),
        Study("formula", "formula", (CELLS,), _formula, per_point(0.001)),
    ),
    figures=(
        Figure(
            ("field",),
            Quantity("delivery_ratio", "Reliability", "Of one flood.", "%", 100.0, 100.0),
            NODES,
            (SYSTEM,),
        ),
        Figure(
            ("walks", "formula"),
            Quantity("hops", "Length of a walk", "Figure 7.", "hops"),
            CELLS,
            (SYSTEM,),
            panels=(LAZY,),
        ),
        Figure(("formula",), Quantity("hops", "The same by laziness", "", "hops"), LAZY, (CELLS,)),
    ),
    claims=(
        Claim("delivers", "A flood delivers", "section 1", _delivers, ("field",)),
        Claim(
            "free", "Laziness makes walks longer", "section 2", _laziness_costs_nothing, ("walks",)
        ),
        Claim("grows", "Walks grow with the line", "equation 1", _grows, ("formula",)),
        Claim(
            "equation",
            "The walks are as equation 1 has them",
            "equation 1",
            _as_the_formula,
            ("walks", "formula"),
            joint=True,
        ),
    ),
    presets=(
        Preset(
            "quick",
            "two sizes of everything",
            {
                "field": {"nodes": (4, 6)},
                "walks": {"cells": (4, 8), "lazy": (0, 50)},
                "formula": {"cells": (4, 8)},
            },
            seeds=2,
            duration=20.0,
        ),
        Preset("sums", "no runs", {"formula": {"cells": (4, 8)}}),
    ),
    seeds=1,
    names=SYSTEM.names,
)

"""The papers by name: one line each.

A paper is imported when it is asked for, so that a listing works on a machine without pandas.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from nodeapp.parameters import suggestion
from spark_analysis.errors import AnalysisError

if TYPE_CHECKING:
    from spark_analysis.papers.paper import Paper

PAPERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "six-schemes": "spark_analysis.papers.six_schemes",
        "subscription-forwarding": "spark_analysis.papers.subscription_forwarding.paper",
        "georendezvous": "spark_analysis.papers.georendezvous.paper",
        "mesh-prediction": "spark_analysis.papers.mesh_prediction.paper",
        "semantic-overlay": "spark_analysis.papers.semantic_overlay.paper",
        "middleware": "spark_analysis.papers.middleware.paper",
    }
)
"""Modules that have a `PAPER`, by its key."""


def paper_names() -> list[str]:
    """Return the names of all papers, in order of registration."""
    return list(PAPERS)


def load_paper(name: str) -> Paper:
    """Return a paper.  Raises `AnalysisError` for an unknown name."""
    if name not in PAPERS:
        near = suggestion(name, PAPERS)
        raise AnalysisError(f"no paper {name!r}{near}; there are: {', '.join(PAPERS)}")
    paper: Paper = importlib.import_module(PAPERS[name]).PAPER
    return paper


def paper_summary(name: str) -> str:
    """Return the first line of a paper's module, without importing it."""
    spec = importlib.util.find_spec(PAPERS[name])
    if spec is None or spec.origin is None:
        return ""
    text = Path(spec.origin).read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def papers_rows(cores: int | None = None) -> list[tuple[str, str, str]]:
    """Return name, summary and what the presets cost of each paper, for a listing.

    The costs are empty if what papers need (pandas, Spark) is not installed.  `cores` are those
    of this machine by default.
    """
    return [(name, paper_summary(name), "\n".join(_costs(name, cores))) for name in PAPERS]


def _costs(name: str, cores: int | None) -> Sequence[str]:
    try:
        from spark_analysis.papers.cost import preset_cost

        paper = load_paper(name)
    except ModuleNotFoundError:
        return ()
    cores = cores or len(os.sched_getaffinity(0))
    return [f"{preset.name}: {preset_cost(paper, preset).text(cores)}" for preset in paper.presets]

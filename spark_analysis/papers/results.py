"""The results of a reproduction: points and findings, by variation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from spark_analysis.papers.claims import Finding
from spark_analysis.papers.paper import Paper, Preset, Variation


@dataclass(frozen=True)
class Judged:
    """One way to run it: a row a run or computed row, and a finding for each claim and study."""

    variation: Variation
    points: pd.DataFrame
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Reproduction:
    """Everything that was run, the base first; failures by point, in a line."""

    paper: Paper
    preset: Preset
    judged: tuple[Judged, ...]
    failures: Mapping[str, str]


def findings_of(result: Reproduction) -> list[dict[str, Any]]:
    """Return the findings for programs, by variation."""
    return [_as_json(each) for each in result.judged]


def _as_json(judged: Judged) -> dict[str, Any]:
    return {
        "variation": judged.variation.name,
        "settings": dict(judged.variation.settings),
        "claims": [
            {
                "claim": finding.claim.key,
                "statement": finding.claim.statement,
                "source": finding.claim.source,
                "study": finding.study,
                "verdict": finding.verdict,
                "comparisons": [asdict(comparison) for comparison in finding.comparisons],
            }
            for finding in judged.findings
        ],
    }

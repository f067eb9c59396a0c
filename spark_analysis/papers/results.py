"""The results of a reproduction: points and findings, by variation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from spark_analysis.papers.claims import Finding
from spark_analysis.papers.kept import CODE, PROBLEM, RUN
from spark_analysis.papers.paper import STUDY, Paper, Preset, Variation
from spark_analysis.papers.published import Selected
from spark_analysis.papers.so_far import SoFar
from spark_analysis.report.quantities import count
from spark_analysis.sweeps.pairing import SEED


@dataclass(frozen=True)
class Judged:
    """One way to run it: a row for each run or computed row, a finding for each claim and study.

    `few` are the findings from the first seeds alone, as many as the published evaluation had;
    empty if there are no more than that.  `base` are those of the paper's base at the points of
    this variation, which may have fewer speeds and seeds; empty for the base itself.
    """

    variation: Variation
    points: pd.DataFrame
    findings: tuple[Finding, ...]
    few: tuple[Finding, ...] = ()
    base: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Reproduction:
    """Everything that was run, the base first; failures by point, in a line.

    `so_far` is how far it has come, None at the end.  `selected` are all finished rows, by part:
    what is published with the page.
    """

    paper: Paper
    preset: Preset
    judged: tuple[Judged, ...]
    failures: Mapping[str, str]
    so_far: SoFar | None = None
    selected: Selected = ()

    @property
    def problems(self) -> dict[str, str]:
        """What went wrong in runs that finished and count; by point, in a line."""
        counted = {key for way in self.judged for key in way.points.get(RUN, ())}
        by_point: dict[tuple[str, str], tuple[str, str]] = {}
        for part, rows in self.selected:
            for key, (row, *_) in rows.items():
                # A point that several variations share counts once.
                if key in counted and (problem := row.get(PROBLEM)):
                    name = f"{part.name}: {part.points[key]}"
                    by_point.setdefault((part.study.name, key), (name, str(problem)))
        return dict(by_point.values())


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of tables whose columns need not be the same.

    A column that is empty in some of them has the type that it has in the others.
    """
    columns = list(dict.fromkeys(name for table in tables for name in table))
    filled = [table.dropna(axis="columns", how="all") for table in tables]
    return pd.concat(filled, ignore_index=True).reindex(columns=columns)


def made_by(result: Reproduction) -> str:
    """Return the commits that made the points, in words; empty if none is known."""
    columns = [
        judged.points.get(CODE, pd.Series(index=judged.points.index, dtype=object))
        for judged in result.judged
    ]
    codes = pd.concat(columns).fillna("") if columns else pd.Series(dtype=object)
    commits = sorted(set(map(str, codes)) - {""})
    if not commits:
        return ""
    unknown = int((codes == "").sum())
    but = f"; unknown for {count(unknown)} of {count(len(codes))} rows" if unknown else ""
    return f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}{but}"


def first_seeds(points: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Return the points of the first seeds, and those without chance."""
    if SEED not in points:
        return points
    return points[(points[SEED] <= seeds) | points[SEED].isna()]


def at_points_of(base: pd.DataFrame, other: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """Return the points of the base whose study, axes and seed `other` has as well."""
    parts = []
    for name, rows in other.groupby(STUDY):
        columns = [axis.column for axis in paper.study(str(name)).axes]
        keys = [key for key in (STUDY, *columns, SEED) if key in rows and key in base]
        parts.append(base.merge(rows[keys].drop_duplicates(), on=keys))
    return pd.concat(parts, ignore_index=True) if parts else base[:0]


def findings_of(result: Reproduction) -> list[dict[str, Any]]:
    """Return the findings for programs, by variation, and how far it has come if unfinished."""
    so_far = {} if result.so_far is None else {"so_far": asdict(result.so_far)}
    return [{**_as_json(judged), **so_far} for judged in result.judged]


def _as_json(judged: Judged) -> dict[str, Any]:
    few = {(finding.claim.key, finding.study): finding.verdict for finding in judged.few}
    return {
        "variation": judged.variation.name,
        "settings": dict(judged.variation.settings),
        "added": judged.variation.added,
        "claims": [
            {
                "claim": finding.claim.key,
                "statement": finding.claim.statement,
                "source": finding.claim.source,
                "own": finding.claim.own,
                "rule": finding.claim.rule,
                "study": finding.study,
                "verdict": finding.verdict,
                "with_few_seeds": few.get((finding.claim.key, finding.study)),
                "comparisons": [asdict(comparison) for comparison in finding.comparisons],
            }
            for finding in judged.findings
        ],
    }

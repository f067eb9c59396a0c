"""A published evaluation, repeated: its studies, its claims judged, and the page.

The studies of a `Paper` run as its base has it and then with each `Variation`.  Points that a
variation does not touch are run once (see `spark_analysis.sweeps.spec` and
`spark_analysis.papers.computed`).

    <folder>/<study>/points/...   reproduction.html  claims.json  results.parquet
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pandas as pd

from spark_analysis.captures.session import spark_session
from spark_analysis.papers.claims import Finding, judge
from spark_analysis.papers.computed import (
    POINT,
    Computed,
    computed_points,
    is_computed,
    needs_spark,
    run_computed,
)
from spark_analysis.papers.kept import with_costs, with_pairs
from spark_analysis.papers.page import PAGE, write_overview, write_page
from spark_analysis.papers.paper import STUDY, Paper, Preset, Study, Variation
from spark_analysis.papers.results import (
    Judged,
    Reproduction,
    at_points_of,
    findings_of,
    first_seeds,
)
from spark_analysis.sweeps.spec import SweepSpec
from spark_analysis.sweeps.sweep import Progress, complete, run_sweep

FINDINGS: Final = "claims.json"
RESULTS: Final = "results.parquet"

Report = Callable[[str, Progress], None]
"""Is told what runs, and how far it is."""


def reproduce(
    paper: Paper,
    preset: Preset,
    folder: Path,
    *,
    master: str = "local[*]",
    progress: Report = lambda what, progress: None,
) -> Reproduction:
    """Run everything that has not been run yet in `folder`, judge it and write the results.

    `progress(what, progress)` is called often and ends the work with what it raises; what is
    finished is kept.  Raises `spark_analysis.sweeps.spec.SweepError` and other `AnalysisError`,
    OSError.
    """
    judged: list[Judged] = []
    failures: dict[str, str] = {}
    result = Reproduction(paper, preset, (), {})
    with ExitStack() as session:
        for variation in paper.ways(preset):
            parts, new = [], False
            for name, spec in paper.plan(preset, variation).items():
                what = f"{name}, {variation.name}"

                def report(done: Progress, what: str = what) -> None:
                    progress(what, done)

                study = paper.study(name)
                if not _complete(study, spec, folder / name):
                    new = True
                    if not isinstance(spec, Computed) or needs_spark(spec, folder / name):
                        # One for all: it takes seconds.
                        session.enter_context(spark_session(master))
                rows, failed = _run(study, spec, folder / name, master, report)
                failures |= {f"{what}: {point}": why for point, why in failed.items()}
                if len(rows):
                    parts.append(_completed(study, rows))
            points = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
            judged.append(judgement(paper, variation, points, judged[0] if judged else None))
            result = Reproduction(paper, preset, tuple(judged), failures)
            if new:  # drawing takes a while: not for each of many variations that are there
                write_results(result, folder)
    write_results(result, folder)
    return result


def judgement(
    paper: Paper, variation: Variation, points: pd.DataFrame, base: Judged | None = None
) -> Judged:
    """Judge the claims from the points of one way to run a paper; `base` if it is not that."""
    if not len(points):
        return Judged(variation, points, ())
    before: Sequence[Finding] = ()
    if base is not None and len(base.points):
        before = judge(paper.claims, at_points_of(base.points, points, paper))
    few: Sequence[Finding] = ()
    if paper.seeds is not None:
        first = first_seeds(points, paper.seeds)
        few = judge(paper.claims, first) if len(first) < len(points) else ()
    found = judge(paper.claims, points)
    return Judged(variation, points, tuple(found), tuple(few), tuple(before))


def _complete(study: Study, spec: SweepSpec | Computed, folder: Path) -> bool:
    if isinstance(spec, Computed):
        return all(is_computed(point, folder) for point in computed_points(spec))
    return complete(spec, folder, keep_deliveries=study.deliveries)


def _run(
    study: Study,
    spec: SweepSpec | Computed,
    folder: Path,
    master: str,
    report: Callable[[Progress], None],
) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Run what is left of one study; return its rows, and why points failed."""
    if isinstance(spec, Computed):
        results = run_computed(spec, folder, master=master, progress=report)
        computed = results.rows
        if len(computed):
            computed = with_costs(computed, folder, POINT)
        return computed, results.failures
    outcome = run_sweep(
        spec, folder, master=master, keep_deliveries=study.deliveries, progress=report
    )
    rows = outcome.results
    if len(rows):
        rows = with_costs(rows, folder)
        if study.deliveries:
            rows = with_pairs(rows, folder, [axis.column for axis in study.axes])
    return rows, outcome.failures


def _completed(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    rows = study.derive(rows) if study.derive is not None else rows
    return rows.assign(**{STUDY: study.name})


def write_results(result: Reproduction, folder: Path) -> Path:
    """Write the page, the claims and the table of all points; return the page.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        each.points.assign(variation=each.variation.name)
        for each in result.judged
        if len(each.points)
    ]
    if tables:
        pd.concat(tables, ignore_index=True).to_parquet(folder / RESULTS, index=False)
    text = json.dumps(findings_of(result), indent=1, default=str)
    (folder / FINDINGS).write_text(text + "\n", encoding="utf-8")
    return write_page(result, folder / PAGE)


def write_all(results: Sequence[tuple[Reproduction, str]], path: Path) -> Path:
    """Write the page with the claims of several papers, and the same for programs beside it.

    `results` have the address of each paper's own page, relative to `path`.  Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {result.paper.key: findings_of(result) for result, _ in results}
    text = json.dumps(found, indent=1, default=str)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return write_overview(results, path)

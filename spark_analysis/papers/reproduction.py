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
from spark_analysis.papers.claims import judge
from spark_analysis.papers.computed import Computed, needs_spark, run_computed
from spark_analysis.papers.page import PAGE, write_overview, write_page
from spark_analysis.papers.paper import STUDY, Paper, Preset, Study
from spark_analysis.papers.results import Judged, Reproduction, findings_of
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
            parts = []
            for name, spec in paper.plan(preset, variation).items():
                what = f"{name}, {variation.name}"

                def report(done: Progress, what: str = what) -> None:
                    progress(what, done)

                if _starts_spark(spec, folder / name):  # one session for all: it costs seconds
                    session.enter_context(spark_session(master))
                rows, failed = _run(spec, folder / name, master, report)
                failures |= {f"{what}: {point}": why for point, why in failed.items()}
                if len(rows):
                    parts.append(_completed(paper.study(name), rows))
            points = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
            findings = judge(paper.claims, points) if len(points) else []
            judged.append(Judged(variation, points, tuple(findings)))
            result = Reproduction(paper, preset, tuple(judged), failures)
            write_results(result, folder)
    return result


def _starts_spark(spec: SweepSpec | Computed, folder: Path) -> bool:
    if isinstance(spec, Computed):
        return needs_spark(spec, folder)
    return not complete(spec, folder)


def _run(
    spec: SweepSpec | Computed, folder: Path, master: str, report: Callable[[Progress], None]
) -> tuple[pd.DataFrame, Mapping[str, str]]:
    """Run what is left of one study; return its rows, and why points failed."""
    if isinstance(spec, Computed):
        results = run_computed(spec, folder, master=master, progress=report)
        return results.rows, results.failures
    outcome = run_sweep(spec, folder, master=master, progress=report)
    return outcome.results, outcome.failures


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

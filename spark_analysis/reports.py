"""From run folders to reports: what `analyze` does.

`write_report` makes the page of one run in its folder, `write_comparison` one page of several runs
side by side; `spark_analysis.registry` says what is on them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from emulation.scenario.runfolder import Run
from spark_analysis.analysis import analyse_runs
from spark_analysis.captures.runs import read_runs
from spark_analysis.captures.session import spark_session
from spark_analysis.errors import AnalysisError
from spark_analysis.metrics.known import METRICS
from spark_analysis.registry import JOBS
from spark_analysis.report import fidelity_text, scenario_text
from spark_analysis.report.comparison import comparison_page
from spark_analysis.report.figures import Drawing
from spark_analysis.report.page import environment, placed, write_html
from spark_analysis.report.tiles import tiles
from spark_analysis.report.traffic_text import node_table
from spark_analysis.result import Analysis, RunTables

COMPARISON: Final = "comparison.html"
REPORT: Final = "report.html"
FILES: Final = (
    ("frames", "every captured packet, decoded"),
    *((job.table.name, job.table.description) for job in JOBS),
)
"""Names of the files in a run's metrics, and what is in each."""


@dataclass(frozen=True)
class Reports:
    """What an analysis has made."""

    analysis: Analysis
    pages: tuple[Path, ...]
    """One page a run; of several runs also, last, the page that compares them."""


def analyse_and_report(
    folders: Sequence[Path],
    master: str = "local[*]",
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> Reports:
    """Analyse run folders, write their metrics and reports.

    `master` is a Spark master; `progress(what, share)` is called as the work goes on.  The
    comparison of several runs is written beside the first one's folder.  Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    progress("starting Spark", 0.0)
    with spark_session(master) as spark:
        analysis = analyse_runs(spark, runs, progress=progress)
    try:
        reports = [write_report(analysis, run) for run in analysis.runs]
        if len(analysis.runs) > 1:
            reports.append(write_comparison(analysis, analysis.runs[0].path.parent / COMPARISON))
    except OSError as error:
        raise AnalysisError(f"cannot write a report: {error.strerror}: {error.filename}") from None
    return Reports(analysis, tuple(reports))


def write_report(analysis: Analysis, run: Run) -> Path:
    """Write the report of one of the analysis's runs into its folder and return its path.

    The page is complete or not there at all.  Raises OSError if it cannot be written.
    """
    tables = RunTables(analysis, run)
    html = environment().get_template("report.html").render(
        title=f"{run.scenario.topology} · {run.scenario.protocol.name}",
        run=run,
        verdict=fidelity_text.verdict(run),
        problems=tables.problems,
        facts=scenario_text.facts(tables),
        tiles=tiles(tables, METRICS),
        figures=placed(drawings(tables)),
        tables=[
            *(table for job in JOBS for table in job.section.tables(tables)),
            fidelity_text.check_table(run, tables.table("lateness")),
            node_table(tables),
        ],
        parameters=scenario_text.scenario_tables(tables),
        command=scenario_text.command(run.scenario, run.record.backend if run.record else None),
        files=[
            (name, description, (run.metrics / f"{name}.parquet").exists())
            for name, description in FILES
        ],
    )  # fmt: skip
    return write_html(run.path / REPORT, html)


def write_comparison(analysis: Analysis, path: Path) -> Path:
    """Write one page that sets all runs of the analysis side by side, and return its path.

    Raises OSError if it cannot be written.
    """
    runs = [RunTables(analysis, run) for run in analysis.runs]
    page = comparison_page(runs, METRICS)
    links = [
        quote(Path(os.path.relpath(tables.run.path / REPORT, path.parent)).as_posix())
        for tables in runs
    ]
    html = environment().get_template("comparison.html").render(
        title=f"{len(runs)} runs side by side",
        page=page,
        links=links,
        figures=placed(page.drawings),
    )  # fmt: skip
    return write_html(path, html)


def drawings(tables: RunTables) -> list[tuple[str, Drawing]]:
    """Return the figures of a run, each with a name of its own."""
    return [drawing for job in JOBS for drawing in job.section.drawings(tables)]

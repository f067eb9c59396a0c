"""From run folders to reports: what the command line's `analyze` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_analysis.analysis import Analysis, analyse
from spark_analysis.captures.session import spark_session
from spark_analysis.errors import AnalysisError
from spark_analysis.report.page import write_comparison, write_report

COMPARISON = "comparison.html"


@dataclass(frozen=True)
class Outcome:
    """What an analysis has made."""

    analysis: Analysis
    reports: tuple[Path, ...]
    """One page a run; of several runs also, last, the page that compares them."""


def analyse_and_report(
    folders: Sequence[Path],
    master: str = "local[*]",
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> Outcome:
    """Analyse run folders, write their metrics and reports.

    `master` is a Spark master; `progress(what, share)` is called as the work goes on.  The
    comparison of several runs is written beside the first one's folder.  Raises `AnalysisError`.
    """
    progress("starting Spark", 0.0)
    with spark_session(master) as spark:
        analysis = analyse(spark, folders, progress=progress)
    try:
        reports = [write_report(analysis, run) for run in analysis.runs]
        if len(analysis.runs) > 1:
            reports.append(write_comparison(analysis, analysis.runs[0].path.parent / COMPARISON))
    except OSError as error:
        raise AnalysisError(f"cannot write a report: {error.strerror}: {error.filename}") from None
    return Outcome(analysis, tuple(reports))

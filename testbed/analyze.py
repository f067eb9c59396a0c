"""The command `analyze`: metrics and reports of run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from spark_analysis.errors import AnalysisError
from spark_analysis.metrics.known import METRICS
from spark_analysis.reports import analyse_and_report
from testbed.display import AnalysisDisplay, summarise
from testbed.options import RUNS, USAGE, MasterOption, console, fail


def analyze(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="run folders")],
    master: MasterOption = "local[*]",
) -> None:
    """Compute delivery, delay and overhead from captures; write Parquet tables and reports.

    Example: analyze runs/20260101-120000-roaming_field-flooding
    """
    analyse_folders([_resolve(folder) for folder in folders], master)


def analyse_folders(folders: Sequence[Path], master: str = "local[*]") -> None:
    """Analyse run folders with a Spark master, write their reports and print the key figures."""
    try:
        with AnalysisDisplay(console) as display:
            made = analyse_and_report(folders, master, display.progress)
    except AnalysisError as error:
        fail(str(error))
    summarise(console, made.analysis, METRICS)
    for page in made.pages:
        console.print(f"report: {page}", highlight=False, soft_wrap=True)


def _resolve(folder: Path) -> Path:
    """Return the run folder meant: as given, or by its name under the default place."""
    found = next((each for each in (folder, RUNS / folder) if each.is_dir()), None)
    return found or fail(f"no run folder {folder}; runs are made under {RUNS}", USAGE)

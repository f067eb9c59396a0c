"""From run folders to reports: what `analyze` does.

`write_report` makes the page of one run in its folder, `write_comparison` one page of several runs
side by side; `spark_analysis.measures.registry` says what is on them.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup, escape

from emulation.backends.base import BackendError
from emulation.scenario.runfolder import Run
from emulation.whole import write_text
from nodeapp.pubsub.registry import ProtocolError, check_loads
from spark_analysis.analysis import analyse_runs, read_runs
from spark_analysis.captures.files import captures_in
from spark_analysis.captures.materialise import recorded
from spark_analysis.captures.virtual_run import BACKEND, run_to_frames
from spark_analysis.engine.pandas_rows import native
from spark_analysis.engine.results import Analysis, RunTables
from spark_analysis.engine.session import spark_session
from spark_analysis.errors import AnalysisError, first_line
from spark_analysis.measures.lateness import check_table
from spark_analysis.measures.load import node_table
from spark_analysis.measures.registry import MEASURES, METRICS
from spark_analysis.replay.data import replay_data, shown
from spark_analysis.replay.packing import as_script
from spark_analysis.report import fidelity_text, scenario_text
from spark_analysis.report.comparison import comparison_page
from spark_analysis.report.figures import Drawing
from spark_analysis.report.metric import tiles
from spark_analysis.report.page import (
    FIGURES,
    numbered,
    report_environment,
    write_figures,
)

COMPARISON: Final = "comparison.html"
REPORT: Final = "report.html"
FRAMES_NAME: Final = "frames"
FILES: Final = (
    (FRAMES_NAME, "every captured packet, decoded"),
    *((measure.table.name, measure.table.description) for measure in MEASURES),
)
"""Names of the files in a run's metrics, and what is in each."""
T = TypeVar("T")


@dataclass(frozen=True)
class Reports:
    """An analysis with the pages made of it."""

    analysis: Analysis
    pages: tuple[Path, ...]
    """One page per run; for several runs, last, also the page that compares them."""
    refused: tuple[str, ...] = ()
    """A line for each folder that could not be analysed: why."""


def analyse_and_report(
    folders: Sequence[Path],
    master: str = "local[*]",
    progress: Callable[[str, float], None] = lambda what, share: None,
    out: Path | None = None,
    figures: bool = False,
) -> Reports:
    """Analyse run folders, write their metrics and reports.

    `master` is a Spark master; `progress(what, share)` is called as the work goes on.  Tables and
    report go into each run's folder, or one of the run's name under `out`; the comparison of
    several runs is written beside the first one's.  With `figures`, the figures of each page are
    also written for print.  Folders that cannot be analysed do not stop the others.  Raises
    `AnalysisError`, also if none is left.  A run under the virtual clock that kept neither captures
    nor frames, like most points of sweeps, is run again for its frames.
    """
    runs, refused = _analysable(folders, progress)
    if out is not None:
        runs = tuple(replace(run, out=out.resolve() / run.name) for run in runs)
    progress("starting Spark", 0.0)
    with spark_session(master) as spark:
        analysis = analyse_runs(spark, runs, progress=progress)
    gaps: dict[str, list[str]] = {run.name: [] for run in analysis.runs}
    try:
        reports = [
            write_report(analysis, run, figures, gaps[run.name].append) for run in analysis.runs
        ]
        analysis = analysis.with_problems(gaps)
        if len(analysis.runs) > 1:
            reports.append(write_comparison(analysis, comparison_path(analysis.runs), figures))
        for run in analysis.runs:
            write_summary(analysis, run)
    except OSError as error:
        raise AnalysisError(f"cannot write a report: {error.strerror}: {error.filename}") from None
    return Reports(analysis, tuple(reports), refused)


def _analysable(
    folders: Sequence[Path], progress: Callable[[str, float], None]
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return the runs that can be analysed, and why others cannot; before Spark starts.

    Raises `AnalysisError` if there is none.
    """
    good: dict[str, Run] = {}
    refused = []
    for folder in folders:
        try:
            (run,) = read_runs([folder])
            other = good.get(run.name, run)
            if other.path != run.path:
                raise AnalysisError(
                    f"{other.path} and {run.path} have the same name, and the first is analysed: "
                    "rename one of them"
                )
            check_loads(run.scenario.protocol.name)
            if recorded(run) is None and not captures_in(run.captures):
                run = _run_again(run, progress)
            if recorded(run) is None and not captures_in(run.captures):
                raise AnalysisError(f"{run.captures} has no captures: there is nothing to analyse")
            good[run.name] = run
        except ProtocolError as error:
            refused.append(f"{folder}: {error}")
        except AnalysisError as error:
            refused.append(str(error))
    if not good:
        raise AnalysisError(refused[0] if refused else "no run folder given")
    return tuple(good.values()), tuple(refused)


def _run_again(run: Run, progress: Callable[[str, float], None]) -> Run:
    """Run a completed run under the virtual clock again for its frames; return others as is."""
    record = run.record
    if record is None or record.backend != BACKEND or record.ended != "completed":
        return run
    what = f"running {run.name} again: none of its packets were kept"
    try:
        run_to_frames(run.scenario, run.folder, lambda seconds: progress(what, 0.0))
    except (BackendError, OSError) as error:
        raise AnalysisError(f"cannot run {run.path} again: {error}") from None
    return read_runs([run.path])[0]


def comparison_path(runs: Sequence[Run]) -> Path:
    """Return where to write the comparison of some runs: over an older one only if of the same."""
    folder = runs[0].results.parent
    number = 1
    while True:
        path = folder / (COMPARISON if number == 1 else f"comparison-{number}.html")
        if not path.exists() or _runs_meta(runs) in path.read_text("utf-8", errors="replace"):
            return path
        number += 1


def _runs_meta(runs: Sequence[Run]) -> str:
    """Return the line of a comparison that names its runs."""
    names = escape(" ".join(sorted(run.name for run in runs)))
    return f'<meta name="runs" content="{names}">'


def write_summary(analysis: Analysis, run: Run) -> None:
    """Write the run's key figures as summary.json and summary.csv.  Raises OSError."""
    row = dict(RunTables(analysis, run).summary)
    values = {name: _plain(value) for name, value in row.items()}
    fidelity = None if run.fidelity is None else run.fidelity.kept_real_time
    more = {"kept_real_time": fidelity, "problems": list(RunTables(analysis, run).problems)}
    text = json.dumps(values | more, indent=1, ensure_ascii=False)
    write_text(run.results / "summary.json", text + "\n")
    file = io.StringIO()
    writer = csv.DictWriter(file, list(values), lineterminator="\n")
    writer.writeheader()
    writer.writerow(values)
    write_text(run.results / "summary.csv", file.getvalue())


def _plain(value: Any) -> Any:
    """Return a value of the summary for JSON: a Python number, text or truth value, or None."""
    if value is None or pd.isna(value):
        return None
    return native(value)


def write_report(
    analysis: Analysis,
    run: Run,
    figures: bool = False,
    problem: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write the report of one of the analysis's runs into its folder and return its path.

    The page is written whole or not at all; with `figures`, those for print follow.  What a measure
    fails to show is missing, which the page says, and `problem` is called with the same lines.
    Raises OSError if the page cannot be written.
    """
    tables, gaps = RunTables(analysis, run), list[str]()
    drawn = drawings(tables, gaps.append)
    makers = {table.name: section.tables for table, section in MEASURES}
    text_tables = _shown(makers, "tables", tables, gaps.append)
    for line in gaps:
        problem(line)
    replay = replay_data(tables)
    html = report_environment().get_template("report.html").render(
        title=f"{run.scenario.topology} · {run.scenario.protocol.name}",
        run=run,
        verdict=fidelity_text.verdict(run),
        problems=[*tables.problems, *gaps],
        defects=run.record.defects if run.record else None,
        facts=scenario_text.facts(tables),
        tiles=tiles(tables, METRICS),
        figures=numbered(drawn),
        replay=replay and shown(replay),
        replay_json=Markup(as_script(replay or {})),  # which escapes it  # noqa: S704
        tables=[
            *text_tables,
            check_table(run, tables.table("lateness")),
            node_table(tables),
            *scenario_text.prompt_table(tables),
        ],
        parameters=scenario_text.scenario_tables(tables),
        command=scenario_text.command(run.scenario, run.record.backend if run.record else None),
        again=scenario_text.again(run),
        files=[
            (name, description)
            for name, description in FILES
            if (run.metrics / f"{name}.parquet").exists()
            and (name == FRAMES_NAME or len(tables.table(name)))
        ],
    )  # fmt: skip
    page = write_text(run.results / REPORT, html)
    if figures:
        write_figures(run.results / FIGURES, drawn)
    return page


def write_comparison(analysis: Analysis, path: Path, figures: bool = False) -> Path:
    """Write one page that sets all runs of the analysis side by side, and return its path.

    With `figures`, those for print follow.  Raises OSError if it cannot be written.
    """
    runs = [RunTables(analysis, run) for run in analysis.runs]
    page = comparison_page(runs, METRICS)
    links = [
        quote(Path(os.path.relpath(tables.run.results / REPORT, path.parent)).as_posix())
        for tables in runs
    ]
    html = report_environment().get_template("comparison.html").render(
        title=f"{len(runs)} runs side by side",
        meta=Markup(_runs_meta(analysis.runs)),  # noqa: S704
        page=page,
        links=links,
        figures=numbered(page.drawings),
    )  # fmt: skip
    written = write_text(path, html)
    if figures:
        write_figures(path.with_name(f"{path.stem}-{FIGURES}"), page.drawings)
    return written


def drawings(
    tables: RunTables, problem: Callable[[str], None] = lambda text: None
) -> list[tuple[str, Drawing]]:
    """Return the figures of a run, each with a name of its own.

    `problem` is called with a line for each measure whose figures cannot be made.
    """
    makers = {table.name: section.drawings for table, section in MEASURES}
    return _shown(makers, "figures", tables, problem)


def _shown(
    makers: Mapping[str, Callable[[RunTables], Sequence[T]]],
    what: str,
    tables: RunTables,
    problem: Callable[[str], None],
) -> list[T]:
    """Return what sections, by the names of their tables, make of a run."""
    parts: list[T] = []
    for name, make in makers.items():
        try:
            parts += make(tables)
        except Exception as error:  # noqa: BLE001  a defect of one section is its own
            reason = f"{type(error).__name__}: {first_line(error)}"
            problem(f"the report lacks the {what} of {name}, whose function raises {reason}")
    return parts

"""The command `analyze`: metrics and reports of run folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from emulation.caller import drop
from emulation.mn.record import is_script_run
from emulation.scenario.runfolder import RunFolder
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.registry import METRICS
from spark_analysis.reports import Reports, analyse_and_report
from spark_analysis.script_reports import write as write_script_report
from spark_analysis.stores import is_stored
from testbed.display import AnalysisDisplay, summarise
from testbed.options import (
    FAILED,
    LOCAL,
    RUNS,
    USAGE,
    ConfOption,
    JsonOption,
    MasterOption,
    QuietOption,
    StrictOption,
    configure_spark,
    console,
    fail,
    local_folder,
    print_error,
    quiet,
)
from testbed.outcome import flaws, note_killed, outcome, print_json, script_outcome
from testbed.stored import copied


def analyze(
    folders: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="run folders, or URIs in stores (s3://)")
    ],
    master: MasterOption = LOCAL,
    conf: ConfOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="write tables and reports to DIR/RUN/, not into the run folders",
            callback=local_folder,
        ),
    ] = None,
    figures: Annotated[
        bool,
        typer.Option("--figures", help="write figures/ as well: PDF with fonts, SVG, PNG, CSV"),
    ] = False,
    strict: StrictOption = False,
    as_json: JsonOption = False,
    be_quiet: QuietOption = False,
) -> None:
    """Compute delivery, delay and overhead from captures; write Parquet tables and reports.

    Runs of `mn` get the tables and the report that it writes.  Runs in stores are copied here and
    their results back; with --out both stay in DIR/RUN/.

    Example: analyze runs/20260101-120000-roaming_field-flooding
    """
    quiet(be_quiet)
    configure_spark(conf)
    stored = [*filter(is_stored, folders)]
    resolved = {run: _resolve(Path(run)) for run in folders if run not in stored}
    run_folders = [folder for folder in resolved.values() if folder is not None]
    for folder in run_folders:
        _give_to_caller(folder)
    drop(*run_folders, *([out] if out is not None else []))
    for folder in run_folders:
        note_killed(folder)
    missing = [run for run, path in resolved.items() if path is None]
    if not run_folders and not stored:
        fail(f"no run folder {missing[0]}; runs are made under {RUNS}", USAGE)
    if run_folders and stored and out is None:
        fail("some runs are in stores: say with --out where results go", USAGE)
    try:
        with copied(stored, out, console) as copies:
            run_folders += copies.runs
            outcomes, pages, refused = _report(run_folders, master, out, figures, copies.in_store)
    except AnalysisError as error:
        fail(str(error))
    refused += copies.refused
    if as_json:
        print_json({"runs": outcomes, "pages": pages, "refused": [*missing, *refused]})
    refused = [f"no run folder {run}" for run in missing] + refused
    if strict:
        refused += flaws(outcomes)
    if refused:
        for line in refused[:-1]:
            print_error(line)
        fail(refused[-1], FAILED)


def _report(
    folders: Sequence[Path],
    master: str,
    out: Path | None,
    figures: bool,
    in_store: Callable[[object], str],
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Report on runs of any kind; return outcomes, pages, and why others have none."""
    scripts = [folder for folder in folders if is_script_run(folder)]
    outcomes, refused = _report_scripts(scripts, out, in_store)
    pages = [result["report"] for result in outcomes]
    if others := [folder for folder in folders if folder not in scripts]:
        reports = analyse_folders(others, master, out, figures, in_store)
        outcomes += [outcome(run, reports) for run in reports.analysis.runs]
        pages += reports.pages
        refused += reports.refused
    outcomes = [
        facts | {key: in_store(facts[key]) for key in ("run", "report")} for facts in outcomes
    ]
    return outcomes, [*map(in_store, pages)], [*map(in_store, refused)]


def _report_scripts(
    folders: Sequence[Path], out: Path | None, in_store: Callable[[object], str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Write tables and reports of runs of `mn`; return their outcomes, and why others have none."""
    outcomes, refused = [], []
    for folder in map(Path.resolve, folders):
        results = folder if out is None else out.resolve() / folder.name
        try:
            report = write_script_report(folder, results)
        except AnalysisError as error:
            refused.append(str(error))
            continue
        finally:
            _give_to_caller(folder, results)
        outcomes.append(script_outcome(folder, report))
        console.say(f"report: {in_store(report)}")
    return outcomes, refused


def analyse_folders(
    folders: Sequence[Path],
    master: str = LOCAL,
    out: Path | None = None,
    figures: bool = False,
    in_store: Callable[[object], str] = str,
) -> Reports:
    """Analyse run folders with a Spark master, write their reports and print the key figures.

    With `figures`, those of the pages are written for print as well.  `in_store` puts URIs in
    place of paths.
    """
    try:
        with AnalysisDisplay(console) as display:
            reports = analyse_and_report(folders, master, display.progress, out, figures)
    except AnalysisError as error:
        fail(in_store(error))
    finally:
        for folder in folders:
            _give_to_caller(folder, folder if out is None else out / folder.resolve().name)
    summarise(console, reports.analysis, METRICS)
    for page in reports.pages:
        console.say(f"report: {in_store(page)}")
    return reports


def _give_to_caller(run: Path, results: Path | None = None) -> None:
    """Hand over a run folder, or its results elsewhere, and no other folder."""
    folder = results or run
    if folder.is_dir() and (is_script_run(run) or (run / "scenario.json").is_file()):
        RunFolder(folder).give_to_caller()


def _resolve(folder: Path) -> Path | None:
    """Return a run folder, by its path or by its name in the default folder."""
    return next((path for path in (folder, RUNS / folder) if path.is_dir()), None)

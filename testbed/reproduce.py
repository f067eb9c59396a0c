"""The command `reproduce`: a published evaluation, repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from emulation.backends.base import BackendError
from emulation.backends.registry import backends
from emulation.errors import ScenarioError
from emulation.network import processes
from emulation.network.interrupts import Interrupts
from emulation.scenario.runfolder import RunFolder
from testbed.display import RunDisplay
from testbed.options import INTERRUPTED, USAGE, MasterOption, console, fail
from testbed.sweep import SweepDisplay
from topologies.catalog import make_scenario

if TYPE_CHECKING:
    import pandas as pd

REPRODUCTIONS = processes.PROJECT / "reproductions"
PAPERS = ("six-schemes",)
SLICE_DURATION = 45.0


def reproduce(
    paper: Annotated[str, typer.Argument(help=f"one of: {', '.join(PAPERS)}", metavar="PAPER")],
    preset: Annotated[
        str, typer.Option("--preset", help="quick (minutes) or paper (as published)")
    ] = "quick",
    backend: Annotated[
        str, typer.Option("--backend", help="virtual, or a slice in real time: tap")
    ] = "virtual",
    duration: Annotated[
        float | None, typer.Option("--duration", help="seconds of a run of the slice")
    ] = None,
    master: MasterOption = "local[*]",
    out: Annotated[Path | None, typer.Option("--out", help="folder", file_okay=False)] = None,
) -> None:
    """Repeat a published evaluation: its figures, and its claims with what came of them.

    Stopped work goes on where it was: the same command runs what is not finished.

    Example: reproduce six-schemes --preset quick
    """
    from spark_analysis.papers.six_schemes import PRESETS

    if paper not in PAPERS:
        fail(f"no paper {paper!r}; there are: {', '.join(PAPERS)}", USAGE)
    if preset not in PRESETS:
        fail(f"no preset {preset!r}; there are: {', '.join(PRESETS)}", USAGE)
    if backend not in backends():
        fail(f"no backend {backend!r}; there are: {', '.join(backends())}", USAGE)
    if backend == "virtual":
        if duration is not None:
            fail("--duration is for a slice in real time; choose a --preset instead", USAGE)
        _sweeps(preset, master, out or REPRODUCTIONS / f"{paper}-{preset}")
    else:
        if duration is None:
            duration = SLICE_DURATION
        if not 12 <= duration <= 3600:
            fail("--duration must be between 12 and 3600 s", USAGE)
        stamp = f"{datetime.now():%Y%m%d-%H%M%S}"
        _slice(backend, duration, master, out or REPRODUCTIONS / f"{paper}-{backend}-{stamp}")


def _sweeps(preset: str, master: str, folder: Path) -> None:
    from spark_analysis.errors import AnalysisError
    from spark_analysis.papers.reproduction import PAGE, marks_table, reproduce
    from spark_analysis.papers.six_schemes import PRESETS
    from spark_analysis.sweeps.sweep import Progress

    try:
        with Interrupts() as interrupts, SweepDisplay(interrupts) as display:

            def update(what: str, progress: Progress) -> None:
                display.update(progress, what)

            result = reproduce(PRESETS[preset], folder, master=master, progress=update)
    except KeyboardInterrupt:
        console.print("interrupted: finished points are kept; the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    except AnalysisError as error:
        fail(str(error))
    except OSError as error:
        fail(f"cannot write in {folder}: {error.strerror or error}")
    table = marks_table(result)
    shown = Table(*table.head, title=table.title, title_justify="left", caption=table.note)
    for row in table.rows:
        shown.add_row(*map(str, row))
    console.print(shown)
    console.print(f"report: {folder / PAGE}", soft_wrap=True)
    if result.failures:
        for point, reason in result.failures.items():
            console.print(f"[red]failed:[/red] {point}: {reason}", highlight=False, soft_wrap=True)
        fail(f"{len(result.failures)} points failed; the same command runs them again")


def _slice(backend: str, duration: float, master: str, folder: Path) -> None:
    from spark_analysis.errors import AnalysisError
    from spark_analysis.papers.reproduction import PAGE, write_slice
    from spark_analysis.papers.six_schemes import SCHEMES, SLICE_SPEEDS

    known = backends()
    obstacles = known[backend].obstacles()
    if obstacles:
        fail(obstacles[0])
    used = (backend, "virtual")
    runs: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            fail(f"{folder} is not empty: name another folder with --out")
        turns = [(s, p, b) for s in SLICE_SPEEDS for p in SCHEMES for b in used]
        for number, (scenario_name, protocol, name) in enumerate(turns, start=1):
            scenario = make_scenario(
                scenario_name,
                protocol,
                seed=1,
                duration=duration,
                settings={"speed": SLICE_SPEEDS[scenario_name]},
            )
            run = RunFolder(folder / f"{scenario_name}-{protocol}-{name}")
            run.path.mkdir()
            run.begin(scenario)
            with _turn(number, len(turns), run.path.name, duration) as display:
                known[name].execute(scenario, run, display)
            runs.append(run.path)
        rows, problems = _summaries(runs, master)
        page = write_slice(rows, used, problems, folder / PAGE)
    except KeyboardInterrupt:
        console.print(f"interrupted: stopped everything; runs up to here are in {folder}")
        raise typer.Exit(INTERRUPTED) from None
    except (BackendError, ScenarioError, AnalysisError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.strerror or error}: {error.filename or folder}")
    finally:
        if folder.is_dir():
            RunFolder(folder).give_to_caller()
    _print_slice(rows, used)
    for problem in problems:
        console.print(f"[yellow]warning:[/yellow] {problem}", highlight=False, soft_wrap=True)
    console.print(f"report: {page}", soft_wrap=True)


@contextmanager
def _turn(number: int, of: int, name: str, duration: float) -> Iterator[RunDisplay]:
    console.print(f"run {number} of {of}: {name}", highlight=False)
    with RunDisplay(console, duration) as display:
        yield display


def _summaries(runs: list[Path], master: str) -> tuple[pd.DataFrame, list[str]]:
    """Return the summary rows of runs, with their scenarios, and what went wrong."""
    from emulation.scenario.runfolder import read_run
    from spark_analysis.captures.session import spark_session
    from spark_analysis.summaries import summaries

    with spark_session(master) as spark:
        rows = summaries(spark, runs)
    problems = []
    for path in runs:
        run = read_run(path)
        problems += [f"{run.name}: {problem}" for problem in run.problems]
        if run.fidelity is not None and not run.fidelity.kept_real_time:
            problems.append(f"{run.name} did not keep real time: this machine is too slow or busy")
    return rows.assign(scenario=rows["topology"]), problems


def _print_slice(rows: pd.DataFrame, used: tuple[str, ...]) -> None:
    from spark_analysis.papers.reproduction import slice_table

    for scenario, of_scenario in rows.groupby("scenario", sort=True):
        table = slice_table(of_scenario, used)
        # The scenario's name stands above: the rest then fits a terminal of 80 columns.
        shown = Table(
            title=str(scenario),
            title_justify="left",
            box=SIMPLE,
            pad_edge=False,
            collapse_padding=True,
        )
        for number, head in enumerate(table.head[1:]):
            shown.add_column(head, no_wrap=number == 0, justify="right" if number else "left")
        for row in table.rows:
            shown.add_row(*map(str, row[1:]))
        console.print(shown)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(reproduce)

"""What the command line shows: progress of a run, tables, one-line errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from emulation.backends.base import RUNNING

if TYPE_CHECKING:
    from emulation.scenario.runfolder import Run
    from spark_analysis.engine.results import Analysis
    from spark_analysis.report.metric import Metric

SHOWN: Final = 5
"""Of many runs, the number whose problems are printed."""
_UNSEEN: Final = suppress(OSError)
"""A run goes on, and ends as it should, if its terminal is closed."""


class Terminal(Console):
    """Where commands print."""

    def say(self, text: str) -> None:
        """Print a line as it is, at its full length: paths in it can be copied."""
        self.print(text, highlight=False, soft_wrap=True)


class Display:
    """A context that shows a progress bar."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        with _UNSEEN:
            self._progress.stop()


class StageDisplay(Display):
    """Shows the stage that something is in."""

    def stage(self, text: str) -> None:
        """Show what is being done now."""
        console = self._progress.console
        with _UNSEEN:
            if not console.is_terminal or self._progress.disable:
                console.print(f"... {text}", soft_wrap=True)
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.add_task(text, total=None, clock="")


class RunDisplay(StageDisplay):
    """Progress of a run: the stage, then a bar over the scenario's seconds."""

    def __init__(
        self,
        console: Terminal,
        duration: float,
        bar: bool = True,
        under_way: Callable[[], None] = lambda: None,
    ) -> None:
        """`under_way` is called when the run is under way, possibly again."""
        self._under_way = under_way
        self._console = console
        self._duration = duration
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[clock]}"),
            console=console,
            transient=True,
            disable=not bar,
        )

    def stage(self, text: str) -> None:
        """Show what is being done now."""
        super().stage(text)
        if text == RUNNING:
            self._under_way()

    def elapsed(self, seconds: float) -> None:
        """Show how much of the scenario has run."""
        self._under_way()
        clock = f"{seconds:.0f} of {self._duration:g} s"
        with _UNSEEN:
            for task in self._progress.task_ids:
                self._progress.update(task, completed=seconds, total=self._duration, clock=clock)

    def problem(self, text: str) -> None:
        """Print what went wrong while the run goes on."""
        with _UNSEEN:
            self._console.say(f"[yellow]warning:[/yellow] {escape(text)}")


class AnalysisDisplay(Display):
    """Progress of an analysis: what is being worked out, and a bar over the whole."""

    def __init__(self, console: Terminal) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=1.0)

    def progress(self, what: str, share: float) -> None:
        """Show what is being worked out, and the share of the whole that is done."""
        self._progress.update(self._task, description=what, completed=share)


def summarise(console: Terminal, analysis: Analysis, metrics: Iterable[Metric]) -> None:
    """Print the key figures of every run, and whether it kept real time."""
    # With pandas, which an analysis has loaded.
    from spark_analysis.engine.pandas_rows import records
    from spark_analysis.engine.results import RunTables

    printed = [metric for metric in metrics if metric.terminal is not None]
    for row in records(analysis.table("summary")):
        console.say(f"[bold]{row['run']}[/bold]")
        words = ", ".join(metric.words(row) for metric in printed)
        console.say(f"  {words}")
    for run in analysis.runs:
        for problem in RunTables(analysis, run).problems:
            if problem in run.problems and run.is_complete:
                continue  # it was printed when it occurred
            console.say(f"[yellow]warning:[/yellow] {run.name}: {escape(problem)}")
        warn_of_infidelity(console, run)


def warn_of_infidelity(console: Terminal, run: Run) -> None:
    """Print which checks of the fidelity monitor a run has failed, if any."""
    if run.fidelity is None:
        return
    if run.fidelity.kept_real_time is None:
        console.say(f"{run.name}: its medium does not say whether it kept real time")
        return
    failed = [check for check in run.fidelity.checks if not check.ok]
    if not failed:
        return
    heading = (
        f"[yellow]{run.name} kept real time, with caution:[/yellow]"
        if run.fidelity.kept_real_time
        else f"[red]{run.name} lost real time or packets:[/red]"
    )
    console.say(heading)
    for check in failed:
        if check.limit is not None and check.value is not None:
            console.say(
                f"  {check.name}: {check.value:g} {check.unit}, at most {check.limit:g}; "
                f"{escape(check.advice)}"
            )


def print_problems(console: Terminal, problems: Mapping[str, str]) -> None:
    """Print the problems of the first of many runs; their page has all of them."""
    for run, what in list(problems.items())[:SHOWN]:
        text = escape(f"{run}: {what}")
        console.say(f"[yellow]note:[/yellow] {text}")
    if len(problems) > SHOWN:
        console.print(f"more runs with problems: {len(problems) - SHOWN}; see the report")

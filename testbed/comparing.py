"""What is made of several runs: of `agree`, and of sweeps and reproductions in real time.

In this process, or in the one of `ahead`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from capture.process import explained
from spark_analysis.agreement.page import WrittenComparison, agree_and_report
from spark_analysis.engine.session import spark_session
from spark_analysis.errors import AnalysisError
from spark_analysis.papers.published import read_known
from spark_analysis.papers.registry import load_paper
from spark_analysis.papers.reproduction import reproduce
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.page import write_results
from spark_analysis.sweeps.sweep import SweepOutcome, run_sweep
from testbed.display import AnalysisDisplay
from testbed.options import console, fail, writing


def keep_session(stack: ExitStack) -> None:
    """Keep one session of Spark until `stack` ends, for several orders; idempotent."""
    try:
        stack.enter_context(spark_session())
    except AnalysisError as error:
        fail(str(error))


def compare_folders(
    folders: Sequence[Sequence[Path]], names: Sequence[str], out: Path
) -> list[WrittenComparison]:
    """Compare runs, write the pages, and return the comparisons of the first name with the others.

    `folders` has the run folders of each repeat in the order of `names`, those of the backends.
    Raises `typer.Exit` if it fails, after printing why.
    """
    try:
        with AnalysisDisplay(console) as display:
            return agree_and_report(folders, names, out, display.progress)
    except AnalysisError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{explained(error)}: {error.filename or out}")


@contextmanager
def _in_one_line(folder: Path) -> Iterator[None]:
    """End a failed analysis in one line.  Raises `typer.Exit`."""
    try:
        with writing(f"in {folder}"):
            yield
    except AnalysisError as error:
        fail(str(error))


def analyse_sweep(folder: Path, *, keep_packets: bool) -> SweepOutcome:
    """Analyse what has run of a sweep in real time, write figures and page; return the results.

    Raises `typer.Exit` if it fails, after printing why.
    """
    with _in_one_line(folder):
        noted = SweepFolder(folder).noted()
        assert noted is not None
        outcome = run_sweep(noted[0], folder, keep_frames=keep_packets)
        write_results(outcome)
    return outcome


def analyse_reproduction(paper: str, preset: str, folder: Path, known: Sequence[Path]) -> None:
    """Analyse what has run of a reproduction in real time, judge it and write its page.

    Raises `typer.Exit` if it fails, after printing why.
    """
    with _in_one_line(folder):
        loaded = load_paper(paper)
        chosen = loaded.preset(preset)
        assert chosen is not None
        reproduce(loaded, chosen, folder, known=read_known(loaded, known))

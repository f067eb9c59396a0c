"""The comparison of the runs of `agree`, in this process or in the one of `ahead`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from spark_analysis.agreement.page import WrittenComparison, agree_and_report
from spark_analysis.engine.session import spark_session
from spark_analysis.errors import AnalysisError
from testbed.display import AnalysisDisplay
from testbed.options import console, fail


def keep_session(stack: ExitStack) -> None:
    """Keep one session of Spark until `stack` ends, for several comparisons; idempotent."""
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
        fail(f"{error.strerror or error}: {error.filename or out}")

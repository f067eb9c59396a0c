"""The runs that an analysis is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from emulation.errors import RunFolderError
from emulation.scenario.runfolder import Run, read_run
from spark_analysis.errors import AnalysisError


def read_runs(paths: Iterable[Path]) -> tuple[Run, ...]:
    """Return several runs, each once.

    Raises `AnalysisError` if one cannot be read, or two have the same name.
    """
    runs: dict[str, Run] = {}
    for path in paths:
        try:
            run = read_run(path)
        except RunFolderError as error:
            raise AnalysisError(str(error)) from None
        other = runs.setdefault(run.name, run)
        if other.path != run.path:
            raise AnalysisError(f"{other.path} and {run.path} have the same name: rename one")
    if not runs:
        raise AnalysisError("no run folder given")
    return tuple(runs.values())

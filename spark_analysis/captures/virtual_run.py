"""Virtual runs without captures: what the measures read, straight from the run.

A run of thousands of nodes would write gigabytes of captures only for the analysis to decode them.
Here the columns that decoding would give go to `<run>/metrics/frames.parquet` at once: the same
packets through the same decoder (`emulation.virtual.recording`), so that the metrics are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from emulation.backends.virtual import VirtualBackend, simulate
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import ColumnRecorder, Observations, captures
from nodeapp.kinds import FIRST_CLIENT_KIND
from spark_analysis.captures.batches import record_batch
from spark_analysis.captures.materialise import (
    FRAMES_FOLDER,
    mark_recorded,
    parquet_writer,
    replace_folder,
    scratch_beside,
)
from spark_analysis.captures.schemas import FRAMES

BACKEND: Final = VirtualBackend.name
"""The backend of such runs."""


def run_to_frames(
    scenario: Scenario,
    folder: RunFolder,
    progress: Callable[[float], None] = lambda seconds: None,
    problem: Callable[[str], None] = lambda text: None,
) -> None:
    """Run a scenario under the virtual clock into a run folder without captures.

    `progress(seconds)` is called as the run goes on, and ends it with what it raises.  A run that
    did not reach its end leaves no frames.  Raises OSError if the folder cannot be written,
    `emulation.backends.base.BackendError` for a scenario that cannot run.
    """
    metrics = folder.path / "metrics"
    try:
        with scratch_beside(metrics / FRAMES_FOLDER) as scratch:
            scratch.mkdir(parents=True)
            with _FramesFile(scenario, folder.path.name, scratch / "part-00000.parquet") as file:
                simulate(scenario, folder, ColumnRecorder(scenario, file.write), progress, problem)
            mark_recorded(scratch, folder.path.name)
            replace_folder(scratch, metrics / FRAMES_FOLDER)
    finally:
        with suppress(OSError):
            metrics.rmdir()  # of a run that left no frames


class FramesBackend(VirtualBackend):
    """The virtual backend without captures."""

    stage = "running under the virtual clock, without captures"

    def run(
        self,
        scenario: Scenario,
        folder: RunFolder,
        elapsed: Callable[[float], None],
        problem: Callable[[str], None],
    ) -> None:
        """Run the scenario and write its frames."""
        run_to_frames(scenario, folder, elapsed, problem)


class _FramesFile:
    """Writes observations as rows of `FRAMES`."""

    def __init__(self, scenario: Scenario, run: str, path: Path) -> None:
        self._run = run
        labels = [interface.partition("-") for interface in captures(scenario)]
        self._names = pa.array([name for name, _, _ in labels], pa.string())
        self._interfaces = pa.array([interface for _, _, interface in labels], pa.string())
        self._schema = to_arrow_schema(FRAMES, timezone="UTC")
        self._file = parquet_writer(path, self._schema)

    def __enter__(self) -> _FramesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, seen: Observations) -> None:
        labels: Mapping[str, str | pa.Array[Any]] = {
            "run": self._run,
            "node": self._names.take(seen.capture),
            "interface": self._interfaces.take(seen.capture),
        }
        batch = record_batch(
            self._schema,
            labels,
            seen.number,
            seen.data,
            seen.decoded,
            bodies_from=FIRST_CLIENT_KIND,
        )
        self._file.write_batch(batch)

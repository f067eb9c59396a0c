"""What makes a row of a sweep's results: a run under the virtual clock, and its summary.

All code that a row follows from is reached from here by imports, and from the modules of its
topology and its protocol, which are loaded by name.  A change in any of it makes other points
(`spark_analysis.sweeps.source_key`), so this module imports nothing that a row does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from emulation.scenario.runfolder import RunFolder
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.summaries import summaries
from topologies.catalog import make_scenario

SUMMARY: Final = "summary.parquet"
"""In a run's `metrics` folder: its row."""


def run_point(
    folder: Path,
    topology: str,
    protocol: str,
    seed: int,
    duration: float,
    settings: Mapping[str, Any],
) -> None:
    """Run a point into an empty folder, which then is a run folder with frames.

    `duration` is in seconds; `settings` are as `--set` takes them.  Raises `ScenarioError`,
    `BackendError`, OSError, and whatever a defect in a protocol raises.
    """
    scenario = make_scenario(
        topology, protocol, seed=seed, duration=duration, settings=dict(settings)
    )
    run = RunFolder(folder)
    run.begin(scenario)
    run_to_frames(scenario, run)


def write_summaries(spark: SparkSession, folders: Sequence[Path]) -> None:
    """Write the summary of each run, each file whole or not at all.  Raises `AnalysisError`."""
    table = summaries(spark, folders)
    for folder in folders:
        path = folder / "metrics" / SUMMARY
        scratch = path.with_suffix(".tmp")
        table[table["run"] == folder.name].to_parquet(scratch, index=False)
        scratch.replace(path)

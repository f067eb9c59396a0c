"""What makes a row of a sweep's results: a run under the virtual clock, and its summary.

All code that a row follows from is reached from here by imports, and from the modules of its
topology and its protocol, which are loaded by name.  A change in any of it makes other points
(`spark_analysis.sweeps.source_key`), so this module imports nothing that a row does not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from emulation.scenario.runfolder import RunFolder
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.jobs.delay import DELAY, DELIVERY_KEY
from spark_analysis.metrics.summary import SUMMARY as SUMMARY_TABLE
from spark_analysis.summaries import tables
from topologies.catalog import make_scenario

SUMMARY: Final = "summary.parquet"
"""In a run's `metrics` folder: its row."""
DELIVERIES: Final = "deliveries.parquet"
"""In a run's `metrics` folder, if asked for: a row a delivery to another node than the publisher's,
`DELIVERY_KEY` and `delay`, in seconds."""


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


def write_summaries(
    spark: SparkSession, folders: Sequence[Path], *, deliveries: bool = False
) -> None:
    """Write the summary of each run and, if asked for, its deliveries; each file whole or not.

    The summary is the last, since a run that has it is finished.  Raises `AnalysisError`.
    """
    # The summary first, which is made of the deliveries: they are kept by then.
    summary, *delays = tables(spark, folders, (SUMMARY_TABLE, DELAY)[: 1 + deliveries])
    for delay in delays:
        remote = delay.filter(pc.invert(delay["local"]))
        for folder in folders:
            _write(remote, folder, DELIVERIES, (*DELIVERY_KEY, "delay"))
    for folder in folders:
        _write(summary, folder, SUMMARY, summary.column_names)


def _write(table: pa.Table, folder: Path, name: str, columns: Sequence[str]) -> None:
    path = folder / "metrics" / name
    scratch = path.with_suffix(".tmp")
    rows = table.filter(pc.equal(table["run"], pa.scalar(folder.name))).select(list(columns))
    pq.write_table(rows, scratch)
    scratch.replace(path)

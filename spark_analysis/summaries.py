"""The summaries of many runs, for sweeps: one table, what it is made of, and single deliveries.

This imports what makes a row of a sweep, and nothing of how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from spark_analysis.captures.air import read_air
from spark_analysis.captures.materialise import read_frames
from spark_analysis.captures.runs import read_runs
from spark_analysis.captures.tuning import few, gathered, tuned
from spark_analysis.errors import plain_errors
from spark_analysis.jobs.runs import SETTLE
from spark_analysis.metrics.summary import SUMMARY
from spark_analysis.reading import frames_folder, rows_of, survey_of
from spark_analysis.table import Inputs, Table


def summaries(
    spark: SparkSession, folders: Sequence[Path], *, settle: float = SETTLE
) -> pd.DataFrame:
    """Return the `SUMMARY` rows of several runs, and nothing else; writes nothing but frames.

    Raises `AnalysisError`.
    """
    (table,) = tables(spark, folders, (SUMMARY,), settle=settle)
    return table.to_pandas()


def tables(
    spark: SparkSession,
    folders: Sequence[Path],
    wanted: Sequence[Table],
    *,
    settle: float = SETTLE,
) -> list[pa.Table]:
    """Return the rows of tables of several runs; writes nothing but frames.

    Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    surveys = {run.name: survey_of(run) for run in runs}
    with plain_errors():
        found = [frames_folder(spark, run, surveys[run.name]) for run in runs]
        frames = gathered(read_frames(spark, found), found)
        air = read_air(spark, [], {})  # the summary has nothing of it
        inputs = Inputs(spark, runs, surveys, frames, air, settle, few=few(found))
        with tuned(spark, found), inputs.kept():
            return [rows_of(inputs, table) for table in wanted]

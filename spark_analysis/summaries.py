"""The summaries of many runs, for sweeps: one table, and what it is made of.

This imports what makes a row of a sweep, and nothing of how it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession

from spark_analysis.captures.air import read_air
from spark_analysis.captures.materialise import read_frames
from spark_analysis.captures.runs import read_runs
from spark_analysis.captures.tuning import tuned
from spark_analysis.errors import plain_errors
from spark_analysis.jobs.runs import SETTLE
from spark_analysis.metrics.summary import SUMMARY
from spark_analysis.reading import frames_folder, rows_of, survey_of
from spark_analysis.table import Inputs


def summaries(
    spark: SparkSession, folders: Sequence[Path], *, settle: float = SETTLE
) -> pd.DataFrame:
    """Return the `SUMMARY` rows of several runs, and nothing else; writes nothing but frames.

    Raises `AnalysisError`.
    """
    runs = read_runs(folders)
    surveys = {run.name: survey_of(run) for run in runs}
    with plain_errors():
        found = [frames_folder(spark, run, surveys[run.name]) for run in runs]
        frames = read_frames(spark, found)
        air = read_air(spark, [], {})  # the summary has nothing of it
        inputs = Inputs(spark, runs, surveys, frames, air, settle)
        with tuned(spark, found), inputs.kept():
            return rows_of(inputs, SUMMARY).to_pandas()

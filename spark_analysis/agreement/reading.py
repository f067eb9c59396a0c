"""From the run folders of all repeats to the comparisons of their backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from spark_analysis.agreement.agreement import LEAST_REPEATS, Agreement, compare
from spark_analysis.agreement.measures import Side, measure
from spark_analysis.engine.errors import plain_errors
from spark_analysis.errors import AnalysisError
from spark_analysis.measures.stages import on_air, split, stages, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_analysis.engine.results import Analysis


def read_agreements(
    spark: SparkSession,
    folders: Sequence[Sequence[Path]],
    names: Sequence[str],
    progress: Callable[[str, float], None] = lambda what, share: None,
) -> tuple[list[Agreement], Analysis]:
    """Analyse the run folders of all repeats in one session; return comparisons and analysis.

    `folders` has those of each repeat in the order of `names`; the first backend is compared with
    each of the others.  Raises `AnalysisError`.
    """
    from spark_analysis.analysis import analyse

    if len(folders) < LEAST_REPEATS:
        raise AnalysisError(f"at least {LEAST_REPEATS} repeats are needed, not {len(folders)}")
    every = [folder for repeat in folders for folder in repeat]
    analysis = analyse(spark, every, progress=lambda what, share: progress(what, 0.7 * share))
    progress("following every delivery through the captures", 0.7)
    with plain_errors():
        tables = _tables(spark, analysis)
    of_runs = [measure(run, analysis, tables) for run in analysis.runs]
    first, *others = (
        Side(name, tuple(of_runs[index :: len(names)])) for index, name in enumerate(names)
    )
    return [compare(first, second) for second in others], analysis


def _tables(spark: SparkSession, analysis: Analysis) -> dict[str, pd.DataFrame]:
    """Return `STAGES`, `SPLIT` and `ON_AIR` of all runs."""
    from pyspark.sql.types import StructType

    from spark_analysis.captures.materialise import FRAMES_FOLDER, read_frames
    from spark_analysis.engine.tuning import gathered, tuned
    from spark_analysis.measures.delay import DELAY, DELIVERY_KEY
    from spark_analysis.measures.nodes import NODES
    from spark_analysis.measures.packets import radio_packets

    folders = [run.metrics / FRAMES_FOLDER for run in analysis.runs]
    frames = gathered(read_frames(spark, folders), folders)
    nodes = spark.createDataFrame(analysis.table("nodes")[NODES.schema.fieldNames()], NODES.schema)
    runs = spark.createDataFrame(analysis.table("summary")[["run", "epoch_ns", "duration"]])
    # Deliveries that were not expected, around a fault, have no delay in the tables either.
    key = ["run", *DELIVERY_KEY]
    schema = StructType([DELAY.schema[name] for name in key])
    counted = spark.createDataFrame(analysis.table("delay")[key], schema)
    with tuned(spark, folders):
        traced = steps(frames, nodes).join(counted, key, "semi").cache()
        try:
            return {
                "stages": stages(traced).toPandas(),
                "split": split(traced).toPandas(),
                "on_air": on_air(radio_packets(frames, nodes), runs).toPandas(),
            }
        finally:
            traced.unpersist()

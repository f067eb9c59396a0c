"""How queries over few frames run, and what the driver's rows cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_analysis.engine.tables import local_rows
from spark_analysis.engine.tuning import FEW, few, gathered, tuned

NAMES = (
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.optimizer.disableHints",
)


def frames(folder: Path, size: int) -> Path:
    folder.mkdir()
    (folder / "part-00000.parquet").write_bytes(bytes(size))
    return folder


def test_frames_of_all_runs_count_together(tmp_path: Path) -> None:
    folders = [frames(tmp_path / str(index), FEW // 2) for index in range(3)]
    assert few(folders[:2])
    assert not few(folders)


@pytest.mark.spark
def test_queries_over_few_frames_are_not_compiled(spark: SparkSession, tmp_path: Path) -> None:
    def now() -> list[str | None]:
        return [spark.conf.get(name) for name in NAMES]

    def steps() -> str:
        query = local_rows(spark, [(1,), (2,)], "x int").groupBy("x").count()
        return str(query._jdf.queryExecution().executedPlan().toString())

    before = now()
    with tuned(spark, [frames(tmp_path / "few", 10)]):
        assert now() == ["false", "NO_CODEGEN", "1", "false", "-1", "true"]
        assert "*(" not in steps()
    assert now() == before
    with tuned(spark, [frames(tmp_path / "many", FEW + 1)]):
        assert now() == before
        assert "*(" in steps()


@pytest.mark.spark
def test_few_frames_are_aggregated_and_joined_without_another_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    def steps(folder: Path) -> str:
        rows = gathered(spark.range(9, numPartitions=3).withColumn("x", sf.col("id") % 2), [folder])
        counts = rows.groupBy("x").count()
        query = rows.join(sf.broadcast(counts), "x").groupBy("count").agg(sf.sum("id"))
        assert sorted(map(tuple, query.collect())) == [(4, 16), (5, 20)]
        return str(query._jdf.queryExecution().executedPlan().toString())

    few_frames, many = (frames(tmp_path / str(size), size) for size in (10, FEW + 1))
    with tuned(spark, [few_frames]):
        assert "Exchange" not in steps(few_frames)
    with tuned(spark, [many]):
        plan = steps(many)
    assert "BroadcastExchange" in plan
    assert "Exchange hashpartitioning" in plan


@pytest.mark.spark
def test_rows_of_the_driver_take_no_job(spark: SparkSession) -> None:
    rows = [(1, "a", b"\x00", True, 0.5), (2, None, None, None, None)]
    schema = "x long, name string, body binary, flag boolean, share double"
    spark.sparkContext.setJobGroup("rows", "rows of the driver")
    found = local_rows(spark, rows, schema)
    assert list(map(tuple, found.collect())) == rows
    nothing = local_rows(spark, [], schema)
    assert found.join(nothing, "x").groupBy("x").count().collect() == []
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("rows")

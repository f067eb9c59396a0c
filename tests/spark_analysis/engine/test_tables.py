"""Queries that others are made of: they are made once, and kept where they cost least."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_analysis.engine.tables import Inputs, Kept, Query, driver_rows

pytestmark = [pytest.mark.spark]


def inputs(spark: SparkSession, few: bool) -> Inputs:
    return Inputs(spark, [], {}, spark.range(3), spark.range(0), few=few)


def where(rows: DataFrame) -> str:
    """Return the leaf of the rows' plan."""
    return str(rows._jdf.queryExecution().optimizedPlan().collectLeaves().head().nodeName())


MADE = "Range"
IN_SPARK = "InMemoryRelation"
IN_DRIVER = "LocalRelation"


@pytest.mark.parametrize(
    ("kept", "of_few", "of_many"),
    [
        (Kept.NOWHERE, MADE, MADE),
        (Kept.IN_DRIVER, IN_DRIVER, IN_SPARK),
        (Kept.IN_SPARK, IN_SPARK, IN_SPARK),
        (Kept.IN_SPARK_IF_FEW, IN_SPARK, MADE),
    ],
)
def test_rows_are_kept_where_their_number_says(
    spark: SparkSession, kept: Kept, of_few: str, of_many: str
) -> None:
    made: list[Inputs] = []

    def make(inputs: Inputs) -> DataFrame:
        made.append(inputs)
        return inputs.frames.withColumn("double", sf.col("id") * 2)

    query = Query(make=make, kept=kept)
    for few, leaf in ((True, of_few), (False, of_many)):
        made.clear()
        with (some := inputs(spark, few)).kept():
            for _ in range(2):
                rows = some.of(query)
                assert where(rows) == leaf
                assert sorted(rows.collect()) == [(0, 0), (1, 2), (2, 4)]
                assert some.collected(query).sort_by("id").to_pydict() == {
                    "id": [0, 1, 2],
                    "double": [0, 2, 4],
                }
            assert made == [some]
        assert where(make(some)) == MADE  # nothing of it is left


def test_no_rows_are_kept_too(spark: SparkSession) -> None:
    query = Query(make=lambda inputs: inputs.air, kept=Kept.IN_DRIVER)
    with (some := inputs(spark, few=True)).kept():
        assert some.of(query).collect() == []
        assert some.collected(query).num_rows == 0


def test_rows_that_the_driver_holds_take_no_job(spark: SparkSession) -> None:
    query = Query(make=lambda inputs: driver_rows([(1, "a")], "x long, name string"))
    spark.sparkContext.setJobGroup("held", "rows of the driver")
    with (some := inputs(spark, few=True)).kept():
        assert some.collected(query).to_pylist() == [{"x": 1, "name": "a"}]
        assert some.of(query) is some.of(query)
        assert where(some.of(query)) == IN_DRIVER
        assert some.of(query).collect() == [(1, "a")]
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("held")

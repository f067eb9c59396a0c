"""Groups of rows come whole and in order, in whatever batches, and all that is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from spark_analysis.engine.groups import ROWS, of_groups
from spark_analysis.engine.tables import local_rows

SCHEMA: Final = (
    StructType().add("run", StringType()).add("node", LongType()).add("times", StringType())
)


def _times(rows: Iterator[Any]) -> Iterator[dict[str, Any]]:
    group = list(rows)
    times = " ".join(str(row.time) for row in group)
    for _ in range(group[0].copies):
        yield {"run": group[0].run, "node": group[0].node, "times": times}


@pytest.mark.spark
@pytest.mark.parametrize("batch", [1, 3, 10_000])
def test_groups_are_whole_and_in_order(spark: SparkSession, batch: int) -> None:
    copies = {"a": 0, "b": 1, "c": ROWS + 1}
    given = local_rows(
        spark,
        [
            (run, node, 7 * n % 5, copies[run])
            for run in copies
            for node in (2, 1)
            for n in range(5)
        ],
        "run string, node long, time long, copies long",
    )
    option = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(option)
    spark.conf.set(option, batch)
    try:
        found = of_groups(given, ("run", "node"), ("time",), _times, SCHEMA).collect()
    finally:
        spark.conf.set(option, str(before))
    assert sorted(map(tuple, found)) == [
        (run, node, "0 1 2 3 4") for run in copies for node in (1, 2) for _ in range(copies[run])
    ]

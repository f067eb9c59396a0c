"""Rows that the driver holds, as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_rows(
    spark: SparkSession, rows: Sequence[Sequence[Any]], schema: StructType | str
) -> DataFrame:
    """Return rows, in the order of the columns of `schema` (or its DDL), as a DataFrame.

    They go to Spark as Arrow, so that the optimiser has them at hand: what is made of no rows, or
    joined with few, takes no job.  Rows of Python objects would be a job of their own wherever they
    are used.
    """
    wanted = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(wanted, StructType)
    types = to_arrow_schema(wanted, timezone="UTC")
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    table = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, types, strict=True)],
        schema=types,
    )
    return spark.createDataFrame(table, wanted)

"""Parquet files of pandas frames, whose columns have comments."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def typed(frame: pd.DataFrame, schema: StructType) -> pa.Table:
    """Return a frame's columns as those of `schema`, in its order.

    Raises ValueError if a column is missing or of another type.
    """
    try:
        return pa.Table.from_pandas(frame, to_arrow_schema(schema), preserve_index=False)
    except (KeyError, TypeError) as error:
        raise ValueError(str(error.args[0])) from None


def write(table: pa.Table, schema: StructType, path: Path) -> None:
    """Write a table; columns that `schema` has too get its comments.  Raises OSError."""
    comments = {field.name: str(field.metadata.get("comment", "")) for field in schema}
    fields = [
        field.with_metadata({"comment": comments[field.name]}) if field.name in comments else field
        for field in table.schema
    ]
    schema_with_comments = pa.schema(fields).with_metadata(table.schema.metadata)
    pq.write_table(table.cast(schema_with_comments), path)

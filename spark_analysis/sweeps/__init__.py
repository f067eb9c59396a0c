"""Sweeps for programs and notebooks: their results as a pandas frame.

from spark_analysis import sweeps

results = sweeps.load("sweeps/roaming_field-flooding-speed")
results.groupby(["protocol", "speed"])["delivery_ratio"].mean()

docs/data.md has the columns.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from spark_analysis.errors import AnalysisError


def load(path: str | Path) -> pd.DataFrame:
    """Return the results of the sweep or reproduction in a folder, a row for each run.

    `attrs` of the frame has what each column is, with its unit.  Raises `AnalysisError` if there
    are none.
    """
    file = Path(path) / "results.parquet"
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException):
        raise AnalysisError(f"no results in {file}: run the sweep first") from None
    frame = table.to_pandas()
    frame.attrs = {
        field.name: field.metadata[b"comment"].decode()
        for field in table.schema
        if field.metadata and b"comment" in field.metadata
    }
    return frame

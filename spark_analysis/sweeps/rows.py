"""Rows of points: a run's summary, and its deliveries if they are kept.

A row is marked with the versions of the measures that made it, and is used only if these are
current (`spark_analysis.measures.versions`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from emulation.whole import whole
from spark_analysis.analysis import tables_of
from spark_analysis.measures.delay import DELAY, DELIVERY_KEY
from spark_analysis.measures.summary import SUMMARY as SUMMARY_TABLE
from spark_analysis.measures.versions import differences, marked, versions_of

SUMMARY: Final = "summary.parquet"
"""In a run's `metrics` folder: its row."""
DELIVERIES: Final = "deliveries.parquet"
"""In a run's `metrics` folder, if asked for: a row for each delivery at another node than the
publisher's, `DELIVERY_KEY` and `delay`, in seconds."""
_PARQUET: Final = b"PAR1"
"""What a Parquet file ends with."""


def write_summaries(
    spark: SparkSession, folders: Sequence[Path], *, deliveries: bool = False
) -> None:
    """Write the summary of each run and, if asked for, its deliveries, each file atomically.

    The summary is the last, since a run that has it is finished.  Raises `AnalysisError`.
    """
    # The summary first: it is made from the deliveries, which are cached by then.
    summary, *delays = tables_of(spark, folders, (SUMMARY_TABLE, DELAY)[: 1 + deliveries])
    for delay in delays:
        remote = marked(delay.filter(pc.invert(delay["local"])))
        for folder in folders:
            _write(remote, folder, DELIVERIES, (*DELIVERY_KEY, "delay"))
    summary = marked(summary)
    for folder in folders:
        _write(summary, folder, SUMMARY, summary.column_names)


def _write(table: pa.Table, folder: Path, name: str, columns: Sequence[str]) -> None:
    rows = table.filter(pc.equal(table["run"], pa.scalar(folder.name))).select(list(columns))
    with whole(folder / "metrics" / name) as unfinished:
        pq.write_table(rows, unfinished)


def is_there(path: Path) -> bool:
    """Return whether a file of rows, of any version, is complete: it has its end."""
    try:
        with path.open("rb") as file:
            file.seek(-len(_PARQUET), os.SEEK_END)
            return file.read() == _PARQUET
    except OSError:  # none, or a shorter one
        return False


def is_current(path: Path) -> bool:
    """Return whether there are rows by the current measures.

    True of a damaged file, too: whoever reads it reports that.
    """
    if not is_there(path):
        return False
    try:
        return not differences(versions_of(pq.read_schema(path).metadata))
    except (pa.ArrowException, OSError):
        return True

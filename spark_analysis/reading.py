"""From run folders to what the jobs are made of, and from their queries to rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from emulation.scenario.runfolder import Run
from emulation.virtual.recording import captures
from spark_analysis.captures.materialise import is_recorded, materialise, recorded
from spark_analysis.captures.source import Capture, Survey, Surveyed, find_captures, survey
from spark_analysis.table import Inputs, Table


def frames_folder(
    spark: SparkSession,
    run: Run,
    found: Survey,
    problem: Callable[[str], None] = lambda text: None,
) -> Path:
    """Return the folder of a run's frames: those that it recorded, else its captures, decoded.

    Damage that could be put right is told to `problem`.
    """
    captures = [each.capture for each in found.captures]
    return recorded(run) or materialise(spark, run, captures, problem=problem)


def survey_of(run: Run) -> Survey:
    """Return what captures there are; of a run without any, those that it would have written."""
    if not is_recorded(run):
        return survey(find_captures([run.captures]))
    paths = [run.captures / f"{interface}.pcap" for interface in captures(run.scenario)]
    return Survey(tuple(Surveyed(Capture(path), 0, 0, None) for path in paths), {})


def rows_of(inputs: Inputs, table: Table) -> pa.Table:
    """Make a table and return its rows, sorted, with the comments of its columns."""
    found = inputs.collected(table)
    comments = [str(field.metadata.get("comment", "")) for field in table.schema]
    fields = zip(found.schema, comments, strict=True)
    schema = pa.schema([field.with_metadata({"comment": comment}) for field, comment in fields])
    ascending: Literal["ascending"] = "ascending"
    return found.sort_by([(name, ascending) for name in ("run", *table.order)]).cast(schema)

"""Captures decoded once: `<run>/metrics/frames.parquet`, and `air.parquet` of the air.

Every table is a query over the same frames, and Parquet answers it several times faster than the
captures do.  Beside the Parquet files are the name, size and time of change of every capture they
were made of; while these are unchanged the files are used again.  A folder is complete or
missing: it is written under another name and renamed.

The tasks are those of the data source, but write their Arrow batches to Parquet themselves: that
takes a third of the time of a query that hands every packet to Spark as a row.  Small captures are
decoded without tasks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from emulation.scenario.runfolder import Run
from nodeapp.wire import FIRST_CLIENT_KIND
from spark_analysis.captures.source import Capture, CaptureSlice, plan, read_slice
from spark_analysis.errors import AnalysisError
from spark_analysis.schemas import FRAMES

FORMAT: Final = 3
"""Version of the frames; one more whenever the same captures would give other rows."""
FRAMES_FOLDER: Final = "frames.parquet"
AT_ONCE: Final = 4 << 20
"""Bytes of captures up to which they are decoded here, in less time than tasks take to start."""
_MADE_OF: Final = "_captures.json"  # Spark passes over names that begin so
_RECORDED: Final = json.dumps({"format": FORMAT, "recorded": True})


def _read_frames(part: CaptureSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return read_slice(part, schema, FIRST_CLIENT_KIND)


@dataclass(frozen=True)
class Decoded:
    """What captures are decoded to: name of the folder, columns, and what reads a slice."""

    folder: str
    schema: StructType
    read: Callable[[CaptureSlice, pa.Schema], Iterator[pa.RecordBatch]]


PACKETS: Final = Decoded(FRAMES_FOLDER, FRAMES, _read_frames)


def materialise(
    spark: SparkSession,
    run: Run,
    captures: Sequence[Capture],
    decoded: Decoded = PACKETS,
) -> Path:
    """Return the folder of the run's frames, after decoding `captures` if it is not up to date.

    Raises `AnalysisError` if it cannot be written.
    """
    folder = run.metrics / decoded.folder
    made_of = _fingerprint(captures)
    if _read(folder / _MADE_OF) == made_of:
        return folder
    scratch = run.metrics / f".{decoded.folder}-{os.getpid()}"
    try:
        run.metrics.mkdir(parents=True, exist_ok=True)
        _sweep(run.metrics, decoded.folder)
        scratch.mkdir()
        context = spark.sparkContext
        tasks = [
            (str(scratch / f"part-{number:05}.parquet"), partition.value, decoded)
            for number, partition in enumerate(plan(captures, 2 * context.defaultParallelism))
        ]
        if sum(capture.path.stat().st_size for capture in captures) <= AT_ONCE:
            for task in tasks:
                _write(task)
        else:
            context.parallelize(tasks, max(1, len(tasks))).foreach(_write)
        (scratch / _MADE_OF).write_text(made_of, encoding="utf-8")
        replace_folder(scratch, folder)
    except OSError as error:
        raise AnalysisError(f"cannot write in {run.metrics}: {error.strerror}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def mark_recorded(folder: Path) -> None:
    """Mark a folder of frames as written by the run itself, which has no captures."""
    (folder / _MADE_OF).write_text(_RECORDED, encoding="utf-8")


def recorded(run: Run) -> Path | None:
    """Return the folder of the frames that a run wrote itself; None if it has captures.

    Raises `AnalysisError` if another version of the testbed has written them.
    """
    folder = run.folder.metrics / FRAMES_FOLDER
    made_of = _read(folder / _MADE_OF)
    if made_of is None or not json.loads(made_of).get("recorded"):
        return None
    if made_of != _RECORDED:
        raise AnalysisError(f"{folder} is of another version: run the scenario again")
    return folder


def decoded_frames(run: Run) -> Path | None:
    """Return the folder of the run's frames if they are there.  Raises `AnalysisError`."""
    folder = recorded(run) or run.metrics / FRAMES_FOLDER
    return folder if folder.is_dir() else None


def _write(task: tuple[str, Sequence[CaptureSlice], Decoded]) -> None:
    path, slices, decoded = task
    schema = to_arrow_schema(decoded.schema, timezone="UTC")
    with pq.ParquetWriter(path, schema) as file:
        for part in slices:
            for batch in decoded.read(part, schema):
                file.write_batch(batch)


def read_frames(spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
    """Return the frames in the folders that `materialise` returned."""
    return spark.read.schema(FRAMES).parquet(*map(str, folders))


def replace_folder(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`, in place of the one that may be there."""
    old = new.with_name(f"{new.name}-old")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _fingerprint(captures: Sequence[Capture]) -> str:
    files = {}
    for capture in captures:
        found = capture.path.stat()
        files[capture.path.name] = [found.st_size, found.st_mtime_ns]
    return json.dumps({"format": FORMAT, "files": files}, sort_keys=True)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _sweep(metrics: Path, folder: str) -> None:
    """Remove folders that killed analyses left behind."""
    for left in metrics.glob(f".{folder}-*"):
        process = re.match(rf"\.{re.escape(folder)}-(\d+)", left.name)
        if process is None or not Path("/proc", process[1]).exists():
            shutil.rmtree(left, ignore_errors=True)

"""Captures decoded once: `<run>/metrics/frames.parquet`, and `air.parquet` of the air.

Every table is a query over the same frames, and Parquet answers it several times faster than the
captures do.  Beside the Parquet files are the name, size and modification time of every capture
they were made of; while these are unchanged the files are used again.  A folder is complete or
missing: it is written under another name and renamed.  Later damage shows too: the size and the
checksum of every file are kept.  So is the run's name, since a run folder may be renamed or
copied: rows are then read under the name that it has now.

The tasks are those of the data source, but write their Arrow batches to Parquet themselves: that
takes a third of the time of a query that hands every packet to Spark as a row.  Small captures are
decoded without tasks.

Each of a dozen queries opens every file anew, which takes Spark 7 ms.  So many small files, as of
the points of a sweep, are copied into one for the time of the analysis.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from capture.process import start_of
from emulation.scenario.runfolder import Run
from nodeapp.kinds import FIRST_CLIENT_KIND
from nodeapp.pubsub.registry import kinds
from spark_analysis.captures.files import Capture
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.captures.source import CaptureSlice, plan, read_slice
from spark_analysis.errors import AnalysisError, UnusableRunError

FORMAT: Final = 6
"""Version of the frames; raised whenever the same captures would give other rows."""
FRAMES_FOLDER: Final = "frames.parquet"
AT_ONCE: Final = 4 << 20
"""Bytes of captures up to which they are decoded here, in less time than tasks take to start."""
TASKS: Final = 4
"""For each core: a slow one does not hold up the others for long."""
FILES: Final = 8
"""Files up to which they are read as they are."""
SMALL: Final = 2 << 20
"""Bytes of a file, in the mean, from which copying it takes longer than opening it."""
ROWS: Final = 1 << 17
"""Of a row group of the copy: what a task reads at least."""
_TOGETHER: Final = "together"
_MADE_OF: Final = "_captures.json"  # Spark skips names that begin with _
_BLOCK: Final = 1 << 20
"""Bytes read at once for a checksum."""


def _read_frames(part: CaptureSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return read_slice(part, schema, FIRST_CLIENT_KIND)


@dataclass(frozen=True)
class Decoded:
    """What captures are decoded to: name of the folder, columns, and what reads a slice.

    `whole`: a slice is a whole capture, since reading a packet takes those before it.
    """

    folder: str
    schema: StructType
    read: Callable[[CaptureSlice, pa.Schema], Iterator[pa.RecordBatch]]
    whole: bool = False


PACKETS: Final = Decoded(FRAMES_FOLDER, FRAMES, _read_frames)


def materialise(
    spark: SparkSession,
    run: Run,
    captures: Sequence[Capture],
    decoded: Decoded = PACKETS,
    problem: Callable[[str], None] = lambda text: None,
) -> Path:
    """Return the folder of the run's frames, after decoding `captures` if it is not up to date.

    Frames that were damaged after they had been written are reported to `problem` and decoded
    again.  Raises `AnalysisError` if they cannot be written.
    """
    folder = run.metrics / decoded.folder
    files = _files(captures)
    _sweep(run.metrics, decoded.folder)
    manifest = _made_of(folder)
    if manifest is not None and _is_current(manifest, files):
        damage = _damage(folder, manifest)
        if damage is None:
            return folder
        problem(f"metrics/{decoded.folder} was damaged ({damage}): the captures are decoded again")

    def is_made() -> bool:
        """Return whether another analysis, which was faster, has made the folder meanwhile."""
        latest = _made_of(folder)
        return latest is not None and latest != manifest and _is_current(latest, files)

    try:
        run.metrics.mkdir(parents=True, exist_ok=True)
        with scratch_beside(folder) as scratch:
            scratch.mkdir()
            _decode(spark, captures, decoded, scratch)
            _mark(scratch, {"run": run.name, "files": files})
            try:
                if not is_made():  # else somebody reads it now
                    replace_folder(scratch, folder)
            except OSError:
                if not is_made():
                    raise
    except OSError as error:
        raise AnalysisError(f"cannot write in {run.metrics}: {error.strerror}") from None
    return folder


def _decode(spark: SparkSession, captures: Sequence[Capture], decoded: Decoded, into: Path) -> None:
    """Decode captures into files of a folder, here or by tasks."""
    context = spark.sparkContext
    tasks = [
        (str(into / f"part-{number:05}.parquet"), partition.value, decoded)
        for number, partition in enumerate(
            plan(captures, 2 * context.defaultParallelism, whole=decoded.whole)
        )
    ]
    if sum(capture.path.stat().st_size for capture in captures) <= AT_ONCE:
        for task in tasks:
            _write(task)
    else:
        # Starting a task takes as long as decoding a slice: a few tasks of several each.
        count = min(len(tasks), TASKS * context.defaultParallelism)
        context.parallelize(tasks, max(1, count)).foreach(_write)


@contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """Yield where this process may make a folder beside `folder`; it goes when the block ends."""
    scratch = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(scratch, ignore_errors=True)  # of a killed process with this number
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def mark_recorded(folder: Path, run: str) -> None:
    """Mark a folder of frames as written by the run itself, which has no captures."""
    _mark(folder, {"run": run, "recorded": True})


def drop_decoded(metrics: Path) -> None:
    """Remove all that captures were decoded to.  Raises OSError."""
    for manifest in metrics.glob(f"*/{_MADE_OF}"):
        shutil.rmtree(manifest.parent)


def is_recorded(run: Run) -> bool:
    """Return whether a run wrote its frames itself, and has no captures."""
    manifest = _made_of(run.folder.metrics / FRAMES_FOLDER)
    return manifest is not None and bool(manifest.get("recorded"))


def recorded(run: Run) -> Path | None:
    """Return the folder of the frames that a run wrote itself; None if it has captures.

    Raises `UnusableRunError` if another version of the testbed has written them, or they are
    damaged.
    """
    folder = run.folder.metrics / FRAMES_FOLDER
    manifest = _made_of(folder)
    if manifest is None or not manifest.get("recorded"):
        return None
    if manifest.get("format") != FORMAT:
        raise UnusableRunError(f"{folder} was written by another version: run the scenario again")
    damage = _damage(folder, manifest)
    if damage is not None:
        raise UnusableRunError(
            f"{folder} is damaged ({damage}), and the run has no captures: run the scenario again"
        )
    return folder


def decoded_frames(run: Run) -> Path | None:
    """Return the folder of the run's frames if they are there.  Raises `AnalysisError`."""
    folder = recorded(run) or run.metrics / FRAMES_FOLDER
    return folder if folder.is_dir() else None


def parquet_writer(path: str | Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer of decoded packets.  Raises OSError.

    Dictionaries of numbers would take as long as all the rest, and make the file no smaller.
    """
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return pq.ParquetWriter(path, schema, use_dictionary=texts, compression="lz4")  # type: ignore[arg-type]  # stubs: bool


def _write(task: tuple[str, Sequence[CaptureSlice], Decoded]) -> None:
    path, slices, decoded = task
    schema = to_arrow_schema(decoded.schema, timezone="UTC")
    with parquet_writer(path, schema) as file:
        for part in slices:
            for batch in decoded.read(part, schema):
                file.write_batch(batch)


def read_frames(spark: SparkSession, folders: Sequence[Path]) -> DataFrame:
    """Return the frames in the folders that `materialise` returned."""
    return read_decoded(spark, folders, FRAMES)


@contextmanager
def frames_of(spark: SparkSession, folders: Sequence[Path]) -> Iterator[DataFrame]:
    """Yield the frames in the folders that `materialise` returned, for some queries.

    Raises `AnalysisError` if many small files cannot be copied into one.
    """
    sizes = [path.stat().st_size for folder in folders for path in folder.glob("*.parquet")]
    if len(sizes) <= FILES or sum(sizes) >= SMALL * len(sizes):
        yield read_frames(spark, folders)
        return
    for folder in folders:
        _sweep(folder.parent, _TOGETHER)
    with scratch_beside(folders[0].parent / _TOGETHER) as scratch:
        yield spark.read.schema(FRAMES).parquet(str(_copied(folders, scratch / FRAMES_FOLDER)))


def _copied(folders: Sequence[Path], together: Path) -> Path:
    """Copy the frames of runs into one file in a folder of its own; return it."""
    schema = to_arrow_schema(FRAMES, timezone="UTC")
    waiting: list[pa.Table] = []
    try:
        together.mkdir(parents=True)
        with parquet_writer(together / "part-00000.parquet", schema) as file:
            for folder in folders:
                run = folder.parent.parent.name
                for path in sorted(folder.glob("*.parquet")):
                    rows = pq.ParquetFile(path).read(use_threads=False).drop_columns(["run"])
                    name = pa.repeat(pa.scalar(run), len(rows))
                    waiting.append(rows.add_column(0, "run", name).select(schema.names))
                if sum(map(len, waiting)) >= ROWS:
                    file.write_table(pa.concat_tables(waiting).cast(schema))
                    waiting.clear()
            if waiting:
                file.write_table(pa.concat_tables(waiting).cast(schema))
    except OSError as error:
        raise AnalysisError(f"cannot write in {together.parent}: {error.strerror}") from None
    return together


def read_decoded(spark: SparkSession, folders: Sequence[Path], schema: StructType) -> DataFrame:
    """Return the rows in the folders of some runs, each under the name that its run has now."""
    kept: list[str] = []
    parts: list[DataFrame] = []
    for folder in folders:
        name = folder.parent.parent.name
        if (_made_of(folder) or {}).get("run") == name:
            kept.append(str(folder))
            continue
        column = sf.lit(name).alias("run", metadata=schema["run"].metadata)
        renamed = spark.read.schema(schema).parquet(str(folder))
        parts.append(renamed.select(column, *(sf.col(n) for n in schema.names if n != "run")))
    if kept:
        parts.insert(0, spark.read.schema(schema).parquet(*kept))
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.union(part)
    return rows


def replace_folder(new: Path, folder: Path) -> None:
    """Rename `new` to `folder`, in place of the one that may be there."""
    old = new.with_name(f"{new.name}-old")
    shutil.rmtree(old, ignore_errors=True)  # of a killed process with this number
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _is_current(manifest: Mapping[str, Any], files: Mapping[str, list[int]]) -> bool:
    known = manifest.get("format"), manifest.get("kinds"), manifest.get("files")
    return known == (FORMAT, _kinds(), files)


def _kinds() -> dict[str, str]:
    """Return the kinds of messages that are decoded, with their roles, by number."""
    return {str(number): kind.role.name for number, kind in kinds().items()}


def _files(captures: Sequence[Capture]) -> dict[str, list[int]]:
    """Return size and modification time of every capture, by name."""
    statuses = {capture.path.name: capture.path.stat() for capture in captures}
    return {name: [status.st_size, status.st_mtime_ns] for name, status in statuses.items()}


def _mark(folder: Path, facts: dict[str, Any]) -> None:
    """Note in a folder of frames what it was made of, and what it holds."""
    parts = {path.name: _checksum(path) for path in sorted(folder.glob("*.parquet"))}
    known = {"format": FORMAT, "kinds": _kinds()}
    text = json.dumps({**known, **facts, "parts": parts}, sort_keys=True)
    (folder / _MADE_OF).write_text(text, encoding="utf-8")


def _checksum(path: Path) -> list[int]:
    """Return the size of a file and the CRC-32 of its bytes."""
    size = checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size += len(block)
            checksum = zlib.crc32(block, checksum)
    return [size, checksum]


def _made_of(folder: Path) -> dict[str, Any] | None:
    """Return what a folder of frames was made of; None if that is not recorded."""
    try:
        manifest = json.loads((folder / _MADE_OF).read_bytes())
    except (OSError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) else None


def _damage(folder: Path, manifest: dict[str, Any]) -> str | None:
    """Return what is wrong with the files of a folder of frames, None if nothing is."""
    parts = manifest.get("parts")
    if not isinstance(parts, dict):
        return "its list of files is missing"
    present = {path.name for path in folder.glob("*.parquet")}
    for name in sorted(present | set(parts)):
        if name not in present:
            return f"{name} is missing"
        if name not in parts:
            return f"{name} does not belong there"
        try:
            if _checksum(folder / name) != parts[name]:
                return f"{name} has other bytes than were written"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def _sweep(metrics: Path, folder: str) -> None:
    """Remove folders that killed analyses left behind."""
    leftovers: list[Path] = []
    with suppress(OSError):  # whoever writes there will say so
        leftovers += metrics.glob(f".{folder}-*")
    for leftover in leftovers:
        process = re.match(rf"\.{re.escape(folder)}-(\d+)", leftover.name)
        if process is None or start_of(int(process[1])) is None:
            shutil.rmtree(leftover, ignore_errors=True)

"""The capture of the air, decoded: `<run>/captures/air.pcap` to `<run>/metrics/air.parquet`.

Only the hwsim backend has one: mac80211_hwsim shows all 802.11 frames of all radios at one monitor
interface.  It is read as other captures are (`captures.source`, `captures.materialise`), but for
its link type and its columns, `captures.schemas.AIR_FRAMES`.  What is damaged, or not an 802.11
frame, is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from capture.radiotap import Columns, decode_air
from capture.scan import AIR
from emulation.scenario.runfolder import Run
from spark_analysis.captures.files import SUFFIXES, Capture
from spark_analysis.captures.materialise import Decoded, materialise, read_decoded
from spark_analysis.captures.schemas import AIR_FRAMES
from spark_analysis.captures.source import BATCH, CaptureSlice, Survey, load_slice

_NULLABLE: Final = ("rate_kbps", "frequency_mhz", "transmitter")
"""Columns in which -1 means none."""


def air_captures(run: Run) -> list[Capture]:
    """Return the capture of the air of a run, if it has one."""
    paths = [(run.captures / AIR).with_suffix(end) for end in SUFFIXES]
    return [Capture(path) for path in paths if path.exists()][:1]


def read_air(
    spark: SparkSession,
    runs: Sequence[Run],
    surveys: Mapping[str, Survey],
    problem: Callable[[str, str], None] = lambda run, text: None,
) -> DataFrame:
    """Return `AIR_FRAMES` of runs, after decoding what is not up to date; `surveys` by run.

    Damage is reported to `problem` (name of the run, one line).  Raises `AnalysisError` if decoded
    frames cannot be written.
    """
    folders = []
    for run in runs:
        captures = [readable.capture for readable in surveys[run.name].captures]
        if captures:
            folders.append(materialise(spark, run, captures, _AIR, partial(problem, run.name)))
    if not folders:
        empty = to_arrow_schema(AIR_FRAMES, timezone="UTC").empty_table()
        return spark.createDataFrame(empty, AIR_FRAMES)
    return read_decoded(spark, folders, AIR_FRAMES)


def read_air_slice(part: CaptureSlice, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the 802.11 frames of a slice, as batches with the columns of `AIR_FRAMES`."""
    loaded = load_slice(part)
    if loaded is None:
        return
    header, data, offsets, numbers = loaded
    for first in range(0, len(offsets), BATCH):
        block = slice(first, first + BATCH)
        decoded = decode_air(data, header, offsets[block])
        yield _batch(schema, part.capture.run, numbers[block], decoded)


def _batch(
    schema: pa.Schema, run: str, numbers: npt.NDArray[np.int64], decoded: Columns
) -> pa.RecordBatch:
    kept = np.flatnonzero(decoded["is_frame"])
    arrays = []
    for field in schema:
        if field.name == "run":
            arrays.append(pa.array([run] * len(kept), field.type))
        elif field.name == "number":
            arrays.append(pa.array(numbers[kept], field.type))
        else:
            values = decoded[field.name][kept]
            missing = values == -1 if field.name in _NULLABLE else None
            arrays.append(pa.array(values, field.type, mask=missing))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_AIR: Final = Decoded("air.parquet", AIR_FRAMES, read_air_slice)

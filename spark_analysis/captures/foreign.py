"""Radio captures of a middleware's runs, decoded: `<run>/metrics/foreign.parquet`.

Beside `frames.parquet`, which has only the testbed's own frames.  A capture is one slice, since
TCP streams are followed through it (`capture.foreign`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from capture.foreign import ForeignDecoder
from capture.scan import RECORD_HEADER
from emulation.scenario.runfolder import Run
from nodeapp.pubsub.registry import MIDDLEWARE
from spark_analysis.captures.materialise import Decoded, materialise, read_decoded
from spark_analysis.captures.schemas import FOREIGN_FRAMES
from spark_analysis.captures.source import BATCH, CaptureSlice, Survey, load_slice

FOREIGN_FOLDER: Final = "foreign.parquet"


def read_foreign(
    spark: SparkSession, runs: Sequence[Run], surveys: Mapping[str, Survey]
) -> DataFrame | None:
    """Return `FOREIGN_FRAMES` of the runs of middlewares; None if there are none.

    Raises `AnalysisError` if decoded frames cannot be written.
    """
    folders = []
    for run in runs:
        system = MIDDLEWARE.get(run.scenario.protocol.name)
        captures = [readable.capture for readable in surveys[run.name].captures]
        radios = [capture for capture in captures if capture.interface != "lo"]
        if system is not None and radios:
            read = partial(read_foreign_slice, system.service.ports)
            decoded = Decoded(FOREIGN_FOLDER, FOREIGN_FRAMES, read, whole=True)
            folders.append(materialise(spark, run, radios, decoded))
    return read_decoded(spark, folders, FOREIGN_FRAMES) if folders else None


def read_foreign_slice(
    ports: Sequence[int], part: CaptureSlice, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a whole capture that are not the testbed's, in batches of `schema`."""
    loaded = load_slice(part)
    if loaded is None:
        return
    header, data, offsets, numbers = loaded
    order = "little" if header.byte_order == "<" else "big"
    octets, decoder = data.tobytes(), ForeignDecoder(ports)
    capture = part.capture
    rows: list[dict[str, Any]] = []
    for offset, number in zip(offsets.tolist(), numbers.tolist(), strict=True):
        captured = int.from_bytes(octets[offset + 8 : offset + 12], order)  # type: ignore[arg-type]
        start = offset + RECORD_HEADER
        frame = decoder.read(octets[start : start + captured])
        if frame is None:
            continue
        rows.append(
            {
                "run": capture.run,
                "node": capture.node,
                "interface": capture.interface,
                "number": number,
                "sender": frame.sender,
                "label": frame.label,
                "first_hop": frame.first_hop,
                "publishers": [publisher for publisher, _ in frame.events],
                "sequences": [sequence for _, sequence in frame.events],
            }
        )
        if len(rows) >= BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)

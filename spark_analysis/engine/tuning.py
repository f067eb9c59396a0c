"""How Spark is tuned to the number of frames.

An analysis is a few dozen queries.  Over the frames of a short run each takes milliseconds, and the
cost is in getting ready: Spark writes Java for every step of every query and compiles it, and hands
a task to every processor after each shuffle.  So queries over few frames are interpreted, in one
partition: rows that are in one already need no shuffle for an aggregation, and no job of their own
to be joined, as they do to be broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

FEW: Final = 2 << 20
"""Bytes of decoded frames, about 40,000 to 80,000 of them, up to which they are few."""
_FOR_FEW: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",  # those that broadcast
}


def few(folders: Sequence[Path]) -> bool:
    """Return whether the frames in the folders that `materialise` returned are few."""
    return sum(path.stat().st_size for folder in folders for path in folder.iterdir()) <= FEW


def gathered(frames: DataFrame, folders: Sequence[Path]) -> DataFrame:
    """Return the frames in the folders in one partition if they are few."""
    return frames.coalesce(1) if few(folders) else frames


@contextmanager
def tuned(spark: SparkSession, folders: Sequence[Path]) -> Iterator[None]:
    """Set up the session for queries over the frames in `folders` until the block ends."""
    options = _FOR_FEW if few(folders) else {}
    before = {name: spark.conf.get(name) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.set(name, str(earlier))

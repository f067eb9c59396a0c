"""Measures of a Mininet-WiFi script's run (`emulation.mn`): a file of this folder for each concept.

A file has its tables' columns, the functions that make their rows, and the figures and text tables
that the report shows of them.  Rows are made by pandas from the medium's record and from the
captures of one run: Spark takes longer to start than all of it.

Times are seconds since the network was built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql.types import StructField, StructType

from capture.fields import Fields
from capture.scan import as_bytes, read_header, record_offsets, record_times
from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column


class ScriptTable(NamedTuple):
    """One table: its name is that of its Parquet file."""

    name: str
    description: str
    schema: StructType


def script_table(name: str, description: str, *columns: StructField) -> ScriptTable:
    """Return a table with these columns."""
    return ScriptTable(name, description, StructType(list(columns)))


TIME: Final = column("time", DOUBLE, "s since the network was built")
SECOND: Final = column("second", LONG, "s since the network was built, whole: the second begun")
INTERFACE: Final = column("interface", STRING, "name of the interface, as sta1-wlan0")
LAST: Final = "heard"
"""The table that is written last: if it exists, all do."""
RECORDED: Final = "Recorded once a second from the medium."


@dataclass(frozen=True)
class ScriptTables:
    """A run's tables and the description of its network."""

    network: Mapping[str, Any]
    positions: pd.DataFrame
    signals: pd.DataFrame
    peers: pd.DataFrame
    associations: pd.DataFrame
    traffic: pd.DataFrame
    links: pd.DataFrame
    flows: pd.DataFrame
    heard: pd.DataFrame
    counters: pd.DataFrame
    """The medium's last counters, one row per radio."""

    @property
    def seconds(self) -> float:
        """Time of the last sample."""
        return float(self.positions["time"].max()) if len(self.positions) else 0.0


class Records(NamedTuple):
    """The records of a capture: its bytes, where each begins, when it was, its bytes on the air."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    ns: npt.NDArray[np.int64]
    """Unix nanoseconds."""
    length: npt.NDArray[np.int64]


def read_records(path: Path, shortest: int) -> Records:
    """Read the records of an Ethernet capture that hold at least `shortest` bytes of a frame.

    A damaged capture is read up to the damage.  Raises OSError and ValueError.
    """
    data = as_bytes(path.read_bytes())
    header = read_header(data)
    offsets, _stop, _reason = record_offsets(data, header)
    offsets = offsets[Fields(data, offsets).number(8, 4, header.byte_order) >= shortest]
    seconds, fractions = record_times(data, header, offsets)
    ns = seconds * 10**9 + fractions * (10**9 // header.ticks)
    return Records(data, offsets, ns, Fields(data, offsets).number(12, 4, header.byte_order))

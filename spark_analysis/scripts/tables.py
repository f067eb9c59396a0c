"""A script's run folder as tables: positions, levels, associations, traffic.

`save` writes them as Parquet into `metrics/`; `schemas` has their columns and units.

Traffic, links and frames heard by monitors come from the captures; a damaged capture is read up to
the damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from capture.fields import Fields
from capture.radiotap import decode_air
from capture.scan import (
    RADIOTAP,
    RECORD_HEADER,
    as_bytes,
    read_header,
    record_offsets,
    record_times,
)
from emulation.mn.record import NETWORK
from emulation.mn.recording import SAMPLES
from emulation.radio.mac import mac_number
from spark_analysis.engine.tables import typed, write
from spark_analysis.errors import AnalysisError
from spark_analysis.scripts.flows import flows
from spark_analysis.scripts.schemas import LINKS, SCRIPT_TABLES, TRAFFIC

ETHERNET: Final = 14
"""Bytes of an Ethernet header."""
SIGNAL_AT: Final = 22
"""Offset of the level in a monitor's radiotap header."""
LAST: Final = SCRIPT_TABLES[-1].name
"""The table that `save` writes last: if it exists, all do."""
GROUP: Final = "everybody"
"""Destination of broadcasts and multicasts."""


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
    """The medium's last counters, one row a radio."""

    @property
    def seconds(self) -> float:
        """Time of the last sample."""
        return float(self.positions["time"].max()) if len(self.positions) else 0.0


def make(folder: Path, into: Path) -> ScriptTables:
    """Write the tables of a script's run folder into a folder, and return them.

    Raises `AnalysisError`, also if the script built no network.
    """
    if not (folder / NETWORK).is_file():
        raise AnalysisError(f"{folder} has no tables: its script ended without building a network")
    try:
        tables = read(folder)
        save(tables, into)
    except (FileNotFoundError, ValueError, KeyError) as error:
        raise AnalysisError(f"the record of {folder} is damaged: {error}") from None
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename or into}"
        raise AnalysisError(f"cannot make the tables of {folder}: {reason}") from None
    return tables


def read(folder: Path) -> ScriptTables:
    """Read a script's run folder.  Raises OSError and ValueError if it is not one."""
    network = json.loads((folder / NETWORK).read_text(encoding="utf-8"))
    samples = list(_samples(folder / SAMPLES))
    positions = [
        {"time": sample["time"], "node": name, "x": x, "y": y, "z": z}
        for sample in samples
        for name, (x, y, z) in sample["positions"].items()
    ]
    columns = ("interface", "node", "access_point", "signal_dbm", "rate_mbps", "tx_power_dbm")
    signals = [
        {"time": sample["time"], **{key: radio.get(key) for key in (*columns, "channel")}}
        | {"access_point": radio.get("connected_to")}
        for sample in samples
        for radio in sample["radios"]
    ]
    peers = [(sample["time"], *row) for sample in samples for row in sample.get("peers", ())]
    associations = [
        {key: event.get(key) for key in ("time", "interface", "old", "new")}
        for sample in samples
        for event in sample["events"]
    ]
    last = samples[-1]["radios"] if samples else []
    counters = [
        {"interface": radio["interface"], "node": radio["node"], **(radio.get("counters") or {})}
        for radio in last
    ]
    wired = [row for row in network.get("interfaces", ()) if row["mac"]]
    owners = {mac_number(row["mac"]): row["node"] for row in (*wired, *network["radios"])}
    traffic, links = _traffic(folder / "captures", network, owners)
    return ScriptTables(
        network,
        pd.DataFrame(positions, columns=["time", "node", "x", "y", "z"]),
        pd.DataFrame(signals, columns=["time", *columns, "channel"]),
        pd.DataFrame(peers, columns=["time", "interface", "sender", "signal_dbm"]),
        pd.DataFrame(associations, columns=["time", "interface", "old", "new"]),
        traffic,
        links,
        flows(folder / "captures", network),
        _heard(folder / "captures", network, owners),
        pd.DataFrame(counters),
    )


def save(tables: ScriptTables, folder: Path) -> None:
    """Write the tables as Parquet.  Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in SCRIPT_TABLES:
        table = typed(getattr(tables, kind.name), kind.schema)
        write(table, kind.schema, folder / f"{kind.name}.parquet")


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of the record."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            with suppress(ValueError):  # the last line of a run that was killed
                yield json.loads(line)


def _traffic(
    folder: Path, network: Mapping[str, Any], owners: Mapping[int, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Count the frames of all captures, by second and by destination."""
    radios = {radio["interface"]: radio for radio in network["radios"]}
    stations = [mac_number(radio["mac"]) for radio in radios.values()]
    traffic, links = [], []
    for path in sorted(folder.glob("*.pcap")):
        try:
            frames = read_frames(path)
        except (OSError, ValueError):
            continue
        interface, radio = path.stem, radios.get(path.stem)
        own = mac_number(radio["mac"]) if radio is not None else None
        sent = frames.source == own if own is not None else np.zeros(len(frames.ns), bool)
        if radio is not None and radio["mode"] == "master":
            sent |= ~np.isin(frames.source, stations)  # relayed from behind it
        counted = pd.DataFrame(
            {
                "interface": interface,
                "second": np.maximum((frames.ns - int(network["epoch_ns"])) // 10**9, 0),
                "sent_frames": sent.astype(np.int64),
                "sent_bytes": np.where(sent, frames.length, 0),
                "received_frames": (~sent).astype(np.int64),
                "received_bytes": np.where(sent, 0, frames.length),
            }
        )
        traffic.append(_summed(counted, "interface", "second"))
        if radio is not None:
            ways = {"to": frames.target[sent], "frames": 1, "bytes": frames.length[sent]}
            link = _summed(pd.DataFrame(ways), "to")
            link["to"] = [owners.get(to) or _named(to) for to in link["to"].tolist()]
            link.insert(0, "node", radio["node"])
            link.insert(0, "interface", interface)
            links.append(_summed(link, "interface", "node", "to"))
    return _together(traffic, TRAFFIC.schema.names), _together(links, LINKS.schema.names)


def _summed(frame: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Return one row for each combination of `keys`, with the sums of the other columns."""
    return frame.groupby(list(keys), as_index=False).sum()


def _together(parts: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(columns))


def _heard(folder: Path, network: Mapping[str, Any], owners: Mapping[int, str]) -> pd.DataFrame:
    """Count the frames that each monitor heard, by second and transmitter."""
    epoch = int(network["epoch_ns"])
    keys = ["monitor", "second", "transmitter"]
    columns = [*keys, "frames", "retries", "signal_dbm"]
    tables = []
    for path in sorted(folder.glob("*.pcap")):
        try:
            data = as_bytes(path.read_bytes())
            header = read_header(data, RADIOTAP)
        except (OSError, ValueError):
            continue  # from another interface
        offsets, _stop, _reason = record_offsets(data, header)
        air = decode_air(data, header, offsets)
        # What `emulation.media.radiotap_wire` writes: time, flags, rate, channel, signal.
        radiotap = Fields(data, offsets + RECORD_HEADER)
        has_signal = radiotap.little(4, 4) >> 5 & 1
        signal = radiotap.little(SIGNAL_AT, 1).astype(np.int8)
        transmitters, which = np.unique(air["transmitter"], return_inverse=True)
        names = [owners.get(mac) or _named(mac) for mac in transmitters.tolist()]
        frames = pd.DataFrame(
            {
                "monitor": path.stem,
                "second": np.maximum((air["time_ns"] - epoch) // 10**9, 0),
                "transmitter": np.array(names, object)[which],
                "retry": air["retry"],
                "signal_dbm": np.where(has_signal, signal, np.nan),
            }
        )
        counts = frames.groupby(keys, as_index=False).agg(
            frames=("retry", "size"), retries=("retry", "sum"), signal_dbm=("signal_dbm", "mean")
        )
        tables.append(counts[columns])
    return _together(tables, columns)


def _named(address: int) -> str:
    if address >> 40 & 1:
        return GROUP
    return ":".join(f"{address:012x}"[at : at + 2] for at in range(0, 12, 2))


@dataclass(frozen=True)
class Frames:
    """One capture: a row a frame."""

    ns: npt.NDArray[np.int64]
    """Unix nanoseconds."""
    length: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]


def read_frames(path: Path) -> Frames:
    """Read the frames of an Ethernet capture.  Raises OSError and ValueError."""
    data = as_bytes(path.read_bytes())
    header = read_header(data)
    offsets, _stop, _reason = record_offsets(data, header)
    offsets = offsets[Fields(data, offsets).number(8, 4, header.byte_order) >= ETHERNET]
    seconds, fractions = record_times(data, header, offsets)
    record = Fields(data, offsets)
    return Frames(
        seconds * 10**9 + fractions * (10**9 // header.ticks),
        record.number(12, 4, header.byte_order),
        record.big(RECORD_HEADER + 6, 6),
        record.big(RECORD_HEADER, 6),
    )

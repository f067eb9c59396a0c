"""What the captures of a script's run hold: frames by the second, by destination, on the air."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from capture.fields import Fields
from capture.radiotap import DATA, decode_air
from capture.scan import RADIOTAP, RECORD_HEADER, as_bytes, read_header, record_offsets
from emulation.radio.mac import mac_number
from nodeapp.headers import ETHERNET_LENGTH
from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.measures.script import (
    INTERFACE,
    SECOND,
    ScriptTables,
    read_records,
    script_table,
)
from spark_analysis.measures.script.curves import Curves, by_second, over_time
from spark_analysis.report.figures import Drawing, empty_drawing
from spark_analysis.report.quantities import count, number, quantity
from spark_analysis.report.text_table import TextTable

SIGNAL_AT: Final = 22
"""Offset of the level in a monitor's radiotap header."""
GROUP: Final = "everybody"
"""Destination of broadcasts and multicasts."""

TRAFFIC: Final = script_table(
    "traffic",
    "one row a captured interface and second with frames",
    INTERFACE,
    SECOND,
    column("sent_frames", LONG, "frames of the radio, or relayed by it; 0 if it is no radio"),
    column("sent_bytes", LONG, "bytes of these, from the Ethernet header"),
    column("received_frames", LONG, "all other frames of the capture"),
    column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
)
LINKS: Final = script_table(
    "links",
    "one row a radio and destination of what it sent",
    INTERFACE,
    column("node", STRING, "name of the radio's node"),
    column("to", STRING, "name of a node, everybody (broadcast, multicast), or an address"),
    column("frames", LONG, "frames in the capture of the radio"),
    column("bytes", LONG, "bytes of these, from the Ethernet header"),
)
HEARD: Final = script_table(
    "heard",
    "one row a monitor, second and transmitter: data frames on the air",
    column("monitor", STRING, "interface of the monitor"),
    SECOND,
    column("transmitter", STRING, "name of a node, or an address"),
    column("frames", LONG, "data frames"),
    column("retries", LONG, "of these, tries after the first"),
    column("signal_dbm", DOUBLE, "dBm, mean of those received; null: it sent them"),
)


def traffic_and_links(folder: Path, network: Mapping[str, Any]) -> tuple[pd.DataFrame, ...]:
    """Return the rows of `TRAFFIC` and of `LINKS`, from the captures in a folder."""
    owners = _owners(network)
    radios = {radio["interface"]: radio for radio in network["radios"]}
    stations = [mac_number(radio["mac"]) for radio in radios.values()]
    traffic, links = [], []
    for path in sorted(folder.glob("*.pcap")):
        try:
            records = read_records(path, ETHERNET_LENGTH)
        except (OSError, ValueError):
            continue
        frame = Fields(records.data, records.offsets + RECORD_HEADER)
        target, source = frame.big(0, 6), frame.big(6, 6)
        interface, radio = path.stem, radios.get(path.stem)
        own = mac_number(radio["mac"]) if radio is not None else None
        sent = source == own if own is not None else np.zeros(len(source), bool)
        if radio is not None and radio["mode"] == "master":
            sent |= ~np.isin(source, stations)  # relayed from behind it
        counted = pd.DataFrame(
            {
                "interface": interface,
                "second": np.maximum((records.ns - int(network["epoch_ns"])) // 10**9, 0),
                "sent_frames": sent.astype(np.int64),
                "sent_bytes": np.where(sent, records.length, 0),
                "received_frames": (~sent).astype(np.int64),
                "received_bytes": np.where(sent, 0, records.length),
            }
        )
        traffic.append(_summed(counted, "interface", "second"))
        if radio is not None:
            ways = {"to": target[sent], "frames": 1, "bytes": records.length[sent]}
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


def _owners(network: Mapping[str, Any]) -> dict[int, str]:
    """Return the nodes by the address of each interface."""
    wired = [row for row in network.get("interfaces", ()) if row["mac"]]
    return {mac_number(row["mac"]): row["node"] for row in (*wired, *network["radios"])}


def heard(folder: Path, network: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of `HEARD`, from the captures in a folder."""
    owners, epoch = _owners(network), int(network["epoch_ns"])
    keys = ["monitor", "second", "transmitter"]
    columns = HEARD.schema.names
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
        frames = frames[air["is_frame"] & (air["type"] == DATA)]
        counts = frames.groupby(keys, as_index=False).agg(
            frames=("retry", "size"), retries=("retry", "sum"), signal_dbm=("signal_dbm", "mean")
        )
        tables.append(counts[columns])
    return _together(tables, columns)


def _named(address: int) -> str:
    if address >> 40 & 1:
        return GROUP
    return ":".join(f"{address:012x}"[at : at + 2] for at in range(0, 12, 2))


def draw_throughput(tables: ScriptTables) -> Drawing:
    """Draw the bits per second that each radio sent."""
    title = "Sent by each radio"
    caption = "Frames in the capture of a radio with its own source address, by the second."
    curves: Curves = {}
    for name, group in tables.traffic.groupby("interface"):
        times, sent = by_second(group, "sent_bytes", max(tables.seconds, 1))
        if sent.any():
            curves[str(name)] = (times, 8 * sent)
    if not curves:
        return empty_drawing(title, caption, "No capture has frames of a radio.")
    return over_time(title, caption, curves, "sent", "b/s")


def radio_table(tables: ScriptTables) -> TextTable:
    """Return the table of radios: their settings, and the medium's counters."""
    counters = tables.counters.set_index("interface") if len(tables.counters) else pd.DataFrame()
    names = ("tx_frames", "tx_retries", "tx_failed", "rx_frames")
    rows = []
    for radio in tables.network["radios"]:
        name = radio["interface"]
        counted = counters.loc[name] if name in counters.index else {}
        cells = [count(float(counted[column])) if column in counted else "–" for column in names]
        what = radio["ssid"] or "any"
        rows.append([name, radio["mode"], what, number(radio["tx_power_dbm"]), *cells])
    head = ("Radio", "Mode", "Network", "dBm", "Sent", "Sent again", "Given up", "Received")
    note = "The medium's counters at the end: frames of its radios, tries after the first."
    return TextTable("Radios", note, head, rows, words=3, empty="No node has a radio.")


def link_table(tables: ScriptTables) -> TextTable:
    """Return the table of links: frames by sending radio and destination."""
    span = max(tables.seconds, 1e-9)
    ordered = tables.links.sort_values("bytes", ascending=False)
    rows = [
        [
            row.interface, row.to, count(float(row.frames)), quantity(float(row.bytes), "B"),
            quantity(8 * float(row.bytes) / span, "b/s"),
        ]
        for row in tuples(ordered)
    ]  # fmt: skip
    note = "Frames in the captures of the radios that sent them, by Ethernet destination."
    head = ("Radio", "To", "Frames", "Bytes", "Mean rate")
    return TextTable("Links", note, head, rows, words=2, empty="Nothing was captured.")


def monitor_table(tables: ScriptTables) -> TextTable:
    """Return the table of monitors: frames heard, tries after the first, levels."""
    rows = []
    for (monitor, node), group in tables.heard.groupby(["monitor", "transmitter"]):
        levels = group["signal_dbm"].dropna()
        span = "its own" if levels.empty else f"{levels.min():.0f} to {levels.max():.0f}"
        counts = [count(float(group[column].sum())) for column in ("frames", "retries")]
        rows.append([str(monitor), str(node), *counts, span])
    note = "Data frames in the captures of monitors, by transmitter; levels are means of a second."
    head = ("Monitor", "Transmitter", "Frames", "Tried again", "dBm")
    return TextTable("Monitors", note, head, rows, words=2, empty="No monitor heard a frame.")

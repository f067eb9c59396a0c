"""The flows of a script's run, from its captures alone: who sent what to whom, and what arrived.

Theory of operation.  A packet that a node sends is in a capture of the node; if it arrives, it is
in one of the destination too.  Both are matched by what does not change on the way: protocol,
addresses, ports, length, the IPv4 identification, and numbers of TCP or the first eight bytes of
data; packets that are alike, in their order.  What reached a node whose captures could not be read,
or that has none, as access points, is not known.  Addresses are those of the nodes' own
interfaces (`network.json`).  An echo request is answered if the reply is in the same capture.

A flow of TCP is one direction that carries data; sent again, a segment counts as sent twice.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from capture.fields import Fields
from capture.scan import RECORD_HEADER
from nodeapp.headers import ETHERNET_LENGTH, IP_LENGTH, IPV4, UDP, UDP_LENGTH
from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column
from spark_analysis.engine.pandas_rows import tuples
from spark_analysis.measures.script import ScriptTables, read_records, script_table
from spark_analysis.report.quantities import count, quantity, seconds
from spark_analysis.report.text_table import TextTable

PADDED: Final = ETHERNET_LENGTH + IP_LENGTH + UDP_LENGTH
"""Bytes of the shortest frame that counts: UDP and ICMP without data."""
ICMP, TCP = 1, 6
NAMES: Final = {ICMP: "ping", TCP: "TCP", UDP: "UDP"}
REPLY, REQUEST = 0, 8
KEY: Final = ["protocol", "source", "target", "source_port", "target_port"]
ALIKE: Final = [*KEY, "length", "ident", "word", "next_word"]
MOST_FLOWS: Final = 50
"""Rows of the table of flows."""

FLOWS: Final = script_table(
    "flows",
    "one row a flow, from the captures of its ends",
    column("protocol", STRING, "ping, TCP or UDP"),
    column("source", STRING, "name of the node that sends, or an address"),
    column("source_port", LONG, "port; 0 of a ping"),
    column("to", STRING, "name of the node that it is for, or an address"),
    column("to_port", LONG, "port; 0 of a ping"),
    column("began", DOUBLE, "s since the network was built: the first packet"),
    column("seconds", DOUBLE, "s from the first packet to the last"),
    column("sent", LONG, "packets with data in the captures of the source"),
    column("delivered", LONG, "of a ping: answered; else: in captures of the destination"),
    column("bytes", LONG, "bytes of data sent"),
    column("rtt_ms", DOUBLE, "ms, mean round-trip time of a ping"),
    column("delay_ms", DOUBLE, "ms, mean time on the way"),
    column("throughput_bps", DOUBLE, "b/s of data that arrived"),
)


def flows(folder: Path, network: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per flow (`FLOWS`) of the captures in a folder."""
    owners = {int(key): name for key, name in network.get("addresses", {}).items()}
    nodes = {row["interface"]: row["node"] for row in network.get("interfaces", ())}
    captured, parts = set(), []
    for node, of_node in _packets(folder, nodes):
        captured.add(node)
        parts.append(of_node)
    columns = FLOWS.schema.names
    if not parts:
        return pd.DataFrame(columns=columns)
    packets = pd.concat(parts, ignore_index=True)
    packets["from"] = packets["source"].map(owners)
    packets["to"] = packets["target"].map(owners)
    packets["time"] = (packets["ns"] - int(network["epoch_ns"])) / 1e9
    packets = packets.sort_values("ns", kind="stable")
    sent = packets[packets["node"] == packets["from"]]
    arrived = packets[packets["node"] == packets["to"]]
    echo = packets["protocol"] == ICMP
    rows = [*_pings(packets[echo]), *_streams(sent, arrived, captured)]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("began", kind="stable").reset_index(drop=True)


def _packets(folder: Path, nodes: Mapping[str, str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the node and the IPv4 packets of each capture of a node's own interface."""
    for path in sorted(folder.glob("*.pcap")):
        if path.stem not in nodes:
            continue
        try:
            data, offsets, ns, _ = read_records(path, PADDED)
        except (OSError, ValueError):
            continue  # damaged, or a monitor's
        frame = Fields(data, offsets + RECORD_HEADER)
        options = 4 * (frame.big(14, 1) & 15) - 20
        packet = Fields(data, offsets + RECORD_HEADER + options)  # as if it had no IPv4 options
        protocol = frame.big(23, 1)
        wanted = (frame.big(12, 2) == IPV4) & np.isin(protocol, (ICMP, TCP, UDP))
        wanted &= frame.big(20, 2) & 0x1FFF == 0  # not a later fragment
        header_bytes = np.where(protocol == TCP, 4 * (packet.big(46, 1) >> 4), 8)
        length = frame.big(16, 2)
        payload = np.maximum(length - options - 20 - header_bytes, 0)
        echo, datagram = protocol == ICMP, protocol == UDP  # whose checksum may yet be missing
        data_words = [packet.big(at, 4) * (payload >= at - 38) for at in (42, 46)]
        every = pd.DataFrame(
            {
                "node": nodes[path.stem],
                "ns": ns,
                "protocol": protocol,
                "source": frame.big(26, 4),
                "target": frame.big(30, 4),
                "source_port": np.where(echo, 0, packet.big(34, 2)),
                "target_port": np.where(echo, 0, packet.big(36, 2)),
                "kind": packet.big(34, 1),
                "length": length,
                "payload": payload,
                "ident": frame.big(18, 2),
                "word": np.where(datagram, data_words[0], packet.big(38, 4)),
                "next_word": np.where(datagram, data_words[1], packet.big(42, 4)),
            }
        )
        yield nodes[path.stem], every[wanted]


def _pings(packets: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a row for each pair of nodes of which one pings the other."""
    own = packets[packets["node"] == packets["from"]]
    asked = own[own["kind"] == REQUEST]
    back = packets[(packets["kind"] == REPLY) & (packets["node"] == packets["to"])]
    replies = {
        (row[0], row[1], row[2]): row[3]
        for row in back[["source", "target", "word", "ns"]].itertuples(index=False)
    }
    for (source, target), group in asked.groupby(["source", "target"], sort=False):
        trips = [
            (replies[target, source, word] - ns) / 1e6
            for word, ns in zip(group["word"], group["ns"], strict=True)
            if (target, source, word) in replies
        ]
        yield _row(group, delivered=len(trips), rtt_ms=_mean(trips))


def _streams(
    sent: pd.DataFrame, arrived: pd.DataFrame, captured: Container[str]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each flow of TCP and UDP that carries data; `captured` are the nodes."""
    there = dict(iter(arrived.groupby(KEY, sort=False)))
    for key, group in sent[sent["protocol"] != ICMP].groupby(KEY, sort=False):
        data = group[group["payload"] > 0]
        if data.empty:
            continue
        got = there.get(key)
        if got is None:
            yield _row(data, delivered=0 if data["to"].iloc[0] in captured else None)
            continue
        got = got[got["payload"] > 0]
        one, other = _numbered(data), _numbered(got)
        pairs = one.merge(other, on=[*ALIKE, "number"], suffixes=("", "_there"))
        span = (got["ns"].max() - data["ns"].min()) / 1e9 if len(got) else 0.0
        yield _row(
            data,
            delivered=len(got),
            delay_ms=_mean(((pairs["ns_there"] - pairs["ns"]) / 1e6).tolist()),
            throughput_bps=8 * float(got["payload"].sum()) / span if span > 0 else None,
        )


def _numbered(packets: pd.DataFrame) -> pd.DataFrame:
    """Return packets with their number among those that are alike."""
    return packets[[*ALIKE, "ns"]].assign(number=packets.groupby(ALIKE).cumcount())


def _row(
    sent: pd.DataFrame,
    *,
    delivered: int | None,
    rtt_ms: float | None = None,
    delay_ms: float | None = None,
    throughput_bps: float | None = None,
) -> dict[str, Any]:
    first = sent.iloc[0]
    return {
        "protocol": NAMES[int(first["protocol"])],
        "source": _name(first["from"], first["source"]),
        "source_port": int(first["source_port"]),
        "to": _name(first["to"], first["target"]),
        "to_port": int(first["target_port"]),
        "began": float(first["time"]),
        "seconds": float(sent["time"].iloc[-1] - first["time"]),
        "sent": len(sent),
        "delivered": delivered,
        "bytes": int(sent["payload"].sum()),
        "rtt_ms": rtt_ms,
        "delay_ms": delay_ms,
        "throughput_bps": throughput_bps,
    }


def _name(node: object, address: int) -> str:
    return node if isinstance(node, str) else str(ipaddress.IPv4Address(int(address)))


def _mean(values: list[float]) -> float | None:
    array: npt.NDArray[np.float64] = np.array(values, np.float64)
    return float(array.mean()) if len(array) else None


def flow_table(tables: ScriptTables) -> TextTable:
    """Return the table of flows, those with the most data if there are many."""
    ordered = tables.flows.sort_values("bytes", ascending=False).head(MOST_FLOWS)
    rows = []
    for row in tuples(ordered.sort_values("began", kind="stable").replace({np.nan: None})):
        ports = [f":{port}" if port else "" for port in (row.source_port, row.to_port)]
        trip = row.delay_ms if row.rtt_ms is None else row.rtt_ms
        lost = None if row.delivered is None else 1 - min(1.0, row.delivered / row.sent)
        rate = row.throughput_bps
        rows.append(
            [
                row.protocol, row.source + ports[0], row.to + ports[1], seconds(row.began),
                count(float(row.sent)),
                "–" if row.delivered is None else count(float(row.delivered)),
                "–" if lost is None else f"{100 * lost:.3g} %",
                "–" if trip is None else f"{trip:.3g} ms",
                "–" if rate is None else quantity(rate, "b/s"),
            ]
        )  # fmt: skip
    head = ("Flow", "From", "To", "Began", "Sent", "Arrived", "Lost", "Time", "Throughput")
    note = (
        "From the captures of both ends. Of pings: requests, answers, round-trip time; of TCP and "
        "UDP: packets with data, their mean delay."
    )
    if len(tables.flows) > len(rows):
        note += f" The {len(rows)} of {len(tables.flows)} with the most data."
    return TextTable("Flows", note, head, rows, words=3, empty="No flow was captured.")

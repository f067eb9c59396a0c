"""Columns of the tables that a script's run has, with their units; `tables` makes them.

Times are seconds since the network was built.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from spark_analysis.captures.schemas import DOUBLE, LONG, STRING, column


class ScriptTable(NamedTuple):
    """One table: its name is that of its Parquet file."""

    name: str
    description: str
    schema: StructType


TIME: Final = column("time", DOUBLE, "s since the network was built")
SECOND: Final = column("second", LONG, "s since the network was built, whole: the second begun")
INTERFACE: Final = column("interface", STRING, "name of the interface, as sta1-wlan0")

POSITIONS: Final = ScriptTable(
    "positions",
    "one row a node and sample (once a second): where it was",
    StructType(
        [
            TIME,
            column("node", STRING, "name of the node"),
            column("x", DOUBLE, "m"),
            column("y", DOUBLE, "m"),
            column("z", DOUBLE, "m"),
        ]
    ),
)
SIGNALS: Final = ScriptTable(
    "signals",
    "one row a radio and sample (once a second): its access point and level",
    StructType(
        [
            TIME,
            INTERFACE,
            column("node", STRING, "name of the radio's node"),
            column("access_point", STRING, "interface of its access point; null: it has none"),
            column("signal_dbm", DOUBLE, "dBm at which it receives that; null: it has none"),
            column("rate_mbps", DOUBLE, "Mb/s to that; null: it has none"),
            column("tx_power_dbm", DOUBLE, "dBm at which it sends"),
            column("channel", LONG, "number of its channel; null: it is on none"),
        ]
    ),
)
PEERS: Final = ScriptTable(
    "peers",
    "how radios without access points hear each other; a row if the level has changed by more than "
    "1 dB, and every 10 s; of more than 30 such radios, of each one's 8 strongest",
    StructType(
        [
            TIME,
            column("interface", STRING, "interface of the radio that hears"),
            column("sender", STRING, "interface of the radio that it hears"),
            column("signal_dbm", DOUBLE, "dBm"),
        ]
    ),
)
ASSOCIATIONS: Final = ScriptTable(
    "associations",
    "one row a change of access point",
    StructType(
        [
            TIME,
            column("interface", STRING, "interface of the station"),
            column("old", STRING, "interface of the access point before; null: none"),
            column("new", STRING, "interface of the access point from then on; null: none"),
        ]
    ),
)
TRAFFIC: Final = ScriptTable(
    "traffic",
    "one row a captured interface and second with frames",
    StructType(
        [
            INTERFACE,
            SECOND,
            column(
                "sent_frames",
                LONG,
                "frames of the radio, or relayed by it; 0 if it is no radio",
            ),
            column("sent_bytes", LONG, "bytes of these, from the Ethernet header"),
            column("received_frames", LONG, "all other frames of the capture"),
            column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
        ]
    ),
)
LINKS: Final = ScriptTable(
    "links",
    "one row a radio and destination of what it sent",
    StructType(
        [
            INTERFACE,
            column("node", STRING, "name of the radio's node"),
            column("to", STRING, "name of a node, everybody (broadcast, multicast), or an address"),
            column("frames", LONG, "frames in the capture of the radio"),
            column("bytes", LONG, "bytes of these, from the Ethernet header"),
        ]
    ),
)
HEARD: Final = ScriptTable(
    "heard",
    "one row a monitor, second and transmitter: data frames on the air",
    StructType(
        [
            column("monitor", STRING, "interface of the monitor"),
            SECOND,
            column("transmitter", STRING, "name of a node, or an address"),
            column("frames", LONG, "data frames"),
            column("retries", LONG, "of these, tries after the first"),
            column("signal_dbm", DOUBLE, "dBm, mean of those received; null: it sent them"),
        ]
    ),
)
FLOWS: Final = ScriptTable(
    "flows",
    "one row a flow, from the captures of its ends",
    StructType(
        [
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
        ]
    ),
)
SCRIPT_TABLES: Final = (POSITIONS, SIGNALS, PEERS, ASSOCIATIONS, TRAFFIC, LINKS, FLOWS, HEARD)

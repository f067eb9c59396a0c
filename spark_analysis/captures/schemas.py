"""Columns of what the captures hold, and those that many tables have; units in their comments.

`FRAMES` is what the pcap data source yields: one row per captured packet.  What is made
of them is declared in each measure (`spark_analysis.measures`).

Times.  `time_ns` is Unix time in nanoseconds, as captured.  `time` in results is seconds into the
run: since the scenario's time 0 (`epoch_ns` of the run), negative for what came before.

Receivers.  A subscriber is a client: a UDP port on one node's loopback interface.  An event is due
to a client at most once however many of its subscriptions match, so deliveries are counted per
(event, node, client port).

Ratios and means of nothing are null.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

STRING: Final = StringType()
LONG: Final = LongType()
LONGS: Final = ArrayType(LONG)
INT: Final = IntegerType()
SHORT: Final = ShortType()
DOUBLE: Final = DoubleType()
BOOLEAN: Final = BooleanType()
BINARY: Final = BinaryType()
TIMESTAMP: Final = TimestampType()


def column(name: str, kind: DataType, comment: str) -> StructField:
    """Return a nullable column with a comment."""
    return StructField(name, kind, True, {"comment": comment})


RUN: Final = column("run", STRING, "name of the run folder")


def run_schema(*columns: StructField) -> StructType:
    """Return a schema: the column `run`, and then these."""
    return StructType([RUN, *columns])


PUBLISHER: Final = column("publisher", LONG, "event id: node id of the publisher")
SEQUENCE: Final = column("sequence", LONG, "event id: the publisher's sequence number")
RECEIVER: Final = column("receiver", LONG, "node id of the subscriber's node")
CLIENT: Final = column("client", INT, "UDP port of the subscriber on its node's loopback")
LOCAL: Final = column("local", BOOLEAN, "the subscriber is at the publisher's own node")

FRAMES: Final = run_schema(
    column("node", STRING, "name of the node that captured the packet"),
    column("interface", STRING, "wlan0, mesh0 (radios), eth0 (wire) or lo (loopback: clients)"),
    column("number", LONG, "record number in the capture file, from 1"),
    column("time_ns", LONG, "Unix time, ns"),
    column("time", TIMESTAMP, "UTC, cut to microseconds"),
    column("length", INT, "bytes on the wire, from the Ethernet header"),
    column("ip_src", LONG, "IPv4 source as an integer; null if not IPv4"),
    column("ip_dst", LONG, "IPv4 destination as an integer; null if not IPv4"),
    column("port_src", INT, "UDP or TCP source port; null if there is none"),
    column("port_dst", INT, "UDP or TCP destination port; null if there is none"),
    column("dscp", SHORT, "code point of the DS field; null if not IPv4"),
    column("kind", SHORT, "message kind; null, like all that follow, if not a testbed frame"),
    column("flags", SHORT, "header flags"),
    column("ttl", SHORT, "radio hops still allowed after this one"),
    column("hops", SHORT, "radio hops made, this one included; 0 only on loopback"),
    column("route_length", INT, "bytes of the routing extension"),
    column("addressees", LONGS, "node ids that a broadcast lists as its addressees; null: all"),
    column("body_length", INT, "bytes of the body"),
    column("originator", LONG, "node id, or a client's request token on loopback"),
    column("destination", LONG, "node id of the final destination"),
    PUBLISHER,
    SEQUENCE,
    column("route", BINARY, "routing extension of frames that cells route; null: of others"),
    column("body", BINARY, "CBOR; of clients' messages and control that cells route, or all"),
)
"""One packet of one capture."""

FOREIGN_FRAMES: Final = run_schema(
    column("node", STRING, "name of the node that captured the frame"),
    column("interface", STRING, "of the radio"),
    column("number", LONG, "record number in the capture file, from 1"),
    column("sender", LONG, "id of the node whose radio sent it; null: no node's"),
    column("label", STRING, "what it is for (capture.foreign); null: not of the system"),
    column("first_hop", BOOLEAN, "its sender made it, and does not forward it"),
    column("publishers", LONGS, "of the events in it, ..."),
    column("sequences", LONGS, "... and their sequence numbers"),
)
"""One frame of a radio capture in the run of a middleware."""

AIR_FRAMES: Final = run_schema(
    column("number", LONG, "record number in the capture file, from 1"),
    column("time_ns", LONG, "Unix time, ns"),
    column("length", INT, "bytes on the air, frame check sequence included"),
    column("rate_kbps", INT, "kb/s; null if the capture has no rate, or an HT one"),
    column("short_preamble", BOOLEAN, "of a DSSS or CCK frame"),
    column("frequency_mhz", INT, "MHz, centre of the channel; null if not known"),
    column("type", SHORT, "802.11 type: 0 management, 1 control, 2 data"),
    column("subtype", SHORT, "802.11 subtype"),
    column("retry", BOOLEAN, "the Retry bit is set"),
    column("receiver", LONG, "receiver address as a 48-bit number"),
    column("transmitter", LONG, "transmitter address; null if the frame has none"),
)
"""One 802.11 frame in the capture of the air."""

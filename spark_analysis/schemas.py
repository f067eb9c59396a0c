"""Columns of everything the analysis reads and writes, with their units in the column comments.

`FRAMES` is what the pcap data source yields: one row a captured packet.  Every other schema is the
result of one job, and with the job's name also a Parquet file in the run's `metrics` folder.

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
PUBLISHER: Final = column("publisher", LONG, "event id: node id of the publisher")
SEQUENCE: Final = column("sequence", LONG, "event id: the publisher's sequence number")
RECEIVER: Final = column("receiver", LONG, "node id of the subscriber's node")
CLIENT: Final = column("client", INT, "UDP port of the subscriber on its node's loopback")
LOCAL: Final = column("local", BOOLEAN, "the subscriber is at the publisher's own node")

FRAMES: Final = StructType(
    [
        RUN,
        column("node", STRING, "name of the node that captured the packet"),
        column("interface", STRING, "wlan0, mesh0 (radios), eth0 (wire) or lo (loopback: clients)"),
        column("number", LONG, "record number in the capture file, from 1"),
        column("time_ns", LONG, "Unix time, ns"),
        column("time", TIMESTAMP, "UTC, cut to microseconds"),
        column("length", INT, "bytes on the wire, from the Ethernet header"),
        column("ip_src", LONG, "IPv4 source as an integer; null where not IPv4"),
        column("ip_dst", LONG, "IPv4 destination as an integer; null where not IPv4"),
        column("port_src", INT, "UDP or TCP source port; null where there is none"),
        column("port_dst", INT, "UDP or TCP destination port; null where there is none"),
        column("dscp", SHORT, "code point of the DS field; null where not IPv4"),
        column("kind", SHORT, "message kind; null, as all that follow, where no testbed frame"),
        column("flags", SHORT, "header flags"),
        column("ttl", SHORT, "radio hops still allowed after this one"),
        column("hops", SHORT, "radio hops made, this one included; 0 only on loopback"),
        column("route_length", INT, "bytes of the routing extension"),
        column("body_length", INT, "bytes of the body"),
        column("originator", LONG, "node id, or a client's request token on loopback"),
        column("destination", LONG, "node id of the final destination"),
        PUBLISHER,
        SEQUENCE,
        column("body", BINARY, "CBOR; of client messages only unless option body=all"),
    ]
)
"""One packet of one capture."""

NODES: Final = StructType(
    [
        RUN,
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("ip", LONG, "the node's IPv4 address as an integer"),
        column("access_point", STRING, "whose radios send for it; null where it has its own"),
        column("radio_captured", BOOLEAN, "readable captures of all these radios exist"),
        column("loopback_captured", BOOLEAN, "a readable capture of the loopback exists"),
    ]
)
"""One node of a scenario."""

SUBSCRIPTIONS: Final = StructType(
    [
        RUN,
        column("node_id", LONG, "node id of the subscriber's node"),
        CLIENT,
        column("subscription", LONG, "the client's number for the subscription"),
        column("filter", STRING, "the filter as text"),
        column("topic", STRING, "value of the predicate `topic = ...`; null where there is none"),
        column("body", BINARY, "body of the SUBSCRIBE: filter and the subscriber's attributes"),
        column("from_ns", LONG, "Unix time of the first SUBSCRIBE, ns"),
        column("until_ns", LONG, "Unix time of the UNSUBSCRIBE or end of the lease, ns; exclusive"),
        column("renewals", INT, "SUBSCRIBE messages after the first"),
    ]
)
"""One stretch of time in which a client was subscribed without a break."""

EVENTS: Final = StructType(
    [
        RUN,
        PUBLISHER,
        SEQUENCE,
        column("time", DOUBLE, "s into the run, when its publisher sent PUBLISH"),
        column("topic", STRING, "value of the attribute topic; null where there is none"),
        column("attributes", STRING, "the event's attributes as JSON"),
        column("policy", STRING, "access policy as text; null where it has none"),
        column("size", INT, "bytes of the event body"),
        column("settled", BOOLEAN, "published early enough before the end to be counted"),
        column("expected", INT, "clients that should receive the event"),
        column("received", INT, "clients out of `expected` that received it"),
        column("expected_local", INT, "of `expected`: clients at the publisher's own node"),
        column("received_local", INT, "of `received`: clients at the publisher's own node"),
        column("unexpected", INT, "clients that received it and should not have"),
        column("duplicates", INT, "notifications beyond the first per client"),
        column("ratio", DOUBLE, "received / expected; null where nobody was expected"),
    ]
)
"""One published event."""

DELIVERY: Final = StructType(
    [
        RUN,
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        CLIENT,
        LOCAL,
        column("time", DOUBLE, "s into the run of the PUBLISH; null where it was not captured"),
        column("settled", BOOLEAN, "the event counts in settled ratios; null without PUBLISH"),
        column("expected", BOOLEAN, "the client should receive the event"),
        column("notifications", INT, "NOTIFY messages of the event to the client"),
        column("delay", DOUBLE, "s from PUBLISH to the first NOTIFY; null where not received"),
        column("hops", SHORT, "radio hops of the first NOTIFY; null where not received"),
    ]
)
"""One (event, client) pair that was expected or notified or both."""

DELIVERY_OVER_TIME: Final = StructType(
    [
        RUN,
        column("time", DOUBLE, "s into the run, start of the bucket"),
        column("width", DOUBLE, "s, width of the bucket"),
        column("events", INT, "events published in the bucket"),
        column("expected", LONG, "deliveries expected of these events"),
        column("received", LONG, "deliveries made of these events, whenever"),
        column("ratio", DOUBLE, "received / expected; null where nothing was expected"),
        column("settled", BOOLEAN, "every event of the bucket is settled"),
    ]
)
"""Delivery by time of publication."""

DELAY: Final = StructType(
    [
        RUN,
        PUBLISHER,
        SEQUENCE,
        RECEIVER,
        CLIENT,
        LOCAL,
        column("time", DOUBLE, "s into the run of the PUBLISH"),
        column("hops", SHORT, "radio hops the event travelled; 0 at the publisher's node"),
        column("delay", DOUBLE, "s from PUBLISH on its loopback to NOTIFY on the receiver's"),
    ]
)
"""One delivery that was expected and made (its first NOTIFY)."""

_DELAY_STATISTICS: Final = [
    column("count", LONG, "deliveries"),
    column("mean", DOUBLE, "s"),
    column("p50", DOUBLE, "s, median"),
    column("p90", DOUBLE, "s, 90th percentile"),
    column("p99", DOUBLE, "s, 99th percentile"),
    column("max", DOUBLE, "s"),
]

DELAY_BY_HOPS: Final = StructType(
    [RUN, column("hops", SHORT, "radio hops; 0 at the publisher's node"), *_DELAY_STATISTICS]
)
"""Delay by hop count."""

OVERHEAD: Final = StructType(
    [
        RUN,
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("kind", SHORT, "message kind; null where not a testbed frame"),
        column("kind_name", STRING, "HELLO, EVENT, ...; `other` where not a testbed frame"),
        column("category", STRING, "event, control or other"),
        column("sent_frames", LONG, "frames the node's radio interface sent"),
        column("sent_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("sent_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
        column("received_frames", LONG, "frames from other nodes that it received"),
        column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("received_wire_bytes", LONG, "bytes of these in the testbed's wire format"),
        column("unattributed_frames", LONG, "packets without an IPv4 source: sender not known"),
        column("unattributed_bytes", LONG, "bytes of these, from the Ethernet header"),
    ]
)
"""Radio traffic of one node in one message kind."""

LOAD: Final = StructType(
    [
        RUN,
        column("node", STRING, "name of the node"),
        column("node_id", LONG, "node id"),
        column("second", INT, "whole second into the run"),
        column("sent_frames", LONG, "frames sent by radio in that second"),
        column("sent_bytes", LONG, "bytes sent in that second, from the Ethernet header"),
        column("received_frames", LONG, "frames received by radio in that second"),
        column("received_bytes", LONG, "bytes received in that second, from the Ethernet header"),
    ]
)
"""Radio traffic of one node in one second; seconds without any are left out."""

LINKS: Final = StructType(
    [
        RUN,
        column("receiver", LONG, "node id that heard"),
        column("sender", LONG, "node id that was heard"),
        column("hellos", LONG, "HELLO beacons heard"),
        column("first", DOUBLE, "s into the run, first beacon"),
        column("last", DOUBLE, "s into the run, last beacon"),
    ]
)
"""Who heard whom by radio (directed)."""

PATH: Final = StructType(
    [
        RUN,
        column("time", DOUBLE, "s into the run"),
        column("node", STRING, "node that captured the frame"),
        column("interface", STRING, "wlan0 or lo"),
        column("sent", BOOLEAN, "the capturing node sent it; false: received it"),
        column("kind_name", STRING, "PUBLISH, EVENT, NOTIFY ..."),
        column("hops", SHORT, "radio hops made"),
        column("from_node", LONG, "node id of the IPv4 source; null on loopback"),
        column("to_node", LONG, "node id of the IPv4 destination; null: broadcast or loopback"),
    ]
)
"""Every captured frame of one event, in order of time."""

SUMMARY: Final = StructType(
    [
        RUN,
        column("topology", STRING, "topology of the scenario"),
        column("protocol", STRING, "publish/subscribe protocol"),
        column("backend", STRING, "backend that ran it; null where run.json is missing"),
        column("ended", STRING, "completed, interrupted, failed; null where run.json is missing"),
        column("seed", LONG, "seed of the scenario"),
        column("nodes", INT, "nodes of the scenario"),
        column("duration", DOUBLE, "s, as the scenario says"),
        column("captured", DOUBLE, "s into the run of the last packet captured"),
        column("epoch_ns", LONG, "Unix time of the scenario's time 0, ns"),
        column("epoch_estimated", BOOLEAN, "no run.json: time 0 is the first packet captured"),
        column("packets", LONG, "packets in all captures"),
        column("subscriptions", INT, "stretches of subscription (table subscriptions)"),
        column("events", INT, "events published"),
        column("events_settled", INT, "of these, published `settle` s before the end or earlier"),
        column("settle", DOUBLE, "s before the last packet after which events are not settled"),
        column("expected", LONG, "deliveries expected, settled events"),
        column("received", LONG, "of these made"),
        column("delivery_ratio", DOUBLE, "received / expected, settled events"),
        column("expected_all", LONG, "deliveries expected, all events"),
        column("received_all", LONG, "of these made"),
        column("delivery_ratio_all", DOUBLE, "received_all / expected_all"),
        column("expected_remote", LONG, "deliveries expected at other nodes, settled events"),
        column("received_remote", LONG, "of these made"),
        column("delivery_ratio_remote", DOUBLE, "received_remote / expected_remote"),
        column("unexpected", LONG, "(event, client) pairs notified and not expected"),
        column("unknown", LONG, "of these, pairs whose PUBLISH is in no capture"),
        column("duplicates", LONG, "notifications beyond the first per (event, client)"),
        column("delay_count", LONG, "deliveries at other nodes than the publisher's"),
        column("delay_mean", DOUBLE, "s, of these"),
        column("delay_p50", DOUBLE, "s, of these"),
        column("delay_p90", DOUBLE, "s, of these"),
        column("delay_p99", DOUBLE, "s, of these"),
        column("delay_max", DOUBLE, "s, of these"),
        column("hops_mean", DOUBLE, "radio hops, of these"),
        column("event_frames", LONG, "event frames sent by radio, all nodes"),
        column("event_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("control_frames", LONG, "control frames sent by radio, all nodes"),
        column("control_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("other_frames", LONG, "packets sent that are not the testbed's"),
        column("other_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("received_frames", LONG, "frames received by radio, all nodes"),
        column("received_bytes", LONG, "bytes of these, from the Ethernet header"),
        column("event_frames_per_event", DOUBLE, "event frames sent / events published"),
        column("frames_per_event", DOUBLE, "event and control frames sent / events published"),
        column("bytes_per_event", DOUBLE, "bytes of these / events published"),
        column("event_frames_per_delivery", DOUBLE, "event frames sent / deliveries (all events)"),
        column("frames_per_delivery", DOUBLE, "event and control frames sent / deliveries"),
        column("bytes_per_delivery", DOUBLE, "bytes of these / deliveries"),
        column("load_mean", DOUBLE, "bytes/s sent by a node, mean over nodes and captured time"),
        column("load_max", DOUBLE, "bytes/s sent by the busiest node, mean over captured time"),
    ]
)
"""One run."""

COUNTERS: Final = StructType(
    [
        RUN,
        column("access_point", STRING, "name of the access point"),
        column("port", STRING, "wlan0 (stations), mesh0 (mesh) or eth0 (broker)"),
        column("direction", STRING, "in or out, as the bridge sees it"),
        column("traffic_class", STRING, "class of messages by the DS field"),
        column("counted_frames", LONG, "by the bridge's flow counters"),
        column("counted_bytes", LONG, "by the bridge's flow counters, from the Ethernet header"),
        column("captured_frames", LONG, "in the capture of the port, or of the broker's wire"),
        column("captured_bytes", LONG, "bytes of these, from the Ethernet header"),
    ]
)
"""What passed one port of an access point in one direction, counted twice."""

AIR_FRAMES: Final = StructType(
    [
        RUN,
        column("number", LONG, "record number in the capture file, from 1"),
        column("time_ns", LONG, "Unix time, ns"),
        column("length", INT, "bytes on the air, frame check sequence included"),
        column("rate_kbps", INT, "kb/s; null where the capture has no rate, or an HT one"),
        column("short_preamble", BOOLEAN, "of a DSSS or CCK frame"),
        column("frequency_mhz", INT, "MHz, centre of the channel; null where not known"),
        column("type", SHORT, "802.11 type: 0 management, 1 control, 2 data"),
        column("subtype", SHORT, "802.11 subtype"),
        column("retry", BOOLEAN, "the Retry bit is set"),
        column("receiver", LONG, "receiver address as a 48-bit number"),
        column("transmitter", LONG, "transmitter address; null where the frame has none"),
    ]
)
"""One 802.11 frame in the capture of the air."""

AIRTIME: Final = StructType(
    [
        RUN,
        column("node", STRING, "node or access point that sent; null where it is neither"),
        column("node_id", LONG, "node id; of an access point, its broker's"),
        column("frame_class", STRING, "data, beacon, management, acknowledgement or control"),
        column("frames", LONG, "802.11 frames in the capture of the air"),
        column("group_frames", LONG, "of these, frames to a group address, never acknowledged"),
        column("retries", LONG, "of these, frames with the Retry bit"),
        column("bytes", LONG, "bytes of these on the air, headers and check sequence included"),
        column("airtime", DOUBLE, "s on the air, preambles included; frames of known rate"),
        column("untimed_frames", LONG, "of these, frames without a known rate"),
    ]
)
"""802.11 frames that one radio owner sent, of one class."""

TABLES: Final = {
    "summary": SUMMARY,
    "nodes": NODES,
    "subscriptions": SUBSCRIPTIONS,
    "events": EVENTS,
    "delivery": DELIVERY,
    "delivery_over_time": DELIVERY_OVER_TIME,
    "delay": DELAY,
    "delay_by_hops": DELAY_BY_HOPS,
    "overhead": OVERHEAD,
    "load": LOAD,
    "links": LINKS,
    "counters": COUNTERS,
    "airtime": AIRTIME,
}
"""Tables of an analysis, by the name of their Parquet file and of `Analysis`'s attribute."""

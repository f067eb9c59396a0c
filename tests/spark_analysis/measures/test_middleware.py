"""A middleware's frames by what they are for, its events over hops, what its processes used."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from emulation.scenario.scenario import ProtocolSpec, Scenario
from nodeapp.events import Event
from nodeapp.pubsub.middleware import marker
from spark_analysis.analysis import analyse, tables_of
from spark_analysis.engine.results import RunTables
from spark_analysis.measures.delay import distribution, hops_table
from spark_analysis.measures.middleware import carried_table, usage_table
from spark_analysis.measures.summary import SUMMARY
from spark_analysis.report.figures import Drawing
from tests.spark_analysis.runs import RunBuilder

pytestmark = pytest.mark.spark


class MqttRun(RunBuilder):
    """A run of MQTT."""

    def scenario(self) -> Scenario:
        protocol = ProtocolSpec(name="mqtt", parameters={"routing": "static"})
        return super().scenario().model_copy(update={"protocol": protocol})

    def send(self, sender: int, time: float, inside: Packet, to: int) -> None:
        """Let a node's radio send a packet, which another hears a millisecond later."""
        mac = f"02:00:00:00:00:{sender:02x}"
        data = bytes(Ether(src=mac, dst=f"02:00:00:00:00:{to:02x}") / inside)
        self.packet(sender, "wlan0", time, data)
        self.packet(to, "wlan0", time + 0.001, data)


def segment(source: int, to: int, sequence: int, data: bytes = b"") -> Packet:
    header = TCP(sport=40_000 + source, dport=1883, seq=sequence, flags="A")
    packet = IP(src=f"10.0.0.{source}", dst=f"10.0.0.{to}") / header
    return packet / Raw(data) if data else packet


def legend(drawing: Drawing) -> list[str]:
    """Return the labels of a figure's curves."""
    return [str(line.get_label()) for axes in drawing.figure.axes for line in axes.get_lines()]


def test_every_frame_of_every_hop_is_counted_by_what_it_is_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = MqttRun(tmp_path / "chain")
    run.subscribe(3, 1.0, ["topic=traffic"])
    run.publish(1, 5.0, 1, ["topic=traffic"])
    payload = marker.mark(Event.decode(1, 1, run.body((1, 1))))
    run.send(1, 5.001, ARP(), to=2)
    run.send(1, 5.01, segment(1, 3, 100, payload), to=2)
    run.send(2, 5.02, segment(1, 3, 100, payload), to=3)
    run.send(3, 5.03, segment(3, 1, 700), to=2)
    run.send(2, 5.04, segment(3, 1, 700), to=1)
    run.send(1, 5.05, segment(1, 3, 100, payload), to=2)
    run.send(1, 5.06, segment(1, 3, 100 + len(payload), b"PINGREQ"), to=2)
    run.notify(3, 5.021, (1, 1), hops=0)
    folder = run.write(lasted=4.5)  # captures go on a little
    used = [
        {"node": "sta1", "program": "mosquitto", "cpu_seconds": 0.2, "memory": 3_000_000},
        {"node": "sta1", "program": "mosquitto", "cpu_seconds": 0.05, "memory": 0},  # killed
        {"node": "sta1", "program": "nodeapp", "cpu_seconds": 0.125, "memory": 2_000_000},
        {"node": "sta2", "program": "nodeapp", "cpu_seconds": 0.125, "memory": 2_000_000},
    ]
    (folder / "usage.json").write_text(json.dumps({"processes": used}))
    flood = RunBuilder(tmp_path / "flood")
    flood.subscribe(3, 1.0, ["topic=traffic"])
    flood.publish(1, 5.0, 1, ["topic=traffic"])
    flood.radio(1, 5.01, flood.event_frame((1, 1)), heard_by=[2])
    both = analyse(spark, [folder, flood.write()])
    analysis, other = (both.of(each) for each in both.runs)

    overhead = analysis.table("overhead")
    sent = overhead[overhead["sent_frames"] > 0]
    rows = zip(sent["node"], sent["kind_name"], sent["category"], sent["sent_frames"], strict=True)
    assert sorted(rows) == [
        ("sta1", "ARP", "control", 1),
        ("sta1", "TCP retransmission", "control", 1),
        ("sta1", "event", "event", 1),
        ("sta1", "own protocol", "control", 1),
        ("sta2", "TCP acknowledgement", "control", 1),
        ("sta2", "event", "event", 1),
        ("sta3", "TCP acknowledgement", "control", 1),
    ]
    by_node = sent.groupby("node")["messages"].sum()
    assert by_node.to_dict() == {"sta1": 4, "sta2": 0, "sta3": 1}  # the second one forwards
    summary = analysis.table("summary").iloc[0]
    assert (summary["event_frames"], summary["control_frames"]) == (2, 5)
    assert summary["frames_per_delivery"] == 7.0
    (row,) = tables_of(spark, [folder], (SUMMARY,))[0].to_pylist()  # as a sweep does
    assert row["frames_per_delivery"] == 7.0
    assert row["processor_share"] == pytest.approx(0.5 / 4.5 / 2)
    assert row["memory_per_node"] == 3_500_000
    delivered = analysis.table("delivery").iloc[0]
    assert delivered["delay"] == pytest.approx(0.021)
    assert delivered["hops"] is None or delivered["hops"] != delivered["hops"]  # not known

    events = analysis.table("carried_events")
    assert events[["node", "frames", "repeated"]].to_numpy().tolist() == [
        ["sta1", 1, 1],
        ["sta2", 1, 0],
    ]
    assert events["time"].tolist() == pytest.approx([5.01, 5.02])
    tables = RunTables(analysis, analysis.runs[0])
    assert [list(map(str, row)) for row in carried_table(tables)[0].rows] == [
        ["sta1", "1", "2", "2", "2", "1"]
    ]
    assert hops_table(tables).rows[0][:2] == ["not known", "1"]
    assert "hops not known (1)" in legend(distribution(tables))
    shown = [str(cell).replace("\u202f", " ") for cell in usage_table(tables)[0].rows[0]]
    assert shown == ["mosquitto", "1", "250 ms", "250 ms", "3 MB", "3 MB"]
    # That of a protocol has none of it.
    tables = RunTables(other, other.runs[0])
    assert carried_table(tables) == usage_table(tables) == []
    assert math.isnan(tables.value("memory_per_node"))
    assert other.table("overhead")["kind_name"].unique().tolist() == ["EVENT"]

"""Flow counters beside captures: frames made by hand at the ports of one access point."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from nodeapp.kinds import CommonKind
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.engine.results import RunTables
from spark_analysis.measures.counters import COUNTED, counter_tables, counters, passages
from spark_analysis.measures.nodes import NODES
from spark_analysis.measures.overhead import overhead
from spark_analysis.measures.packets import radio_packets
from spark_analysis.report.text_table import TextTable

BROKER, OTHER_BROKER, STATION, ALL = 0x0A000001, 0x0A000002, 0x0A000003, 0xFFFFFFFF
EVENTS, ROUTING = 0, 7
NODES_ROWS = [
    ("run", "br1", 1, BROKER, "ap1", True, True),
    ("run", "sta1", 3, STATION, None, True, True),
]


def seen(
    node: str, interface: str, source: int | None, code: int | None = EVENTS
) -> dict[str, Any]:
    return {
        "run": "run",
        "node": node,
        "interface": interface,
        "length": 100,
        "ip_src": source,
        "ip_dst": ALL,
        "dscp": code,
        "kind": int(CommonKind.EVENT) if code == EVENTS else int(CommonKind.HELLO),
        "route_length": 0,
        "body_length": 0,
    }


def passing() -> list[dict[str, Any]]:
    """One event from a station, one broadcast of the broker, one HELLO from another broker."""
    return [
        seen("sta1", "wlan0", STATION),
        seen("ap1", "wlan0", STATION),
        seen("br1", "eth0", STATION),
        seen("br1", "eth0", BROKER),
        seen("ap1", "wlan0", BROKER),
        seen("ap1", "mesh0", BROKER),
        seen("sta1", "wlan0", BROKER),
        seen("ap1", "mesh0", OTHER_BROKER, ROUTING),
        seen("br1", "eth0", OTHER_BROKER, ROUTING),
        seen("ap1", "wlan0", None, None),  # a layer 2 update
    ]


COUNTS = [
    ("run", "ap1", "STATION_TO_BROKER", "EVENTS", 1, 100),
    ("run", "ap1", "BROKER_TO_ALL", "EVENTS", 1, 100),
    ("run", "ap1", "MESH_TO_BROKER", "ROUTING_CONTROL", 1, 100),
    ("run", "ap1", "ASSOCIATION", "OTHER", 1, 20),
]


def _row(frame: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(frame.get(name) for name in FRAMES.names)


def compared(
    spark: SparkSession, frames: list[dict[str, Any]], counts: list[tuple[Any, ...]]
) -> dict[tuple[str, str, str], tuple[int, int]]:
    """Return counted and captured frames by port, direction and class."""
    table = counters(
        spark.createDataFrame(list(map(_row, frames)), FRAMES),
        spark.createDataFrame(NODES_ROWS, NODES.schema),
        spark.createDataFrame(counts, COUNTED),
    )
    found = {}
    for row in table.collect():
        assert row["counted_bytes"] == 100 * row["counted_frames"]
        assert row["captured_bytes"] == 100 * row["captured_frames"]
        key = (row["port"], row["direction"], row["traffic_class"])
        found[key] = (row["counted_frames"], row["captured_frames"])
    return found


@pytest.mark.spark
def test_every_passage_is_counted_twice(spark: SparkSession) -> None:
    assert compared(spark, passing(), COUNTS) == {
        ("wlan0", "in", "EVENTS"): (1, 1),
        ("eth0", "out", "EVENTS"): (1, 1),
        ("eth0", "in", "EVENTS"): (1, 1),
        ("wlan0", "out", "EVENTS"): (1, 1),
        ("mesh0", "out", "EVENTS"): (1, 1),
        ("mesh0", "in", "ROUTING_CONTROL"): (1, 1),
        ("eth0", "out", "ROUTING_CONTROL"): (1, 1),
    }


@pytest.mark.spark
def test_what_only_one_of_the_two_has_shows(spark: SparkSession) -> None:
    frames = [row for row in passing() if row["interface"] != "mesh0"]
    found = compared(spark, frames, COUNTS)
    assert found["mesh0", "out", "EVENTS"] == (1, 0)
    assert found["wlan0", "out", "EVENTS"] == (1, 1)
    found = compared(spark, passing(), COUNTS[1:])
    assert found["wlan0", "in", "EVENTS"] == (0, 1)
    assert found["eth0", "out", "EVENTS"] == (0, 1)


@pytest.mark.spark
def test_a_run_without_counters_is_not_compared(spark: SparkSession) -> None:
    assert compared(spark, passing(), []) == {}


@pytest.mark.spark
def test_a_brokers_broadcast_is_on_the_air_twice_and_on_the_wire_not(spark: SparkSession) -> None:
    frames = list(map(_row, passing()))
    nodes = spark.createDataFrame(NODES_ROWS, NODES.schema)
    table = overhead(radio_packets(spark.createDataFrame(frames, FRAMES), nodes)).collect()
    found = {
        (row["node"], row["kind_name"]): (row["sent_frames"] or 0, row["received_frames"] or 0)
        for row in table
    }
    assert found == {
        ("sta1", "EVENT"): (1, 1),
        ("br1", "EVENT"): (2, 1),
        ("br1", "HELLO"): (0, 1),
    }


def test_every_path_but_that_to_the_controller_passes_ports() -> None:
    found = set(passages())
    assert len(found) == 12
    assert ("BROKER_TO_ALL", "mesh0", "out") in found
    assert not any(path == "ASSOCIATION" for path, _, _ in found)


def shown(rows: list[tuple[Any, ...]], moves: int | None) -> TextTable:
    """Return the table of the report; `moves` is None if no counters were exported."""
    columns = ("counted_frames", "captured_frames", "counted_bytes", "captured_bytes")
    frame = pd.DataFrame(rows, columns=["port", "direction", "traffic_class", *columns])
    made = SimpleNamespace(
        scenario=SimpleNamespace(access_points=("ap1",), protocol=SimpleNamespace(name="flooding")),
        table=lambda name: frame,
        run=SimpleNamespace(
            flows=None if moves is None else SimpleNamespace(complete=True, moves=(None,) * moves)
        ),
    )
    (table,) = counter_tables(cast(RunTables, made))
    return table


def test_differences_of_two_access_points_do_not_cancel_out() -> None:
    rows = [
        ("wlan0", "in", "EVENTS", 41, 40, 4100, 4000),
        ("wlan0", "in", "EVENTS", 39, 40, 3900, 4000),
    ]
    table = shown(rows, 0)
    assert "They DIFFER, port by port, by 2 frames" in table.note
    assert table.rows[0][2] == "DIFFERENT"


def test_a_report_without_counters_says_so_once() -> None:
    table = shown([], None)
    assert "There are no counters" in table.note
    assert table.empty == "There is nothing to compare with the captures."


@pytest.mark.parametrize(
    ("port", "direction", "moves", "explained"),
    [
        ("wlan0", "out", 3, True),
        ("wlan0", "out", 0, False),  # nobody has come or gone
        ("wlan0", "in", 3, False),
        ("mesh0", "out", 3, False),
    ],
)
def test_frames_counted_after_a_handover_are_explained_and_no_others(
    port: str, direction: str, moves: int, explained: bool
) -> None:
    rows = [
        ("wlan0", "out", "EVENTS", 40, 40, 4000, 4000),
        (port, direction, "EVENTS", 12, 10, 1200, 1000),
    ]
    table = shown(rows, moves)
    assert "They DIFFER, port by port, by 2 frames" in table.note
    assert ("came to an access point 3 times" in table.note) == explained

"""Broadcasts that list their addressees, from captures: overhead and stages."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nodeapp.wire import HEADER_LENGTH, encode_addressees
from spark_analysis.analysis import tables_of
from spark_analysis.captures.materialise import FRAMES_FOLDER, read_frames
from spark_analysis.measures.nodes import NODES
from spark_analysis.measures.overhead import OVERHEAD
from spark_analysis.measures.stages import steps
from tests.spark_analysis.runs import RunBuilder

pytestmark = pytest.mark.spark


def test_a_list_is_one_frame_sent_and_addresses_those_it_names(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = RunBuilder(tmp_path / "listed", nodes=5)
    run.subscribe(4, 1.0, ["traffic"])
    run.publish(1, 5.0, 1, ["traffic"])
    one, two = (run.event_frame((1, 1), hops=hops) for hops in (1, 2))
    # Node 1 lists 2 and 3; node 4 hears it as well.  Of the two that pass the event on, node 3 is
    # first, but does not list node 4; node 2 does.  Node 5 sends a unicast.
    route = encode_addressees([2, 3])
    run.radio(1, 5.001, one._replace(route=route), heard_by=[2, 3, 4])
    run.radio(3, 5.010, two._replace(route=encode_addressees([1])), heard_by=[1, 4])
    length = run.radio(2, 5.020, two._replace(route=encode_addressees([4])), heard_by=[1, 3, 4])
    run.notify(4, 5.022, (1, 1), hops=2)
    run.radio(5, 6.0, two, heard_by=[1], to=1)
    run.radio(5, 6.1, two, heard_by=[1, 2])
    folder = run.write()

    overhead, described = tables_of(spark, [folder], (OVERHEAD, NODES))
    table = overhead.to_pandas().set_index("node_id")
    counted = ["sent_frames", "received_frames", "addressed_frames"]
    assert {node: tuple(table.loc[node, counted]) for node in table.index} == {
        1: (1, 4, 3),
        2: (1, 2, 2),
        3: (1, 2, 1),
        4: (0, 3, 1),
        5: (2, 0, 0),
    }
    body = len(run.body((1, 1)))
    assert table.loc[1, "sent_wire_bytes"] == HEADER_LENGTH + len(route) + body
    assert table.loc[2, "sent_bytes"] == length

    frames = read_frames(spark, [folder / "metrics" / FRAMES_FOLDER])
    nodes = spark.createDataFrame(described.to_pandas(), NODES.schema)
    found = steps(frames, nodes).orderBy("step").collect()
    assert [row["node_id"] for row in found] == [1, 2, 2, 4, 4]  # the way over node 2
    assert sum(row["seconds"] for row in found) == pytest.approx(0.022)

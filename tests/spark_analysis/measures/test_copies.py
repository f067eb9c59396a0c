"""Copies of an event and the links that it takes, from captures."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from nodeapp.kinds import CommonKind, Kind
from nodeapp.pubsub.mesh.messages import MeshKind
from spark_analysis.analysis import tables_of
from spark_analysis.captures.schemas import RUN
from spark_analysis.engine.tables import Table
from spark_analysis.measures.copies import COPIES
from spark_analysis.measures.tree_length import TREE_LENGTH
from tests.spark_analysis.runs import RunBuilder

pytestmark = pytest.mark.spark


def test_copies_are_arrivals_beyond_the_first_and_links_count_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = RunBuilder(tmp_path / "two-ways", nodes=5)
    run.subscribe(5, 1.0, ["traffic"])
    for sequence in (1, 2):
        run.publish(1, 5.0 * sequence, sequence, ["traffic"])
    at, first, second = 5.001, (1, 1), (1, 2)

    kind: Kind = CommonKind.EVENT

    def sent(sender: int, event: tuple[int, int], hops: int, to: int, *overhearing: int) -> None:
        nonlocal at
        frame = run.event_frame(event, hops=hops)._replace(kind=kind, destination=5)
        run.radio(sender, at, frame, heard_by=[to, *overhearing], to=to)
        at += 0.001

    # The first event comes to node 5 over node 2 and over node 3, which hears a frame twice and
    # what node 2 sends, too: four links, one copy too many.
    sent(1, first, 1, 2)
    sent(1, first, 1, 3)
    sent(1, first, 1, 3)
    sent(2, first, 2, 5, 3)
    sent(3, first, 2, 5)
    run.notify(5, at, first, hops=2)
    # The second takes one way, in a frame of another kind at first.
    at = 10.001
    kind = MeshKind.DELIVERY
    sent(1, second, 1, 2)
    kind = CommonKind.EVENT
    sent(2, second, 2, 5)
    run.notify(5, at, second, hops=2)
    measures = [
        Table(
            name=metric.column,
            description="",
            schema=StructType([RUN, metric.measure.column]),
            order=("run",),
            make=metric.measure.make,
        )
        for metric in (TREE_LENGTH, COPIES)
    ]
    length, copies = (each.to_pylist() for each in tables_of(spark, [run.write()], measures))
    assert [row["tree_length"] for row in length] == [(4 + 2) / 2]
    assert [row["copies"] for row in copies] == [(1 + 0) / 2]

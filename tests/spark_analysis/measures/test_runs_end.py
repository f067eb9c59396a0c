"""When a run has ended: what is counted of one that is silent in the end."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_analysis.analysis import tables_of
from spark_analysis.measures.summary import SUMMARY
from tests.spark_analysis.runs import RunBuilder

pytestmark = pytest.mark.spark


def silent_at_the_end(folder: Path) -> RunBuilder:
    """Return a run of 20 s whose last event, and last packet, is at 15 s."""
    run = RunBuilder(folder, nodes=2, duration=20.0)
    run.subscribe(2, 1.0, ["traffic"])
    for sequence, time in ((1, 5.0), (2, 15.0)):
        run.publish(1, time, sequence, ["traffic"])
        run.radio(1, time + 0.001, run.event_frame((1, sequence)), heard_by=[2])
        run.notify(2, time + 0.003, (1, sequence), hops=1)
    return run


def test_silence_before_the_end_is_of_the_run(spark: SparkSession, tmp_path: Path) -> None:
    folders = {
        "whole": silent_at_the_end(tmp_path / "whole").write(lasted=20.0),
        "not told": silent_at_the_end(tmp_path / "not-told").write(),
        "killed": silent_at_the_end(tmp_path / "killed").write(killed=True),
        "damaged": silent_at_the_end(tmp_path / "damaged").write(lasted=20.0),
    }
    capture = folders["damaged"] / "captures" / "sta2-wlan0.pcap"
    capture.write_bytes(capture.read_bytes()[:-1])
    (found,) = tables_of(spark, list(folders.values()), [SUMMARY])
    table = found.to_pandas().set_index("run")
    rows = {name: table.loc[folder.name] for name, folder in folders.items()}
    assert [row["captured"] for row in rows.values()] == pytest.approx([15.003] * 4, abs=0.002)
    assert rows["whole"]["observed"] == 20.0
    assert rows["whole"]["events_settled"] == rows["whole"]["expected"] == 2
    for name in ("not told", "killed", "damaged"):
        assert rows[name]["observed"] == rows[name]["captured"]
        assert rows[name]["events_settled"] == rows[name]["expected"] == 1
    loads = rows["whole"]["load_mean"], rows["not told"]["load_mean"]
    assert loads[0] * 20.0 == pytest.approx(loads[1] * rows["not told"]["observed"])


def test_the_mean_load_is_of_the_nodes_that_were_captured(
    spark: SparkSession, tmp_path: Path
) -> None:
    silent = RunBuilder(tmp_path / "silent", nodes=2, duration=20.0).write(lasted=20.0)
    whole, half, none = (
        silent_at_the_end(tmp_path / name).write(lasted=20.0) for name in ("whole", "half", "none")
    )
    (half / "captures" / "sta2-wlan0.pcap").unlink()
    for capture in none.glob("captures/*-wlan0.pcap"):
        capture.unlink()
    (found,) = tables_of(spark, [silent, whole, half, none], [SUMMARY])
    loads = found.to_pandas().set_index("run")["load_mean"]
    assert loads[silent.name] == 0.0
    assert loads[half.name] == 2 * loads[whole.name] > 0.0, "sta2 sends nothing"
    assert math.isnan(loads[none.name])

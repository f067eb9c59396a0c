"""When a run has ended: what is counted of one that is silent in the end."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
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


@pytest.fixture(scope="module")
def summary(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The summaries of all runs of this file, in one analysis, by name."""
    path = tmp_path_factory.mktemp("runs")
    folders = [
        silent_at_the_end(path / name).write(lasted=20.0)
        for name in ("whole", "damaged", "half", "none")
    ]
    _, damaged, half, none = folders
    capture = damaged / "captures" / "sta2-wlan0.pcap"
    capture.write_bytes(capture.read_bytes()[:-1])
    (half / "captures" / "sta2-wlan0.pcap").unlink()
    for capture in none.glob("captures/*-wlan0.pcap"):
        capture.unlink()
    folders += [
        silent_at_the_end(path / "not-told").write(),
        silent_at_the_end(path / "killed").write(killed=True),
        RunBuilder(path / "silent", nodes=2, duration=20.0).write(lasted=20.0),
    ]
    (found,) = tables_of(spark, folders, [SUMMARY])
    return found.to_pandas().set_index("run")


def test_silence_before_the_end_is_of_the_run(summary: pd.DataFrame) -> None:
    names = ("whole", "not-told", "killed", "damaged")
    rows = {name: summary.loc[name] for name in names}
    assert [row["captured"] for row in rows.values()] == pytest.approx([15.003] * 4, abs=0.002)
    assert rows["whole"]["observed"] == 20.0
    assert rows["whole"]["events_settled"] == rows["whole"]["expected"] == 2
    for name in ("not-told", "killed", "damaged"):
        assert rows[name]["observed"] == rows[name]["captured"]
        assert rows[name]["events_settled"] == rows[name]["expected"] == 1
    loads = rows["whole"]["load_mean"], rows["not-told"]["load_mean"]
    assert loads[0] * 20.0 == pytest.approx(loads[1] * rows["not-told"]["observed"])


def test_the_mean_load_is_of_the_nodes_that_were_captured(summary: pd.DataFrame) -> None:
    loads = summary["load_mean"]
    assert loads["silent"] == 0.0
    assert loads["half"] == 2 * loads["whole"] > 0.0, "sta2 sends nothing"
    assert math.isnan(loads["none"])

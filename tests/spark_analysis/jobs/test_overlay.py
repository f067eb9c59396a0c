"""What a run of an overlay comes to, beside what its peers know."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.virtual.recording import PcapRecorder
from nodeapp.pubsub import registry
from spark_analysis.analysis import analyse
from spark_analysis.report.overlay_text import text_tables
from spark_analysis.result import RunTables
from topologies.catalog import make_scenario

pytestmark = pytest.mark.spark


def test_depth_false_positives_and_tables_are_read_off_the_wire(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By a name that no module knows: a new overlay needs its file and its line only.
    newcomer = {"newcomer": registry.PROTOCOLS["semantic-overlay"]}
    monkeypatch.setattr(registry, "PROTOCOLS", {**registry.PROTOCOLS, **newcomer})
    # Two stocks a cell, so that some events are for a peer's cell and not for its filter.
    settings = {"nodes": 16, "stocks": 50, "interests": 3, "space": "stock:A:Z:5,price:0:1000:4"}
    scenario = make_scenario(
        "stock_peers", "semantic-overlay", seed=2, duration=30, settings={**settings, "bits": 32}
    )
    protocol = scenario.protocol.model_copy(update={"name": "newcomer"})
    scenario = scenario.model_copy(update={"protocol": protocol})
    folder = RunFolder.create(tmp_path, scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    analysis = analyse(spark, [folder.path])
    (run,) = analysis.runs
    [shown] = text_tables(RunTables(analysis, run))
    summary = analysis.table("summary").iloc[0]
    got = analysis.table("overlay_receptions")
    assert summary["overlay_depth"] == pytest.approx(summary["hops_mean"])
    assert len(got[got["wanted"]]) == int(summary["received_remote"])
    assert set(got[~got["wanted"]]["cause"]) == {"grid", "bloom", "forwarding"}
    assert summary["false_positives"] == pytest.approx(1 - got["wanted"].mean())
    sizes = analysis.table("overlay_links")
    assert 0 < sizes["links"].min() <= sizes["links"].max() <= 15
    assert shown.title == "Overlay"
    assert shown.rows[1][1] == str(len(got[got["wanted"]]))

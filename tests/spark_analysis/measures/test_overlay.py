"""What a run of an overlay comes to, beside what its peers know."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder
from emulation.virtual.recording import PcapRecorder
from nodeapp.pubsub import registry
from spark_analysis.analysis import analyse
from spark_analysis.engine.results import RunTables
from spark_analysis.measures.overlay import links_over_time, text_tables
from spark_analysis.measures.registry import METRICS
from spark_analysis.report.metric import tiles
from topologies.catalog import make_scenario

pytestmark = pytest.mark.spark


def radio_run(folder: Path) -> RunFolder:
    """Return a run of peers over AODV, some of which are several radio hops apart."""
    settings = {"nodes": 10, "degree": 3, "cells": "false", "workload": "stock", "stocks": 4}
    scenario = make_scenario(
        "uniform_field", "semantic-overlay", seed=1, duration=30, settings=settings
    )
    made = RunFolder.create(folder, scenario)
    simulate(scenario, made, PcapRecorder(scenario, made))
    return made


def test_depth_false_positives_and_tables_are_read_off_the_wire(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By a name that no module knows: a new overlay needs its file and its line only.
    newcomer = {"newcomer": registry.PROTOCOLS["semantic-overlay"]}
    monkeypatch.setattr(registry, "SYSTEMS", {**registry.SYSTEMS, **newcomer})
    # Two stocks a cell, so that some events are for a peer's cell and not for its filter.
    settings = {"nodes": 16, "stocks": 50, "interests": 3, "space": "stock:A:Z:5,price:0:1000:4"}
    scenario = make_scenario(
        "stock_peers", "semantic-overlay", seed=2, duration=30, settings={**settings, "bits": 32}
    )
    protocol = scenario.protocol.model_copy(update={"name": "newcomer"})
    scenario = scenario.model_copy(update={"protocol": protocol})
    folder = RunFolder.create(tmp_path, scenario)
    simulate(scenario, folder, PcapRecorder(scenario, folder))
    analysis = analyse(spark, [folder.path, radio_run(tmp_path).path])
    run, radio = analysis.runs
    [shown] = text_tables(RunTables(analysis, run))
    summaries = analysis.table("summary").set_index("run")
    summary = summaries.loc[run.name]
    got = analysis.table("overlay_receptions")
    got, on_radio = got[got["run"] == run.name], got[got["run"] == radio.name]
    assert summary["overlay_depth"] == pytest.approx(summary["hops_mean"])
    assert len(got[got["wanted"]]) == int(summary["received_remote"])
    assert set(got[~got["wanted"]]["cause"]) == {"grid", "bloom", "forwarding"}
    assert summary["false_positives"] == pytest.approx(1 - got["wanted"].mean())
    # A switch has no radio hops; over AODV they are those that notifications tell.
    assert (got["hops"] == got["depth"]).all()
    assert math.isnan(summary["overlay_stretch"])
    assert (on_radio["hops"] >= on_radio["depth"]).all()
    told = summaries.loc[radio.name]
    assert told["overlay_stretch"] > 1.1
    assert told["overlay_stretch"] == pytest.approx(told["hops_mean"] / told["overlay_depth"])
    sizes = analysis.table("overlay_links")
    sizes = sizes[sizes["run"] == run.name]
    assert 0 < sizes["links"].min() <= sizes["links"].max() <= 15
    [(_, drawing)] = links_over_time(RunTables(analysis, run))
    assert drawing.values is not None
    drawn = drawing.values.set_index("time")
    assert list(drawn.index) == [5.0 * number for number in range(6)]
    last = sizes[sizes["time"] == 25.0]["links"]
    assert tuple(drawn.loc[25.0]) == (last.mean(), last.min(), last.max(), 16)
    titles = [
        {tile.label for tile in tiles(RunTables(analysis, each), METRICS)} for each in (run, radio)
    ]
    assert ["Overlay stretch" in each for each in titles] == [False, True]
    assert shown.title == "Overlay"
    assert shown.rows[1][1] == str(len(got[got["wanted"]]))

"""Virtual runs without captures: the same metrics as from captures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from emulation.backends.virtual import simulate
from emulation.scenario.runfolder import RunFolder, read_run
from emulation.scenario.scenario import Scenario
from emulation.virtual.recording import PcapRecorder
from spark_analysis.analysis import analyse, survey_of
from spark_analysis.captures.materialise import FORMAT, FRAMES_FOLDER
from spark_analysis.captures.virtual_run import run_to_frames
from spark_analysis.engine import tuning
from spark_analysis.errors import AnalysisError
from topologies.catalog import make_scenario


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    settings = {"nodes": 10, "speed": 5, "interval": 1, "energy": "esp32-s2"}
    return make_scenario("roaming_field", "broker-gpsr", seed=2, duration=20, settings=settings)


@pytest.mark.spark
def test_metrics_are_those_of_captures(
    spark: SparkSession, scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"side": 2, "nodes": 6, "speed": 5, "interval": 1, "energy": "esp32-s2"}
    mesh = make_scenario("mesh_grid", "broker-gpsr", seed=2, duration=20, settings=settings)
    decoded, recorded = [], []
    for each in (scenario, mesh):
        captured = RunFolder.create(tmp_path, each)
        simulate(each, captured, PcapRecorder(each, captured))
        columns = RunFolder.create(tmp_path, each)
        run_to_frames(each, columns)
        assert not any(columns.captures.iterdir())
        decoded.append(captured.path)
        recorded.append(columns.path)
    # Queries over few frames are interpreted, those over many compiled.
    interpreted = analyse(spark, decoded)
    monkeypatch.setattr(tuning, "FEW", 0)
    compiled = analyse(spark, recorded)
    sides = (interpreted, compiled)
    assert not any(problems for side in sides for problems in side.problems.values())
    assert set(interpreted.tables) == set(compiled.tables)
    for index, simulated in enumerate((scenario, mesh)):
        one, other = (side.of(side.runs[index]) for side in sides)
        for name in compiled.tables:
            left, right = (
                part.table(name).drop(columns="run").reset_index(drop=True) for part in (one, other)
            )
            meshed = bool(simulated.access_points)
            there = {"counters": meshed, "airtime": False, "recovery": False, "legs": False}
            there |= {"overlay_receptions": False, "overlay_links": False}
            there |= {"choices": False, "state": False, "lost": meshed}
            there |= dict.fromkeys(("carried_events", "usage", "lateness"), False)  # in real time
            assert (len(left) > 0) == there.get(name, True)
            pd.testing.assert_frame_equal(left, right, obj=name)


def test_a_run_that_was_ended_has_no_frames(scenario: Scenario, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario)

    def interrupt(seconds: float) -> None:
        if seconds > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_frames(scenario, folder, interrupt)
    assert json.loads(folder.record.read_text())["ended"] == "interrupted"
    assert not (folder.path / "metrics").exists()


def test_frames_are_the_runs_wherever_results_go(scenario: Scenario, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario)
    run_to_frames(scenario, folder)
    elsewhere = replace(read_run(folder.path), out=tmp_path / "results")
    assert survey_of(elsewhere).captures


@pytest.mark.spark
def test_frames_of_another_version_are_refused(
    spark: SparkSession, scenario: Scenario, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path, scenario)
    run_to_frames(scenario, folder)
    mark = folder.path / "metrics" / FRAMES_FOLDER / "_captures.json"
    facts = json.loads(mark.read_text(encoding="utf-8"))
    assert facts["format"] == FORMAT
    mark.write_text(json.dumps(facts | {"format": 0}), encoding="utf-8")
    with pytest.raises(AnalysisError, match="run the scenario again"):
        analyse(spark, [folder.path])

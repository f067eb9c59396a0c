"""From a sweep to one of its points: its command, its report and replay, its row in Python."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from spark_analysis import runs, sweeps
from spark_analysis.errors import AnalysisError
from testbed.app import app

WORDS = ["sweep", "roaming_field", "flooding", "--vary", "speed=1,10", "--seeds", "1"]
WORDS += [
    "--nodes",
    "6",
    "--set",
    "subscribers=3",
    "--duration",
    "20",
    "--fault",
    "crash sta2 at 9 for 2",
]
WORDS += ["--workload", "churn", "--draws", "speed"]


def invoke(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "s"
    done = invoke(*WORDS, "--out", folder, "--json")
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    assert points == sweeps.load(folder)[["run", "command"]].to_dict("records")
    return folder


@pytest.mark.long
@pytest.mark.spark
def test_the_command_of_a_point_repeats_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = sweeps.load(folder)
    assert results["speed"].tolist() == [1.0, 10.0]
    assert results.attrs["delivery_ratio"] == "received / expected, settled events"
    assert results["command"][1] in (folder / "sweep.html").read_text().replace("&#39;", "'")
    _, *words = shlex.split(results["command"][1])
    assert words[words.index("--seed") + 1] == str(results["drawn"][1])
    monkeypatch.setattr("testbed.run.RUNS", tmp_path)
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)["summary"]
    row = results.iloc[1].to_dict()
    same = ["events", "expected_all", "received_all", "delay_mean", "event_bytes", "lost_node_down"]
    assert [summary[name] for name in same] == [row[name] for name in same]
    assert summary["events"] > 0


@pytest.mark.long
@pytest.mark.spark
def test_a_point_is_opened_with_report_and_replay(folder: Path) -> None:
    before = sweeps.load(folder)
    first, second = (folder / "points" / run for run in before["run"])
    for point, words in (
        (first, [*WORDS, "--out", folder, "--open", "flooding speed=1.0 seed=1"]),
        (second, ["analyze", second]),
    ):
        assert not (point / "report.html").exists()
        done = invoke(*words)
        assert done.exit_code == 0, done.output
        assert f"report: {point / 'report.html'}" in done.output
        page = (point / "report.html").read_text(encoding="utf-8")
        assert 'id="replay-data"' in page
        assert "metrics/delivery.parquet" in page
        assert "metrics/overlay_links.parquet" not in page, "it is no overlay"
        run = runs.load(point)
        assert run.delivery["expected"].any()
        assert "delivery" in run.tables
        assert "overlay_links" not in run.tables
        assert run.overlay_links.empty
    again = invoke(*WORDS, "--out", folder)
    assert again.exit_code == 0, again.output
    assert "run again" not in again.output
    pd.testing.assert_frame_equal(sweeps.load(folder), before)  # nothing ran, rows stay
    assert (first / "metrics" / "frames.parquet").exists()


@pytest.mark.spark
def test_a_point_that_is_not_there_is_one_line(folder: Path) -> None:
    done = invoke(*WORDS, "--out", folder, "--open", "nothing")
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "0 points of this sweep are called nothing" in done.output
    more = [word.replace("1,10", "1,10,11") for word in WORDS]
    done = invoke(*more, "--out", folder, "--open", "flooding speed=11.0 seed=1")
    assert "flooding speed=11.0 seed=1 has not run yet" in done.output
    with pytest.raises(AnalysisError, match="run the sweep first"):
        sweeps.load(folder / "points")


@pytest.mark.spark
def test_a_sweep_is_packed_with_its_points(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep.zip"
    done = invoke("artifact", folder, "--out", out)
    assert done.exit_code == 0, done.output
    with zipfile.ZipFile(out) as file:
        graph = {
            each["@id"]: each for each in json.loads(file.read("ro-crate-metadata.json"))["@graph"]
        }
        names = set(file.namelist())
    run = sweeps.load(folder)["run"][0]
    assert {"s/sweep.json", "s/results.parquet", "s/sweep.html"} <= names
    assert {f"s/points/{run}/scenario.json", f"s/points/{run}/run.json"} <= names
    assert not any(".lock" in name for name in names)
    assert graph["#s"]["object"] == {"@id": "s/sweep.json"}
    assert "sweep roaming_field flooding --vary speed=1,10" in graph["s/"]["description"]
    assert json.loads(graph["#s"]["description"])["backend"] == "virtual"

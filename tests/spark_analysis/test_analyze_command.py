"""`analyze` as a script uses it: elsewhere, strictly, as JSON; bad folders beside good ones."""

from __future__ import annotations

import csv
import json
import logging
import re
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from emulation.scenario.records import Fidelity
from emulation.scenario.runfolder import RunFolder
from spark_analysis import reports
from spark_analysis.engine import session
from testbed.app import app
from tests.spark_analysis.runs import RunBuilder
from tests.spark_analysis.synthetic import make_analysis, make_run, make_scenario
from tests.spark_starts import SparkStarts

COMPARED = "comparison-figures"
JAVA = "spark.driver.extraJavaOptions"


def write_run(folder: Path) -> Path:
    """Write a run in which one of two deliveries is made."""
    run = RunBuilder(folder, nodes=3, duration=20.0)
    for node in (2, 3):
        run.subscribe(node, 1.0, ["traffic"])
    run.publish(1, 8.0, 1, ["traffic"])
    run.radio(1, 8.001, run.event_frame((1, 1)), heard_by=[2])
    run.notify(2, 8.002, (1, 1), hops=1)
    return run.write()


def everything_in(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


@pytest.mark.spark
def test_results_go_elsewhere_and_a_bad_folder_does_not_stop_the_others(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = write_run(tmp_path / "one"), write_run(tmp_path / "other")
    for capture in (other / "captures").iterdir():
        editcap = ["editcap", "-F", "pcapng", str(capture), f"{capture}ng"]
        subprocess.run(editcap, check=True, capture_output=True)
        capture.unlink()
    empty = write_run(tmp_path / "empty")
    for capture in (empty / "captures").iterdir():
        capture.unlink()
    before = everything_in(one)
    out = tmp_path / "out"
    twin = write_run(tmp_path / "elsewhere" / "one")
    folders = [str(each) for each in (one, empty, other, twin, tmp_path / "nowhere")]
    spark_starts = SparkStarts(monkeypatch)
    monkeypatch.setattr(session, "_chosen", {})
    options = ["--out", str(out), "--json", "--figures"]
    options += ["--conf", "spark.driver.memory=3g", "--conf", f"{JAVA}=-Da=b"]
    invoked = CliRunner().invoke(app, ["analyze", *folders, *options])
    assert spark_starts.count == 1, "once for both and their comparison"
    assert spark_starts.options["spark.driver.memory"] == "3g"
    assert re.fullmatch("-D.* -XX.* -Da=b", spark_starts.options[JAVA])
    assert invoked.exit_code == 1
    assert "has no captures: there is nothing to analyse" in invoked.stderr
    assert "no run folder" in invoked.stderr
    told = json.loads(invoked.stdout)
    assert [each["summary"]["delivery_ratio_all"] for each in told["runs"]] == [0.5, 0.5]
    assert f"{one} and {twin} have the same name, and the first is analysed" in invoked.stderr
    assert len(told["refused"]) == 3
    assert everything_in(one) == before
    assert (out / "one" / "metrics" / "delivery.parquet").exists()
    with (out / "one" / "summary.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["delivery_ratio_all"]) == 0.5
    report = (out / "one" / "report.html").read_text()
    assert 'href="../../one/captures/sta1-wlan0.pcap"' in report
    assert 'href="../../one/scenario.json"' in report
    assert (
        'href="../../other/captures/sta1-wlan0.pcapng"'
        in (out / "other" / "report.html").read_text()
    )
    assert 'id="replay-data"' in report
    assert (out / "comparison.html").exists()
    for figures, name in ((out / "one" / "figures", "delivery"), (out / COMPARED, "delay")):
        assert {path.suffix for path in figures.glob(f"{name}.*")} == {
            ".pdf",
            ".svg",
            ".png",
            ".csv",
        }


def test_a_comparison_replaces_one_of_the_same_runs_only(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, make_scenario()) for name in ("one", "other")]
    read = [run.read for run in runs]
    path = reports.comparison_path(read)
    assert path == tmp_path / "comparison.html"
    reports.write_comparison(make_analysis(*runs), path)
    assert reports.comparison_path(read) == path
    third = make_run(tmp_path / "third", make_scenario())
    assert reports.comparison_path([*read, third.read]) == tmp_path / "comparison-2.html"


@pytest.mark.long
@pytest.mark.spark
def test_strictly_a_damaged_capture_and_lost_time_are_errors(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write_run(tmp_path / "run")
    RunFolder(folder).write_fidelity(Fidelity(kept_real_time=False))
    capture = folder / "captures" / "sta1-wlan0.pcap"
    capture.write_bytes(capture.read_bytes()[:-5])
    assert CliRunner().invoke(app, ["analyze", str(folder)]).exit_code == 0
    strict = CliRunner().invoke(app, ["analyze", str(folder), "--strict", "--quiet"])
    assert strict.exit_code == 1
    one, other = (line for line in strict.stderr.splitlines() if line.startswith("error: "))
    assert one == "error: run lost real time or packets: see its report"
    assert "sta1-wlan0.pcap" in other
    assert "report:" not in strict.stderr
    # An interrupted command would show their tracebacks.
    assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)


@pytest.mark.spark
def test_what_ended_a_run_is_told_beside_its_figures(spark: SparkSession, tmp_path: Path) -> None:
    folder = RunFolder(write_run(tmp_path / "run"))
    cause = "the run failed: No space left on device"
    record = json.loads(folder.record.read_text()) | {"ended": "failed", "problems": [cause]}
    record["lasted"] = 20.0
    folder.record.write_text(json.dumps(record))
    told = CliRunner().invoke(app, ["analyze", str(folder.path)]).stderr
    assert "delivery 50.0 % (1 of 2)" in told
    assert f"warning: run: {cause}\n" in told
    assert "warning: run: the run was not completed: failed\n" in told


def test_without_captures_it_answers_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_run(tmp_path / "runs" / "one")
    for capture in (folder / "captures").iterdir():
        capture.unlink()
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.delattr(reports, "spark_session")  # it would be an error to start Spark
    for path, message in (
        (folder, "has no captures: there is nothing to analyse"),
        (
            folder.parent,
            f"it has no scenario.json; name the run folders in it, like {folder.parent}/*",
        ),
        (empty, f"{empty} is not a run folder: it has no scenario.json"),
    ):
        invoked = CliRunner().invoke(app, ["analyze", str(path)])
        assert invoked.exit_code == 1
        assert invoked.stderr.endswith(f"{message}\n")

"""Sweeps: what is run, what is kept, and what came out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from emulation.errors import ScenarioError
from emulation.scenario.scenario import Scenario
from spark_analysis.analysis import analyse
from spark_analysis.captures.materialise import FRAMES_FOLDER
from spark_analysis.measures import versions as versions_module
from spark_analysis.measures.last_seen import Cause
from spark_analysis.measures.lost import column_of
from spark_analysis.measures.versions import summary_versions
from spark_analysis.sweeps import sweep as sweep_module
from spark_analysis.sweeps import waves
from spark_analysis.sweeps.folder import SweepFolder, outdated
from spark_analysis.sweeps.rows import SUMMARY
from spark_analysis.sweeps.spec import RunPoint, SpecError, SweepError, points
from spark_analysis.sweeps.sweep import Progress, SweepOutcome, run_sweep
from spark_analysis.sweeps.tasks import COST, FAILURE, Task, failed, failure, ran, run_tasks
from tests.spark_analysis.sweeps.helpers import spec
from tests.spark_starts import SparkStarts
from topologies.catalog import make_scenario

# Before anything runs.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology": "nowhere"}, "no topology 'nowhere'"),
        ({"protocols": ("gossip",)}, "no protocol 'gossip'"),
        ({"protocols": ()}, "at least one protocol"),
        ({"vary": {"colour": ("red",)}}, "no parameter 'colour'.*speed"),
        ({"vary": {"speed": ("fast",)}}, "speed"),
        ({"vary": {"speed": ("1", "1000")}}, "speed"),
        ({"vary": {"nodes": ("9",)}}, "nodes is both varied and set"),
        ({"seeds": 0}, "--seeds"),
        ({"duration": 1.0}, "too short|duration|longer"),
    ],
)
def test_bad_specs_are_refused_before_anything_runs(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        run_sweep(spec(**changes), tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_scenario_is_made_before_anything_runs(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*names: str, **chosen: Any) -> Scenario:
        if chosen["seed"] == seed:
            raise ScenarioError("the stations are not connected")
        return make_scenario(*names, **chosen)

    monkeypatch.setattr("spark_analysis.sweeps.spec.make_scenario", make)
    with pytest.raises(SpecError, match=f"flooding speed=0.0 seed={seed}: the stations"):
        run_sweep(spec(), tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_sweep_is_worked_on_by_one_at_a_time(tmp_path: Path) -> None:
    with SweepFolder(tmp_path / "s").alone(), pytest.raises(SweepError, match="being worked on"):
        run_sweep(spec(), tmp_path / "s")
    with SweepFolder(tmp_path / "s").alone():
        pass


def test_a_folder_that_is_no_sweep_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(SweepError, match="--out"):
        run_sweep(spec(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# Runs.


Watched = tuple[SweepOutcome, list[Progress]]


@pytest.fixture(scope="module")
def watched(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A sweep in short waves, and what it said meanwhile."""
    seen: list[Progress] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "WAVE", 1)
        patch.setattr(waves, "MOST", 3)
        result = run_sweep(spec(), tmp_path_factory.mktemp("sweep") / "s", progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].failed) == (8, 8, 0)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    return result, seen


@pytest.fixture(scope="module")
def outcome(watched: Watched) -> SweepOutcome:
    return watched[0]


@pytest.mark.spark
def test_a_row_a_point_with_its_parameters_and_metrics(outcome: SweepOutcome) -> None:
    results = pq.read_table(outcome.folder / "results.parquet").to_pandas()
    pd.testing.assert_frame_equal(results, outcome.results)
    assert list(results.columns[:4]) == ["topology", "protocol", "speed", "seed"]
    assert len(results) == 8
    assert results["speed"].dtype == float
    assert (results["backend"] == "virtual").all()
    assert (results["ended"] == "completed").all()
    flooding = results[results["protocol"] == "flooding"]
    assert (flooding["delivery_ratio"] == 1.0).all()
    assert (results["delay_p50"] > 0).all()
    lost = results[[column_of(cause) for cause in Cause]].sum(axis=1)
    assert list(lost) == list(results["expected_all"] - results["received_all"])


@pytest.mark.spark
def test_packets_are_dropped_and_summaries_kept(outcome: SweepOutcome) -> None:
    folders = list((outcome.folder / "points").iterdir())
    assert len(folders) == 8
    for folder in folders:
        assert [path.name for path in (folder / "metrics").iterdir()] == ["summary.parquet"]
        assert (folder / "scenario.json").exists()
        assert json.loads((folder / "run.json").read_text())["ended"] == "completed"


@pytest.mark.spark
def test_finished_points_are_not_run_again(
    spark: SparkSession, outcome: SweepOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(sweep_module, "run_tasks", never)
    again = run_sweep(spec(), outcome.folder)
    pd.testing.assert_frame_equal(again.results, outcome.results)


@pytest.mark.spark
def test_only_what_is_new_or_lost_is_run(
    spark: SparkSession, outcome: SweepOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    wider = spec(seeds=3)
    wanted = points(wider)
    sweep = SweepFolder(outcome.folder)
    lost, damaged, *sound = wanted
    shutil.rmtree(sweep.path(lost))
    (sweep.path(damaged) / "metrics" / SUMMARY).write_text("x")
    stamps = {p.key: sweep.path(p).stat().st_mtime_ns for p in sound if sweep.path(p).exists()}
    monkeypatch.setattr(waves, "WAVE", 2)
    monkeypatch.setattr(waves, "MOST", 0)
    spark_starts = SparkStarts(monkeypatch)
    result = run_sweep(wider, outcome.folder)
    assert spark_starts.count == 1, "once for two waves"
    assert len(result.results) == 12
    for key, stamp in stamps.items():
        assert (sweep.folder / "points" / key).stat().st_mtime_ns == stamp


def test_a_summary_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    point, *_ = points(spec())
    sweep = SweepFolder(tmp_path / "s")
    path = sweep.path(point) / "metrics" / SUMMARY
    path.parent.mkdir(parents=True)
    for text, finished in (("", False), ("PAR", False), ("PAR1 of another kind PAR1", True)):
        path.write_text(text)
        assert sweep.finished(point) == finished
    with pytest.raises(SweepError, match=r"summary\.parquet is damaged: remove it"):
        sweep.row(point)


@pytest.mark.spark
def test_a_failed_point_is_reported_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = spec(protocols=("flooding",), seeds=1)
    broken, sound = points(few)
    path = SweepFolder(tmp_path / "s").path(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "points", lambda _: [_broken(broken), sound])
        patch.setattr(sweep_module, "_check", lambda *_: {})
        result = run_sweep(few, tmp_path / "s")
    assert list(result.results["speed"]) == [5.0]
    ((name, reason),) = result.failures.items()
    assert name == "flooding speed=0.0 seed=1"
    assert reason.startswith("propagation: 'smoke signals' is none of")
    assert "Traceback" in (path / FAILURE).read_text()
    # Asked again, as it should be, it runs, and only it.
    again = run_sweep(few, tmp_path / "s")
    assert not again.failures
    assert len(again.results) == 2


def _broken(point: RunPoint) -> RunPoint:
    return replace(point, settings={**point.settings, "propagation": "smoke signals"})


@pytest.mark.long
@pytest.mark.spark
def test_frames_are_kept_if_asked(spark: SparkSession, tmp_path: Path) -> None:
    one = spec(protocols=("flooding",), vary={}, seeds=1)
    without = run_sweep(one, tmp_path / "s").results
    (folder,) = (tmp_path / "s").glob("points/*")
    assert not list(folder.glob("metrics/frames.parquet"))
    results = run_sweep(one, tmp_path / "s", keep_frames=True).results
    pd.testing.assert_frame_equal(results, without)
    assert list(folder.glob("metrics/frames.parquet/*.parquet"))
    # The point is a run folder like any other, and its row the one that `analyze` gives.
    summary = analyse(spark, [folder]).table("summary")
    pd.testing.assert_frame_equal(results[summary.columns], summary, check_dtype=False)


@pytest.mark.long
@pytest.mark.spark
def test_a_run_that_was_not_analysed_is_not_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = spec(protocols=("flooding",), seeds=1)
    first = run_sweep(one, tmp_path / "s", keep_frames=True)
    lost, damaged = (SweepFolder(tmp_path / "s").path(point) for point in points(one))
    for path in (lost, damaged):
        (path / "metrics" / "summary.parquet").unlink()
    (frames,) = (damaged / "metrics" / "frames.parquet").glob("*.parquet")
    frames.write_bytes(b"not Parquet")

    monkeypatch.setattr(sweep_module, "run_tasks", lambda _spark, tasks, _report: list(tasks))
    second = run_sweep(one, tmp_path / "s")
    pd.testing.assert_frame_equal(second.results, first.results.iloc[:1])
    assert not list(lost.glob("metrics/frames.parquet"))
    # The other has failed, and starts from the beginning.
    assert [name.split()[1] for name in second.failures] == ["speed=5.0"]
    monkeypatch.undo()
    third = run_sweep(one, tmp_path / "s")
    pd.testing.assert_frame_equal(third.results, first.results)


class Deadly(Task):
    """A run that ends its process."""

    def run(self) -> None:
        os._exit(1)


@pytest.mark.spark
def test_a_run_that_ends_its_process_fails_alone(spark: SparkSession, tmp_path: Path) -> None:
    sound, deadly = points(spec(protocols=("flooding",), seeds=1))
    tasks = [sound.task(tmp_path / "a"), Deadly(**vars(deadly.task(tmp_path / "b")))]
    run_tasks(spark, tasks, lambda doing: None)
    assert ran(tmp_path / "a")
    assert not failed(tmp_path / "a")
    assert "its process was lost" in str(failure(tmp_path / "b"))


@pytest.mark.spark
def test_results_that_do_not_arrive_are_failures(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Task):
        """A run on a machine that does not share the folder."""

        def run(self) -> None:
            pass

    monkeypatch.setattr("spark_analysis.sweeps.tasks.POLL", 0.01)
    point = points(spec())[0]
    run_tasks(spark, [Elsewhere(**vars(point.task(tmp_path / "a")))], lambda doing: None)
    assert "workers must share the sweep's folder" in str(failure(tmp_path / "a"))


@pytest.mark.spark
def test_a_stopped_sweep_keeps_what_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.doing == "analysed":
            raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waves, "WAVE", 1)
        patch.setattr(waves, "LENGTH", 0)
        with pytest.raises(StopError):
            run_sweep(spec(seeds=1), tmp_path / "s", progress=stop)
    sweep = SweepFolder(tmp_path / "s")
    finished = [point for point in points(spec(seeds=1)) if sweep.finished(point)]
    assert 0 < len(finished) < 4
    assert len(pq.read_table(tmp_path / "s" / "results.parquet")) == len(finished)
    assert len(run_sweep(spec(seeds=1), tmp_path / "s").results) == 4


@pytest.mark.spark
def test_short_waves_are_analysed_together(watched: Watched) -> None:
    done = [progress.done for progress in watched[1] if progress.doing == "analysing"]
    assert 3 <= done[0] < 8, "several waves"
    assert done[-1] == 8


@pytest.mark.long
@pytest.mark.spark
def test_rows_of_other_versions_are_made_again_of_frames_or_of_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = spec(protocols=("flooding",), vary={"speed": ("0",)})
    with_frames, without = points(wanted)
    folder = tmp_path / "s"
    first = run_sweep(wanted, folder, keep_frames=True)
    sweep = SweepFolder(folder)
    shutil.rmtree(sweep.path(without) / "metrics" / FRAMES_FOLDER)
    before = {point.key: (sweep.path(point) / COST).read_text() for point in points(wanted)}
    assert all(map(sweep.finished, points(wanted)))
    versions = {**summary_versions(), "delay": summary_versions()["delay"] + 1}
    monkeypatch.setattr(versions_module, "summary_versions", lambda: versions)
    assert not any(map(sweep.finished, points(wanted)))
    assert outdated(wanted, folder) == ("flooding",), "of which a point runs again"
    ran_again: list[str] = []
    real = run_tasks

    def noted(session: SparkSession, tasks: Sequence[Task], report: Callable[[str], None]) -> None:
        ran_again.extend(task.folder.name for task in tasks)
        real(session, tasks, report)

    monkeypatch.setattr(sweep_module, "run_tasks", noted)
    again = run_sweep(wanted, folder)
    assert ran_again == [without.key]
    assert (sweep.path(with_frames) / COST).read_text() == before[with_frames.key]
    assert ran(sweep.path(with_frames)), "what was asked to be kept still is"
    assert not ran(sweep.path(without))
    pd.testing.assert_frame_equal(again.results, first.results)
    assert all(map(sweep.finished, points(wanted)))

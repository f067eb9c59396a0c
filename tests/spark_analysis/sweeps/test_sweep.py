"""Sweeps: what is wanted, what is run, what is kept, and what came out."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from emulation.errors import ScenarioError
from nodeapp.pubsub.registry import PROTOCOLS
from spark_analysis.analysis import analyse
from spark_analysis.sweeps import sweep as sweep_module
from spark_analysis.sweeps.sweep import (
    Outcome,
    Point,
    Progress,
    SpecError,
    Sweep,
    SweepError,
    outdated,
    points,
    run_sweep,
)
from spark_analysis.sweeps.tasks import FAILURE, Task, failed, failure, note_failure, ran, run_tasks
from tests.spark_analysis.sweeps.helpers import SMALL, spec

# Sweep specs.


def test_points_are_the_product() -> None:
    found = points(spec())
    assert len(found) == 2 * 2 * 2
    assert len({point.key for point in found}) == 8
    assert [p.seed for p in found] == sorted(p.seed for p in found), "whole curves first"
    assert {(p.protocol, p.values["speed"], p.seed) for p in found} == {
        (protocol, speed, seed)
        for protocol in ("flooding", "broker-gpsr")
        for speed in (0.0, 5.0)
        for seed in (1, 2)
    }


def test_a_parameter_of_one_protocol_is_varied_for_that_one_only() -> None:
    found = points(spec(vary={"prediction": ("true", "false")}, seeds=1))
    assert [(p.protocol, dict(p.values)) for p in found] == [
        ("flooding", {}),
        ("broker-gpsr", {"prediction": True}),
        ("broker-gpsr", {"prediction": False}),
    ]


def test_equal_points_of_different_questions_are_the_same() -> None:
    one = {point.key for point in points(spec())}
    more = {point.key for point in points(spec(vary={"speed": ("5.0", "9")}, seeds=3))}
    assert len(one & more) == 4  # two protocols at 5 m/s with two seeds
    other = {point.key for point in points(spec(duration=15.0))}
    assert not one & other


def test_other_code_is_another_point(monkeypatch: pytest.MonkeyPatch) -> None:
    before = points(spec())[0].key
    monkeypatch.setattr(sweep_module, "code_digest", lambda: "of other code")
    assert points(spec())[0].key != before


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
def test_bad_questions_are_refused_before_anything_runs(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message):
        run_sweep(spec(**changes), tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("seed", [1, 2])
def test_every_scenario_is_made_before_anything_runs(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(point: Point) -> None:
        if point.seed == seed:
            raise ScenarioError("the stations are not connected")

    monkeypatch.setattr(Point, "scenario", make)
    with pytest.raises(SpecError, match=f"flooding speed=0.0 seed={seed}: the stations"):
        run_sweep(spec(), tmp_path / "s")
    assert not (tmp_path / "s").exists()


@given(
    speeds=st.lists(st.integers(0, 50), min_size=1, max_size=4),
    intervals=st.lists(st.sampled_from(["0.5", "1", "1.0", "2"]), min_size=1, max_size=4),
    seeds=st.integers(1, 4),
    protocols=st.sets(st.sampled_from(list(PROTOCOLS))).map(lambda some: {*some, "broker-gpsr"}),
)
def test_points_are_one_for_each_combination(
    speeds: list[int], intervals: list[str], seeds: int, protocols: set[str]
) -> None:
    vary = {"speed": tuple(map(str, speeds)), "hello_interval": tuple(intervals)}
    found = points(spec(protocols=tuple(protocols), vary=vary, seeds=seeds))
    of_one = [
        1 if protocol == "flooding" else len(set(map(float, intervals))) for protocol in protocols
    ]
    assert len(found) == len(set(speeds)) * seeds * sum(of_one)
    assert len({point.key for point in found}) == len(found)
    for point in found:
        assert all(type(value) is float for value in point.values.values())


def test_a_file_is_what_it_holds_and_wherever_workers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "ways.tcl"
    file.write_text("one")
    wanted = spec(topology="ns2_trace", vary={}, settings={"file": "ways.tcl"})
    before = points(wanted)[0]
    assert before.settings["file"] == str(file)
    file.write_text("another")
    assert points(wanted)[0].key != before.key


# Folders.


def finish(sweep: Sweep, point: Point, **columns: Any) -> None:
    """Put what a finished point leaves."""
    metrics = sweep.path(point) / "metrics"
    metrics.mkdir(parents=True)
    (sweep.path(point) / "run.json").write_text(json.dumps({"problems": []}))
    row = {"topology": point.topology, "protocol": point.protocol, "seed": point.seed, **columns}
    pd.DataFrame([row]).to_parquet(metrics / "summary.parquet")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seeds": 3},
        {"vary": {"speed": ("0.0", "5", "9")}},
        {"protocols": ("broker-gpsr", "flooding", "broker-aodv")},
        {"settings": {"interval": "1.0", "nodes": 7}},
    ],
)
def test_the_same_question_and_more_of_it_is_admitted(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    sweep = Sweep(tmp_path / "s")
    assert not outdated(spec(), tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    finish(sweep, points(spec())[0])
    assert not outdated(spec(**changes), tmp_path / "s")


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 1},
        {"duration": 15.0},
        {"vary": {"speed": ("0", "9")}},
        {"vary": {"speed": ("0", "5"), "size": ("100",)}},
        {"protocols": ("flooding",)},
        {"settings": SMALL | {"nodes": "8"}},
        {"topology": "manhattan"},
    ],
)
def test_another_question_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    with pytest.raises(SweepError, match=r"--vary speed=0,5 .*ask for all of it and more.*--out"):
        outdated(spec(**changes), tmp_path / "s")
    assert sweep.noted() == (spec(), sweep_module.code_digest())


def test_points_of_other_code_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweep(tmp_path / "s")
    with sweep.alone():
        sweep.note(spec())
    finish(sweep, points(spec())[0])
    monkeypatch.setattr(sweep_module, "code_digest", lambda: "of other code")
    assert outdated(spec(), tmp_path / "s")


def test_a_damaged_question_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("[]")
    with pytest.raises(SweepError, match=r"sweep.json is damaged.*--out"):
        outdated(spec(), tmp_path)


def test_a_sweep_is_worked_on_by_one_at_a_time(tmp_path: Path) -> None:
    with Sweep(tmp_path / "s").alone(), pytest.raises(SweepError, match="being worked on"):
        run_sweep(spec(), tmp_path / "s")
    with Sweep(tmp_path / "s").alone():
        pass


def test_parameters_keep_their_types_where_not_all_have_them(tmp_path: Path) -> None:
    vary = {"prediction": ("true", "false"), "ttl": ("4",), "speed": ("3",), "standard": ("g", "b")}
    wanted = points(spec(protocols=("broker-aodv", "broker-gpsr"), vary=vary, seeds=1))
    sweep = Sweep(tmp_path / "s")
    for point in wanted:
        finish(sweep, point, nodes=7)
    results = sweep.results(wanted, vary)
    assert list(results)[:7] == ["topology", "protocol", *vary, "seed"]
    assert [str(results[key].dtype) for key in vary] == ["boolean", "Int64", "float64", "object"]
    assert results["ttl"].isna().tolist() == [True] * 2 + [False] * 4
    written = pq.read_table(tmp_path / "s" / "results.parquet").to_pandas()
    pd.testing.assert_frame_equal(written, results)


def test_what_is_wrong_with_points_is_said(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "s")
    bad, odd, good, left = points(spec(protocols=("flooding",)))
    note_failure(sweep.path(bad), KeyError("speed"))
    finish(sweep, odd)
    (sweep.path(odd) / "run.json").write_text(json.dumps({"problems": ["sta1: defect", "more"]}))
    finish(sweep, good)
    failures, problems = sweep.remarks([bad, odd, good, left])
    assert failures == {str(bad): f"KeyError: 'speed' ({sweep.path(bad) / FAILURE})"}
    assert problems == {str(odd): "sta1: defect (and 1 more)"}


def test_a_folder_that_is_no_sweep_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(SweepError, match="--out"):
        run_sweep(spec(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


# Runs.


@pytest.fixture(scope="module")
def outcome(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    seen: list[Progress] = []
    result = run_sweep(spec(), tmp_path_factory.mktemp("sweep") / "s", progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].failed) == (8, 8, 0)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    return result


@pytest.mark.spark
def test_a_row_a_point_with_its_parameters_and_metrics(outcome: Outcome) -> None:
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


@pytest.mark.spark
def test_packets_are_dropped_and_summaries_kept(outcome: Outcome) -> None:
    folders = list((outcome.folder / "points").iterdir())
    assert len(folders) == 8
    for folder in folders:
        assert [path.name for path in (folder / "metrics").iterdir()] == ["summary.parquet"]
        assert (folder / "scenario.json").exists()
        assert json.loads((folder / "run.json").read_text())["ended"] == "completed"


@pytest.mark.spark
def test_finished_points_are_not_run_again(
    spark: SparkSession, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr(sweep_module, "run_tasks", never)
    again = run_sweep(spec(), outcome.folder)
    pd.testing.assert_frame_equal(again.results, outcome.results)


@pytest.mark.spark
def test_only_what_is_new_or_lost_is_run(spark: SparkSession, outcome: Outcome) -> None:
    wider = spec(seeds=3)
    wanted = points(wider)
    sweep = Sweep(outcome.folder)
    lost = wanted[0]
    shutil.rmtree(sweep.path(lost))
    stamps = {p.key: sweep.path(p).stat().st_mtime_ns for p in wanted if sweep.path(p).exists()}
    result = run_sweep(wider, outcome.folder)
    assert len(result.results) == 12
    for key, stamp in stamps.items():
        assert (sweep.folder / "points" / key).stat().st_mtime_ns == stamp


@pytest.mark.spark
def test_a_failed_point_is_reported_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = spec(protocols=("flooding",), seeds=1)
    broken, sound = points(few)
    path = Sweep(tmp_path / "s").path(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "points", lambda _: [_broken(broken), sound])
        patch.setattr(sweep_module, "_check", lambda *_: None)
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


def _broken(point: Point) -> Point:
    return replace(point, settings={**point.settings, "propagation": "smoke signals"})


@pytest.mark.spark
def test_frames_are_kept_where_asked(spark: SparkSession, tmp_path: Path) -> None:
    one = spec(protocols=("flooding",), vary={}, seeds=1)
    results = run_sweep(one, tmp_path / "s", keep_frames=True).results
    (folder,) = (tmp_path / "s").glob("points/*")
    assert list(folder.glob("metrics/frames.parquet/*.parquet"))
    # The point is a run folder like any other, and its row the one that `analyze` gives.
    summary = analyse(spark, [folder]).table("summary")
    pd.testing.assert_frame_equal(results[summary.columns], summary, check_dtype=False)


@pytest.mark.spark
def test_a_run_that_was_not_analysed_is_not_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = spec(protocols=("flooding",), seeds=1)
    first = run_sweep(one, tmp_path / "s", keep_frames=True)
    lost, damaged = (Sweep(tmp_path / "s").path(point) for point in points(one))
    for path in (lost, damaged):
        (path / "metrics" / "summary.parquet").unlink()
    (frames,) = (damaged / "metrics" / "frames.parquet").glob("*.parquet")
    frames.write_bytes(b"not Parquet")

    monkeypatch.setattr(sweep_module, "run_tasks", lambda _spark, tasks, _report: list(tasks))
    second = run_sweep(one, tmp_path / "s")
    pd.testing.assert_frame_equal(second.results, first.results.iloc[:1])
    assert not list(lost.glob("metrics/frames.parquet"))
    # The other has failed, and is begun anew.
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
    assert "workers need the sweep's folder" in str(failure(tmp_path / "a"))


@pytest.mark.spark
def test_a_stopped_sweep_keeps_what_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.doing == "analysed":
            raise StopError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_module, "WAVE", 1)
        with pytest.raises(StopError):
            run_sweep(spec(seeds=1), tmp_path / "s", progress=stop)
    sweep = Sweep(tmp_path / "s")
    finished = [point for point in points(spec(seeds=1)) if sweep.finished(point)]
    assert 0 < len(finished) < 4
    assert len(pq.read_table(tmp_path / "s" / "results.parquet")) == len(finished)
    assert len(run_sweep(spec(seeds=1), tmp_path / "s").results) == 4

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from emulation.scenario.runfolder import Run, read_run
from nodeapp.pubsub.registry import kinds
from spark_analysis.captures import materialise as module
from spark_analysis.captures.files import Capture, find_captures
from spark_analysis.captures.materialise import materialise, read_frames
from spark_analysis.captures.schemas import FRAMES
from spark_analysis.errors import AnalysisError
from tests.capture.packets import pcap
from tests.spark_analysis.runs import RunBuilder


def run_with_captures(folder: Path) -> tuple[Run, Sequence[Capture]]:
    """Return a run of one node, whose client subscribes."""
    builder = RunBuilder(folder / "x", nodes=1)
    builder.subscribe(1, 1.0, ["a"])
    run = read_run(builder.write())
    return run, find_captures([run.captures])


@pytest.mark.spark
def test_captures_are_decoded_once_and_again_when_they_change(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = RunBuilder(tmp_path / "x", nodes=2)
    builder.subscribe(1, 1.0, ["a"])
    run = read_run(builder.write())
    captures = find_captures([run.captures])
    left_behind = run.metrics / ".frames.parquet-999999999"
    left_behind.mkdir(parents=True)

    with monkeypatch.context() as patch:
        patch.setattr(module, "AT_ONCE", 0)  # as large captures are: by tasks
        folder = materialise(spark, run, captures)
    assert folder == run.metrics / "frames.parquet"
    frames = read_frames(spark, [folder])
    assert frames.schema == FRAMES
    direct = spark.read.format("pcap").load(str(run.path))
    assert frames.count() == 2
    assert frames.exceptAll(direct).count() == direct.exceptAll(frames).count() == 0
    written = {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    assert materialise(spark, run, captures) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == written

    captures[0].path.write_bytes(pcap([bytes(60)]))
    materialise(spark, run, captures)
    assert read_frames(spark, [folder]).count() == 1
    assert list(run.metrics.iterdir()) == [folder]


@pytest.mark.spark
def test_of_two_analyses_the_faster_one_makes_the_frames(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, captures = run_with_captures(tmp_path)

    def after_the_other(new: Path, folder: Path) -> None:
        shutil.copytree(new, folder)
        new.rename(folder)

    monkeypatch.setattr(module, "replace_folder", after_the_other)
    folder = materialise(spark, run, captures)
    assert read_frames(spark, [folder]).count() == 2


ALONE: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
"""A session that nothing is asked of: few captures are decoded here."""


def made(folder: Path) -> int:
    return folder.stat().st_ino


def test_frames_that_another_analysis_reads_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, captures = run_with_captures(tmp_path)
    write, inodes = module._write, list[int]()

    def after_the_other(task: Any) -> None:
        monkeypatch.setattr(module, "_write", write)
        with monkeypatch.context() as patch:
            patch.setattr("os.getpid", lambda: 1)
            inodes.append(made(materialise(ALONE, run, captures)))
        write(task)

    monkeypatch.setattr(module, "_write", after_the_other)
    folder = materialise(ALONE, run, captures)
    assert [made(folder)] == inodes
    assert list(run.metrics.iterdir()) == [folder]


def test_frames_are_decoded_again_by_other_kinds_of_messages_and_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, captures = run_with_captures(tmp_path)
    (run.metrics / f".frames.parquet-{os.getpid()}").mkdir(parents=True)  # a container's numbers
    folder = materialise(ALONE, run, captures)
    before = made(folder)
    (run.metrics / ".frames.parquet-999999999-old").mkdir()
    assert made(materialise(ALONE, run, captures)) == before
    assert list(run.metrics.iterdir()) == [folder]
    more = {**kinds(), 63: kinds()[1]}
    monkeypatch.setattr(module, "kinds", lambda: more)
    assert made(materialise(ALONE, run, captures)) != before


@pytest.mark.spark
def test_rows_have_the_name_that_the_run_has_now(spark: SparkSession, tmp_path: Path) -> None:
    for name in "xy":
        builder = RunBuilder(tmp_path / name, nodes=1)
        builder.subscribe(1, 1.0, [name])
        run = read_run(builder.write())
        materialise(spark, run, find_captures([run.captures]))
    (tmp_path / "x").rename(tmp_path / "z")
    runs = [read_run(tmp_path / name) for name in "zy"]
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "z/metrics").rglob("*")}
    folders = [materialise(spark, run, find_captures([run.captures])) for run in runs]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "z/metrics").rglob("*")} == (
        written
    )
    frames = read_frames(spark, folders)
    assert frames.schema.names == FRAMES.names
    assert {row["run"]: row["node"] for row in frames.collect()} == {"z": "sta1", "y": "sta1"}


@pytest.mark.spark
def test_many_small_files_are_read_from_one(spark: SparkSession, tmp_path: Path) -> None:
    folders = []
    for number in range(module.FILES + 1):
        builder = RunBuilder(tmp_path / f"run{number}", nodes=1)
        builder.subscribe(1, 1.0, ["a"])
        run = read_run(builder.write())
        folders.append(materialise(spark, run, find_captures([run.captures])))
    (tmp_path / "run1").rename(tmp_path / "other")
    folders[1] = tmp_path / "other/metrics/frames.parquet"
    left_behind = folders[2].parent / ".together-999999999"
    left_behind.mkdir()
    as_they_are = read_frames(spark, folders)
    with module.frames_of(spark, folders) as frames:
        (file,) = frames.inputFiles()
        assert "together" in file
        assert frames.schema == FRAMES
        assert frames.exceptAll(as_they_are).count() == as_they_are.exceptAll(frames).count() == 0
        assert {row["run"] for row in frames.collect()} > {"run0", "other"}
    assert [list(folder.parent.iterdir()) for folder in folders] == [[each] for each in folders]
    with module.frames_of(spark, folders[1:]) as frames:
        assert len(frames.inputFiles()) == module.FILES


@pytest.mark.spark
@pytest.mark.parametrize("recorded", [False, True])
def test_damaged_frames_are_told_and_never_used(
    spark: SparkSession, tmp_path: Path, recorded: bool
) -> None:
    builder = RunBuilder(tmp_path / "x", nodes=2)
    builder.subscribe(1, 1.0, ["a"])
    run = read_run(builder.write())
    captures = find_captures([run.captures])
    folder = materialise(spark, run, captures)
    (part,) = folder.glob("*.parquet")
    if recorded:
        module.mark_recorded(folder, "x")
        part.unlink()
        with pytest.raises(AnalysisError, match=r"00000.parquet is missing.*run the scenario aga"):
            module.recorded(run)
        return
    for damage, why in (
        (part.unlink, "part-00000.parquet is missing"),
        (
            lambda: part.write_bytes(part.read_bytes()[:-9] + bytes(9)),
            "part-00000.parquet has other bytes than were written",
        ),
        (
            lambda: part.with_name("part-7.parquet").write_bytes(part.read_bytes()),
            "part-7.parquet does not belong there",
        ),
    ):
        damage()
        told: list[str] = []
        materialise(spark, run, captures, problem=told.append)
        assert told == [
            f"metrics/frames.parquet was damaged ({why}): the captures are decoded again"
        ]
        assert read_frames(spark, [folder]).count() == 2


@pytest.mark.spark
def test_a_folder_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    run = read_run(RunBuilder(tmp_path / "x").write())
    run.metrics.write_text("in the way")
    with pytest.raises(AnalysisError, match=r"cannot write in .*/x/metrics: File exists"):
        materialise(spark, run, find_captures([run.captures]))

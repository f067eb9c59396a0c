from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from emulation.scenario.runfolder import read_run
from spark_analysis.captures import materialise as module
from spark_analysis.captures.materialise import materialise, read_frames
from spark_analysis.captures.source import find_captures
from spark_analysis.errors import AnalysisError
from spark_analysis.schemas import FRAMES
from tests.capture.packets import pcap
from tests.spark_analysis.runs import RunBuilder


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
def test_a_folder_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    run = read_run(RunBuilder(tmp_path / "x").write())
    run.metrics.write_text("in the way")
    with pytest.raises(AnalysisError, match=r"cannot write in .*/x/metrics: File exists"):
        materialise(spark, run, find_captures([run.captures]))

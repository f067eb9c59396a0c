"""Sweeps over code that somebody writes: what is wrong with it costs no runs, and is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeapp.pubsub.flooding import Flooding
from spark_analysis.captures.materialise import FRAMES_FOLDER
from spark_analysis.errors import AnalysisError, UnusableRunError
from spark_analysis.measures import versions
from spark_analysis.measures.copies import COPIES
from spark_analysis.measures.versions import Files
from spark_analysis.sweeps import spec as spec_module
from spark_analysis.sweeps import sweep as sweep_module
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.spec import SpecError, SweepError, points
from spark_analysis.sweeps.sweep import Keep, run_sweep
from spark_analysis.sweeps.tasks import failure, ran
from tests.spark_analysis.measures.test_versions import edited
from tests.spark_analysis.sweeps.helpers import spec


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return folders of three runs whose packets are there."""
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        (folder / "metrics" / FRAMES_FOLDER).mkdir(parents=True)
    return folders


def summarised(monkeypatch: pytest.MonkeyPatch, runs: Sequence[Path], *errors: Exception) -> None:
    """Analyse runs, of which each gives an error, and all together any of these."""
    own = dict(zip(runs, errors, strict=True))

    def write(_: object, folders: Sequence[Path], **__: object) -> None:
        raise own[folders[-1]]

    monkeypatch.setattr(sweep_module, "write_summaries", write)
    monkeypatch.setattr(sweep_module, "stopped", lambda _: False)
    spark: Any = SimpleNamespace(sparkContext=None)
    sweep_module._analyse(spark, runs, Keep(frames=False, deliveries=False), ())


def test_a_query_that_fails_for_all_runs_ends_the_sweep_and_keeps_packets(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = AnalysisError("no column recieved_frames")
    with pytest.raises(AnalysisError, match=r"none of 3 runs .* recieved_frames; packets are"):
        summarised(monkeypatch, runs, error, error, error)
    assert [failure(run) for run in runs] == [None] * 3
    assert all(map(ran, runs))


def test_runs_that_fail_for_other_reasons_keep_packets_unless_these_are_damaged(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = UnusableRunError("frames.parquet is damaged")
    summarised(monkeypatch, runs, AnalysisError("no number"), damaged, AnalysisError("no number"))
    assert [failure(run) for run in runs] == ["no number", str(damaged), "no number"]
    assert [ran(run) for run in runs] == [True, False, True]


def test_measures_have_their_versions_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = edited([("copies", 'sf.mean(sf.col("times") - 1)', 'sf.mean("times")')])
    monkeypatch.setattr(versions, "_files", lambda: Files(sources))
    with pytest.raises(AnalysisError, match=r"of spark_analysis\.measures\.copies have .* --renew"):
        run_sweep(spec(), tmp_path / "s")
    assert not list(tmp_path.glob("s/points/*"))


def test_what_is_measured_is_not_varied(monkeypatch: pytest.MonkeyPatch) -> None:
    assert points(spec())
    monkeypatch.setattr(spec_module, "METRICS", (replace(COPIES, column="speed"),))
    with pytest.raises(SpecError, match="speed is also measured, in a column of that name"):
        points(spec())


def test_a_run_whose_protocol_raises_has_failed_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Flooding, *_: object) -> None:
        raise KeyError("[seen]")

    task = points(spec(protocols=("flooding",), vary={}, seeds=1))[0].task(tmp_path / "a")
    with monkeypatch.context() as patch:
        patch.setattr(Flooding, "disseminate", broken)
        task.run()
    assert "internal errors of node apps, the first at sta" in str(failure(task.folder))
    assert not ran(task.folder)
    task.run()
    assert failure(task.folder) is None
    assert ran(task.folder)


@pytest.mark.parametrize("what", ["the code of the runs", "a file that the runs read"])
def test_points_during_which_what_they_are_made_of_changed_run_again(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "ways.tcl"
    trace.write_text("one")
    asked = spec(topology="movement_trace", vary={}, settings={"file": str(trace)})
    sweep, new = SweepFolder(tmp_path / "s"), points(asked)
    for point in new:
        (sweep.path(point) / "metrics" / FRAMES_FOLDER).mkdir(parents=True)
    sweep_module._check_unchanged(sweep, asked, new)
    assert all(ran(sweep.path(point)) for point in new)
    if what.startswith("a file"):
        trace.write_text("another")
    else:
        monkeypatch.setattr(sweep_module, "is_current", lambda point: point.protocol == "flooding")
    with pytest.raises(SweepError, match=f"^{what} has changed: begin again"):
        sweep_module._check_unchanged(sweep, asked, new)
    assert not any(ran(sweep.path(point)) for point in new)

"""A point as a task: what it leaves to the collector of the worker that ran it."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest

from spark_analysis.sweeps import tasks
from spark_analysis.sweeps.tasks import Task, failure, processor_seconds


def run(folder: Path) -> None:
    task = Task(folder, "roaming_field", "flooding", 1, 21.0, {"nodes": 7, "interval": 1.0})
    task.run()
    assert failure(folder) is None
    assert processor_seconds(folder) > 0


def test_what_short_runs_leave_is_set_aside_and_collected_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_short_runs", itertools.count(1))
    monkeypatch.setattr(tasks, "ASIDE", 2)
    monkeypatch.setattr(tasks, "SHORT", 60.0)
    run(tmp_path / "one")
    assert gc.get_freeze_count() > 10_000
    run(tmp_path / "two")
    assert gc.get_freeze_count() < 10_000  # all is the collector's again


def test_what_a_long_run_leaves_is_collected_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "SHORT", 0.0)
    run(tmp_path / "one")
    assert gc.get_freeze_count() < 10_000

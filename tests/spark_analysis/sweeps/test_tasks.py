"""A point as a task: where it runs, and what it leaves to the collector of its worker."""

from __future__ import annotations

import gc
import itertools
from pathlib import Path

import pytest

from spark_analysis.engine import code
from spark_analysis.engine.code import Module, fingerprint, project
from spark_analysis.sweeps import tasks
from spark_analysis.sweeps.tasks import Task, failure, processor_seconds, ran

TASK = ("roaming_field", "flooding", 1, 21.0, {"nodes": 7, "interval": 1.0})


def run(folder: Path) -> None:
    Task(folder, *TASK, code=fingerprint()).run()
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


def test_workers_need_no_packages_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint.cache_clear()
    before = fingerprint()
    more = {**project(), "mylab": Module("mylab", "x = 1"), "tests.x": Module("tests.x", "")}
    for sources, same in ((more, True), (more | {"nodeapp.x": Module("nodeapp.x", "")}, False)):
        monkeypatch.setattr(code, "project", lambda sources=sources: sources)
        fingerprint.cache_clear()
        assert (fingerprint() == before) == same
    fingerprint.cache_clear()


def test_a_worker_with_other_code_says_so(tmp_path: Path) -> None:
    Task(tmp_path / "one", *TASK, code="other").run()
    assert "pack and send it again" in (failure(tmp_path / "one") or "")
    assert not ran(tmp_path / "one")

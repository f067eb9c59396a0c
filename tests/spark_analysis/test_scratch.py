from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException

from spark_analysis import scratch
from spark_analysis.engine.session import plain_errors
from spark_analysis.errors import AnalysisError


def test_folders_of_killed_analyses_are_removed_and_no_others(tmp_path: Path) -> None:
    mine, killed, other = (
        tmp_path / name
        for name in (
            f"testbed-spark-{os.getpid()}-x",
            "testbed-spark-999999999-y",
            "testbed-spark-z",
        )
    )
    for folder in (mine, killed, other):
        (folder / "blockmgr").mkdir(parents=True)
    assert scratch.clean(tmp_path) == [f"removed {killed} of a killed analysis"]
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])


def test_a_killed_process_that_has_not_come_to_its_end_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        folder = tmp_path / f"testbed-spark-{owner.pid}-x"
        folder.mkdir()
        assert scratch.clean(tmp_path) == []
        asked = []

        def ends(status: str) -> bool:
            asked.append(status)
            owner.kill()
            return True

        monkeypatch.setattr(scratch, "is_killed", ends)
        assert scratch.clean(tmp_path) == [f"removed {folder} of a killed analysis"]
        assert f"Pid:\t{owner.pid}\n" in asked[0]


def test_a_process_that_is_killed_is_told_by_its_signals() -> None:
    own = Path("/proc/self/status").read_text(encoding="ascii")
    assert not scratch.is_killed(own)
    for field in ("SigPnd", "ShdPnd"):
        assert scratch.is_killed(re.sub(rf"{field}:\t\w+", f"{field}:\t0000000000000100", own))
        assert not scratch.is_killed(re.sub(rf"{field}:\t\w+", f"{field}:\t{1 << 14:016x}", own))


def test_the_next_analysis_removes_what_a_killed_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "testbed-spark-999999999-y").mkdir()
    with scratch.folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.name.startswith(f"testbed-spark-{os.getpid()}-")
        with scratch.instead_of_tmp(folder):
            made = tempfile.mkdtemp()  # as PySpark does, which may be killed before it removes it
        assert Path(made).parent == folder
        assert tempfile.gettempdir() == str(tmp_path)
    assert not list(tmp_path.iterdir())


def test_java_that_never_saw_its_parent_end_is_ended(tmp_path: Path) -> None:
    started = []
    for owner in (os.getpid(), 999999999):
        folder = tmp_path / f"testbed-spark-{owner}-x"
        folder.mkdir()
        told = {scratch.TOLD_BY_JAVA: str(folder / "tmp" / "told")}
        started.append(subprocess.Popen(["sleep", "60"], env=os.environ | told))
    mine, orphan = started
    try:
        assert len(scratch.clean(tmp_path)) == 1
        assert not psutil.pid_exists(orphan.pid)
        assert mine.poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("logged", "message"),
    [
        ("Spark: ERROR Executor: java.lang.OutOfMemoryError: Java heap space", "out of memory"),
        ("Spark: ERROR Utils: no room", "SparkContext was shut down"),
    ],
)
def test_why_spark_ended_itself_is_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: str, message: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch.folder() as folder:
        (folder / scratch.LOG).write_text(logged)
        with pytest.raises(AnalysisError, match=message), plain_errors():
            raise PySparkException("Job 3 cancelled because SparkContext was shut down")

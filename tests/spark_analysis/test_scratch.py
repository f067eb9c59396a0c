from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from spark_analysis import scratch


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

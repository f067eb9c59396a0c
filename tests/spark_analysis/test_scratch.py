from __future__ import annotations

import os
from pathlib import Path

from spark_analysis import scratch


def test_folders_of_killed_analyses_are_removed_and_no_others(tmp_path: Path) -> None:
    mine, killed, other = (
        tmp_path / name
        for name in (f"{scratch.prefix()}x", "testbed-spark-999999999-y", "testbed-spark-z")
    )
    for folder in (mine, killed, other):
        (folder / "blockmgr").mkdir(parents=True)
    assert scratch.clean(tmp_path) == [f"removed {killed} of a killed analysis"]
    assert sorted(tmp_path.iterdir()) == sorted([mine, other])
    assert str(os.getpid()) in mine.name

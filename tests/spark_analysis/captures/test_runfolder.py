from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from emulation.errors import RunFolderError
from emulation.scenario.runfolder import read_run
from spark_analysis.analysis import read_runs
from spark_analysis.errors import AnalysisError
from tests.spark_analysis.runs import EPOCH, RunBuilder


def test_a_complete_run(tmp_path: Path) -> None:
    builder = RunBuilder(tmp_path / "x", nodes=2)
    run = read_run(builder.write())
    assert run.name == "x"
    assert run.scenario == builder.scenario()
    assert run.record is not None
    assert (run.record.epoch_ns, run.record.backend) == (EPOCH, "tap")
    assert run.fidelity is None
    assert run.problems == ()
    assert run.nodes() == [("x", "sta1", 1, 0x0A000001), ("x", "sta2", 2, 0x0A000002)]


def test_a_killed_run_is_read_and_says_so(tmp_path: Path) -> None:
    run = read_run(RunBuilder(tmp_path / "x").write(killed=True))
    assert run.record is None
    assert run.problems == ("no run.json (the run was killed?): the run's time 0 is estimated",)


def test_damaged_facts_are_left_out_and_reported(tmp_path: Path) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    (folder / "run.json").write_text('{"format": 1, "backend"')
    (folder / "fidelity.json").write_text('{"checks": []}')
    run = read_run(folder)
    assert (run.record, run.fidelity) == (None, None)
    assert [problem.split(":")[0] for problem in run.problems] == [
        "run.json is damaged and left out",
        "fidelity.json is damaged and left out",
        "the run's time 0 is estimated",
    ]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (".", "is not a folder: name a run folder"),
        ("scenario.json", "is not a run folder: it has no scenario.json"),
        ("captures", "has no folder captures"),
    ],
)
def test_a_folder_that_is_no_run(tmp_path: Path, missing: str, message: str) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    (folder / missing).resolve().rename(tmp_path / "elsewhere")
    with pytest.raises(RunFolderError, match=message):
        read_run(folder)


def test_a_scenario_that_is_none(tmp_path: Path) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    (folder / "scenario.json").write_text("{}")
    with pytest.raises(RunFolderError, match="is not a scenario: topology: is missing"):
        read_run(folder)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_pipes_and_devices_in_place_of_files_are_refused(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    folder = RunBuilder(tmp_path / "x").write()
    for name in ("run.json", "prompt.jsonl"):
        (folder / name).unlink(missing_ok=True)
        make(folder / name)
    what = "it is a pipe or a device: put a regular file in its place"
    assert read_run(folder).problems[::2] == (
        f"run.json cannot be read: {what}",
        f"prompt.jsonl cannot be read: {what}",
    )
    (folder / "scenario.json").unlink()
    make(folder / "scenario.json")
    with pytest.raises(RunFolderError, match=f"cannot read .*scenario.json: {what}"):
        read_run(folder)


def test_runs_need_different_names_and_are_read_once(tmp_path: Path) -> None:
    first = RunBuilder(tmp_path / "a" / "x").write()
    second = RunBuilder(tmp_path / "b" / "x").write()
    assert len(read_runs([first, first])) == 1
    with pytest.raises(AnalysisError, match="have the same name: rename one"):
        read_runs([first, second])
    with pytest.raises(AnalysisError, match="no run folder given"):
        read_runs([])

"""How a run ended is in its run.json, also on a full disk and if it was killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from capture.process import start_of
from emulation.backends.tap import TapBackend
from emulation.network.processes import await_condition
from emulation.scenario import provenance
from emulation.scenario.records import Ended
from emulation.scenario.runfolder import RESERVED, RunFolder, read_run
from nodeapp.installation import PROJECT
from testbed import clean as clean_command
from testbed.app import app
from tests.emulation.backends.test_tap import Recorded, quiet

root = pytest.mark.root


def fill(disk: Path) -> None:
    """Write until there is no room."""
    try:
        with (disk / "filler").open("ab", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
    except OSError:
        pass


def write(folder: RunFolder, ended: Ended, *problems: str) -> None:
    folder.write_record(
        backend="tap", epoch_ns=time.time_ns(), ended=ended, wall_seconds=1.0, problems=problems
    )


def facts(folder: RunFolder) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(folder.record.read_text())
    return value


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", str(path)], check=True)


@root
@pytest.mark.parametrize("begun", [True, False])
def test_last_words_need_no_room(disk: Path, begun: bool) -> None:
    folder = RunFolder.create(disk, quiet())
    if begun:
        write(folder, "running")
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        write(folder, "running")
    problems = ["a" * (RESERVED // 4), "b" * (RESERVED // 2)]
    write(folder, "failed", *problems)
    assert (facts(folder)["ended"], facts(folder)["problems"]) == ("failed", problems)
    assert sorted(path.name for path in folder.path.glob("run*")) == ["run.json"]


@root
def test_a_run_whose_disk_is_full_says_so(disk: Path) -> None:
    scenario = quiet(duration=2.0)
    folder = RunFolder.create(disk, scenario)

    def elapsed(seconds: float) -> None:
        if seconds > 0.5:
            fill(disk)

    with pytest.raises(OSError, match="No space left"):
        TapBackend().execute(scenario, folder, Recorded(elapsed))
    assert facts(folder)["ended"] == "failed"
    (problem,) = facts(folder)["problems"]
    lost = problem.removeprefix("the run failed: No space left on device; ").split(" ")
    assert lost[1:] == ["packets", "were", "not", "captured"]
    assert int(lost[0]) > 0


@root
def test_a_virtual_run_whose_disk_is_full_says_so(disk: Path) -> None:
    fill(disk)
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - 4 * RESERVED)
    words = ["run", "roaming_field", "flooding", "--backend", "virtual", "--nodes", "12"]
    words += ["--no-analyze", "--runs", str(disk)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    (record,) = disk.glob("*/run.json")
    assert facts(RunFolder(record.parent))["ended"] == "failed"
    assert "No space left on device" in facts(RunFolder(record.parent))["problems"][0]


class _Killed(NamedTuple):
    """A run that was killed: its process was `pid`."""

    pid: int
    folder: RunFolder


@pytest.fixture(scope="module")
def its_rests(tmp_path_factory: pytest.TempPathFactory) -> _Killed:
    """A run that was killed, and that nobody took for killed before."""
    runs = tmp_path_factory.mktemp("killed") / "runs"
    words = ["run", "roaming_field", "flooding", "--backend", "virtual", "--nodes", "6"]
    words += ["--duration", "20000", "--no-analyze", "--runs", str(runs)]
    with subprocess.Popen([sys.executable, "-m", "testbed", *words], cwd=PROJECT) as process:
        try:
            assert await_condition(lambda: any(runs.glob("*/run.json")), 60.0)
            (path,) = runs.iterdir()
            folder = RunFolder(path)
            assert not folder.note_killed()
            assert facts(folder)["ended"] == "running"
        finally:
            process.kill()
    return _Killed(process.pid, folder)


@pytest.fixture
def killed(its_rests: _Killed, tmp_path: Path) -> _Killed:
    """A copy of them, which a test may change."""
    path = its_rests.folder.path
    copy = shutil.copytree(path, tmp_path / "runs" / path.name, symlinks=True)
    return _Killed(its_rests.pid, RunFolder(copy))


@pytest.mark.slow
def test_a_run_that_was_killed_says_so_when_it_is_analysed(killed: _Killed) -> None:
    folder = killed.folder
    CliRunner().invoke(app, ["analyze", str(folder.path)])
    cause = f"the run was killed: its process {killed.pid} is gone"
    assert facts(folder)["ended"] == "killed"
    assert facts(folder)["problems"] == [cause]
    assert facts(folder)["owner"] is None
    assert facts(folder)["lasted"] is None
    assert read_run(folder.path).problems == (cause, "the run was not completed: killed")
    assert not folder.note_killed()


@pytest.mark.slow
def test_a_run_that_was_killed_says_so_when_its_rests_are_removed(
    killed: _Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = killed.folder
    monkeypatch.setattr(clean_command, "RUNS", folder.path.parent)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for removes in ("processes.sweep", "scratch.clean", "build.clean"):  # not of this test
        monkeypatch.setattr(f"testbed.clean.{removes}", list)
    output = CliRunner().invoke(app, ["clean"]).output
    assert f"the run was killed: {folder.path}" in output.replace("\n", "")
    assert facts(folder)["ended"] == "killed"


def test_a_process_is_told_from_another_one_of_the_same_number() -> None:
    me = provenance.this_process()
    assert me.pid == os.getpid()
    assert not provenance.has_ended(me)
    assert provenance.has_ended(me.model_copy(update={"began": me.began - 1}))
    for elsewhere in ({"boot": "another"}, {"namespace": "another"}):
        other = me.model_copy(update=elsewhere | {"began": 0})
        assert not provenance.has_ended(other), "nobody knows"


def test_a_process_whose_end_nobody_has_asked_for_has_ended() -> None:
    with subprocess.Popen(["sleep", "300"]) as process:
        began = start_of(process.pid)
        assert began is not None
        child = provenance.this_process().model_copy(update={"pid": process.pid, "began": began})
        assert not provenance.has_ended(child)
        process.kill()
        assert await_condition(lambda: provenance.has_ended(child), 20.0)
        assert process.returncode is None
    assert provenance.has_ended(child)

"""Run folders that come out of a guest, also if the command was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from emulation.vm.staging import recover, staging

OWNER = """
import sys, time
from pathlib import Path
from emulation.vm.staging import Staging
stage = Staging(Path(sys.argv[1]))
(stage.path / "run-1").mkdir()
(stage.path / "run-1" / "run.json").write_text("{}")
print(stage.path, flush=True)
time.sleep(300)
"""


def test_run_folders_move_up_also_after_an_error(tmp_path: Path) -> None:
    def interrupted() -> None:
        with staging(tmp_path) as stage:
            (stage.path / "run-1").mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["run-1"]


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    with staging(tmp_path) as stage:
        (stage.path / "run-1").mkdir()
    assert stage.folders == [tmp_path / "run-1-2"]


def test_two_machines_of_a_process_do_not_meet(tmp_path: Path) -> None:
    with staging(tmp_path) as first, staging(tmp_path) as second:
        assert first.path != second.path


def test_what_a_killed_command_left_is_found_and_a_living_one_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        try:
            assert recover(tmp_path) == []
            assert path.is_dir()
        finally:
            process.kill()
    with staging(tmp_path) as stage:
        assert stage.recovered == [tmp_path / "run-1"]
    assert recover(tmp_path) == []
    assert (tmp_path / "run-1" / "run.json").exists()
    assert not path.exists()


def test_what_cannot_be_moved_is_left_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".vm-0-0" / "run-1").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", Mock(side_effect=PermissionError))
        assert recover(tmp_path) == []
    assert recover(tmp_path) == [tmp_path / "run-1"]

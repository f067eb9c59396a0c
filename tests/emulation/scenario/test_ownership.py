"""What root makes for a user behind sudo is that user's, with the folders above it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulation.scenario.runfolder import RunFolder
from topologies.catalog import make_scenario

pytestmark = pytest.mark.root

USER = 65_534
SCENARIO = make_scenario(
    "roaming_field", "flooding", seed=1, duration=21, settings={"nodes": 6, "speed": 0}
)


def test_runs_made_by_root_are_the_callers_and_so_is_the_folder_of_all_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, USER, USER)
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))
    folder = RunFolder.create(project / "runs", SCENARIO)
    folder.give_to_caller()
    for path in (project / "runs", folder.path, folder.scenario, folder.captures):
        assert path.stat().st_uid == USER, path
    assert tmp_path.stat().st_uid == 0, "what is above the caller's own folder stays as it is"


def test_without_a_folder_of_the_callers_only_the_run_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))
    folder = RunFolder.create(tmp_path / "runs", SCENARIO)
    folder.give_to_caller()
    assert folder.path.stat().st_uid == USER
    assert (tmp_path / "runs").stat().st_uid == 0

"""What root makes for a user behind sudo is that user's, with the folders above it."""

from __future__ import annotations

import os
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from emulation.scenario.runfolder import RunFolder
from emulation.vm import run
from topologies.catalog import make_scenario

pytestmark = pytest.mark.root

USER = 65_534
SCENARIO = make_scenario(
    "roaming_field", "flooding", seed=1, duration=21, settings={"nodes": 6, "speed": 0}
)


@pytest.mark.parametrize("name", ["runs", "sweeps", "reproductions"])
def test_what_root_made_is_the_callers_and_so_is_the_folder_of_all_of_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, USER, USER)
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))
    folder = RunFolder.create(project / name, SCENARIO)
    folder.give_to_caller()
    for path in (project / name, folder.path, folder.scenario, folder.captures):
        assert path.stat().st_uid == USER, path
    assert tmp_path.stat().st_uid == 0, "what is above the caller's own folder stays as it is"
    for made in (f"{name}/another", f"{name}/{folder.path.name}/metrics"):
        # From inside, as other users may not pass through the folders of root's tests.
        subprocess.run(["mkdir", made], cwd=project, user=USER, group=USER, check=True)
        assert (project / made).stat().st_uid == USER


def test_what_a_machine_leaves_in_its_cache_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))
    image = SimpleNamespace(held=nullcontext)
    monkeypatch.setattr(run, "ensure_image", lambda *_, **__: image)
    monkeypatch.setattr(run, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(run, "compile_project", lambda project: None)
    with run.image_in_use(SimpleNamespace(stage=print)) as (_, cache, log):
        (cache / "saved.lock").touch()
        log.touch()
    assert {path.stat().st_uid for path in (log, log.parent, cache / "saved.lock")} == {USER}


def test_without_a_folder_of_the_callers_only_the_run_is_handed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_UID", str(USER))
    monkeypatch.setenv("SUDO_GID", str(USER))
    folder = RunFolder.create(tmp_path / "runs", SCENARIO)
    folder.give_to_caller()
    assert folder.path.stat().st_uid == USER
    assert (tmp_path / "runs").stat().st_uid == 0

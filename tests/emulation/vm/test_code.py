"""The project's code as a disk of the guest: packed once, and again when a file has changed."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulation.vm import code
from emulation.vm.code import pack
from emulation.vm.inputs import PYTHON
from emulation.vm.run import compile_project, writable
from tests.processes import hang

needs_program = pytest.mark.skipif(shutil.which(code.PROGRAM) is None, reason="no mksquashfs")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for name in ("emulation/net.py", "nodeapp/bin/pubsub", "runs/1/run.json", ".ryu/pyvenv.cfg"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text(name)
    return project


def test_a_program_that_hangs_is_given_up(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(code.PROGRAM, tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(code, "LIMIT", 0.1)
    cache = tmp_path / "cache"
    cache.mkdir()
    assert pack(project, cache) is None
    assert list(cache.iterdir()) == []


@needs_program
def test_folders_of_code_are_packed_once(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    packed = pack(project, cache)
    assert packed is not None
    listed = subprocess.run(
        ["unsquashfs", "-ll", "-d", "", packed], capture_output=True, text=True, check=True
    ).stdout
    names = {line.split()[-1] for line in listed.splitlines() if line.startswith("-")}
    assert names == {"/emulation/net.py", "/nodeapp/bin/pubsub", "/.ryu/pyvenv.cfg"}
    made = packed.stat().st_ino
    os.utime(packed, (0, 0))
    (project / "emulation/__pycache__").mkdir()
    (project / "emulation/__pycache__/net.cpython-311.pyc").touch()
    assert pack(project, cache) == packed
    assert packed.stat().st_ino == made
    (project / "emulation/net.py").write_text("edited")
    edited = pack(project, cache)
    assert edited is not None
    assert set(cache.iterdir()) == {packed, edited}
    os.utime(packed, (0, 0))  # nobody has used it for long
    (project / "emulation/net.py").write_text("edited again")
    again = pack(project, cache)
    assert again is not None
    assert set(cache.iterdir()) == {edited, again}
    one = pack(project, cache, ["nodeapp"])
    assert one is not None
    assert b"nodeapp" in one.read_bytes()


@needs_program
def test_two_pack_at_once(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    (cache / f"{code.PREFIX}others").mkdir(parents=True)
    look = Path.glob

    def glob(path: Path, pattern: str) -> Iterator[Path]:
        paths = [*look(path, pattern)]
        shutil.rmtree(cache / f"{code.PREFIX}others", ignore_errors=True)  # the other has ended
        yield from paths

    monkeypatch.setattr(Path, "glob", glob)
    assert pack(project, cache) is not None


def test_what_cannot_be_packed_is_read_over_9p(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pack(project, tmp_path / "no such cache") is None
    (tmp_path / "link").symlink_to(project / "emulation")
    assert pack(tmp_path, tmp_path, ["link"]) is None  # it would lead elsewhere in the guest
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pack(project, tmp_path) is None
    assert not list(tmp_path.glob(f"{code.PREFIX}*"))


@pytest.mark.skipif(PYTHON not in sys.version, reason="the guest's Python is another")
def test_modules_of_a_set_up_that_was_copied_are_compiled_for_the_guest(tmp_path: Path) -> None:
    for name in ("nodeapp/wire.py", ".ryu/lib/python3.11/site-packages/ryu/cfg.py"):
        module = tmp_path / name
        module.parent.mkdir(parents=True)
        module.write_text("x = 1")
        py_compile.compile(str(module))
        os.utime(module, (0, 0))  # as `cp -r` has it
        compile_project(tmp_path)
        compiled = Path(importlib.util.cache_from_source(str(module)))
        assert compiled.read_bytes()[8:12] == bytes(4), name  # the time of its source


def test_logs_and_code_have_one_folder_if_nothing_of_the_users_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    folder = writable(Path("/nowhere"))
    assert folder == tmp_path / f"pubsub-testbed-{os.getuid()}"
    assert writable(Path("/nowhere")) == folder
    folder.rmdir()
    folder.symlink_to(tmp_path)  # planted
    assert writable(Path("/nowhere")).parent == tmp_path
    assert writable(Path("/nowhere")) != folder

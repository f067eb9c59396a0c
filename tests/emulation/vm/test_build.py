"""Building the image: everything that can stop it, and what the next build finds."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.network.processes import await_condition
from emulation.vm import tools
from emulation.vm.build import (
    CACHE_VARIABLE,
    UNFINISHED,
    Additions,
    chosen_inputs,
    clean,
    command,
    ensure_image,
    extended,
    find_image,
)
from emulation.vm.inputs import ImageInputs, inputs_of
from nodeapp.installation import PROJECT
from testbed.app import app
from tests.emulation.vm.conftest import Stages
from tests.processes import hang

FEW = ImageInputs(inputs_of().requirements[:1])
"""What an image is made of that is never finished: one Python package is soon fetched."""

BUILDER = """
import sys
from pathlib import Path
from emulation.vm.build import ensure_image
from emulation.vm.inputs import ImageInputs
class Stages:
    def stage(self, text):
        print(text, flush=True)
ensure_image(Stages(), inputs=ImageInputs((sys.argv[2],)), cache=Path(sys.argv[1]))
"""


class StopAt(Stages):
    """Asks to stop at a stage, as Ctrl-C does."""

    def __init__(self, interrupts: Interrupts, word: str) -> None:
        super().__init__()
        self._interrupts, self._word = interrupts, word

    def stage(self, text: str) -> None:
        super().stage(text)
        self._interrupts.requested |= self._word in text


def at_work_in(folder: Path) -> list[int]:
    """Processes that have a folder as, or under, their root or working folder, or name it."""
    found = []
    for process in psutil.process_iter():
        try:
            links = [
                str(Path(f"/proc/{process.pid}/{name}").readlink()) for name in ("cwd", "root")
            ]
            words = process.cmdline()
        except (OSError, psutil.Error):
            continue
        if process.pid != os.getpid() and any(str(folder) in text for text in [*links, *words]):
            found.append(process.pid)
    return found


def unfinished(cache: Path) -> list[Path]:
    return list((cache / "images").glob(f"{UNFINISHED}*"))


def test_an_image_that_is_missing_needs_root_to_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(VmError, match=r"no image .* build it once: sudo ./run_testbed.sh vm build"):
        ensure_image(Stages(), cache=tmp_path)


def test_programs_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert set(tools.PACKAGES.values()) <= set(tools.missing())
    with pytest.raises(VmError, match="apt-get install mmdebstrap squashfs-tools qemu-system-x86"):
        tools.install_missing(lambda _: None)


def test_a_folder_that_is_no_image_counts_for_nothing(tmp_path: Path) -> None:
    assert find_image(cache=tmp_path) is None
    assert clean(tmp_path) == []


def test_the_image_that_was_asked_for_last_is_used_though_it_was_there(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\ntrue\n")
    plain, provisioned = inputs_of(), inputs_of(None, tmp_path / "script")
    for inputs in (plain, provisioned):
        folder = tmp_path / "images" / inputs.digest()
        folder.mkdir(parents=True)
        (folder / "image.json").touch()
    for inputs in (provisioned, plain, provisioned):
        asked = ensure_image(Stages(), inputs=inputs, cache=tmp_path)
        assert asked.name == inputs.digest()
        assert find_image(cache=tmp_path) == ensure_image(Stages(), cache=tmp_path) == asked


def test_systems_come_beside_what_was_chosen_and_what_cannot_be_read_is_not(tmp_path: Path) -> None:
    script, chosen = tmp_path / "script", tmp_path / "chosen.json"
    script.touch()
    before = inputs_of(None, script, systems=["babel"])
    chosen.write_text(Additions.of(before).model_dump_json())
    both = extended(inputs_of(systems=["mqtt"]), tmp_path)
    assert (both.systems, both.provision) == (("babel", "mqtt"), script)
    assert command(both) == f"vm build --provision {script} --with babel,mqtt"
    for text in ("null", "[]", '{"systems": 5}', '{"systems": [["a"]]}', '{"extra": 5}', "{"):
        chosen.write_text(text)
        assert chosen_inputs(tmp_path) == inputs_of()
    chosen.write_text('{"systems": ["gone"]}')
    with pytest.raises(VmError, match=r"no 'gone' .*; or choose another image: sudo .* vm build"):
        chosen_inputs(tmp_path)


def test_an_image_of_an_earlier_version_that_is_still_right_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    folder = tmp_path / "images" / inputs_of().digest()
    folder.mkdir(parents=True)
    (folder / "image.json").write_text('{"bytes": 1048576, "kernel": "6.1", "build_seconds": 2}')
    done = CliRunner().invoke(app, ["vm", "build"])
    assert done.exit_code == 0, done.output
    assert "1 MiB, Linux 6.1, built in 2 s)" in done.output


@pytest.mark.root
def test_a_disk_without_room_is_told_before_anything_is_done(small_disk: Path) -> None:
    stages = Stages()
    with pytest.raises(VmError, match=r"the disk is full: a build needs \d+ MiB under"):
        ensure_image(stages, cache=small_disk)
    assert not stages.seen


@pytest.mark.long
@pytest.mark.root
def test_a_disk_that_fills_up_during_the_build_is_told(small_disk: Path) -> None:
    stages = Stages()
    with pytest.raises(VmError, match=r"the disk is full: .* make room"):
        ensure_image(stages, inputs=FEW, cache=small_disk, needed=0)
    assert stages.seen
    assert find_image(FEW, small_disk) is None
    assert unfinished(small_disk) == []


@pytest.mark.root
def test_a_mirror_that_does_not_answer_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "deb http://127.0.0.1:9/debian bookworm main"
    monkeypatch.setattr("emulation.vm.mirror.sources", lambda: (source,))
    with pytest.raises(VmError, match=r"the image cannot be built: .*build.log") as told:
        ensure_image(Stages(), inputs=FEW, cache=tmp_path, needed=0)
    assert "\n" not in str(told.value)
    assert "127.0.0.1" in (tmp_path / "build.log").read_text()


@pytest.mark.root
def test_a_step_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang("mmdebstrap", tmp_path / "bin", monkeypatch)
    monkeypatch.setattr("emulation.vm.build.SILENT", 0.1)
    with pytest.raises(VmError, match=r"no output for 0.1 s \(log: .*build.log\)"):
        ensure_image(Stages(), inputs=FEW, cache=tmp_path / "cache", needed=0)
    assert unfinished(tmp_path / "cache") == []
    assert at_work_in(tmp_path / "cache") == []


@pytest.mark.root
def test_a_killed_build_leaves_no_process_and_the_next_starts_clean(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(tmp_path), *FEW.requirements],
        stdout=subprocess.PIPE,
        text=True,
    ) as builder:
        assert builder.stdout is not None
        for line in builder.stdout:
            if "extracting archives" in line:
                break
        assert at_work_in(tmp_path)
        assert clean(tmp_path) == ["left alone: a build of the virtual machine's image"]
        builder.kill()
    assert await_condition(lambda: not at_work_in(tmp_path), 10.0)
    left = unfinished(tmp_path)
    assert len(left) == 1
    assert find_image(FEW, tmp_path) is None

    with Interrupts() as interrupts:
        stages = StopAt(interrupts, "running apt-get update")
        with pytest.raises(KeyboardInterrupt):
            ensure_image(stages, inputs=FEW, cache=tmp_path, interrupts=interrupts)
    assert "image: running apt-get update" in stages.seen
    assert unfinished(tmp_path) == []
    assert at_work_in(tmp_path) == []


@pytest.mark.root
def test_clean_removes_what_a_killed_build_has_left(tmp_path: Path) -> None:
    (tmp_path / "build.lock").touch()
    left = tmp_path / "images" / f"{UNFINISHED}x"
    (left / "mmdebstrap.y/etc").mkdir(parents=True)
    assert clean(tmp_path) == [f"removed {left}"]
    assert not left.exists()


@pytest.mark.root
def test_a_second_build_waits_and_can_be_interrupted_in_that(tmp_path: Path) -> None:
    with (tmp_path / "build.lock").open("wb") as lock, Interrupts() as interrupts:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stages = StopAt(interrupts, "waiting for another build")
        with pytest.raises(KeyboardInterrupt):
            ensure_image(stages, cache=tmp_path, needed=0, interrupts=interrupts)
    assert stages.seen == ["waiting for another build to end"]


@pytest.mark.slow
@pytest.mark.root
def test_a_sweep_in_machines_has_their_image_built_first(tmp_path: Path) -> None:
    words = "sweep roaming_field flooding --nodes 6 --seeds 1 --duration 25 --backend machine --out"
    with (
        (tmp_path / "build.lock").open("wb") as lock,
        subprocess.Popen(
            [sys.executable, "-m", "testbed", *words.split(), tmp_path / "sweep"],
            cwd=PROJECT,
            env=os.environ | {CACHE_VARIABLE: str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        ) as command,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert command.stderr is not None
        first = command.stderr.readline()
        command.send_signal(signal.SIGINT)
        last = command.communicate(timeout=60)[1]
    assert first == "... waiting for another build to end\n"
    assert "the same command goes on from here" in last
    assert command.returncode == 130


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", disk], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)

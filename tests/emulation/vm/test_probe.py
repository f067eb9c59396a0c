"""Does KVM work?  QEMU is the real one; a script before it makes of KVM what the test needs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import psutil
import pytest

from emulation.errors import VmError
from emulation.vm import probe
from emulation.vm.build import Image

pytestmark = [pytest.mark.vm, pytest.mark.root]

SCRIPT = """#!{python}
import os, sys
{first}
emulated = {{"kvm": "tcg", "host": "max"}}
words = [emulated.get(word, word) for word in sys.argv[1:]]
os.execv({qemu!r}, [{qemu!r}, *words, *{more!r}])
"""


def qemu_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str = "", more: tuple[str, ...] = ()
) -> None:
    """Put a script before QEMU that does `first` and emulates if KVM is asked for."""
    qemu = shutil.which("qemu-system-x86_64")
    script = tmp_path / "bin/qemu-system-x86_64"
    script.parent.mkdir()
    script.write_text(SCRIPT.format(python=sys.executable, first=first, qemu=qemu, more=more))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(probe, "DEVICE", Path("/dev/null"))  # a device that is there


def machines() -> set[int]:
    """Return the processes of machines that run below this one."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if child.name().startswith("qemu")}


def test_a_guest_that_hangs_under_kvm_is_given_up_in_time(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machines()  # other tests share one
    # -S: the processor never executes an instruction.
    qemu_that(tmp_path, monkeypatch, more=("-S",))
    began = time.monotonic()
    verdict = probe.kvm_verdict(image, tmp_path, limit=2.0)
    assert verdict == probe.KvmVerdict(False, "a guest does not boot within 2 s")
    assert time.monotonic() - began < 8.0
    assert machines() == before
    assert probe.choose("auto", image, tmp_path)[0] == "tcg"


def test_a_guest_that_boots_is_believed_and_asked_once(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = tmp_path / "tried"
    qemu_that(tmp_path, monkeypatch, f"print(file=open({str(tried)!r}, 'a'))")
    for _ in range(2):
        assert probe.kvm_verdict(image, tmp_path, limit=60.0).works
    assert probe.choose("auto", image, tmp_path)[0] == "kvm"
    assert tried.read_text() == "\n"


def test_a_qemu_that_refuses_kvm_is_quoted(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = tmp_path / "tried"
    refuses = "sys.exit('qemu-system-x86_64: failed to initialize kvm')"
    qemu_that(tmp_path, monkeypatch, f"print(file=open({str(tried)!r}, 'a')); {refuses}")
    verdict = probe.kvm_verdict(image, tmp_path)
    assert verdict == probe.KvmVerdict(False, "failed to initialize kvm")
    assert probe.choose("auto", image, tmp_path)[0] == "tcg"
    assert tried.read_text() == "\n"
    # What is asked for by name is tried again: another program may have had KVM.
    with pytest.raises(VmError, match=r"KVM does not work here \(failed.*: use --accel tcg"):
        probe.choose("kvm", image, tmp_path)
    assert tried.read_text() == "\n\n"


def test_no_device_and_no_permission_are_told_without_starting_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "DEVICE", Path("/nowhere/kvm"))
    assert probe.quick_obstacle() == "no /nowhere/kvm"
    monkeypatch.setattr(probe, "DEVICE", Path("/dev/null"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "join the group kvm" in (probe.quick_obstacle() or "")


def test_no_qemu_is_told_with_the_package(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(VmError, match="QEMU is missing: apt-get install qemu-system-x86"):
        probe.choose("auto", image, tmp_path)


@pytest.mark.long
def test_this_machine_has_an_answer(image: Image, tmp_path: Path) -> None:
    verdict = probe.kvm_verdict(image, tmp_path)
    assert verdict.works or verdict.reason
    assert probe.cached_verdict(tmp_path) in {verdict, None}

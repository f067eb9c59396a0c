"""The machine whose clock waits: what goes in, what comes out, and what ends it."""

from __future__ import annotations

import errno
import itertools
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from emulation.errors import VmError
from emulation.network.interrupts import Interrupts
from emulation.network.processes import await_condition
from emulation.vm import kept, saved
from emulation.vm.build import Image, cache_folder
from emulation.vm.closed import _write_job, run_closed
from emulation.vm.preloaded import FILES
from emulation.vm.qemu import PER_NANOSECOND

pytestmark = [pytest.mark.vm, pytest.mark.root]

SCRIPT = f"""
cd {FILES}
date -u +%FT%T.%N
cat asked/question
sleep 3600  # an hour that takes no time
date -u +%FT%T.%N >answer
head -c 32 /dev/urandom >random
echo no such thing >&2
exit 3
"""


def closed(image: Image, folder: Path, script: str, **others: object) -> tuple[int, str, bytes]:
    """Run a script of the shell; return its exit code, its errors and its output."""
    output = bytearray()
    code, errors = run_closed(
        image,
        ["sh", "-c", script],
        folder,
        cache=cache_folder(),
        log=folder.with_suffix(".log"),
        output=output.extend,
        **others,  # type: ignore[arg-type]
    )
    return code, errors, bytes(output)


def test_files_go_in_and_out_and_all_is_the_same_for_the_same_seed(
    image: Image, tmp_path: Path
) -> None:
    for seed, again in ((1, "a"), (1, "b"), (2, "a")):
        folder = tmp_path / f"{seed}{again}"
        (folder / "asked").mkdir(parents=True)
        (folder / "asked/question").write_text("why?\n")
        code, errors, output = closed(image, folder, SCRIPT, seed=seed)
        assert (code, errors) == (3, "no such thing\n")
        began, question = output.decode().split()
        assert began.startswith("2026-01-01T00:0")
        assert question == "why?"
        assert (folder / "answer").read_text().startswith("2026-01-01T01:0")
        (folder / "output").write_bytes(output)
    first, second, other = (
        [(folder / name).read_bytes() for name in ("output", "answer", "random")]
        for folder in sorted(tmp_path.glob("*[ab]"))
    )
    assert first == second
    assert first[2] != other[2]


CLOCKS = """
import time
def clocks():  # QEMU's, the guest's, and how often its timer has gone off
    with open("/sys/class/rtc/rtc0/since_epoch") as outer, open("/proc/interrupts") as counters:
        timer = counters.read().partition("LOC:")[2].split()[0]
        return int(outer.read()), time.perf_counter(), int(timer)
before = clocks()
for _ in range(1000):
    time.sleep(0.01)
print(*(after - was for after, was in zip(clocks(), before)))
"""


def test_its_processor_executes_eight_instructions_in_a_nanosecond(
    image: Image, tmp_path: Path
) -> None:
    (tmp_path / "clocks").mkdir()
    (tmp_path / "clocks/clocks.py").write_text(CLOCKS)
    code, errors, output = closed(image, tmp_path / "clocks", f"python3 {FILES}/clocks.py")
    assert code == 0, errors
    outer, own, timer = map(float, output.split())
    assert outer == pytest.approx(PER_NANOSECOND * own, abs=1)
    assert own == pytest.approx(1000 * 0.01, rel=0.02), "it wakes up when it should, ..."
    assert timer < 1000 * 3, "and not before"


def test_nobody_waits_for_random_numbers_while_it_boots(image: Image, tmp_path: Path) -> None:
    """The kernel collects them for a second of its own, or 8 billion instructions, if asked."""
    (tmp_path / "x").mkdir()
    script = "busybox dmesg | grep -e 'root is up' -e 'crng init done'"
    code, errors, output = closed(image, tmp_path / "x", script)
    assert code == 0, errors
    up, ready = (float(line.partition(b"[")[2].partition(b"]")[0]) for line in output.splitlines())
    assert up < ready < up + 0.5


def test_what_does_not_end_is_ended(image: Image, tmp_path: Path) -> None:
    with pytest.raises(VmError, match=r"exceeded its time limit of 2 s"):
        closed(image, tmp_path, "while :; do :; done", time_limit=2.0)


def test_an_interrupt_ends_it(image: Image, tmp_path: Path) -> None:
    with Interrupts() as interrupts:
        began = itertools.count()

        def stop(data: bytes) -> None:
            next(began)
            interrupts.requested = True

        with pytest.raises(KeyboardInterrupt):
            run_closed(
                image,
                ["sh", "-c", "echo; while :; do :; done"],
                tmp_path,
                cache=cache_folder(),
                log=tmp_path.with_suffix(".log"),
                output=stop,
                interrupts=interrupts,
            )
        assert next(began) == 1


def test_a_guest_that_leaves_no_results_is_told(image: Image, tmp_path: Path) -> None:
    with pytest.raises(VmError, match=r"left no results \(log: .*\)"):
        closed(image, tmp_path, "busybox poweroff -f")


@pytest.mark.long
def test_a_booted_machine_is_saved_and_the_same_as_another_boot(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is random, and the kernel's timers, are those of the saved machine to the last bit."""
    script = "cat /proc/timer_list /proc/sys/kernel/random/boot_id; head -c 9 /dev/urandom | od -x"

    def run(name: str) -> tuple[bytes, bool]:
        folder = tmp_path / name
        folder.mkdir()
        code, errors, output = closed(image, folder, script)
        assert code == 0, errors
        return output, "root is up" in folder.with_suffix(".log").read_text(errors="replace")

    output, _ = run("first")
    assert run("saved") == (output, False)
    with monkeypatch.context() as patch:
        patch.setattr(kept, "_open", no_room)
        patch.setattr(kept, "_copy", no_room)
        assert run("booted") == (output, True)


def test_a_damaged_machine_is_booted_and_saved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / kept.FOLDER / "name"
    folder.mkdir(parents=True)
    for name in kept.NAMES:
        (folder / name).write_bytes(b"cut short")
    monkeypatch.setattr(saved, "_boot", lambda machine, ram, state, *_: ram.truncate(2 << 20))
    machine: Any = SimpleNamespace(memory=2, key=lambda: "name")
    for _ in range(2):
        with saved.saved(machine, tmp_path, tmp_path / "log") as (ram, _):
            assert len(ram.read()) == 2 << 20
    assert (folder / "ram").stat().st_size == 2 << 20
    assert [path.name for path in folder.parent.iterdir()] == ["name"]


def test_a_state_that_is_none_is_not_loaded(tmp_path: Path) -> None:
    for name in kept.NAMES:
        (tmp_path / name).write_bytes(bytes(1 << 20))
    with ExitStack() as stack:
        assert kept.kept(stack, tmp_path, 1) is None
        (tmp_path / "state").write_bytes(kept.MAGIC + b"rest")
        files = kept.kept(stack, tmp_path, 1)
        assert files is not None
        assert files[1].read() == kept.MAGIC + b"rest"


def test_code_that_was_packed_again_has_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emulation.vm.qemu.find_qemu", lambda: __file__)
    keys = []
    for when in (b"one", b"two", b"two"):
        (tmp_path / "code").write_bytes(when)
        keys.append(kept.key_of("the same", tmp_path, tmp_path / "code"))
    assert keys[0] != keys[1] == keys[2]


def test_a_job_has_each_name_of_a_file_and_no_more_than_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "one").write_text("text")
    (shared / "two").hardlink_to(shared / "one")
    empty = tmp_path / "empty"
    empty.mkdir()
    with kept.in_memory("job") as job:
        _write_job(job, {}, empty, [], [shared])
        job.seek(0)
        with tarfile.open(fileobj=job) as archive:
            sizes = {Path(each.name).name: each.size for each in archive if each.isfile()}
        assert {"one", "two"} <= sizes.keys()
        assert sizes["two"] == 4
    monkeypatch.setattr("emulation.vm.closed.SPACE", 1 << 20)
    with (shared / "large").open("wb") as large:
        large.truncate(2 << 20)
    with kept.in_memory("job") as job:
        with pytest.raises(VmError, match="hold more than"):
            _write_job(job, {}, empty, [], [shared])
        assert os.fstat(job.fileno()).st_size < 1 << 20


def test_two_that_need_the_same_machine_boot_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    boots: list[IO[bytes]] = []
    looked: list[Path] = []
    look = kept._open

    def watched(stack: ExitStack, path: Path) -> IO[bytes]:
        looked.append(path)
        return look(stack, path)

    def boot(_: object, ram: IO[bytes], *__: object) -> None:
        boots.append(ram)
        # This one has looked twice by now: the other one as well, in vain.
        assert await_condition(lambda: len(looked) > 2, 60)
        ram.truncate(2 << 20)

    def use() -> bytes:
        with saved.saved(machine, tmp_path, tmp_path / "log") as (ram, _):
            return ram.read()

    monkeypatch.setattr(kept, "_open", watched)
    monkeypatch.setattr(saved, "_boot", boot)
    machine: Any = SimpleNamespace(memory=2, key=lambda: "name")
    with ThreadPoolExecutor(2) as threads:
        contents = [threads.submit(use) for _ in range(2)]
        assert [each.result() for each in contents] == [bytes(2 << 20)] * 2
    assert len(boots) == 1


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")

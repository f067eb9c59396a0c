"""A real machine: commands in it, what it shares with the host, and every way that it can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emulation.errors import VmError
from emulation.network.processes import await_condition
from emulation.vm.build import Image, cache_folder
from emulation.vm.kept import FOLDER, NAMES
from emulation.vm.machine import Machine
from emulation.vm.qemu import Hardware, Share
from nodeapp.installation import PROJECT
from tests.emulation.vm.conftest import machine_with

pytestmark = [pytest.mark.vm, pytest.mark.root]

SMALL = Hardware("tcg", memory=512, processors=1)
"""Boots with two thirds of the work that a machine with two processors takes."""
BOOT_TO_FIRST_COMMAND = 720.0
"""Seconds beside all other tests, if it is saved; about 25 on an idle machine."""


def run(machine: Machine, command: str, time_limit: float | None = 60.0) -> tuple[int, str, str]:
    """Run a shell command in the guest; return its exit code, output and errors."""
    output, errors = bytearray(), bytearray()
    code = machine.run(
        ["sh", "-c", command],
        folder=PROJECT,
        output=output.extend,
        errors=errors.extend,
        time_limit=time_limit,
    )
    return code, output.decode(), errors.decode()


def log_of(machine: Machine) -> str:
    return machine.log.read_text(errors="replace")


def test_the_first_command_runs_soon(machine: Machine) -> None:
    assert machine.boot_seconds < BOOT_TO_FIRST_COMMAND


def test_streams_and_exit_code_of_a_command_come_back(machine: Machine) -> None:
    assert run(machine, "echo out; echo err >&2; exit 7") == (7, "out\n", "err\n")
    assert run(machine, "kill -9 $$")[0] == 128 + 9
    assert run(machine, "head -c 3000000 /dev/zero | tr '\\0' x")[1] == "x" * 3_000_000


def test_a_command_that_is_not_there_is_an_error_and_the_machine_goes_on(machine: Machine) -> None:
    with pytest.raises(VmError, match=r"cannot start the command: No such file.*frobnicate"):
        machine.run(["frobnicate"], folder=PROJECT)
    assert run(machine, "true")[0] == 0


def test_a_command_does_not_wait_for_input_nor_for_what_it_leaves_running(machine: Machine) -> None:
    assert run(machine, "cat; sleep 300 & echo done") == (0, "done\n", "")


def test_the_guest_has_its_modules_and_no_network_but_loopback(machine: Machine) -> None:
    assert run(machine, "ls /sys/class/net")[1].split() == ["lo"]
    code, _, errors = run(machine, "modprobe -a mac80211_hwsim openvswitch sch_netem && iw dev")
    assert (code, errors) == (0, "")
    assert "wlan1" in run(machine, "ls /sys/class/net; modprobe -r mac80211_hwsim")[1]


def test_the_guests_clock_is_the_hosts(machine: Machine) -> None:
    before = time.time()
    guest = float(run(machine, "date +%s.%N")[1])
    assert before - 0.5 < guest < time.time() + 0.5


def test_the_project_is_there_and_only_the_exchange_folder_is_the_hosts(machine: Machine) -> None:
    host = machine.shares[1].path
    assert run(machine, "cmp run_testbed.sh /proc/self/cwd/run_testbed.sh && pwd")[
        1
    ].strip() == str(PROJECT)
    # Code is read from a disk of its own, which is sooner.
    assert run(machine, "df --output=source emulation | tail -n 1")[1] == "code\n"
    assert run(machine, "echo guest >emulation/written; echo guest >/exchange/written")[0] == 0
    assert not (PROJECT / "emulation/written").exists()
    assert (host / "written").read_text() == "guest\n"
    (host / "from-host").write_text("host")
    assert run(machine, "cat /exchange/from-host")[1] == "host"


PROBE = """
import os, random, sys, time
print("emulation.backends.hwsim" in sys.modules, os.getcwd(), sys.argv[1:], os.environ["WORD"])
print(time.time())
print(random.random(), os.urandom(8).hex(), sys.stdin.read() == "")
sys.exit(7)
"""


def test_others_begin_where_it_was_saved(
    image: Image, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert machine.boot_seconds > 0

    def boot(*_: object) -> None:
        raise VmError("it boots")

    monkeypatch.setattr(Machine, "_boot", boot)
    (tmp_path / "probe.py").write_text(PROBE)
    drawn = []
    for _ in range(2):
        with machine_with(image, tmp_path) as another:
            output = bytearray()
            code = another.run(
                ["python3", "-m", "probe", "an argument"],
                folder=Path("/exchange"),
                environment={"WORD": "a word"},
                output=output.extend,
            )
            first, clock, numbers = output.decode().splitlines()
            assert (code, first) == (7, "True /exchange ['an argument'] a word")
            assert abs(float(clock) - time.time()) < 60.0
            drawn.append(numbers.split())
            assert run(another, "cat /proc/sys/kernel/random/uuid; exit 3")[0] == 3
    assert not set(drawn[0][:2]) & set(drawn[1][:2])
    assert drawn[0][2] == drawn[1][2] == "True"

    with machine_with(image, tmp_path) as another:  # its waiting process is for modules of Python
        assert run(another, "echo out; cat; exit 4") == (4, "out\n", "")
        drawn.append([run(another, "od -An -tx8 -N8 /dev/urandom")[1].strip()])
    assert len({numbers[-1] for numbers in drawn[2:]} | {drawn[0][1], drawn[1][1]}) == 3


def test_a_saved_machine_that_is_damaged_is_booted_anew(
    image: Image, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted = []
    monkeypatch.setattr(Machine, "_boot", lambda _, saved: booted.append(saved[0]))
    monkeypatch.setattr(Machine, "stop", Machine.kill)
    assert machine.boot_seconds > 0
    saved = max((cache_folder() / FOLDER).iterdir(), key=lambda path: path.stat().st_mtime)
    for name, size in (("state", 1000), ("ram", 1 << 20)):
        cache = tmp_path / name
        copy = cache / FOLDER / saved.name
        copy.mkdir(parents=True)
        for file in NAMES:
            os.link(saved / file, copy / file)
        (copy / name).unlink()
        (copy / name).write_bytes(bytes(size))
        with machine_with(image, tmp_path, cache):
            assert booted[-1] == copy
    assert len(booted) == 2


@pytest.mark.long
def test_a_hung_command_ends_with_its_time_limit(image: Image, tmp_path: Path) -> None:
    with (
        pytest.raises(VmError, match=r"it exceeded its time limit of 1 s .*serial.log"),
        Machine(image, SMALL, [], tmp_path / "serial.log") as machine,
    ):
        machine.run(["sleep", "300"], folder=Path("/"), time_limit=1.0)
    assert not psutil.pid_exists(machine.pid)
    assert log_of(machine)


@pytest.mark.long
def test_a_guest_that_panics_is_told_with_its_reason(image: Image, tmp_path: Path) -> None:
    with (
        pytest.raises(VmError, match=r"ended by itself: Kernel panic - not syncing: .*serial.log"),
        Machine(image, SMALL, [], tmp_path / "serial.log") as machine,
    ):
        machine.run(["sh", "-c", "echo c >/proc/sysrq-trigger"], folder=Path("/"), time_limit=60.0)
    assert "sysrq" in log_of(machine)


def test_a_killed_machine_is_told(image: Image, tmp_path: Path) -> None:
    def kill(_: bytes) -> None:
        os.kill(machine.pid, signal.SIGKILL)

    with (
        pytest.raises(VmError, match="was killed by signal 9"),
        Machine(image, SMALL, [], tmp_path / "serial.log") as machine,
    ):
        machine.run(
            ["sh", "-c", "echo up; sleep 300"], folder=Path("/"), output=kill, time_limit=60.0
        )


def test_an_image_that_does_not_boot_is_told(image: Image, tmp_path: Path) -> None:
    class Broken:
        kernel, initramfs, root = image.kernel, image.initramfs, tmp_path / "root"

    Broken.root.write_bytes(bytes(1 << 20))
    with (
        pytest.raises(VmError, match="testbed: cannot mount the image"),
        Machine(Broken(), SMALL, [], tmp_path / "serial.log"),
    ):
        pass


def test_a_share_that_is_not_there_is_told_with_the_word_of_qemu(
    image: Image, tmp_path: Path
) -> None:
    shares = [Share(tmp_path / "nowhere", Path("/mnt/x"))]
    with (
        pytest.raises(VmError, match="nowhere"),
        Machine(image, SMALL, shares, tmp_path / "serial.log"),
    ):
        pass


OWNER = """
import sys, time
from pathlib import Path
from emulation.vm.build import Image
from emulation.vm.machine import Machine
from emulation.vm.qemu import Hardware
hardware = Hardware("tcg", processors=1)
with Machine(Image(Path(sys.argv[1])), hardware, [], Path(sys.argv[2])) as machine:
    print(machine.pid, flush=True)
    time.sleep(300)
"""


def test_a_machine_does_not_outlive_a_killed_owner(image: Image, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(image.path), str(tmp_path / "serial.log")],
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        qemu = int(owner.stdout.readline())
        assert psutil.pid_exists(qemu)
        owner.kill()
    assert await_condition(
        lambda: (
            not psutil.pid_exists(qemu) or psutil.Process(qemu).status() == psutil.STATUS_ZOMBIE
        ),
        5.0,
    )

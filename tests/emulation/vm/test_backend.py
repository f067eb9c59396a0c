"""A backend in the guest: what is said of it here, and what tells it there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from emulation.backends.base import BackendError
from emulation.backends.virtual import VirtualBackend
from emulation.errors import VmError
from emulation.scenario.runfolder import RunFolder
from emulation.scenario.scenario import Scenario
from emulation.vm import backend as module
from emulation.vm.backend import GuestBackend
from emulation.vm.qemu import Share
from nodeapp.installation import PROJECT
from topologies.catalog import make_scenario

Guest = Callable[[Any], int]


class Recorded:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | float]] = []

    def stage(self, text: str) -> None:
        self.told.append(("stage", text))

    def elapsed(self, seconds: float) -> None:
        self.told.append(("elapsed", seconds))

    def problem(self, text: str) -> None:
        self.told.append(("problem", text))


@pytest.fixture
def scenario() -> Scenario:
    return make_scenario(
        "roaming_field", "flooding", seed=5, duration=21.0, settings={"nodes": 6, "speed": 0}
    )


def executed(
    guest: Guest, scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch
) -> Recorded:
    """Execute with `guest` in the machine's place: it gets what `run_in_vm` would."""
    observer = Recorded()

    def machine(command: list[str], **options: Any) -> int:
        folder = Path(command[-1])
        assert command[-2] == "virtual"
        assert options["share_rw"] == folder
        return guest(options)

    monkeypatch.setattr(module, "run_in_vm", machine)
    folder = RunFolder.create(root, scenario)
    GuestBackend(VirtualBackend()).execute(scenario, folder, observer)
    return observer


def test_what_the_guest_tells_reaches_the_observer(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guest(options: Any) -> int:
        options["observer"].stage("booting")
        lines = (
            b'{"stage": "running"}\n{"elapsed": 1.5}\na library prints\n{"problem": "sta1 died"}\n'
        )
        for cut in range(0, len(lines), 7):
            options["output"](lines[cut : cut + 7])
        return 0

    assert executed(guest, scenario, tmp_path, monkeypatch).told == [
        ("stage", "booting"),
        ("stage", "running"),
        ("elapsed", 1.5),
        ("problem", "sta1 died"),
    ]


def test_a_run_that_fails_there_fails_here_with_its_reason(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(options: Any) -> int:
        options["output"](b'{"error": "the kernel has no radios"}\n')
        return 1

    def crashed(options: Any) -> int:
        options["errors"](b"Traceback\nMemoryError\n")
        return 1

    def hung(options: Any) -> int:
        raise VmError("the virtual machine has not answered for 120 s")

    for guest, reason in (
        (refused, "the kernel has no radios"),
        (crashed, "MemoryError"),
        (hung, "has not answered"),
        (lambda options: 9, "it ended with code 9"),
    ):
        with pytest.raises(BackendError, match=reason):
            executed(guest, scenario, tmp_path, monkeypatch)


def test_an_interrupt_there_is_one_here(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        executed(lambda options: 130, scenario, tmp_path, monkeypatch)


class Guests:
    """Machines in which runs end with the given codes, one after the other."""

    def __init__(self, *codes: int) -> None:
        self._codes = iter(codes)
        self.booted, self.ended, self.clocks_set = 0, 0, 0
        self.interrupts: object = None

    @contextmanager
    def boot(self, observer: Any, shared: Share, options: Any, interrupts: Any) -> Iterator[Any]:
        observer.stage("booting")
        self.booted += 1
        self.shared = shared
        self.interrupts = interrupts
        try:
            yield self
        finally:
            self.ended += 1

    def set_clock(self) -> None:
        self.clocks_set += 1

    def run(self, command: list[str], **options: Any) -> int:
        assert command[-2] == "virtual"
        assert Path(command[-1]).is_relative_to(self.shared.path)
        assert not self.interrupts.requested  # type: ignore[attr-defined]  # this run's own
        options["output"](b'{"stage": "running"}\n')
        return next(self._codes)


def test_runs_share_a_machine_until_one_fails(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests = Guests(0, 0, 1, 0)
    monkeypatch.setattr(module, "booted", guests.boot)
    one, other = GuestBackend(VirtualBackend()), GuestBackend(VirtualBackend())

    def execute(backend: GuestBackend = one) -> list[tuple[str, str | float]]:
        observer = Recorded()
        backend.execute(scenario, RunFolder.create(tmp_path, scenario), observer)
        return observer.told

    with one.kept(tmp_path, [other]):
        assert execute() == [("stage", "booting"), ("stage", "running")]
        assert execute(other) == [("stage", "running")]
        assert guests.clocks_set == 1
        with pytest.raises(BackendError):
            execute()
        assert (guests.booted, guests.ended) == (1, 1)
        assert execute()[0] == ("stage", "booting")
        assert (guests.booted, guests.ended) == (2, 1)
    assert guests.ended == 2


def test_a_machine_without_qemu_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    (obstacle,) = GuestBackend(VirtualBackend()).obstacles()
    assert "apt-get install" in obstacle
    assert "qemu" in obstacle


def test_what_the_guests_backend_lacks_is_told_here() -> None:
    scenario = make_scenario("roaming_field", "mqtt", seed=1, duration=14.0, settings={})
    (line,) = GuestBackend(VirtualBackend()).unsupported(scenario)
    assert line in GuestBackend(VirtualBackend()).obstacles(scenario)
    assert "knows no virtual one: use --backend tap" in line


def tell(name: str, folder: Path) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "emulation.backends", name, folder],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_begun_folder_is_run_and_told_in_lines(scenario: Scenario, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, scenario)
    code, lines = tell("virtual", folder.path)
    assert code == 0
    assert {"stage": "running under the virtual clock"} in lines
    assert lines[-1] == {"elapsed": 21.0}
    assert json.loads(folder.record.read_text(encoding="utf-8"))["ended"] == "completed"
    assert any(folder.captures.iterdir())


def test_a_folder_without_a_scenario_is_an_error_in_a_line(tmp_path: Path) -> None:
    code, (line,) = tell("virtual", tmp_path)
    assert code == 1
    assert "cannot read" in line["error"]

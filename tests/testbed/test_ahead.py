"""The process that is made ready for the analysis while a run goes on."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import typer

import testbed.ahead
from emulation.network import liveness
from emulation.network.processes import await_condition
from emulation.scenario.runfolder import RunFolder
from testbed.ahead import Analyst
from testbed.background import LOWEST
from tests.emulation.backends.test_tap import quiet


@pytest.fixture(autouse=True)
def _not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a process started, although pytest captures output: by file descriptors, too."""
    monkeypatch.setattr(testbed.ahead, "_possible", lambda: True)


def ahead() -> psutil.Process:
    found: list[psutil.Process] = []

    def is_ahead(child: psutil.Process) -> bool:
        with suppress(psutil.Error):  # what another test has ended
            return "testbed.ahead" in child.cmdline()
        return False

    def there() -> bool:  # for a moment in execve it has no command line
        found[:] = filter(is_ahead, psutil.Process().children())
        return bool(found)

    assert await_condition(there, 10.0)
    (process,) = found
    return process


def test_it_waits_at_the_lowest_priority_and_ends_if_it_is_not_wanted() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it could not get its priority back")
    with Analyst() as analyst:
        analyst.start()
        analyst.start()
        process = ahead()
        deadline = time.monotonic() + 20
        while process.nice() != LOWEST:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert os.getsid(process.pid) == process.pid, "Ctrl-C is for the run"
    assert not process.is_running()


@pytest.mark.slow
def test_a_failure_is_told_and_is_that_of_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.create(tmp_path, quiet())
    with Analyst() as analyst, pytest.raises(typer.Exit) as end:
        analyst.analyse(folder.path, quiet=True)
    assert end.value.exit_code == 1
    assert "has no captures: there is nothing to analyse" in capfd.readouterr().err


def test_that_it_was_killed_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Analyst() as analyst:
        analyst.start()
        ahead().kill()
        with pytest.raises(typer.Exit) as end:
            analyst.analyse(tmp_path, quiet=True)
    assert end.value.exit_code == 1
    said = f"the analysis was killed by signal 9: run_testbed.sh analyze {tmp_path}"
    assert said in capfd.readouterr().err


def test_that_it_is_stopped_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "LIMIT", 0.5)
    with Analyst() as analyst:
        analyst.start()
        process = ahead()
        process.suspend()
        with pytest.raises(typer.Exit) as end:
            analyst.analyse(tmp_path, quiet=True)
    assert end.value.exit_code == 1
    said = (
        f"testbed.ahead (process {process.pid}) was stopped by a signal; run it again: "
        f"run_testbed.sh analyze {tmp_path}"
    )
    assert said in capfd.readouterr().err.replace("\n", " ")
    assert not process.is_running()

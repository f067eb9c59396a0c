"""The process that is made ready for the analysis while a run goes on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil
import pytest
import typer

from emulation.scenario.runfolder import RunFolder
from testbed.ahead import LOWEST, Analyst
from tests.emulation.backends.test_tap import quiet


def ahead() -> psutil.Process:
    (found,) = (
        child for child in psutil.Process().children() if "testbed.ahead" in child.cmdline()
    )
    return found


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


def test_a_failure_is_told_and_is_that_of_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.create(tmp_path, quiet())
    with Analyst() as analyst, pytest.raises(typer.Exit) as end:
        analyst.analyse(folder.path, quiet=True)
    assert end.value.exit_code == 1
    assert "has no captures: there is nothing to analyse" in capfd.readouterr().err

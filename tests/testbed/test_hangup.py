"""A terminal that is closed, as by a lost connection, while a run goes on."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from emulation.network.processes import PROJECT, await_condition

RUN = "run roaming_field flooding --duration 3600 --no-analyze --backend"
WAYS = {"virtual": "virtual --no-captures --nodes 300", "tap": "tap --nodes 6"}
"""Both take many minutes."""


def start(words: str, runs: Path) -> tuple[int, int]:
    """Start a command on a terminal of its own; return its pid and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(PROJECT)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
        line = ["-m", "testbed", *words.split(), "--runs", str(runs)]
        os.execv(sys.executable, [sys.executable, *line])
    return pid, terminal


def read_until(terminal: int, pattern: bytes, seconds: float = 120.0) -> None:
    said, end = b"", time.monotonic() + seconds
    while not re.search(pattern, said):
        assert time.monotonic() < end, said
        said += os.read(terminal, 65536)


def wait(pid: int, seconds: float = 120.0) -> int:
    """Return the exit code of a process that ends by itself."""
    status: list[int] = []

    def ended() -> bool:
        found, code = os.waitpid(pid, os.WNOHANG)
        if found:
            status.append(code)
        return bool(found)

    if not await_condition(ended, seconds):
        os.kill(pid, signal.SIGKILL)
        pytest.fail("it did not end")
    return os.waitstatus_to_exitcode(status[0])


@pytest.mark.parametrize("backend", ["virtual", pytest.param("tap", marks=[pytest.mark.root])])
def test_a_run_whose_terminal_is_closed_is_interrupted_and_says_so(
    backend: str, tmp_path: Path
) -> None:
    pid, terminal = start(f"{RUN} {WAYS[backend]}", tmp_path)
    read_until(terminal, rb"[1-9]\d* of 3600 s")
    os.close(terminal)
    assert wait(pid) == 130
    (folder,) = tmp_path.iterdir()
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["ended"] == "interrupted"
    assert record["lasted"] > 0
    assert record["problems"] == []
    assert (folder / "fidelity.json").exists() == (backend == "tap")

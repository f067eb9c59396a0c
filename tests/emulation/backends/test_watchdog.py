"""Who hangs, and who only waits for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from emulation.backends.base import BackendError
from emulation.backends.realtime import watchdog
from emulation.backends.realtime.helpers import Helpers
from emulation.backends.realtime.watchdog import Watchdog
from emulation.network.interrupts import Interrupts
from emulation.network.processes import StateFolder, await_condition

SPIN = "while True: pass"
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python code on this test's first processor."""
    with ExitStack() as stack:
        processor = min(os.sched_getaffinity(0))

        def begin(code: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([sys.executable, "-c", code])
            stack.enter_context(process)
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {processor})
            return process

        yield begin


@pytest.mark.slow
def test_a_helper_without_a_processor_does_not_hang_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.setattr(watchdog, "LIMIT", 0.4)
    monkeypatch.setattr(watchdog, "STARVED", 2.0)
    monkeypatch.setattr(watchdog, "BETWEEN", 0.0)
    rivals = [start(SPIN) for _ in range(6)]  # of 19, each gets five times what an idle one gets
    starved, waiting = start(SPIN), start("import time; time.sleep(60)")
    assert await_condition(lambda: all(spent(each.pid) > 0 for each in (*rivals, starved)), 60.0)
    assert await_condition(lambda: b"\0-c\0" in read(waiting.pid, "cmdline"), 60.0)
    os.sched_setscheduler(starved.pid, os.SCHED_IDLE, os.sched_param(0))
    with Interrupts() as interrupts:
        helpers = Helpers(StateFolder(tmp_path), tmp_path / "log", interrupts)

        def hung_after(process: subprocess.Popen[bytes], name: str) -> float:
            helpers.clear()
            helpers[name] = process
            dog = Watchdog(helpers, {}, {name: lambda: False}, lambda: 5.0)

            def look() -> bool:
                dog.check()
                return False

            began = time.monotonic()
            with pytest.raises(BackendError, match=f"the {name} has hung since .* of the scenario"):
                await_condition(look, 20.0)
            return time.monotonic() - began

        assert hung_after(waiting, "driver") < 2.0
        assert hung_after(starved, "medium") > 2.0  # told in the end


def read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def spent(pid: int) -> int:
    return int(read(pid, "stat").rpartition(b")")[2].split()[11])

"""Processes that stand still are ended, and those that get on are not."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import psutil
import pytest

from emulation.network.liveness import Watch, family, is_stopped
from emulation.network.processes import await_condition, end_processes

SLEEP = "import time; print('ready', flush=True); time.sleep(300)"
SPIN = "print('ready', flush=True)\nwhile True: pass"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {SPIN!r}])
"""

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python code, and returns when it runs."""
    with ExitStack() as stack:

        def begin(code: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            stack.callback(end_processes, family(process.pid)[1:])
            return process

        yield begin


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    assert await_condition(lambda: is_stopped(process.pid), 20.0)


class Looked:
    """The processes of `pid`, and how often somebody looked at them."""

    def __init__(self, pid: int) -> None:
        self.times = 0
        self._pid = pid

    def __call__(self) -> Sequence[psutil.Process]:
        self.times += 1
        return family(self._pid)


def test_a_process_that_is_stopped_is_named_and_killed(start: Start) -> None:
    process = start(SLEEP)
    with Watch(partial(family, process.pid), limit=0.2) as watch:
        stop(process)
        assert process.wait(20.0) == -signal.SIGKILL
    name = f"(process {process.pid}) was stopped by a signal"
    assert watch.cause is not None
    assert watch.cause.endswith(name)


def test_the_whole_family_is_killed_for_one_that_is_stopped(start: Start) -> None:
    process = start(PARENT)
    (child,) = psutil.Process(process.pid).children()
    with Watch(partial(family, process.pid), limit=0.2) as watch:
        child.suspend()
        assert process.wait(20.0) == -signal.SIGKILL
        child.wait(20.0)
    assert watch.cause is not None
    assert f"(process {child.pid}) was stopped by a signal" in watch.cause


def test_a_process_that_waits_is_left_alone_and_one_that_goes_on_is_forgiven(start: Start) -> None:
    process = start(SLEEP)
    looked = Looked(process.pid)
    with Watch(looked, limit=1.0) as watch:
        stop(process)
        assert await_condition(lambda: looked.times > 1, 20.0)
        process.send_signal(signal.SIGCONT)
        assert await_condition(lambda: looked.times > 12, 60.0)
    assert watch.cause is None
    assert process.poll() is None


def test_processes_that_all_wait_are_named_and_killed(start: Start) -> None:
    process = start(SLEEP)
    with Watch(partial(family, process.pid), limit=0.4, idle_limit=0.5) as watch:
        assert process.wait(30.0) == -signal.SIGKILL
    assert watch.cause is not None
    assert watch.cause.endswith(" did nothing for 0.5 s")
    assert f"(process {process.pid})" in watch.cause


def test_a_process_whose_child_works_is_not_idle(start: Start) -> None:
    process = start(PARENT)
    looked = Looked(process.pid)
    with Watch(looked, limit=0.4, idle_limit=0.5) as watch:
        assert await_condition(lambda: looked.times > 15, 60.0)
    assert watch.cause is None

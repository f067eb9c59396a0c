"""A warm process forks processes that run modules: what becomes of them, and what they are."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from emulation.network.liveness import is_stopped
from emulation.network.processes import await_condition
from emulation.network.warm import NURSERY, ROOM, Warm
from tests.processes import lives

MODULE = """
import os, random, signal, sys, time
if __name__ == "__main__":
    print(*sys.argv, os.getsid(0), random.random(), flush=True)
    print("to standard error", file=sys.stderr, flush=True)
    what = sys.argv[1]
    if what == "raise":
        raise RuntimeError("as asked")
    if what.isdecimal():
        sys.exit(int(what))
    time.sleep(300)
"""
KILLED_RUN = """
import os, sys, time
from emulation.network.warm import Warm
warm = Warm([], os.environ, 1)
print(*(warm.start("asked", ["wait"], os.open(os.devnull, os.O_WRONLY), dies_with_run=dies).pid
        for dies in (True, False)), flush=True)
time.sleep(300)
"""
A_NURSERY = """
import os, socket, sys
import asked
from emulation.network.warm import nursery
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
    listener.bind(sys.argv[1] + ".new")
    listener.listen()
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    nursery(listener)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "asked.py").write_text(MODULE)
    path = os.pathsep.join((str(tmp_path), str(Path.cwd())))
    return {**os.environ, "PYTHONPATH": path, "MARK": "of the run"}


@pytest.fixture
def nursery(environment: dict[str, str], tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "nursery"
    command = [sys.executable, "-c", A_NURSERY, str(path), ROOM]
    with subprocess.Popen(command, env=environment) as process:
        assert await_condition(path.exists, 10.0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.connect(str(path))  # whoever asks for nothing gets nothing
        yield path
        process.kill()


@pytest.fixture(params=["of its own", "of a nursery"])
def warm(
    request: pytest.FixtureRequest,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Warm]:
    if request.param == "of a nursery":
        monkeypatch.setenv(NURSERY, str(request.getfixturevalue("nursery")))
    with (tmp_path / "warm.log").open("wb") as log:
        each = Warm(["asked"], environment, log)
    yield each
    each.close()


def test_a_process_is_what_python_m_would_start(warm: Warm, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = warm.start("asked", ["wait", "-x", "a b"], log)
    assert await_condition(lambda: "standard error" in (tmp_path / "log").read_text(), 10.0)
    words = (tmp_path / "log").read_text().split("\n")[0].split(" ")
    assert words[1:5] == ["wait", "-x", "a", "b"]
    assert words[5] == str(process.pid)  # a session of its own: no signals of a terminal
    seen = psutil.Process(process.pid)
    command = [word for word in seen.cmdline() if word]
    assert command == [sys.executable, "-m", "asked", "wait", "-x", "a b"]
    assert seen.environ()["MARK"] == "of the run"
    assert process.poll() is None
    process.terminate()
    assert process.wait(10.0) == -signal.SIGTERM
    process.terminate()  # it has ended: of no effect, and no error
    assert process.poll() == -signal.SIGTERM


def test_the_answer_to_a_start_that_was_interrupted_is_not_the_next_ones(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(limit: float) -> None:
        raise KeyboardInterrupt

    with (tmp_path / "log").open("wb") as log:
        with monkeypatch.context() as patched:
            patched.setattr(warm, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                warm.start("asked", ["0"], log)
        process = warm.start("asked", ["7"], log)
        assert process.wait(10) == 7


def test_ends_are_told_with_their_codes(warm: Warm, tmp_path: Path) -> None:
    codes = {"0": 0, "7": 7, "raise": 1}
    asked = {}
    for word in (*codes, "wait"):  # a log each: lines of several would run into each other
        with (tmp_path / word).open("wb") as log:
            asked[word] = warm.start("asked", [word], log)
    lasting = asked.pop("wait")
    assert {word: process.wait(10.0) for word, process in asked.items()} == codes
    said = {word: (tmp_path / word).read_text() for word in codes}
    assert "RuntimeError: as asked" in said["raise"]
    # Each has random numbers of its own.
    assert len({text.splitlines()[0].split()[-1] for text in said.values()}) == len(codes)
    with pytest.raises(subprocess.TimeoutExpired):
        lasting.wait(0.05)
    lasting.kill()
    assert lasting.wait(10.0) == -signal.SIGKILL


def test_hundreds_end_while_nobody_listens(warm: Warm) -> None:
    with Path(os.devnull).open("wb") as nothing:
        crowd = [warm.start("asked", ["0"], nothing) for _ in range(20)]
        # More signals and ends than the socket holds messages: neither side may wait for the other.
        crowd[0].wait(10.0)
        for _ in range(2_000):
            warm.send_signal(crowd[0].pid, signal.SIGTERM)
        assert [process.wait(10.0) for process in crowd] == [0] * 20


def test_a_warm_process_that_dies_is_told(warm: Warm, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        process = warm.start("asked", ["wait"], log, dies_with_run=True)
        parent = psutil.Process(process.pid).parent()
        assert parent is not None
        parent.kill()
        assert process.wait(10.0) == -signal.SIGKILL
        with pytest.raises(OSError, match="the process that starts asked has ended"):
            warm.start("asked", ["wait"], log)


def test_a_module_that_cannot_be_loaded_is_in_the_log(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "log").open("wb") as log:
        warm = Warm(["no.such.module"], environment, log)
        with pytest.raises(OSError, match="has ended"):
            warm.start("no.such.module", [], log)
        warm.close()
    assert "No module named 'no'" in (tmp_path / "log").read_text()


def test_a_killed_run_leaves_only_what_is_to_outlive_it(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_RUN], env=environment, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        dies, stays = map(psutil.Process, map(int, run.stdout.readline().split()))
        run.kill()
    try:
        assert await_condition(lambda: not lives(dies), 10.0)
        assert lives(stays)
    finally:
        stays.kill()


def test_a_warm_process_that_is_stopped_serves_who_waits_for_it(warm: Warm, tmp_path: Path) -> None:
    def stop() -> None:
        warm._process.send_signal(signal.SIGSTOP)
        assert await_condition(lambda: is_stopped(warm._process.pid), 20.0)

    with (tmp_path / "log").open("wb") as log:
        stop()
        process = warm.start("asked", ["wait"], log)
        stop()
        process.kill()
        assert process.wait(30.0) == -signal.SIGKILL

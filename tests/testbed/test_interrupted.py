"""Ctrl-C, which a terminal sends to the whole process group: one line and 130, at any moment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from emulation.backends.virtual import run_virtual
from nodeapp.installation import PROJECT
from spark_analysis.scratch import TOLD_BY_JAVA
from tests.processes import lives
from topologies.catalog import make_scenario

RUN = "run roaming_field flooding --nodes 6 --backend virtual"
SWEEP = "sweep roaming_field flooding --nodes 6 --seeds 1 --duration 25"
SIGNALS = ("--default-signal=INT", "--block-signal=INT")
"""The tests may run in the background of a shell, which ignores it."""
LIMIT = 120.0
"""Seconds until a moment has come, or a command has ended; it takes far less."""


def start(
    words: str, folder: Path, python: tuple[str, ...] = ("-m", "testbed")
) -> subprocess.Popen[str]:
    """Start a command as run_testbed.sh does, as leader of a process group."""
    temporary = folder / "tmp"
    temporary.mkdir()
    return subprocess.Popen(
        ["env", *SIGNALS, sys.executable, *python, *words.split()],
        cwd=PROJECT,
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def interrupt(process: subprocess.Popen[str], folder: Path) -> str:
    """Send the signal; return what the command has written, which has left nothing else."""
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=LIMIT)[0]
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert "error" not in output.lower()
    assert len(re.findall("^interrupted", output, re.MULTILINE)) == 1
    psutil.wait_procs(children, LIMIT)
    assert not [child for child in children if lives(child)]
    assert list((folder / "tmp").glob("testbed-spark-*")) == []
    return output


def when(true: Callable[[], bool], process: subprocess.Popen[str], every: float = 0.005) -> None:
    """Wait until something is true of a process that goes on, looking every so many seconds."""
    until = time.monotonic() + LIMIT
    while not true():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(every)


def loaded(process: subprocess.Popen[str], library: str) -> Callable[[], bool]:
    maps = Path(f"/proc/{process.pid}/maps")
    return lambda: library in maps.read_text(encoding="ascii")


def held_back(process: subprocess.Popen[str]) -> Callable[[], bool]:
    """Return whether SIGINT does not end a process any more: blocked or, later, handled."""
    status = Path(f"/proc/{process.pid}/status")
    masks = re.compile(r"^Sig(?:Blk|Cgt):\s*([0-9a-f]+)$", re.MULTILINE)
    bit = 1 << (signal.SIGINT - 1)
    return lambda: any(int(mask, 16) & bit for mask in masks.findall(status.read_text("ascii")))


def when_java(has: Callable[[list[str]], bool], process: subprocess.Popen[str]) -> None:
    """Wait until something is true of the names of a command's processes of Java.

    Looking at all processes takes a while: it is done less often.
    """
    when(lambda: has(java(process)), process, every=0.05)


def java(process: subprocess.Popen[str]) -> list[str]:
    """Return the names of a command's processes of Java and its workers, while they start too."""
    names = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if TOLD_BY_JAVA in child.environ():
                names.append(child.name())
        except psutil.Error:
            continue
    return names


@pytest.mark.parametrize("library", ["env", "bin/python", "_multiarray_umath"])
def test_a_command_that_is_being_loaded_ends_with_a_line(library: str, tmp_path: Path) -> None:
    with start("list", tmp_path) as process:
        # `env` keeps the signal for Python; what comes earlier ends it as it ends any program.
        when(held_back(process) if library == "env" else loaded(process, library), process)
        assert interrupt(process, tmp_path) == "interrupted\n"


SWALLOWED = """
import os, signal, time
from testbed.interruption import guarded

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)

def dropped():
    Finalized()
    time.sleep(60)

def translated():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise OSError("a pipe is broken") from None

def printed():
    from testbed.options import fail
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        fail("Spark failed")

def in_text():
    exec("import signal; signal.raise_signal(signal.SIGINT)")

def repeated():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGINT)
        print("cleaned")

raise SystemExit(guarded({}))
"""


@pytest.mark.parametrize("kind", ["dropped", "translated", "printed", "in_text", "repeated"])
def test_an_interruption_that_libraries_swallow_is_still_one(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWALLOWED.replace("{}", kind)],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "interrupted\n")
    assert done.stdout == ("cleaned\n" if kind == "repeated" else "")


def test_what_is_not_interrupted_ends_as_it_does() -> None:
    guarded = "import sys; from testbed.interruption import guarded as g; sys.exit(g({}))"
    for end, code in {"0": 0, "2": 2, "None": 0, "'no'": 1}.items():
        program = guarded.format(f"lambda: sys.exit({end})")
        done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, check=False)
        assert done.returncode == code


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder."""
    settings = {"nodes": 6}
    run = make_scenario("roaming_field", "flooding", seed=1, duration=25.0, settings=settings)
    return run_virtual(run, tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("moment", ["Java starts", "Spark works"])
def test_an_analysis_ends_with_java(moment: str, recorded: Path, tmp_path: Path) -> None:
    with start(f"analyze {recorded} --out {tmp_path / 'out'}", tmp_path) as process:
        if moment == "Java starts":
            when_java(bool, process)
        else:  # which has workers in Python
            when_java(lambda names: any("python" in name for name in names), process)
        assert interrupt(process, tmp_path) == "interrupted\n"


@pytest.mark.slow
@pytest.mark.spark
def test_a_run_interrupted_in_its_analysis_says_how_to_go_on(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with start(f"{RUN} --duration 25 --runs {runs}", tmp_path) as process:
        when(lambda: any(runs.glob("*/run.json")), process)
        when_java(bool, process)
        output = interrupt(process, tmp_path)
    (folder,) = runs.iterdir()
    assert f"run_testbed.sh analyze {folder}\n" in output


@pytest.mark.slow
@pytest.mark.spark
def test_a_sweep_that_starts_spark_ends_with_its_own_line(tmp_path: Path) -> None:
    with start(f"{SWEEP} --out {tmp_path / 'sweep'}", tmp_path) as process:
        when_java(lambda names: "java" in names, process)
        assert "the same command goes on from here" in interrupt(process, tmp_path)

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from emulation.network.liveness import is_stopped
from emulation.network.processes import (
    OWN_RUN_FOLDER,
    StateFolder,
    await_condition,
    end,
    end_processes,
    running,
    sweep,
)
from tests.processes import lives
from topologies.catalog import make_scenario

OWNER = """
import subprocess, sys, time
from pathlib import Path
from emulation.network.processes import StateFolder
state = StateFolder(Path(sys.argv[1]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"],
                         env=state.environment(), start_new_session=True)
print(child.pid, flush=True)
time.sleep(300)
"""


def owner(root: Path) -> tuple[subprocess.Popen[str], psutil.Process]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(root)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, psutil.Process(int(process.stdout.readline()))


def test_sweep_leaves_a_living_run_alone_and_ends_what_a_killed_one_left(tmp_path: Path) -> None:
    process, child = owner(tmp_path)
    with process:
        try:
            assert running(tmp_path) == [process.pid]
            assert sweep(tmp_path) == []
            assert child.is_running()
        finally:
            process.kill()
    done = sweep(tmp_path)
    assert f"ended process {child.pid} of a killed run" in done
    assert await_condition(lambda: not lives(child), 5.0)
    assert list(tmp_path.iterdir()) == []
    assert sweep(tmp_path) == []


def test_an_owner_whose_pid_was_reused_counts_as_gone(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    (state.path / "owner.json").write_text(f'{{"pid": {os.getpid()}, "began": 1}}')
    assert running(tmp_path) == []
    assert sweep(tmp_path) == [f"removed {state.path}"]


def test_a_folder_of_another_version_is_left_to_its_process(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    (state.path / "owner.json").write_text(f'{{"pid": {os.getpid()}, "created": 1.0}}')
    assert running(tmp_path) == [os.getpid()]
    assert sweep(tmp_path) == []


def test_removing_the_state_folder_ends_marked_processes(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)
    process = subprocess.Popen(["sleep", "300"], env=state.environment())
    state.remove()
    assert not psutil.pid_exists(process.pid)
    process.wait()
    assert not state.path.exists()


def test_end_kills_what_will_not_stop(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('x', flush=True)\n"
        "time.sleep(300)"
    )
    process = subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    assert end(process, grace=0.1) == -signal.SIGKILL
    process.stdout.close()


def stopped() -> subprocess.Popen[bytes]:
    """Start a process and stop it by a signal."""
    process = subprocess.Popen(["sleep", "300"])
    process.send_signal(signal.SIGSTOP)
    assert await_condition(lambda: is_stopped(process.pid), 20.0)
    return process


def test_a_process_that_is_stopped_ends_as_others_do() -> None:
    assert end(stopped(), grace=60.0) == -signal.SIGTERM
    process, began = stopped(), time.monotonic()
    end_processes([psutil.Process(process.pid)], grace=120.0)
    process.wait()
    assert time.monotonic() - began < 100.0


@pytest.mark.root
def test_a_program_with_a_folder_of_its_own_neither_sees_nor_leaves_a_file_in_run() -> None:
    name = f"testbed-{os.getpid()}"
    script = f"ls -A /run; touch /run/{name} && echo made"
    command = [*OWN_RUN_FOLDER, "sh", "-c", script]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"made\n"
    assert not Path("/run", name).exists()


@pytest.mark.root
def test_the_limit_on_open_files_is_named(tmp_path: Path) -> None:
    settings = {"nodes": 40, "topics": 1, "subscribers": 30}
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=30.0, settings=settings)
    scenario.save(tmp_path / "scenario.json")
    names = ("status", "start", "control")
    config = {name: str(tmp_path / name) for name in names} | {
        "scenario": str(tmp_path / "scenario.json"),
        "pids": {node.name: os.getpid() for node in scenario.nodes},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "emulation.network.driver", str(tmp_path / "config.json")],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "driver: Too many open files: a process may have 20 (raise the limit: ulimit -n 80)\n"
    )

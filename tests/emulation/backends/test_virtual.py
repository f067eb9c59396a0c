"""The virtual backend from the command line: whole runs, and what may go wrong."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from emulation.backends.base import BackendError
from emulation.backends.virtual import VirtualBackend
from emulation.scenario.runfolder import RunFolder
from testbed.app import app
from topologies.catalog import make_scenario

ROOT = Path(__file__).resolve().parents[3]
RUN = [sys.executable, "-m", "testbed", "run", "roaming_field", "flooding"]
VIRTUAL = ["--backend", "virtual", "--no-analyze"]


def invoke(*arguments: str, runs: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*RUN, *VIRTUAL, "--runs", str(runs), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        **options,
    )


def only_run(runs: Path) -> Path:
    (folder,) = runs.iterdir()
    return folder


def test_a_run_writes_the_same_folder_as_any_backend(tmp_path: Path) -> None:
    done = invoke("--duration", "15", runs=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = only_run(tmp_path)
    facts = json.loads((folder / "run.json").read_text())
    assert (facts["backend"], facts["ended"], facts["problems"]) == ("virtual", "completed", [])
    assert not facts["started"].startswith("2000")
    assert not (folder / "fidelity.json").exists()
    assert len(list((folder / "captures").iterdir())) == 40


def test_no_root_is_needed(tmp_path: Path) -> None:
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if os.geteuid() != 0:
        nobody = []
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import emulation.virtual.simulation as s;"
        "from topologies.catalog import make_scenario as m;"
        "from emulation.virtual.recording import NullRecorder as N;"
        "x = s.Simulation(m('roaming_field', 'flooding', seed=1, duration=12, settings={}), N());"
        "x.run(); print(x.medium.counters.totals()['sent'], 'mininet' in sys.modules)"
    )
    done = subprocess.run(
        [*nobody, sys.executable, "-c", script, str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    if "ermission" in done.stderr and nobody:
        pytest.skip("the project lies where other users may not read")
    assert done.returncode == 0, done.stderr
    sent, mininet = done.stdout.split()
    assert float(sent) > 50
    assert mininet == "False"


def test_there_is_no_prompt(tmp_path: Path) -> None:
    scenario = make_scenario("roaming_field", "flooding", seed=1, duration=12, settings={})
    folder = RunFolder.create(tmp_path, scenario)
    with pytest.raises(BackendError, match="no prompt"):
        VirtualBackend().execute(scenario, folder, None, lambda network: None)  # type: ignore[arg-type]


def test_columns_only_are_for_virtual_runs(tmp_path: Path) -> None:
    words = ["run", "roaming_field", "flooding", "--no-analyze", "--no-captures"]
    words += ["--backend", "tap", "--runs", str(tmp_path)]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert "--no-captures works with --backend virtual only" in done.output
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    command = [*RUN, *VIRTUAL, "--runs", str(tmp_path), "--duration", "20000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        limit = time.monotonic() + 90
        while not any(tmp_path.glob("*/run.json")):
            assert time.monotonic() < limit
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in errors
    assert "Traceback" not in errors
    facts = json.loads((only_run(tmp_path) / "run.json").read_text())
    assert facts["ended"] == "interrupted"


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_line_and_whole_records(tmp_path: Path) -> None:
    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    done = invoke("--duration", "300", runs=tmp_path, preexec_fn=limited)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    from spark_analysis.captures.files import find_captures
    from spark_analysis.captures.source import survey

    assert survey(find_captures([only_run(tmp_path)])).problems == {}
    facts = json.loads((only_run(tmp_path) / "run.json").read_text())
    assert facts["ended"] == "failed"

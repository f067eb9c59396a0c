"""Sweeps: the command, and the cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import typer
from pyspark.find_spark_home import _find_spark_home
from typer.testing import CliRunner

from spark_analysis.captures import class_data
from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.spec import SweepSpec
from spark_analysis.sweeps.sweep import Progress, SweepOutcome
from testbed.app import app as command_line
from tests.spark_analysis.sweeps.helpers import ROOT, spec, synthetic

# The command.


@pytest.fixture
def app() -> typer.Typer:
    return command_line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vary", "speed"], "--vary takes KEY=VALUE"),
        (["--vary", "speed=1,,2"], "--vary takes KEY=VALUE"),
        (["--vary", "speed=1", "--vary", "speed=2"], "given twice"),
        (["--set", "speed"], "--set takes KEY=VALUE"),
        (["--duration", "-1"], "--duration"),
        (["--vary", "colour=red"], "no parameter 'colour'"),
        (["--draws", "colour"], "draws cannot differ by 'colour'"),
    ],
)
def test_bad_input_ends_in_one_line(
    app: typer.Typer, tmp_path: Path, words: list[str], message: str
) -> None:
    arguments = ["sweep", "roaming_field", "flooding", "--out", str(tmp_path / "s"), *words]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_the_end_of_a_sweep_is_printed(
    app: typer.Typer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: dict[str, str] = {}
    results = [synthetic(), pd.DataFrame()]
    problems = {f"flooding seed={seed}": "odd" for seed in range(7)}

    def pretend(spec: SweepSpec, folder: Path, *, progress: Any, **_: Any) -> SweepOutcome:
        with SweepFolder(folder).alone():
            SweepFolder(folder).note(spec)
        progress(Progress("running", 1, 0, 2))
        return SweepOutcome(spec, folder, results.pop(0), failures, problems)

    monkeypatch.setattr("testbed.sweep.run_sweep", pretend)
    words = ["sweep", "roaming_field", "flooding", "--vary", "speed=1,10"]
    words += ["--out", str(tmp_path / "s")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "running: 1 of 2" in done.output
    assert f"report: {tmp_path / 's' / 'sweep.html'}" in done.output
    assert "problems of 2 more runs" in done.output
    failures |= {"flooding seed=9": "broke (failed.txt)"}
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "failed: flooding seed=9: broke (failed.txt)" in done.output
    assert "1 point failed; the same command runs it again" in done.output


def test_another_spec_in_the_folder_is_one_line(app: typer.Typer, tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path)
    with sweep.alone():
        sweep.note(spec())
    words = ["sweep", "roaming_field", "flooding", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "holds another sweep" in done.output
    assert done.output.count("\n") == 1


@pytest.mark.spark
def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path) -> None:
    words = ["sweep", "roaming_field", "flooding", "--vary", "nodes=20,30,40", "--seeds", "9"]
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", *words, "--duration", "9000", "--out", tmp_path],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 90
        while not any(tmp_path.glob("points/*/run.json")):
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "goes on from here" in errors
    assert "Traceback" not in errors


# A cluster.


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A standalone master and two workers on loopback."""
    home = Path(_find_spark_home())
    launch = [str(home / "bin" / "spark-class")]
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    environment = {
        "PATH": "/usr/bin:/bin",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(("-XX:+UseSerialGC", *class_data.options())),
        "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"],
    }
    deploy = "org.apache.spark.deploy"
    worker = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "1g", master]
    commands = [
        [
            f"{deploy}.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            "0",
        ],
        [f"{deploy}.worker.Worker", *worker],
        [f"{deploy}.worker.Worker", *worker],
    ]
    processes = []
    try:
        with (tmp_path / "cluster.log").open("w") as log:
            for words in commands:
                processes.append(
                    subprocess.Popen([*launch, *words], env=environment, stdout=log, stderr=log)
                )
            limit = time.monotonic() + 60
            while (tmp_path / "cluster.log").read_text().count("Registering worker") < 2:
                assert time.monotonic() < limit, (tmp_path / "cluster.log").read_text()
                time.sleep(0.1)
        yield master
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


@pytest.mark.spark
def test_a_cluster_runs_the_points(cluster: str, tmp_path: Path) -> None:
    words = ["sweep", "roaming_field", "flooding", "--vary", "speed=0,5", "--seeds", "1"]
    words += ["--duration", "14", "--nodes", "7", "--set", "interval=1", "--master", cluster]
    done = subprocess.run(
        [sys.executable, "-m", "testbed", *words, "--out", str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    results = pq.read_table(tmp_path / "s" / "results.parquet").to_pandas()
    assert len(results) == 2
    assert (results["delivery_ratio"] == 1.0).all()
    # Both workers had an executor, and the tasks ran there.
    assert len(list((tmp_path / "work").glob("app-*/*"))) == 2

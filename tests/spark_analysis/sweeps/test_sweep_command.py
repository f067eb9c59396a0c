"""Sweeps: the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from spark_analysis.sweeps.folder import SweepFolder
from spark_analysis.sweeps.page import QUANTITIES
from spark_analysis.sweeps.spec import SweepSpec
from spark_analysis.sweeps.sweep import Progress, SweepOutcome
from testbed.app import app as command_line
from tests.spark_analysis.sweeps.helpers import ROOT, spec, synthetic


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
        (["flooding"], "flooding is named 2 times"),
        (["--vary", "speed=1,1.0"], "speed=1.0 seed=1 comes twice: give each value"),
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
    rows = synthetic()
    rows[[each.column for each in QUANTITIES if each.column != "delivery_ratio"]] = float("nan")
    results = [rows, pd.DataFrame()]  # with one figure
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
    assert "more runs with problems: 2" in done.output
    results.insert(0, rows)
    outcome = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert outcome["report"] == str(tmp_path / "s" / "sweep.html")
    assert (outcome["runs"], outcome["failures"]) == (12, {})
    gap = outcome["differences"][0]
    assert (gap["first"], gap["second"], gap["at"]) == ("flooding", "broker-gpsr", {"speed": 1.0})
    assert (gap["mean"], gap["decided"], gap["seeds"]) == (0.0, False, 3)
    failures |= {"flooding seed=9": "broke (failed.txt)"}
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "failed: flooding seed=9: broke (failed.txt)" in done.output
    assert "failed points: 1; the same command tries them again" in done.output


def test_another_spec_in_the_folder_is_one_line(app: typer.Typer, tmp_path: Path) -> None:
    sweep = SweepFolder(tmp_path)
    with sweep.alone():
        sweep.note(spec())
    words = ["sweep", "roaming_field", "flooding", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1
    assert "holds another sweep" in done.output
    assert done.output.count("\n") == 1


@pytest.mark.long
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
        while not any(tmp_path.glob("points/*/run.json")):
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
        _, errors = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert "goes on from here" in errors
    assert "Traceback" not in errors


@pytest.mark.root
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "roaming_field", "flooding"),
        ("reproduce", "mesh-prediction", "--so-far"),
    ],
)
def test_a_folder_that_is_refused_stays_whose_it_was(
    app: typer.Typer, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("mine")
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.setenv(name, "65534")
    result = CliRunner().invoke(app, [*words, "--out", str(foreign)])
    assert result.exit_code in (1, 2)
    assert [path.stat().st_uid for path in (foreign, foreign / "letter.txt")] == [0, 0]

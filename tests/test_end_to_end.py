"""From one command to a report: real processes, sockets, captures and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import psutil
import pytest

from emulation.network.processes import PROJECT

pytestmark = [pytest.mark.root, pytest.mark.spark]


def run(runs: Path) -> tuple[Path, str, list[tuple[str, int]]]:
    """Run a small static network.

    Return its run folder, what the terminal showed, and the niceness of Java while the run went on
    and at its end: the stage, and the number.
    """
    words = f"run roaming_field broker-gpsr --nodes 8 --duration 20 --runs {runs}".split()
    for setting in ("speed=0", "topics=2", "subscribers=3", "interval=0.5", "selectivity=0.5"):
        words += ["--set", setting]
    command = subprocess.Popen(
        [sys.executable, "-m", "testbed", *words], cwd=PROJECT, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    shown, seen = "", []
    for line in command.stderr:
        shown += line
        for stage in ("stopping", "run folder"):
            if stage in line:
                niceness = java_of(command.pid)
                seen += [] if niceness is None else [(stage, niceness)]
    assert command.wait() == 0, shown
    (folder,) = runs.iterdir()
    return folder, shown, seen


def java_of(pid: int) -> int | None:
    """Return the niceness of the Java machine that a process has started, None if there is none."""
    children = psutil.Process(pid).children(recursive=True)
    return next((child.nice() for child in children if child.name() == "java"), None)


@pytest.mark.timeout(180)
def test_a_run_ends_in_a_report(tmp_path: Path) -> None:
    folder, shown, java = run(tmp_path)
    assert java[0] == ("stopping", 19), "Spark starts while the run goes on, at idle priority"
    summary = pd.read_parquet(folder / "metrics" / "summary.parquet").iloc[0]
    assert summary["events"] > 20
    # Two topics, three subscribers each, a filter that half of the events match.
    assert 0.3 * 3 * summary["events"] < summary["expected_all"] < 0.7 * 3 * summary["events"]
    assert summary["delivery_ratio"] > 0.95
    assert summary["duplicates"] == summary["unexpected"] == summary["unknown"] == 0
    assert 0 < summary["delay_p50"] < 0.1
    assert summary["event_frames"] > 0
    assert summary["control_frames"] > 0
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert f"{100 * summary['delivery_ratio']:.0f}" in report
    assert "roaming_field" in report
    assert 'id="replay-data"' in report
    assert len(report) < 1_500_000
    assert f"report: {folder / 'report.html'}" in shown
    assert "delivery " in shown

"""From one command to a report: real processes, sockets, captures and Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from nodeapp.installation import PROJECT
from spark_analysis import sweeps

pytestmark = [pytest.mark.root, pytest.mark.spark]


def command(*words: str) -> str:
    """Run a command on a small static network; return what the terminal showed."""
    words = (*words, "--nodes", "8")
    for setting in ("speed=0", "topics=2", "subscribers=3", "interval=0.5", "selectivity=0.5"):
        words += ("--set", setting)
    result = subprocess.run(
        [sys.executable, "-m", "testbed", *words],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


def test_a_run_ends_in_a_report(tmp_path: Path) -> None:
    words = ("--duration", "20", "--runs", str(tmp_path))
    shown = command("run", "roaming_field", "broker-gpsr", *words)
    (folder,) = tmp_path.iterdir()
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


@pytest.mark.long
def test_a_sweep_in_real_time_ends_in_a_table(tmp_path: Path) -> None:
    out = tmp_path / "s"
    words = ("--backend", "tap", "--duration", "14", "--seeds", "2", "--out", str(out))
    shown = command("sweep", "roaming_field", "flooding", *words)
    assert "run 2 of 2" in shown
    results = sweeps.load(out)
    assert list(results["backend"]) == ["tap", "tap"]
    assert results["kept_real_time"].notna().all()
    assert (results["delay_p50"] > 0).all()

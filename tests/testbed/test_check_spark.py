"""The command `check` with Spark: reports of findings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from markupsafe import escape

from emulation.scenario.scenario import Scenario
from tests.emulation.check.planted import ForgetsAll, StandsStill
from tests.testbed.test_check import (
    _elsewhere,  # noqa: F401  # a fixture
    invoke,
    plant,
)

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_finding_is_run_again_for_its_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant(monkeypatch, ForgetsAll)
    line = ("semi-probabilistic", "--scenarios", "20", "--property", "delivered", "--nodes", "2")
    done = invoke(*line, "--report", "--json", "--quiet")
    assert done.exit_code == 0, done.output
    (finding,) = json.loads(done.stdout)["findings"]
    page = Path(finding["report"])
    assert page.parent.parent == tmp_path / "runs"
    assert "replay" in page.read_text(encoding="utf-8")
    assert Scenario.load(page.parent / "scenario.json") == Scenario.load(finding["scenario"])
    kept = Path(finding["scenario"]).parent
    html = (kept / "report.html").read_text(encoding="utf-8")
    for text in (*finding["story"], *finding["commands"].values(), "Does not hold: delivered"):
        assert str(escape(text)) in html
    (link,) = re.findall(r'<a href="([^"]*)">its report, with a replay', html)
    assert (kept / unquote(link)).resolve() == page.resolve()

    plant(monkeypatch, StandsStill)
    done = invoke("flooding", "--scenarios", "5", "--nodes", "2", "--report", "--json")
    assert done.exit_code == 0, done.output
    (finding,) = json.loads(done.stdout)["findings"]
    assert finding["report"] is None
    assert "no report of a run that never ends" in done.output


@pytest.mark.long
def test_a_master_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, ForgetsAll)
    line = (
        "semi-probabilistic",
        "--scenarios",
        "120",
        "--property",
        "delivered",
        "--json",
        "--quiet",
    )
    here = json.loads(invoke(*line, "--out", "here").stdout)
    done = invoke(*line, "--out", "there", "--master", "local[2]")
    assert done.exit_code == 0, done.output
    there = json.loads(done.stdout)
    assert len(here["findings"]) == 1
    for outcome in (here, there):
        del outcome["seconds"]
        for finding in outcome["findings"]:
            finding["scenario"] = Path(finding["scenario"]).name
            del finding["commands"]
    assert here == there

"""A new paper is one file and one line: it runs, has its page, and is among all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pandas as pd
import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_analysis.papers import registry
from spark_analysis.papers.paper import Preset
from testbed.commands import COMMANDS
from tests.spark_analysis.papers import made_up

pytestmark = [pytest.mark.spark]

OTHER = """
\"\"\"Another paper: the closed form alone.\"\"\"

from dataclasses import replace

from tests.spark_analysis.papers.made_up import PAPER as MADE_UP

PAPER = replace(MADE_UP, key="other", title="On sums")
"""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> typer.Typer:
    """Return the command with the made-up paper and another one registered, and no others."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "other_paper.py").write_text(OTHER, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    papers = {"made-up": made_up.__name__, "other": "other_paper"}
    monkeypatch.setattr(registry, "PAPERS", MappingProxyType(papers))
    app = typer.Typer()
    app.command()(COMMANDS["reproduce"].load())
    app.command()(lambda: None)
    return app


def run(app: typer.Typer, *words: str) -> str:
    result = CliRunner().invoke(app, ["reproduce", *words], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_it_is_reproduced_and_not_run_again(
    app: typer.Typer, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    shown = run(app, "made-up", "--out", str(folder))
    assert "On walks and floods" in shown
    page = (folder / "reproduction.html").read_text(encoding="utf-8")
    assert made_up.PAPER.citation in page
    assert "docs/papers.md#six-schemes" in page
    assert page.count("<svg") == 3
    for text in (
        *("number of nodes", "cells of the line", "share of lazy walkers, %"),
        *("Flood", "Equation 1", "share of lazy walkers 50 %"),
        "walks: does not hold. What decides: ✕ hops: 50 above 0: -",
    ):
        assert text in page, text
    assert not re.search(r"(src|href)=\"https?:", page)
    points = pd.read_parquet(folder / "results.parquet")
    assert points.groupby("study").size().to_dict() == {"field": 4, "formula": 4, "walks": 40}
    assert set(points.loc[points["study"] == "field", "nodes"]) == {4, 6}
    (base,) = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    verdicts = {(each["claim"], each["study"]): each["verdict"] for each in base["claims"]}
    assert verdicts == {
        ("delivers", "field"): "holds",
        ("free", "walks"): "does not hold",
        ("grows", "formula"): "holds",
        ("equation", ""): "holds",
    }
    (lazy,) = (each for each in base["claims"] if each["claim"] == "free")
    assert lazy["comparisons"][0]["interval"]["count"] == 10  # seeds, not seeds by cells
    patterns = ("*/points/*/rows.json", "*/points/*/metrics/*")
    files = [path for pattern in patterns for path in folder.glob(pattern)]
    stamps = {path: path.stat().st_mtime_ns for path in files}
    assert len(stamps) >= 46
    run(app, "made-up", "--out", str(folder))
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_all_papers_make_one_page(app: typer.Typer, spark: SparkSession, tmp_path: Path) -> None:
    shown = run(app, "all", "--preset", "sums", "--out", str(tmp_path / "all"))
    page = tmp_path / "all" / "all-sums.html"
    assert "all-sums.html" in shown
    html = page.read_text(encoding="utf-8")
    for title in ("On walks and floods", "On sums"):
        assert title in html
    assert html.count("Walks grow with the line") == 2
    links = [link for link in re.findall(r'href="([^"#]+)"', html) if link != "data:,"]
    assert links == ["made-up-sums/reproduction.html", "other-sums/reproduction.html"]
    assert all((page.parent / link).exists() for link in links)
    claims = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert set(claims) == {"made-up", "other"}
    assert claims["other"][0]["claims"][0]["verdict"] == "holds"


def test_all_papers_need_the_preset(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["reproduce", "all", "--preset", "slow"])
    assert result.exit_code == 2
    assert "made-up: no preset 'slow'; there are: quick, sums" in result.output


def test_points_that_fail_are_named(
    app: typer.Typer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = Preset("broken", "a line without cells", {"formula": {"cells": (0, 4)}})
    paper = replace(made_up.PAPER, presets=(broken,), claims=())
    monkeypatch.setattr(made_up, "PAPER", paper)
    words = ["made-up", "--preset", "broken", "--out", str(tmp_path / "results")]
    result = CliRunner().invoke(app, ["reproduce", *words], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "formula cells=0: ZeroDivisionError" in result.output
    assert "failed points: 1; the same command tries them again" in result.output

"""Reproductions: what is run, the page, the slice in real time, and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from spark_analysis.papers import page
from spark_analysis.papers.claims import judge
from spark_analysis.papers.page import marks_table, measured, verdict_table
from spark_analysis.papers.paper import Preset, Variation
from spark_analysis.papers.reproduction import reproduce, write_results
from spark_analysis.papers.results import Judged, Reproduction
from spark_analysis.papers.six_schemes import (
    BASE,
    CLAIMS,
    PAPER,
    PAPER_NAMES,
    REMARKS,
    SCHEMES,
    VARIATIONS,
)
from spark_analysis.papers.slice import slice_table, write_slice
from spark_analysis.sweeps.spec import SweepSpec, points
from testbed.reproduce import reproduce as command
from tests.spark_analysis.papers.test_claims import as_published

TINY = Preset(
    "tiny",
    "one speed and two",
    {"freeway": {"speed": (10.0,)}, "manhattan": {"speed": (5.0, 20.0)}},
    duration=14.0,
    variations=("voids",),
)
ALL = (BASE, *VARIATIONS)


def preset(name: str) -> Preset:
    found = PAPER.preset(name)
    assert found is not None
    return found


def specs(preset: Preset, variation: Variation) -> dict[str, SweepSpec]:
    """Return the sweeps: this paper has nothing else."""
    plan = PAPER.plan(preset, variation)
    return {name: spec for name, spec in plan.items() if isinstance(spec, SweepSpec)}


@pytest.fixture(scope="module")
def as_reproduced() -> Reproduction:
    rows = pd.concat([as_published("freeway"), as_published("manhattan")], ignore_index=True)
    findings = tuple(judge(CLAIMS, rows))
    judged = tuple(Judged(each, rows, findings) for each in ALL)
    return Reproduction(PAPER, preset("quick"), judged, {"freeway: broker-gpsr": "it <broke>"})


def test_every_scheme_runs_at_every_speed_and_seed() -> None:
    wanted = specs(preset("paper"), BASE)
    assert len(points(wanted["freeway"])) == 6 * 6 * 3
    assert wanted["manhattan"].duration == 900
    assert set(wanted["manhattan"].protocols) == set(SCHEMES) == set(PAPER_NAMES)


def test_variations_run_at_three_speeds_and_where_they_have_a_meaning() -> None:
    paper = PAPER.ways(preset("paper"))
    assert paper == (BASE, *VARIATIONS)
    sparse = specs(preset("paper"), paper[-1])
    assert list(sparse) == ["manhattan"]
    assert sparse["manhattan"].vary == {"speed": ("1", "10", "20")}
    assert sparse["manhattan"].duration == 300
    assert [each.key for each in PAPER.ways(preset("quick"))] == ["default", "ns2"]


def test_a_variation_is_another_run_only_where_it_has_a_meaning() -> None:
    found = {
        variation.key: {p.key for p in points(specs(TINY, variation)["manhattan"])}
        for variation in ALL
        if "manhattan" in specs(TINY, variation)
    }
    same = found["default"] & found["voids"]
    assert len(same) == 2 * 2  # the schemes over AODV have no voids
    assert not found["default"] & found["disk"]


def test_the_page_has_figures_claims_and_findings(
    as_reproduced: Reproduction, tmp_path: Path
) -> None:
    # Two ways to run have all that a page has of each; drawing every one takes seconds.
    some = replace(as_reproduced, judged=as_reproduced.judged[:2])
    html = write_results(some, tmp_path).read_text(encoding="utf-8")
    assert html.count("<svg") == 2 * 2 * 3
    for claim in CLAIMS:
        assert claim.statement in html
    assert "it &lt;broke&gt;" in html
    assert not re.search(r"(src|href)=\"https?:", html)
    for name in PAPER_NAMES.values():
        assert name in html
    assert PAPER.citation in html
    assert "count once, as their mean" in html
    kept = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert [each["variation"] for each in kept] == [each.name for each in ALL[:2]]
    assert {claim["verdict"] for claim in kept[0]["claims"]} == {"holds"}
    assert len(pd.read_parquet(tmp_path / "results.parquet")) == 2 * 54 * 2


def test_the_table_has_a_verdict_for_each_claim_scenario_and_variation(
    as_reproduced: Reproduction,
) -> None:
    table = verdict_table(as_reproduced)
    assert len(table.rows) == len(CLAIMS)
    assert len(table.head) == 1 + 2 * len(ALL)
    assert {cell for row in table.rows for cell in row[1:]} == {"✓"}
    assert "✓ holds" in table.note


def test_the_terminal_has_a_mark_for_each_variation(as_reproduced: Reproduction) -> None:
    table = marks_table(as_reproduced)
    assert len(table.rows) == len(CLAIMS)
    assert table.rows[0][1:] == [" ".join("✓" * len(ALL))] * 2
    assert all(each.name in table.note for each in ALL)


def test_a_comparison_shows_its_numbers() -> None:
    (finding,) = [f for f in judge(CLAIMS, as_published()) if f.claim.key == "map-raises-delivery"]
    line = measured(finding.comparisons[0])
    assert re.fullmatch(
        r"✓ delivery: broker-gpsr-map above broker-gpsr: \+7\d\.\d* \[7\d\.\d*, 7\d\.\d*\] points",
        line,
    )


def test_remarks_are_about_claims() -> None:
    assert set(REMARKS) <= {claim.key for claim in CLAIMS}


def test_a_slice_stands_beside_virtual_time(tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {
            "topology": ["freeway", "freeway"],
            "protocol": ["broker-aodv"] * 2,
            "backend": ["tap", "virtual"],
            "delivery_ratio": [0.5, 0.75],
            "delay_mean": [0.012, float("nan")],
            "load_mean": [100.0, 200.0],
        }
    )
    table = slice_table(PAPER, rows, ("tap", "virtual"))
    assert table.rows[0][:4] == ["freeway", "B-AODV", "50\u202f%", "75\u202f%"]
    assert table.rows[0][5] == "–"
    assert table.rows[1][2] == "–"
    path = write_slice(PAPER, rows, ("tap", "virtual"), ["<late>"], tmp_path / "page.html")
    assert "&lt;late&gt;" in path.read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_small_reproduction_runs_and_is_not_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: list[str] = []
    result = reproduce(PAPER, TINY, tmp_path, progress=lambda what, progress: seen.append(what))
    assert not result.failures
    assert [len(each.points) for each in result.judged] == [18, 18]
    assert (tmp_path / page.PAGE).exists()
    assert {"freeway, as on a socket", "manhattan, voids drop"} <= set(seen)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/points/*/metrics/*")}
    reproduce(PAPER, TINY, tmp_path)
    assert stamps
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    app.command()(lambda: None)
    return app


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ten-schemes"], "no paper 'ten-schemes'; there are: six-schemes"),
        (["six-schemes", "--preset", "slow"], "no preset 'slow'; there are: quick, paper"),
        (["six-schemes", "--backend", "mars"], "no backend 'mars'"),
        (["six-schemes", "--duration", "30"], "--duration is for a slice in real time"),
        (["six-schemes", "--backend", "tap", "--duration", "1"], "--duration must be between"),
        (["all", "--preset", "slow"], "six-schemes: no preset 'slow'; there are: quick, paper"),
        (["all", "--backend", "tap"], "a slice in real time is of one paper: name it"),
        ([], "name a paper, or all; there are: six-schemes"),
    ],
)
def test_bad_input_ends_in_one_line(app: typer.Typer, words: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output

"""Reproductions: what is run, the page, and the command."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import typer
from markupsafe import escape
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from emulation.scenario.provenance import version
from emulation.scenario.records import CodeRecord
from spark_analysis import sweeps
from spark_analysis.papers import computed, page
from spark_analysis.papers.appendix import APPENDIX
from spark_analysis.papers.claims import Claim, Finding, judge
from spark_analysis.papers.markdown import LINES, WIDTH, write_markdown
from spark_analysis.papers.page import marks_table, verdict_table
from spark_analysis.papers.paper import Preset, Variation
from spark_analysis.papers.published import read_known
from spark_analysis.papers.reproduction import (
    _exact,
    _judged,
    judgement,
    reproduce,
    show,
    write_results,
)
from spark_analysis.papers.results import Reproduction
from spark_analysis.papers.six_schemes import PAPER
from spark_analysis.papers.six_schemes.claims import CLAIMS
from spark_analysis.papers.six_schemes.ways import BASE, PAPER_NAMES, WITHOUT_MAP
from spark_analysis.papers.wording import measured
from spark_analysis.report.page import finite
from testbed.app import app as command_line
from testbed.reproduce import reproduce as command
from tests.spark_analysis.papers import made_up
from tests.spark_analysis.papers.six_points import as_published

SERVED = Variation("served", "voids served", {"serve_voids": "true"}, "Why not.")
LATE = Variation("late", "a late one", {}, "To see.", ("freeway", "manhattan"), added="It was odd.")
STUDIES = ("freeway", "manhattan", "freeway-load", "manhattan-load")


def texts(page: Path) -> str:
    """Return a page with its appendix."""
    appendix = page.with_suffix("") / APPENDIX
    return page.read_text(encoding="utf-8") + appendix.read_text(encoding="utf-8")


def preset(name: str) -> Preset:
    found = PAPER.preset(name)
    assert found is not None
    return found


def claim_of(key: str) -> Claim:
    return next(claim for claim in CLAIMS if claim.key == key)


def road(seeds: int = 5, studies: Sequence[str] = STUDIES) -> pd.DataFrame:
    """Return points as published, with more seeds than that."""
    tables = [as_published(study, range(1, seeds + 1)) for study in studies]
    return pd.concat(tables, ignore_index=True)


def reproduced(claims: Sequence[Claim]) -> Reproduction:
    """Return a base as published, a variation in which voids cost nothing, and one as the base."""
    paper = replace(
        PAPER,
        claims=tuple(claims),
        variations=(SERVED, LATE),
        presets=(replace(preset("quick"), variations=("served", "late")),),
    )
    base = judgement(paper, BASE, road())
    points = road(2, STUDIES[:2])
    points.loc[points["protocol"].isin(WITHOUT_MAP), "delivery_ratio"] += 0.6
    judged = (
        base,
        judgement(paper, SERVED, points, base),
        judgement(paper, LATE, road(2, STUDIES[:2]), base),
    )
    return Reproduction(paper, paper.presets[0], judged, {"freeway: broker-gpsr": "it <broke>"})


@pytest.fixture(scope="module")
def as_reproduced() -> Reproduction:
    return reproduced(CLAIMS)


@pytest.fixture(scope="module")
def two_claims() -> Reproduction:
    """Return one with a claim about each study and one about both; to judge all takes seconds."""
    return reproduced([claim_of("no-map-delivery"), claim_of("map-always")])


@pytest.mark.long
@pytest.mark.slow
def test_the_page_has_figures_claims_and_findings(
    as_reproduced: Reproduction, tmp_path: Path
) -> None:
    html = write_results(as_reproduced, tmp_path).read_text(encoding="utf-8")
    assert html.count("<svg") == 10 + 8 + 8
    form = ("Answer", "What the paper says, and whether it holds", "Figures",
            "Appendix: all that was run and judged", "More figures", "Claim by claim")  # fmt: skip
    assert re.findall("<h2>(.+)</h2>", html) == list(form)
    assert html.partition("<h2>Appendix")[0].count("<svg") == 4
    for claim in CLAIMS:
        assert claim.statement in html
        assert str(escape(claim.rule)) in html
    assert "it &lt;broke&gt;" in html
    assert not re.search(r"(src|href)=\"https?:", html)
    for name in PAPER_NAMES.values():
        assert name in html
    assert PAPER.citation in html
    assert "count once, as their mean" in html
    assert "To see. Added after results had been seen: It was odd." in html
    kept = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert [each["variation"] for each in kept] == ["as published", "voids served", "a late one"]
    verdicts = {claim["claim"]: claim["verdict"] for claim in kept[0]["claims"]}
    assert verdicts.pop("rendezvous-delay") == "does not hold"
    assert set(verdicts.values()) == {"holds"}
    assert {claim["with_few_seeds"] for claim in kept[0]["claims"]} == {"holds", "does not hold"}
    assert kept[2]["added"] == "It was odd."
    assert kept[2]["claims"][0]["with_few_seeds"] is None
    points = pd.read_parquet(tmp_path / "results.parquet")
    assert len(points) == sum(len(each.points) for each in as_reproduced.judged)


def test_the_table_has_a_verdict_for_each_claim_scenario_and_variation(
    two_claims: Reproduction,
) -> None:
    table = verdict_table(two_claims)
    assert len(table.rows) == 2
    assert table.head[1:5] == [
        "freeway, as published",
        "manhattan, as published",
        "all, as published",
        "freeway, as published, 3 seeds as published",
    ]
    assert len(table.head) == 1 + 3 * (3 + 1)
    assert table.rows[0][1:] == ["✓", "✓", "–", "✓", "✓", "–", "✕", "✕", "–", "✓", "✓", "–"]
    assert "= tie" in table.note
    assert "Ties are within 2 points of delivery" in table.note
    alone = verdict_table(replace(two_claims, judged=two_claims.judged[:1]))
    assert alone.head[1:5] == ["freeway", "manhattan", "all", "freeway, 3 seeds as published"]


def test_the_terminal_has_a_mark_for_each_variation(two_claims: Reproduction) -> None:
    table = marks_table(two_claims)
    assert len(table.rows) == 2
    assert table.head == ["claim", "freeway", "manhattan", "all"]
    assert table.rows[0][1:] == ["✓ ✕✓", "✓ ✕✓", "– ––"]
    assert all(each.variation.name in table.note for each in two_claims.judged)


def test_a_comparison_shows_its_numbers() -> None:
    (finding,) = judge([claim_of("broker-map-best")], as_published())
    line = measured(finding.comparisons[0])
    assert re.fullmatch(
        r"✓ delivery: broker-gpsr-map above broker-aodv: "
        r"\+1\d\.\d* \[1\d\.\d*, 1\d\.\d*; n = 6\] points",
        line,
    )
    beside = replace(finding.comparisons[0], measure="median")
    assert ", median (does not decide): +" in measured(beside)


def test_variations_are_compared_with_the_base_at_their_own_length() -> None:
    control = Variation("control", "as long", BASE.settings, "To see.")

    def way(variation: Variation, seeds: int) -> tuple[Variation, Any]:
        part = SimpleNamespace(
            study=PAPER.studies[0], variation=variation, spec=None, points={}, groups={},
            completed=lambda rows: road(seeds, STUDIES[:1]),
        )  # fmt: skip
        return variation, [(part, {"": [{}]})]

    paper = replace(PAPER, claims=(claim_of("broker-load"),))
    ways = [way(BASE, 5), way(control, 2), way(SERVED, 3)]
    found = _judged(paper, preset("paper"), ways, {})
    published, as_long, served = found.judged
    assert not published.base

    def seeds(findings: Sequence[Finding]) -> int:
        parts = [part.interval for each in findings for part in each.comparisons]
        return max(interval.count for interval in parts if interval is not None) // 3  # speeds

    assert seeds(published.findings) == 5
    assert seeds(as_long.findings) == seeds(as_long.base) == 2
    assert seeds(served.findings) == 3
    assert seeds(served.base) == 2  # those that the control has


@pytest.mark.long
@pytest.mark.slow
def test_a_repository_keeps_it_as_markdown_with_its_figures(
    as_reproduced: Reproduction, tmp_path: Path
) -> None:
    page = write_markdown(as_reproduced, tmp_path / "six.md", "./run_testbed.sh reproduce it")
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert text.startswith("# Six publish/subscribe schemes for vehicles\n")
    assert "    ./run_testbed.sh reproduce it\n" in text
    assert "(../papers.md#six-schemes)" in text
    assert "Ties are within 2 points of delivery" in text
    main = re.findall(r"!\[.+\]\((.+\.svg)\)", text)
    assert len(main) == 4
    assert "| voids served | 1 (freeway: ✓ → ✕)" in text
    assert "](six/appendix.md)" in text
    short, text = text, (tmp_path / "six" / APPENDIX).read_text(encoding="utf-8")
    assert "](../six.md)" in text
    figures = [f"six/{name}" for name in re.findall(r"!\[.+\]\((.+\.svg)\)", text)]
    assert len(figures) == 10
    assert set(main) <= set(figures)
    for figure in figures:
        root = ElementTree.parse(tmp_path / figure).getroot()
        assert root.tag.endswith("svg")
    assert sorted(path.name for path in (tmp_path / "six").iterdir()) == sorted(
        [APPENDIX, *(Path(figure).name for figure in figures)]
    )
    for index, claim in enumerate(CLAIMS, start=1):
        assert f"### {index}. {claim.statement}\n" in text
        assert f"Rule: {claim.rule}\n" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    (head,) = (row for row in rows if row[1] == "claim")
    assert [cell.strip(" |") for cell in head[2:]] == [
        "all", "freeway", "manhattan", "all, 3 seeds", "freeway, 3 seeds", "manhattan, 3 seeds",
    ]  # fmt: skip
    first = next(row for row in rows if row[0] == "| 1")
    assert [cell.strip(" |") for cell in first[2:]] == ["", "✓", "✓", "", "✓", "✓"]
    marks = next(row[1:] for row in rows if row[0] == "| voids served")
    assert len(marks) == len(CLAIMS)
    assert marks[0] == "✕ ✕"
    assert "| a late one | defaults of `" in text
    assert "To see. Added after results had been seen: It was odd." in text
    assert re.search(r"^  - .+, median \(does not decide\): ", text, re.MULTILINE)
    assert re.search(r"\| B-AODV \| 7\d\.\d ± 0\.\d+ \|", text)
    # The same results give the same bytes, and nothing is left beside them.
    again = write_markdown(as_reproduced, tmp_path / "again.md", "./run_testbed.sh reproduce it")
    assert again.read_text(encoding="utf-8") == short.replace("](six/", "](again/")
    assert texts(again).endswith(text.replace("](../six.md)", "](../again.md)"))
    assert {path.name for path in tmp_path.iterdir()} == {"six.md", "six", "again.md", "again"}
    for figure in figures:
        name = Path(figure).name
        assert (tmp_path / "six" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.long
@pytest.mark.slow
def test_the_page_names_the_commits_that_made_its_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page_with(cells: tuple[int, ...]) -> str:
        sums = Preset("sums", "the closed form", {"formula": {"cells": cells}})
        result = reproduce(replace(made_up.PAPER, presets=(sums,)), sums, tmp_path / "results")
        file = write_markdown(result, tmp_path / "sums.md", "command")
        return texts(file)

    monkeypatch.setattr(computed, "code", lambda: CodeRecord(commit=40 * "a", changed=True))
    text = page_with((4, 8))
    assert "The points were made by commit aaaaaaaaaaaa with changes.\n" in text
    assert "2 computed points: less than a minute of one processor.\n" in text
    assert re.search(r"^\| formula \| 2 \| 0(\.\d+)? \|$", text, re.MULTILINE)
    # A later commit adds one point, and shows the others.
    monkeypatch.setattr(computed, "code", lambda: CodeRecord(commit=40 * "b", changed=False))
    text = page_with((4, 8, 16))
    assert "made by commits aaaaaaaaaaaa with changes, bbbbbbbbbbbb.\n" in text
    # So does one that made none; points of before know neither commit nor time.
    monkeypatch.setattr(computed, "code", lambda: None)
    assert page_with((4, 8, 16)) == text
    kept = [
        path
        for path in sorted((tmp_path / "results").glob("*/points/*/*"))
        if path.name != computed.ROWS
    ]
    next(path for path in kept if path.name == computed.CODE).unlink()
    assert "; unknown for 2 of 6 rows.\n" in page_with((4, 8, 16))
    for path in kept:
        path.unlink(missing_ok=True)
    text = page_with((4, 8, 16))
    assert "made by commit" not in text
    assert "3 computed points; their cost is unknown.\n" in text


def test_seeds_survive_beside_a_study_that_has_none() -> None:
    drawn = [1739069429453315312, 7]
    both = [_exact(each) for each in (pd.DataFrame({"drawn": drawn}), pd.DataFrame({"x": [1.0]}))]
    table = pd.concat(both, ignore_index=True)
    assert table["drawn"].dropna().tolist() == drawn


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_findings_are_json_whatever_they_are_of(value: float) -> None:
    text = json.dumps(finite({"a": [value, 1.5, (value,)]}), allow_nan=False)
    assert json.loads(text) == {"a": [None, 1.5, [None]]}


TINY = Preset(
    "tiny",
    "one speed each",
    {"freeway": {"speed": (10.0,)}, "manhattan": {"speed": (5.0,)}},
    duration=16.0,
    variations=("served",),
)


def _check_packed(folder: Path, run: str) -> None:
    """Check that `artifact` packs a reproduction with its studies and points."""
    out = folder.with_suffix(".zip")
    packing = ["artifact", str(folder), "--out", str(out)]
    assert CliRunner().invoke(command_line, packing).exit_code == 0
    with zipfile.ZipFile(out) as file:
        entities = json.loads(file.read("ro-crate-metadata.json"))["@graph"]
    (action,) = (entity for entity in entities if entity["@type"] == "CreateAction")
    name = folder.name
    assert [part["@id"] for part in action["object"]] == [
        f"{name}/{study}/sweep.json" for study in ("freeway", "manhattan")
    ]
    packed = {entity["@id"] for entity in entities}
    assert {f"{name}/{page.PAGE}", f"{name}/claims.json", f"{name}/results.parquet"} <= packed
    assert f"{name}/freeway/points/{run}/scenario.json" in packed


@pytest.mark.long
@pytest.mark.spark
def test_a_small_reproduction_runs_and_is_not_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    few = {"tail": "3", "interval": "2", "nodes": "20"}
    short = replace(BASE, settings={**BASE.settings, **few})
    settings = {**short.settings, "serve_voids": "true"}
    served = replace(SERVED, settings=settings, studies=("freeway",))
    figures = PAPER.figures[:1]
    paper = replace(PAPER, base=short, variations=(served,), presets=(TINY,), figures=figures)
    seen: list[str] = []
    result = reproduce(paper, TINY, tmp_path, progress=lambda what, progress: seen.append(what))
    assert not result.failures
    assert [len(each.points) for each in result.judged] == [12, 6]
    assert (tmp_path / page.PAGE).exists()
    assert {"manhattan, as published", "freeway, voids served"} <= set(seen)
    base, varied = (each.points for each in result.judged)
    assert (base["processor_seconds"] > 0).all()
    # What a scheme delivers together with itself is all that it delivers.
    own = base[base["protocol"] == "broker-aodv"]
    assert own["delay_beside_broker-aodv"].tolist() == pytest.approx(
        own["delay_mean"].tolist(), nan_ok=True
    )
    for row in base.to_dict("records"):
        assert row["command"].startswith(f"./run_testbed.sh run {row['study']} {row['protocol']} ")
        assert f" --seed {row['drawn']} " in row["command"]
    pd.testing.assert_series_equal(
        sweeps.load(tmp_path)["command"], pd.concat([base, varied])["command"], check_index=False
    )
    both = base.set_index(["study", "speed", "protocol"])
    assert both["delay_beside_rendezvous-aodv"].notna().sum() > 3
    # The schemes over AODV have no voids: their runs are shared.
    shared = set(base["run"]) & set(varied["run"])
    of_both = base["protocol"].str.endswith("aodv") & (base["study"] == "freeway")
    assert shared == set(base.loc[of_both, "run"])
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/points/*/metrics/*")}
    # What went wrong in a run is told, once for a run that two variations share.
    assert not result.problems
    wrong = tmp_path / "freeway" / "points" / sorted(shared)[0] / "run.json"
    record = json.loads(wrong.read_text(encoding="utf-8"))
    broken = f"<broke>: {', '.join(f'sta{node}' for node in range(50))}"
    wrong.write_text(json.dumps({**record, "problems": [broken]}), encoding="utf-8")
    result = reproduce(paper, TINY, tmp_path)
    ((point, what),) = result.problems.items()
    assert point.startswith("freeway, as published: ")
    assert what == broken
    none_counts = tuple(replace(way, points=way.points[:0]) for way in result.judged)
    assert not replace(result, judged=none_counts).problems
    html = (tmp_path / page.PAGE).read_text(encoding="utf-8")
    assert f"{escape(point)}: &lt;broke&gt;: sta0, sta1, " in html
    assert stamps
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    text = texts(write_markdown(result, tmp_path / "six.md", "command"))
    assert "16 runs, 4 simulated minutes" in text
    made = version().rpartition("commit ")[2]
    assert f"The points were made by commit {made}.\n" in text
    assert f"Runs with problems: 1\n\n- {point}: <broke>: sta0, " in text
    assert "sta10,…\n" in text, "what names many nodes is cut"
    assert "sta49" not in text
    _check_packed(tmp_path, sorted(shared)[0])
    # Those who take the points are told as well.
    known = read_known(paper, [tmp_path / "six"])
    assert show(paper, TINY, tmp_path / "elsewhere", known=known).problems == result.problems


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    app.command()(lambda: None)
    return app


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ten-schemes"], "no paper 'ten-schemes' (did you mean six-schemes?); there are: six-s"),
        (["six-schemes", "--preset", "slow"], "no preset 'slow'; there are: quick, paper"),
        (["six-schemes", "--backend", "tap"], "No such option: --backend"),
        (["all", "--preset", "slow"], "six-schemes: no preset 'slow'; there are: quick, paper"),
        (["all", "--so-far"], "--so-far and --known are for one paper"),
        (["six-schemes", "--markdown", "six.html"], "--markdown names a file that ends in .md"),
        (["all", "--markdown", "six.md"], "--markdown is for one paper"),
        ([], "name a paper, or all; there are: six-schemes"),
    ],
)
def test_bad_input_ends_in_one_line(app: typer.Typer, words: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["reproduce", *words])
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output

"""The form of a page: short, whatever the paper, with an answer that follows from the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from nodeapp.installation import PROJECT
from spark_analysis.papers.answer import Sentence, mean, verdict
from spark_analysis.papers.appendix import APPENDIX
from spark_analysis.papers.claims import CLOSED_FORM, Claim, Comparison, at_least, at_most
from spark_analysis.papers.markdown import LINES, WIDTH, write_markdown
from spark_analysis.papers.paper import Paper, Preset, Variation
from spark_analysis.papers.reproduction import judgement
from spark_analysis.papers.results import Judged, Reproduction, findings_of
from spark_analysis.papers.side_by_side import MeanColumn, SideBySide
from spark_analysis.papers.view import ReproductionView
from tests.spark_analysis.papers import made_up

PAGES = sorted((PROJECT / "docs" / "reproductions").glob(f"*/{APPENDIX}"))
BASE = Variation("base", "as published", {}, "What it says.")
PRESET = Preset("tiny", "one size", {"field": {"nodes": (4,)}}, seeds=3)


def rule(points: pd.DataFrame) -> Sequence[Comparison]:
    gap = points.set_index(["nodes", "seed"])["gap"]
    return [
        at_most(gap, 2.0, f"the gap {'between one and the other ' * 10}", "m"),
        at_least(gap, -9.0, "the gap", "m"),
        at_most([1.5], 2.0, "the gap of a formula", "m", measure=CLOSED_FORM),
    ]


def points(gap: float) -> pd.DataFrame:
    rows = [{"study": "field", "nodes": 4, "seed": s, "gap": gap + 0.1 * s} for s in (1, 2, 3)]
    return pd.DataFrame(rows)


def paper_of(claims: int) -> Paper:
    statement = "The gap that is meant here is small in every case " * 3
    return replace(
        made_up.PAPER,
        claims=tuple(Claim(f"c{n}", statement, "1", rule, ("field",)) for n in range(claims)),
        base=BASE,
        variations=(),
        answer=(
            Sentence(
                "The gap is {gap} m, and that it is small {small}.",
                {"gap": mean("field", "gap", nodes=4), "small": verdict("c0")},
            ),
            Sentence("Walks take {hops} hops.", {"hops": mean("walks", "hops")}),
        ),
    )


def reproduced(claims: int, variations: int, gap: float = 1.0) -> Reproduction:
    paper = paper_of(claims)
    base = judgement(paper, BASE, points(gap))
    ways = [Variation(f"v{n}", f"variation {n}", {}, "") for n in range(variations)]
    others = [judgement(paper, way, points(5.0), base) for way in ways[:1]]
    # The others have the same points, and so the same findings.
    judged: tuple[Judged, ...] = (
        base,
        *(replace(other, variation=way) for other in others for way in ways),
    )
    return Reproduction(paper, PRESET, judged, {f"point {n}": "broke" for n in range(200)})


@pytest.mark.parametrize(("claims", "variations"), [(3, 0), (3, 100), (20, 100)])
def test_a_page_is_short_whatever_the_paper(claims: int, variations: int, tmp_path: Path) -> None:
    page = write_markdown(reproduced(claims, variations), tmp_path / "page.md", "command")
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert sum(line.startswith("| ") and " | ✓ | " in line for line in lines) == claims
    appendix = (tmp_path / "page" / APPENDIX).read_text(encoding="utf-8")
    assert all(f"- point {n}: broke" in appendix for n in range(200))
    if variations:
        assert any("more: [appendix](page/appendix.md)" in line for line in lines)
        assert any(line.startswith("| variation 0 | 1 (field: ✓ → ✕)") for line in lines)
        assert "| variation 99 |" in appendix


@pytest.mark.parametrize("appendix", PAGES, ids=[path.parent.name for path in PAGES])
def test_the_committed_pages_are_short(appendix: Path) -> None:
    page = appendix.parent.with_suffix(".md")
    lines = page.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    # What no paper published has a set-up, which differs from nothing.
    settings = "## Set-up" if page.stem == "middleware" else "## What differs"
    for heading in ("## Answer", "## Claims", settings, "## Figures"):
        assert any(line.startswith(heading) for line in lines)


def test_the_answer_follows_from_the_results() -> None:
    good, bad = (ReproductionView(reproduced(2, 0, gap)).answer for gap in (1.0, 7.0))
    assert good == [
        "Of the 2 claims that were judged, 2 hold (1, 2).",
        "The gap is 1.20 m, and that it is small holds.",
    ]  # what has no points is left out
    assert bad == [
        "Of the 2 claims that were judged, 2 do not hold (1, 2).",
        "The gap is 7.20 m, and that it is small does not hold.",
    ]


def test_what_the_paper_does_not_say_counts_apart(tmp_path: Path) -> None:
    result = reproduced(3, 0)
    *claims, last = result.paper.claims
    paper = replace(result.paper, claims=(*claims, replace(last, own=True)))
    result = replace(result, paper=paper, judged=(judgement(paper, BASE, points(1.0)),))
    view = ReproductionView(result)
    assert view.answer[0] == (
        "Of the 2 claims of the paper that were judged, 2 hold (1, 2). "
        "Of the 1 that it does not make, 1 holds (3)."
    )
    alone = replace(paper, claims=(replace(last, own=True),))
    judged = (judgement(alone, BASE, points(1.0)),)
    first = ReproductionView(replace(result, paper=alone, judged=judged)).answer[0]
    assert first == "Of the 1 claims that the paper does not make, 1 holds (1)."
    assert view.claims[2].statement.endswith(" †")
    assert view.claims[2].source == "1"
    assert view.claims[0].source == "Paper, 1"
    assert findings_of(result)[0]["claims"][2]["own"]
    text = write_markdown(result, tmp_path / "page.md", "command").read_text(encoding="utf-8")
    assert "† not said by the paper: a check or a hypothesis of this reproduction." in text
    assert "Beyond chance if all verdicts are taken together (Holm, 5 %): 1, 2, 3." in text


def test_protocols_stand_side_by_side(tmp_path: Path) -> None:
    columns = (
        MeanColumn("gap, cm", "field", "gap", 100, {"nodes": 4}),
        MeanColumn("hops", "walks", "hops"),
    )
    asked = SideBySide("system", {"a": "A", "b": "B", "c": "C"}, columns, "Means of all seeds.")
    of_two = pd.concat([points(gap).assign(protocol=name) for name, gap in (("b", 1), ("a", 2))])
    shown = asked.table(of_two)
    assert shown is not None
    assert shown.rows == [["A", "220", "–"], ["B", "120", "–"]]  # in their order; C has no points
    assert asked.table(points(1)) is None
    result = reproduced(1, 0)
    paper = replace(result.paper, side_by_side=asked)
    judged = (judgement(paper, BASE, of_two),)
    page = write_markdown(
        replace(result, paper=paper, judged=judged), tmp_path / "page.md", "command"
    )
    text = page.read_text(encoding="utf-8")
    assert "| A | 220 | – |\n| B | 120 | – |\n\nMeans of all seeds." in text


def test_a_paper_without_sentences_names_what_fails_first() -> None:
    result = reproduced(2, 0, 7.0)
    plain = replace(result, paper=replace(result.paper, answer=()))
    assert ReproductionView(plain).answer[1].startswith("Does not hold: The gap that is meant")


def test_the_reason_has_the_value_and_the_bound() -> None:
    claim = ReproductionView(reproduced(1, 0, 7.0)).claims[0]
    assert claim.verdict == "✕"
    assert (
        ": 7.20 [6.95, 7.45; n = 3] m (bound: at most 2), 1 of 2 parts; closed form: 1.50"
        in claim.reason
    )


def test_too_many_sentences_or_main_figures_are_refused() -> None:
    sentence = made_up.PAPER.answer or (Sentence("Yes."),)
    with pytest.raises(ValueError, match="more than 4 sentences"):
        replace(made_up.PAPER, answer=sentence * 5)
    figures = tuple(replace(made_up.PAPER.figures[0], main=True) for _ in range(5))
    with pytest.raises(ValueError, match="more than 4 main figures"):
        replace(made_up.PAPER, figures=figures)

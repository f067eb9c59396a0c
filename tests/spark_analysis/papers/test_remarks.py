"""Remarks follow from what was measured, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import pytest

from spark_analysis.papers.claims import Claim, Comparison, Verdict, above, positive
from spark_analysis.papers.paper import Preset, Variation
from spark_analysis.papers.remarks import deciding, reason, remarks
from spark_analysis.papers.reproduction import judgement
from spark_analysis.papers.results import Judged, Reproduction
from spark_analysis.papers.view import ReproductionView
from tests.spark_analysis.papers import made_up

BASE = Variation("base", "as published", {}, "")
SPEEDS = (4, 6)
SEEDS = (1, 2, 3, 4)


def rule(points: pd.DataFrame) -> Sequence[Comparison]:
    gap = points.set_index(["nodes", "seed"])["gap"]
    return [
        positive(gap, "gain", "m", margin=1.0),
        positive(gap + 50, "sure gain", "m", margin=1.0),
        positive(-gap, "median gain", "m", margin=1.0, measure="median"),
    ]


CLAIM = Claim("gains", "It gains", "section 1", rule, ("field",))
PAPER = replace(made_up.PAPER, claims=(CLAIM,), seeds=2, variations=(), base=BASE)
PRESET = Preset("tiny", "", {"field": {"nodes": SPEEDS}}, seeds=4)


def points(
    mean: float, seeds: Sequence[int] = SEEDS, nodes: Sequence[int] = SPEEDS
) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"study": "field", "nodes": n, "seed": s, "gap": mean + (0.1 if s % 2 else -0.1)}
            for n in nodes
            for s in seeds
        ]
    )


def judged(base: pd.DataFrame, **variations: pd.DataFrame) -> Reproduction:
    first = judgement(PAPER, BASE, base)
    others: list[Judged] = [
        judgement(PAPER, Variation(key, key, {}, ""), rows, first)
        for key, rows in variations.items()
    ]
    return Reproduction(PAPER, PRESET, (first, *others), {})


def test_it_says_what_decided_and_by_other_measures() -> None:
    (text,) = remarks(judged(points(-5.0)), CLAIM)
    assert text.startswith("field: does not hold (1 of 2 parts). What decides: ✕ gain: -5 [")
    assert "Median: holds." in text
    (text,) = remarks(judged(points(5.0)), CLAIM)
    assert text.startswith("field: holds. The least clear part: ✓ gain: +5 [")
    (text,) = remarks(judged(points(0.0)), CLAIM)
    assert text.startswith("field: tie (1 of 2 parts). What ties: = gain: 0 [")


def test_it_follows_the_numbers() -> None:
    one, other = (remarks(judged(points(mean)), CLAIM) for mean in (-5.0, -6.0))
    assert one != other


def test_it_says_which_variation_turns_the_verdict() -> None:
    (text,) = remarks(judged(points(-5.0), mended=points(7.0), same=points(-5.2)), CLAIM)
    assert "Turned by mended: from does not hold to holds (✓ gain: +7 [" in text
    assert ", before ✕ gain: -5 [" in text
    assert "Not turned by same." in text
    assert "Moved most" not in text


def test_if_none_turns_it_the_one_that_moves_it_most_is_named() -> None:
    (text,) = remarks(judged(points(-5.0), little=points(-5.2), much=points(-3.0)), CLAIM)
    assert "Turned by" not in text
    assert "Not turned by little, much. Moved most by much: ✕ gain: -3 [" in text


def test_a_variation_turns_nothing_that_fewer_seeds_turn_alone() -> None:
    base = points(-5.0)
    base.loc[base["seed"] <= 2, "gap"] += 10.0  # the first two seeds have it otherwise
    assert judged(base).judged[0].findings[0].verdict is Verdict.OPEN
    (text,) = remarks(judged(base, fewer=points(5.0, seeds=(1, 2))), CLAIM)
    assert "Turned by" not in text
    assert "Not turned by fewer." in text
    assert "With as few seeds as published: holds." in text


def test_a_reason_names_the_measures_that_say_otherwise() -> None:
    (found,) = judged(points(-5.0)).judged[0].findings
    assert found.by_measure["median"] is Verdict.HOLDS
    assert reason(found).endswith("; median: ✓")
    (same,) = judged(points(0.0)).judged[0].findings
    assert set(same.by_measure.values()) == {Verdict.TIE}
    assert "median" not in reason(same)


def test_all_of_the_base_stands_for_few_runs_that_decide_nothing() -> None:
    base = points(-5.0, seeds=tuple(range(1, 9)))
    base.loc[(base["seed"] <= 2) & (base["nodes"] == base["nodes"].min()), "gap"] += 10.0
    result = judged(base, fewer=points(5.0, seeds=(1, 2)))
    (whole,) = result.judged[0].findings
    (part,) = result.judged[1].base
    assert (whole.verdict, part.verdict) == (Verdict.FAILS, Verdict.OPEN)
    view = ReproductionView(result)
    assert view.turned == [("fewer", "1 (field: ✕ → ✓; base at the same runs: ?)")]
    assert view.unturned == ""
    (text,) = remarks(result, CLAIM)
    assert "Turned by fewer: from does not hold to holds (" in text
    assert "; base at the same runs: not decided." in text


def test_what_no_variation_turns_is_named() -> None:
    assert ReproductionView(judged(points(-5.0), same=points(-5.2))).unturned == (
        "None of those that were run turns 1."
    )
    assert ReproductionView(judged(points(5.0), same=points(5.2))).unturned == ""
    elsewhere = points(3.0).assign(study="walks")
    assert ReproductionView(judged(points(-5.0), other=elsewhere)).unturned == ""
    both = replace(PAPER, claims=(replace(CLAIM, studies=("field", "walks")),))
    base, mended = (
        pd.concat([points(gap), points(-5.0).assign(study="walks")]) for gap in (-5.0, 7.0)
    )
    first = judgement(both, BASE, base)
    ways = (first, judgement(both, Variation("mended", "mended", {}, ""), mended, first))
    view = ReproductionView(Reproduction(both, PRESET, ways, {}))
    assert view.turned == [("mended", "1 (field: ✕ → ✓)")]
    assert view.unturned == "", "one study is turned"


def test_what_is_not_there_is_not_spoken_of() -> None:
    other = points(3.0).assign(study="walks")
    assert remarks(Reproduction(PAPER, PRESET, (), {}), CLAIM) == []
    assert remarks(judged(other), CLAIM) == []


@pytest.mark.parametrize("seeds", [(1,), ()])
def test_without_an_interval_nothing_decides(seeds: Sequence[int]) -> None:
    claim = replace(CLAIM, judge=lambda p: [above(p, "gap", "a", "b", ("nodes",), of="study")])
    paper = replace(PAPER, claims=(claim,))
    found = judgement(paper, BASE, points(1.0, seeds or SEEDS))
    assert deciding(found.findings[0]) is None
    (text,) = remarks(Reproduction(paper, PRESET, (found,), {}), claim)
    assert text == "field: not decided."


def test_what_is_no_longer_decided_is_not_turned() -> None:
    (text,) = remarks(judged(points(-5.0), level=points(0.0)), CLAIM)
    assert "Turned by" not in text
    assert "Not turned by level." in text


def test_what_judges_nothing_or_leaves_it_open_is_told_apart() -> None:
    claim = replace(CLAIM, judge=lambda p: rule(p) if p["gap"].mean() < 4.0 else [])
    paper = replace(PAPER, claims=(claim,))
    base = judgement(paper, BASE, points(-5.0))
    wide = points(-5.0)
    wide.loc[wide["seed"] <= 2, "gap"] += 10.0
    others = {"open": wide, "none": points(5.0), "same": points(-5.2)}
    ways = [
        judgement(paper, Variation(key, key, {}, ""), rows, base) for key, rows in others.items()
    ]
    result = Reproduction(paper, PRESET, (base, *ways), {})
    (text,) = remarks(result, claim)
    assert "Not turned by same. Not decided with open." in text
    assert "none" not in text
    told = "None of those that were run; 1 of 2 verdicts with them are not decided."
    assert ReproductionView(result).none_turned == told
